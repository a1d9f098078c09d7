"""Starting, following and cancelling what grows. Off unless the server was started with it; for its own pages only."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from app.growable import is_grown
from app.growing import Job, State
from app.library import Library
from app.links import parse
from app.web.dependencies import READ, GrowingDep, LibraryDep
from app.web.rendering import json_response
from capture.errors import UsageError

router = APIRouter()

_MOST_BYTES = 8192
"""Of a form; ours takes a few hundred."""

_LOOK_EVERY_SECONDS = 0.2

_EVENTS = {State.GROWING: "progress"}
"""Names of events that are not their state's."""

Form = Mapping[str, str]


async def _own_form(request: Request, _: GrowingDep) -> Form:
    """Return the fields of a form that a page of this server sent.

    Raises:
        HTTPException: it came from elsewhere, or is no such form.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this form is too long")
    form = dict(parse_qsl(body.decode("utf-8", "replace")))
    if not _is_own(request, form):
        raise HTTPException(
            HTTPStatus.FORBIDDEN, "a page from elsewhere must not start anything here; use the page of this server"
        )
    return form


def _is_own(request: Request, form: Form) -> bool:
    """Return whether a page of this server, or a program that says so, sent a request.

    A browser says where a request comes from; where a policy or its age keeps it from that, the form's key does.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is not None and origin != "null":
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    key: str = request.app.state.growing.key
    return site == "same-origin" or hmac.compare_digest(form.get("key", "").encode(), key.encode())


OwnForm = Annotated[Form, Depends(_own_form)]


@router.post("/grow.json")
def grow_json(form: OwnForm, growing: GrowingDep, library: LibraryDep) -> Response:
    """Start growing and return the job; null where the library holds the continuation already."""
    job = _start(form, growing, library)
    status = HTTPStatus.OK if job is None else HTTPStatus.ACCEPTED
    return json_response({"job": None if job is None else job_json(job), "href": _back(form)}, status)


@router.post("/grow")
def grow_html(form: OwnForm, growing: GrowingDep, library: LibraryDep) -> Response:
    """Start growing and return to the page, which shows how far it is."""
    _start(form, growing, library)
    return _see(_back(form))


@router.api_route("/grow/{job}.json", methods=READ)
def job_state(job: str, growing: GrowingDep) -> Response:
    """Return how far a job is."""
    return json_response(job_json(growing.jobs.get(job)))


@router.get("/grow/{job}/events")
async def job_events(job: str, growing: GrowingDep, request: Request) -> Response:
    """Tell how far a job is, as server-sent events, until it has ended."""
    growing.jobs.get(job)
    return StreamingResponse(
        _events(job, growing, request), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@router.post("/grow/{job}/cancel")
def cancel(job: str, _: OwnForm, growing: GrowingDep) -> Response:
    """Cancel a job and return to its page."""
    return _see(growing.jobs.cancel(job).href)


def job_json(job: Job) -> dict[str, Any]:
    """Return a job as JSON values."""
    return {
        "job": job.job_id,
        "state": job.state.value,
        "run": job.wanted.parent_run,
        "runtime": job.runtime,
        "position": job.wanted.position,
        "token_id": job.wanted.token_id,
        "steps": job.steps,
        "most": job.most,
        "sentence": job.sentence,
        "href": job.href,
    }


async def _events(job_id: str, growing: GrowingDep, request: Request) -> AsyncIterator[str]:
    told: Job | None = None
    while told is None or not told.ended:
        job = growing.jobs.get(job_id)
        if job != told:
            told = job
            yield f"event: {_EVENTS.get(job.state, job.state.value)}\ndata: {json.dumps(job_json(job))}\n\n"
        elif await request.is_disconnected():
            return
        else:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)


def _start(form: Form, growing: GrowingDep, library: Library) -> Job | None:
    """Start what a form asks for; None where the library holds it already.

    Raises:
        NotFoundError: there is no such run.
        UsageError: it cannot be grown, or the form is incomplete.
    """
    position, token_id = (_number(form.get(name, "")) for name in ("position", "token"))
    catalog = library.catalog()
    study, wanted, runtime = growing.growable.find(catalog, form.get("run", ""), position, token_id)
    if is_grown(catalog, wanted):
        return None
    return growing.jobs.submit(study, wanted, runtime, _back(form))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise UsageError("a form of this page needs a position and a token, both numbers; reload the page")
    return int(text)


def _back(form: Form) -> str:
    """Return the page that a form came from: a case or a fork of this server and nothing else."""
    link = parse(form.get("back", "")).link
    return "/" if link is None else link.format()


def _see(address: str) -> Response:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
