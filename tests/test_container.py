"""The compose file and the image say the same, close what they can, and their very command serves a library."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.links import HEALTH
from app.settings import Settings
from tests.synthetic import make_library

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    whole = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert set(whole) == {"services"}
    assert set(whole["services"]) == {"flipscope"}
    found: dict[str, Any] = whole["services"]["flipscope"]
    return found


@pytest.fixture(scope="module")
def image() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_service_is_built_from_the_repository(service: dict[str, Any], image: list[tuple[str, str]]) -> None:
    assert (ROOT / service["build"] / "Dockerfile").is_file()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {name for word, rest in image if word == "COPY" for name in rest.split()[:-1]}
    assert {"app", "capture", "static", "templates", "data", "pyproject.toml"} <= copied
    assert {f"!{name}" for name in copied} <= set(ignored)


def test_the_library_is_mounted_read_only(service: dict[str, Any]) -> None:
    (volume,) = service["volumes"]
    match = re.fullmatch(r"\$\{FLIPSCOPE_LIBRARY:-\./library\}:(?P<target>/\w+):ro", volume)
    assert match is not None
    assert service["command"][:2] == ["serve", match["target"]]


def test_it_runs_without_rights_and_for_this_machine_only(
    service: dict[str, Any], image: list[tuple[str, str]]
) -> None:
    users = [rest for word, rest in image if word == "USER"]
    assert users == [service["user"]]
    assert int(service["user"]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert service["ports"] == [f"127.0.0.1:{Settings().port}:{Settings().port}"]


def test_the_image_runs_what_the_service_runs(service: dict[str, Any], image: list[tuple[str, str]]) -> None:
    commands = {word: yaml.safe_load(rest) for word, rest in image if word in ("ENTRYPOINT", "CMD")}
    assert commands == {"ENTRYPOINT": ["flipscope"], "CMD": service["command"]}
    check = next(rest for word, rest in image if word == "HEALTHCHECK")
    assert yaml.safe_load(check.partition("CMD ")[2]) == service["healthcheck"]["test"][1:]


def test_ports_agree(service: dict[str, Any], image: list[tuple[str, str]]) -> None:
    port = service["command"][service["command"].index("--port") + 1]
    assert service["ports"][0].split(":")[1:] == [port, port]
    assert [rest for word, rest in image if word == "EXPOSE"] == [port]
    assert f"http://127.0.0.1:{port}{HEALTH}'" in service["healthcheck"]["test"][-1]


def test_the_command_serves_and_the_health_check_passes(service: dict[str, Any], tmp_path: Path) -> None:
    folder = make_library(tmp_path, lanes=2, positions=60, cases=("iface",))
    swapped = {"/library": str(folder), "0.0.0.0": "127.0.0.1", "8017": "0"}
    command = [swapped.get(word, word) for word in service["command"]]
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
            assert address is not None
            check = [sys.executable, *service["healthcheck"]["test"][2:]]
            check[-1] = check[-1].replace("8017", address[1])
            assert subprocess.run(check, timeout=60).returncode == 0
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0
