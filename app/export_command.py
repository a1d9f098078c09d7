"""The use case behind `flipscope export`: reads a link, opens its case, writes the file or prints it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from app.export import Format, Subject, exported, page_of
from app.library import Library
from app.links import Parsed, parse
from capture.errors import UsageError

STDOUT = "-"

_TWIN = re.compile(r"(?:/preview\.png|\.(?:json|md|html|svg|png))(?=$|[?#])")

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")

_NEW_FILE_MODE = 0o666


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What was asked for.

    Attributes:
        link: an address of a case or a fork, whole or from its path on.
        output: path of the file; `-` for stdout.
        library: folder of bundles.
        form: the format; None for the one that the file's ending names.
        force: whether an existing file is replaced.
    """

    link: str
    output: str
    library: Path
    form: Format | None = None
    force: bool = False


def export_link(request: ExportRequest, tell: Callable[[str], None]) -> None:
    """Write what a link shows to a file, whole or not at all; `tell` gets what could not be followed of the link.

    Raises:
        UsageError: the link is none, the format is unknown, or the file exists or has no folder.
        NotFoundError: the library has no such case.
        PictureError: the picture cannot be drawn.
        OSError: the file cannot be written.
    """
    form = _format_of(request)
    parsed = _parsed(request.link)
    if request.output != STDOUT:
        _check_free(Path(request.output), request.force)
    content = _content(request, form, parsed, tell)
    if request.output == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        _write(Path(request.output), content, request.force)


def _format_of(request: ExportRequest) -> Format:
    known = ", ".join(form.value for form in Format)
    form = request.form
    if form is None:
        ending = Path(request.output).suffix.lower().removeprefix(".")
        if request.output == STDOUT or ending not in set(Format):
            raise UsageError(f"the output does not say the format; name it with --format (one of {known})")
        form = Format(ending)
    if form is Format.PNG and request.output == STDOUT:
        raise UsageError("a PNG is not for the terminal; name a file with -o FILE.png")
    return form


def _parsed(link: str) -> Parsed:
    parsed = parse(_TWIN.sub("", link.strip(), count=1))
    if parsed.link is None:
        raise UsageError(
            "the link leads to no case and no fork; copy one from a page (Share, Copy permalink), "
            "such as /c/CASE/f/POSITION-PREFIX"
        )
    return parsed


def _content(request: ExportRequest, form: Format, parsed: Parsed, tell: Callable[[str], None]) -> bytes:
    assert parsed.link is not None
    library = Library(request.library)
    try:
        case = library.open_link(parsed.link)
        link = replace(parsed.link, case=case.key)
        subject = Subject(case, link, library.digest(case), _origin(request.link))
        page = page_of(subject)
        for notice in (*parsed.notices, *page.notices):
            tell(notice)
        return exported(subject, page, form, _html_writer() if form is Format.HTML else _no_html)
    finally:
        library.close()


def _origin(link: str) -> str:
    """Return the server that a link names; empty where it is a path alone."""
    parts = urlsplit(link.strip())
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin if _ORIGIN.fullmatch(origin) else ""


def _html_writer() -> Callable[..., bytes]:
    from app.resources import StaticFolder, templates_folder
    from app.web.exported import exported_html  # the web stack is loaded only where HTML is made
    from app.web.rendering import Renderer

    return partial(exported_html, Renderer(templates_folder(), StaticFolder()))


def _no_html(*_: object) -> bytes:
    raise AssertionError("no HTML was asked for")


def _check_free(path: Path, force: bool) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; name another file, or replace it with --force")


def _write(path: Path, content: bytes, force: bool) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _NEW_FILE_MODE & ~_umask())
        _check_free(path, force)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
