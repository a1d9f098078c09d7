"""The modules of a page as one script, for a file that works from disk, where modules cannot be imported. Pure.

Each module becomes a function that returns what it exports, in the order in which they need each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import normpath

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w.-]+\.js)";\n', re.MULTILINE)

_BARE_IMPORT = re.compile(r"^\s*(?:import|export)\b.*$", re.MULTILINE)

_EXPORT = re.compile(r"^export\s+((?:async\s+)?function\s*\*?|const|let|class)\s+(\w+)", re.MULTILINE)

_ENDS = re.compile(r"</script|<!--", re.IGNORECASE)


def one_script(entry: str, read: Callable[[str], str], instead: Mapping[str, str]) -> str:
    """Return a module and all that it imports as one script.

    Args:
        entry: name of the module's file.
        read: gives the text of a file by its name.
        instead: modules that take the place of others.

    Raises:
        ValueError: a module imports or exports in a way that is not understood, or would end the element.
    """
    done: dict[str, str] = {}
    _add(entry, read, instead, done, ())
    script = '"use strict";\n' + "\n".join(done.values()) + "\n"
    if _ENDS.search(script):
        raise ValueError("a module holds what ends a script element")
    return script


def _add(
    name: str, read: Callable[[str], str], instead: Mapping[str, str], done: dict[str, str], above: tuple[str, ...]
) -> None:
    if name in done:
        return
    if name in above:
        raise ValueError(f"{name} imports itself by way of {above[-1]}")
    source = read(name)
    for found in _IMPORT.finditer(source):
        _add(_other(found[2], instead), read, instead, done, (*above, name))
    done[name] = _module(name, source, instead)


def _other(name: str, instead: Mapping[str, str]) -> str:
    return instead.get(normpath(name), normpath(name))


def _module(name: str, source: str, instead: Mapping[str, str]) -> str:
    exported = [found[2] for found in _EXPORT.finditer(source)]
    body = _IMPORT.sub(lambda found: _taken(found[1], _other(found[2], instead)), source)
    body = _EXPORT.sub(r"\1 \2", body)
    left = _BARE_IMPORT.search(body)
    if left is not None:
        raise ValueError(f"{name} has {left[0].strip()!r}, which is not understood")
    return f"const {_variable(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"


def _taken(names: str, module: str) -> str:
    wanted = [name.strip().replace(" as ", ": ") for name in names.split(",") if name.strip()]
    return f"const {{ {', '.join(wanted)} }} = {_variable(module)};\n"


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name.removesuffix(".js"))
