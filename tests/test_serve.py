"""A port that cannot be had is said so in one sentence, before anything else is done."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.serve import serve
from app.settings import Settings
from capture.errors import UsageError


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_refused_before_anything_else(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=f"port {taken} on 127.0.0.1 is in use.*--port"):
        serve(Settings(library=tmp_path / "none", port=taken))
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "none").exists()


def test_the_command_says_so_with_exit_code_2(taken: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.cli", "serve", str(tmp_path), "--port", str(taken)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "in use" in done.stderr


@pytest.mark.parametrize(
    ("host", "port"),
    [("no such host", 0), ("256.1.1.1", 0), ("203.0.113.7", 0), ("127.0.0.1", 70000), ("127.0.0.1", -1)],
)
def test_addresses_that_cannot_be_listened_on_are_refused(tmp_path: Path, host: str, port: int) -> None:
    with pytest.raises(UsageError, match="--host|--port"):
        serve(Settings(library=tmp_path, host=host, port=port))
