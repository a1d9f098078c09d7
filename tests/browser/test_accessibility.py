"""Every kind of page by the rules of axe-core, in both themes; none may be broken."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Seen

pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

pytestmark = pytest.mark.browser

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}

PAGES = {
    "library": "/",
    "library of verdicts": "/?cells=verdict&weights=int4",
    "charts": "/charts",
    "streams": "{case}",
    "forced": "{case}?mode=forced",
    "flip": "{case}/f/11?mode=forced",
    "transcript": "{case}?view=transcript",
    "filtered": "{case}?mode=forced&class=decided&sort=margin&look=3",
    "found": "{case}/find?q=interface",
    "not found": "/c/nothing",
    "components": "/components",
    "captures": "/live",
}


@pytest.fixture(scope="module")
def case(address: str, browser: Browser) -> str:
    page = browser.new_page()
    page.goto(address)
    href = page.locator("a[href*='/c/iface-']").first.get_attribute("href") or ""
    page.close()
    return re.sub(r"(/c/iface-[0-9a-f]+).*", r"\1", href)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_rule_is_broken(browser: Browser, address: str, case: str, name: str, scheme: Any) -> None:
    with browser.new_context(color_scheme=scheme, viewport={"width": 1440, "height": 900}) as context:
        page = Seen(context.new_page()).watch().page
        page.goto(address + PAGES[name].format(case=case))
        expect(page.locator("html.scripted")).to_be_attached()
        page.wait_for_load_state("networkidle")
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
        found = page.evaluate("rules => axe.run(document, rules)", RULES)
        assert found["passes"]
        broken = [
            (rule["id"], node["target"], node["failureSummary"][:300])
            for rule in found["violations"]
            for node in rule["nodes"][:4]
        ]
        assert broken == []
