"""What every answer says to the browser, and which names the server answers to. Plain ASGI."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

LOCAL = ("localhost", "127.0.0.1", "[::1]")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d+)?")


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Return the names under which browsers may ask: a page from elsewhere could point a name of its own here."""
    names = (*LOCAL, settings.host, *settings.allow_hosts)
    return frozenset(_bracketed(name.lower()) for name in names)


def _bracketed(name: str) -> str:
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


class SecurityHeaders:
    """Adds the policy to every answer; a page can have one of its own, which then stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, with the headers added."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.add_vary_header("HX-Request")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class HostCheck:
    """Refuses requests for a name that this server was not told of, which is what DNS rebinding needs."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse."""
        if scope["type"] == "http" and not self._known(Headers(scope=scope).getlist("host")):
            text = "This server does not answer to that name; start it with --allow-host NAME to allow it.\n"
            await PlainTextResponse(text, status_code=421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _known(self, values: list[str]) -> bool:
        match = _HOST.fullmatch(values[0].lower()) if len(values) == 1 else None
        return match is not None and match[1] in self._hosts
