"""Runs the server until it is interrupted. Imports uvicorn."""

from __future__ import annotations

import errno
import socket
import sys
import webbrowser
from contextlib import suppress

import uvicorn

from app.growable import Growing, growable_of
from app.settings import Settings
from app.web import create_app
from capture.errors import UsageError

_WAITING = 128
"""Connections that may wait while the server starts."""

_LAST_PORT = 65535

_EVERYWHERE = ("0.0.0.0", "::")


def serve(settings: Settings, *, open_browser: bool = False, path: str = "/") -> None:
    """Serve a library until interrupted; prints the address first.

    Args:
        settings: what to serve, and where.
        open_browser: whether to open the page.
        path: the page that the printed address names.

    Raises:
        UsageError: the library is a file, or the port is in use or cannot be listened on; found out first. Or the
            server may start processes and others could reach it.
    """
    if settings.library.exists() and not settings.library.is_dir():
        raise UsageError(f"{settings.library} is a file; name the folder that holds it")
    with _listen(settings.host, settings.port) as listener:
        app = create_app(settings)
        config = uvicorn.Config(app, log_level="warning", server_header=False, date_header=False)
        address = _address(settings.host, listener.getsockname()[1]) + path
        missing = "" if settings.library.is_dir() else " (no such folder yet; what is captured to it will appear)"
        sys.stdout.write(f"flipscope shows {settings.library}{missing} at {address}\nPress Ctrl+C to stop.\n")
        sys.stdout.flush()
        if open_browser:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            _Server(config, app.state.growing).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Stops what grows before it waits for the pages that are told of it."""

    def __init__(self, config: uvicorn.Config, growing: Growing | None) -> None:
        super().__init__(config)
        self._growing = growing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        if self._growing is not None:
            self._growing.jobs.close(wait=False)
        await super().shutdown(sockets)


def check_address(settings: Settings) -> None:
    """Find out before long work whether the server will be able to listen; raises what `serve` raises."""
    growable_of(settings)
    _listen(settings.host, settings.port).close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that already takes connections, so that nobody else can get the port in between."""
    if not 0 <= port <= _LAST_PORT:  # a larger one would be cut to 16 bits without a word
        raise UsageError(f"there is no port {port}; choose one up to {_LAST_PORT} with --port")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"there is no address '{host}' on this machine; choose another with --host") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        raise UsageError(_refusal(host, port, error)) from error
    return listener


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what uses it or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this user does not have; choose another with --port"
    return f"cannot listen on {host} port {port} ({error}); choose others with --host and --port"


def _address(host: str, port: int) -> str:
    shown = "localhost" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
