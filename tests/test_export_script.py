from __future__ import annotations

import re

import pytest

from app.export_script import one_script
from app.resources import StaticFolder

MODULES = {
    "entry.js": 'import { twice } from "./middle.js";\nimport { LAST } from "./tables.js";\ntwice(LAST);\n',
    "middle.js": 'import { LAST, once as first } from "./tables.js";\nexport function twice(x) { return first(x); }\n',
    "tables.js": "export const LAST = 1;\n",
    "other.js": "export const LAST = 2;\nexport async function once(x) { return x; }\n",
}


def test_modules_come_in_the_order_in_which_they_need_each_other_and_once() -> None:
    script = one_script("entry.js", MODULES.__getitem__, {"tables.js": "other.js"})
    assert re.findall(r"const (module_\w+) =", script) == ["module_other", "module_middle", "module_entry"]
    assert "const { LAST, once: first } = module_other;" in script
    assert "return { LAST, once };" in script
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('import "./middle.js";\n', "not understood"),
        ("export default 1;\n", "not understood"),
        ("export { a };\n", "not understood"),
        ('const a = "</script>";\n', "ends a script"),
        ('import { a } from "./entry.js";\n', "imports itself"),
    ],
)
def test_what_is_not_understood_is_refused(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        one_script("entry.js", {**MODULES, "entry.js": source}.__getitem__, {})


def test_the_exported_page_asks_for_nothing() -> None:
    folder = StaticFolder().folder
    script = one_script(
        "exported.js", lambda name: (folder / name).read_text(encoding="utf-8"), {"tables.js": "embedded.js"}
    )
    assert "module_popover" in script
    assert "module_tables" not in script
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(|https?://(?!www\.w3\.org/2000/svg)|eval\(", script)
