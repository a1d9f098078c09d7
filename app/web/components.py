"""The page that shows every component in every state."""

from __future__ import annotations

from functools import lru_cache

from fastapi import APIRouter
from starlette.responses import Response

from app.catalog import BrokenFile
from app.links import COMPONENTS
from app.specimens import Specimen, specimens
from app.web.dependencies import READ, RendererDep
from app.words import SHAPES
from capture.consequences import Pill, Tone

router = APIRouter()

_PILLS = tuple(Pill(tone.value, tone) for tone in Tone)

_BROKEN = (
    BrokenFile("half-copied.duckdb", "half-copied.duckdb is damaged; copy it again"),
    BrokenFile("\u202egnp.duckdb", "it is no file of flipscope"),
)

_EMPTY = {"exists": True, "folder": "library", "commands": ("make demo", "flipscope capture STUDY.toml")}


@router.api_route(COMPONENTS, methods=READ)
def components_html(renderer: RendererDep) -> Response:
    """Return the page of components."""
    return renderer.html(
        "components.html", specimens=_specimens(), pills=_PILLS, shapes=SHAPES, broken=_BROKEN, empty=_EMPTY
    )


@lru_cache(maxsize=1)
def _specimens() -> tuple[Specimen, ...]:
    return specimens()
