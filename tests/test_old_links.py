"""Links that were made by versions of flipscope to the study that ships with it: they open the same for ever.

`tests/links/VERSION.json` holds the links of a version and what they opened then. Add a file, never change one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.settings import Settings
from app.web import create_app
from capture.resources import bundled_library

FOLDER = Path(__file__).parent / "links"

KNOWN = [
    pytest.param(one["link"], one["opens"], id=f"{file.stem} {one['link']}")
    for file in sorted(FOLDER.glob("*.json"))
    for one in json.loads(file.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def bundled() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(library=bundled_library())), base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize(("link", "opens"), KNOWN)
def test_an_old_link_opens_what_it_opened(bundled: TestClient, link: str, opens: dict[str, Any]) -> None:
    path, _, query = link.partition("?")
    found = bundled.get(f"{path}.json" + (f"?{query}" if query else "")).json()
    told = {
        "mode": found["mode"],
        "view": "transcript" if found["transcript"] else "streams",
        "lanes": [lane["label"] for lane in found["lanes"]],
        "notices": len(found["notices"]),
    }
    if found["fork"]:
        told["fork"] = f"{found['fork']['position']}-{found['position']['prefix_id']}"
    assert told == opens
    assert bundled.get(link).status_code == 200
