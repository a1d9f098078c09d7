"""Makes the application out of its parts."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from app.growable import growing_of
from app.library import Library
from app.links import STATIC
from app.live import Watcher
from app.resources import StaticFolder, templates_folder
from app.settings import Settings
from app.web import charts, chunks, components, export, find, growing, health, library, live, streams
from app.web.errors import RequestBoundary, add_error_pages
from app.web.rendering import Renderer
from app.web.security import HostCheck, SecurityHeaders, allowed_hosts
from app.web.static import VersionedStaticFiles
from capture.version import VERSION

_SMALLEST_COMPRESSED = 1024


def create_app(settings: Settings) -> FastAPI:
    """Return the application that serves one library."""
    app = FastAPI(
        title="flipscope", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan
    )
    static = StaticFolder()
    app.state.settings = settings
    app.state.library = Library(settings.library)
    app.state.renderer = Renderer(templates_folder(), static)
    app.state.growing = growing_of(settings, app.state.library)
    app.state.watcher = Watcher(app.state.library)
    app.state.drawing = CapacityLimiter(export.DRAWN_AT_ONCE)
    for part in (library, export, charts, find, streams, chunks, growing, live, components, health):
        app.include_router(part.router)
    app.mount(STATIC, VersionedStaticFiles(static), name="static")
    add_error_pages(app)
    app.add_middleware(RequestBoundary)
    app.add_middleware(HostCheck, hosts=allowed_hosts(settings))
    app.add_middleware(GZipMiddleware, minimum_size=_SMALLEST_COMPRESSED, compresslevel=5)
    app.add_middleware(SecurityHeaders)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # A large library takes seconds to read for the first time; the first page should not wait for a click to start it.
    threading.Thread(target=app.state.library.catalog, daemon=True).start()
    # A page makes thousands of small values and no cycles: looking for cycles among all that is kept, by default every
    # few pages, takes longer than the page.
    gc.set_threshold(50_000, 50, 50)
    yield
    if app.state.growing is not None:
        app.state.growing.jobs.close()
    app.state.library.close()
