from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from capture.live import Mark, live_capture, tell, write_vocabulary
from capture.model import Token
from capture.spool import StreamWriter, write_json
from tests.test_live import COLUMNS, row
from tests.web.conftest import client_of

WORDS = (b"I", b" say", b"<script>alert(1)</script>", b"\x1b[31m", b"\n")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[TestClient]:
    """A server of a library into which a lane is forced just now: it chose otherwise at position 1."""
    spool = tmp_path / ".spool" / "study"
    folder = spool / "case--int4-0123abcd"
    folder.mkdir(parents=True)
    write_json(folder / "runtime.json", {"manifest": {}, "dtype": "float32", "columns": COLUMNS})
    write_vocabulary(spool, "int4", [Token(number, data) for number, data in enumerate(WORDS)])
    writer = StreamWriter(folder / "forced-decode", COLUMNS * 4)
    for position, (token, best) in enumerate([(0, 0), (1, 3), (2, 2), (3, 3), (4, 4)]):
        writer.append(position, token, row(best), forced=True, emitted=None, recomputed=False)
    with live_capture(spool), client_of(tmp_path) as client:
        tell(spool, Mark("study", "case", "int4", "forced-decode", folder.name, 40, 6))
        yield client


def test_a_capture_is_listed_with_its_progress(watched: TestClient) -> None:
    (entry,) = watched.get("/live.json").json()["captures"]
    assert (entry["done"], entry["most"], entry["bundles"], entry["planned"], entry["running"]) == (5, 40, 0, 6, True)
    page = BeautifulSoup(watched.get("/live").text, "html.parser")
    link = page.select_one(".live-entry")
    assert link
    assert link["href"] == entry["href"]
    assert link.select("progress[max='40'][value='5']")


def test_its_streams_can_be_watched(watched: TestClient) -> None:
    found = watched.get("/live/study.json").json()
    assert found["streams"] == [
        {
            "name": "forced-decode",
            "positions": 5,
            "ended": False,
            "flips": [1],
            "text": "I say<script>alert(1)</script>\x1b[31m\n",
        }
    ]
    page = BeautifulSoup(watched.get("/live/study").text, "html.parser")
    assert [tag["data-p"] for tag in page.select(".flow .flip")] == ["1"]
    assert page.select("main script") == []
    flow = page.select_one(".flow")
    assert flow
    assert "<script>alert(1)</script>" in flow.get_text()
    assert "\x1b" not in flow.get_text()


def test_what_is_not_captured_is_told(watched: TestClient) -> None:
    assert watched.get("/live/other").status_code == 404
    assert watched.get("/live/..%2F..").status_code == 404
    assert watched.get("/live/other.json").status_code == 404


def test_a_library_without_a_capture_says_so(client: TestClient) -> None:
    assert client.get("/live.json").json() == {"captures": []}
    assert "No capture" in client.get("/live").text
