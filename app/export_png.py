"""Pictures as PNG. The only importer of resvg; its font ships with flipscope, so that a server needs none."""

from __future__ import annotations

import re

import resvg_py

from app.resources import StaticFolder
from capture.errors import FlipscopeError

FONT_FILES = ("vendor/dejavu/DejaVuSansMono.ttf", "vendor/dejavu/DejaVuSansMono-Bold.ttf")

FONT_FAMILY = "DejaVu Sans Mono"

_FOREIGN = re.compile(
    "[\u0530-\u10ff\u1100-\u1dff\u2e80-\ud7ff\uf900-\ufdff\ufe20-\ufe6f\uff00-\uffef\U00010000-\U0010ffff]"
)
"""Scripts that the font has little or nothing of."""


class PictureError(FlipscopeError):
    """A picture could not be drawn."""


def png_of(svg: str, zoom: float = 1.0) -> bytes:
    """Return a picture as PNG.

    Text is drawn in the font that ships with flipscope. What that lacks is taken from the system's fonts, and where
    these lack it too it is drawn as an empty box.

    Args:
        svg: the picture, as `app.picture` makes it.
        zoom: pixels of the PNG for one of the SVG.

    Raises:
        PictureError: it cannot be drawn.
    """
    folder = StaticFolder().folder
    try:
        return bytes(
            resvg_py.svg_to_bytes(
                svg_string=svg,
                zoom=zoom,
                skip_system_fonts=_FOREIGN.search(svg) is None,
                font_files=[str(folder / name) for name in FONT_FILES],
                font_family=FONT_FAMILY,
                monospace_family=FONT_FAMILY,
            )
        )
    except (ValueError, RuntimeError, OSError) as error:
        raise PictureError(f"the picture cannot be drawn ({error}); export svg instead") from error
