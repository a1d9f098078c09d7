"""What can be seen of a real capture while it records."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture.live import LiveCapture, LiveReader, LiveStream, live_captures, read_vocabulary
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import read_study
from tests.recording.conftest import WriteStudy

pytestmark = pytest.mark.engine


class Watching(SilentReporter):
    """Looks at the library at every step of the capture."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._reader = LiveReader(library)
        self.captures: list[LiveCapture] = []
        self.streams: dict[str, list[LiveStream]] = {}
        self.vocabulary: set[int] = set()

    def advance(self, steps: int) -> None:  # noqa: ARG002  a reporter is told how many
        """Look once a step."""
        (capture,) = live_captures(self._library)
        self.captures.append(capture)
        self.vocabulary = set(read_vocabulary(self._library / ".spool" / "tiny", capture.mark.runtime))
        for stream in self._reader.streams(capture.mark):
            self.streams.setdefault(f"{capture.mark.folder}/{stream.name}", []).append(stream)


def test_streams_grow_while_they_are_recorded_and_nothing_is_left(write_study: WriteStudy, tmp_path: Path) -> None:
    study = read_study(
        write_study(tmp_path / "study", runtimes=("plain", "int4"), rest="[forks]\nmost = 2\nmax_tokens = 6")
    )
    watching = Watching(tmp_path / "library")
    Recorder(study, tmp_path / "library", watching).capture()
    assert {capture.running for capture in watching.captures} == {True}
    assert {capture.mark.planned for capture in watching.captures} == {4}
    assert {capture.bundles for capture in watching.captures} == {0, 1, 2, 3}
    for seen in watching.streams.values():
        counts = [len(stream) for stream in seen]
        assert counts == sorted(counts)
        texts = [tuple(stream.token_id.tolist()) for stream in seen]
        assert all(later[: len(earlier)] == earlier for earlier, later in zip(texts, texts[1:], strict=False))
    forced = next(seen[-1] for name, seen in watching.streams.items() if name.endswith("forced-decode"))
    assert (forced.choice != forced.token_id).any()
    assert set(forced.token_id.tolist()) <= watching.vocabulary
    assert not (tmp_path / "library" / ".spool" / "tiny").exists()
    assert live_captures(tmp_path / "library") == ()
