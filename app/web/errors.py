"""Errors as pages: one sentence and what to do next, in HTML or in JSON; never a traceback."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.catalog import AmbiguousCaseError
from app.library import Library
from app.links import CaseLink
from app.web.rendering import Renderer, json_response
from app.words import sentence
from capture.errors import FlipscopeError, NotFoundError

_LOG = logging.getLogger("flipscope")

_UNEXPECTED = "Something went wrong inside flipscope; the server's log says what."


def add_error_pages(app: FastAPI) -> None:
    """Register the handlers."""
    app.add_exception_handler(FlipscopeError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)


def wants_json(request: Request) -> bool:
    """Return whether the twin was asked for."""
    return request.url.path.endswith(".json") or request.url.path == "/healthz"


def _expected(request: Request, error: Exception) -> Response:
    if isinstance(error, AmbiguousCaseError):
        return _choose(request, error)
    status = HTTPStatus.NOT_FOUND if isinstance(error, NotFoundError) else HTTPStatus.UNPROCESSABLE_ENTITY
    return _page(request, status, str(error))


def _choose(request: Request, error: AmbiguousCaseError) -> Response:
    """Return the page to choose from."""
    library: Library = request.app.state.library
    renderer: Renderer = request.app.state.renderer
    cases = [library.catalog().find_case(key) for key in error.choices]
    if wants_json(request):
        choices = [{"key": case.key, "href": CaseLink(case.key).format(".json")} for case in cases]
        return json_response({"error": sentence(str(error)), "choices": choices}, HTTPStatus.MULTIPLE_CHOICES)
    return renderer.html("choose.html", HTTPStatus.MULTIPLE_CHOICES, message=sentence(str(error)), cases=cases)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _page(request, HTTPStatus.NOT_FOUND, "There is no such page; the library lists all that there is.")
    return _page(request, HTTPStatus(error.status_code), str(error.detail))


def _invalid(request: Request, _: Exception) -> Response:
    return _page(request, HTTPStatus.BAD_REQUEST, "A parameter of this address is not what it should be.")


class RequestBoundary:
    """Catches whatever nobody foresaw: logged in full here, told in one sentence there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; where that fails before anything was sent, send the error page."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            request = Request(scope)
            _LOG.error("unexpected error at %r", request.url.path, exc_info=error)
            await _last_page(request)(scope, receive, send)


def _last_page(request: Request) -> Response:
    try:
        return _page(request, HTTPStatus.INTERNAL_SERVER_ERROR, _UNEXPECTED)
    except Exception:  # noqa: BLE001 - the page itself may be what fails
        return PlainTextResponse(_UNEXPECTED, HTTPStatus.INTERNAL_SERVER_ERROR)


def _page(request: Request, status: HTTPStatus, message: str) -> Response:
    told = sentence(message)
    if wants_json(request):
        return json_response({"error": told, "status": status.value}, status)
    library: Library = request.app.state.library
    renderer: Renderer = request.app.state.renderer
    cases = library.cases() if status is HTTPStatus.NOT_FOUND else ()
    return renderer.html("error.html", status, phrase=status.phrase, message=told, cases=cases)


def redirect(address: str) -> Response:
    """Return a redirect that is not remembered, since what it leads to can change."""
    return RedirectResponse(address, HTTPStatus.FOUND, {"Cache-Control": "no-store"})
