from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from capture.errors import SpoolError
from capture.live import (
    MARK,
    MOST_POSITIONS,
    LiveReader,
    Mark,
    live_capture,
    live_captures,
    read_vocabulary,
    tell,
    write_vocabulary,
)
from capture.model import Ending, Token
from capture.spool import StreamWriter, write_json

COLUMNS = 5
HERE = Mark("study", "case", "int4", "forced-decode", "case--int4-0123abcd", 40, 6)


def row(best: int) -> memoryview:
    logits = np.zeros(COLUMNS, np.float32)
    logits[best] = 3
    return memoryview(logits.tobytes())


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / ".spool" / "study"
    (folder / HERE.folder).mkdir(parents=True)
    write_json(folder / HERE.folder / "runtime.json", {"manifest": {}, "dtype": "float32", "columns": COLUMNS})
    return folder


def write(folder: Path, positions: Sequence[tuple[int, int, int | None]], recomputed: bool = False) -> StreamWriter:
    """Append (token taken, winner of the row, emitted); where nothing was emitted the token was imposed."""
    writer = StreamWriter(folder, COLUMNS * 4)
    for position, (token, best, emitted) in enumerate(positions):
        writer.append(position, token, row(best), forced=emitted is None, emitted=emitted, recomputed=recomputed)
    return writer


def test_a_capture_is_seen_while_it_works_and_gone_when_it_has_ended(tmp_path: Path, spool: Path) -> None:
    assert live_captures(tmp_path) == ()
    with live_capture(spool):
        tell(spool, HERE)
        (found,) = live_captures(tmp_path)
        assert (found.mark, found.running, found.bundles) == (HERE, True, 0)
    assert live_captures(tmp_path) == ()


def test_one_that_was_killed_is_seen_as_stopped(tmp_path: Path, spool: Path) -> None:
    tell(spool, HERE)
    assert [one.running for one in live_captures(tmp_path)] == [False]


def test_sealed_bundles_are_counted_and_nothing_else(tmp_path: Path, spool: Path) -> None:
    tell(spool, HERE)
    (tmp_path / "study").mkdir()
    for name in ("case--bf16", "other--bf16", "case--int4.vs.bf16.comparison", "case--int4.grown-0123456789ab"):
        (tmp_path / "study" / f"{name}.duckdb").touch()
    assert live_captures(tmp_path)[0].bundles == 2


def test_what_a_forced_runtime_chose_is_read_from_its_rows(tmp_path: Path, spool: Path) -> None:
    writer = write(spool / HERE.folder / "forced-decode", [(1, 1, None), (2, 4, None), (3, 3, None)])
    (stream,) = LiveReader(tmp_path).streams(HERE)
    assert stream.token_id.tolist() == [1, 2, 3]
    assert stream.choice.tolist() == [1, 4, 3]
    assert (len(stream), stream.ended) == (3, False)
    writer.finish(Ending.PATH, 1.0)
    assert LiveReader(tmp_path).streams(HERE)[0].ended


def test_a_stream_grows_under_the_reader_and_a_half_written_record_does_not_count(tmp_path: Path, spool: Path) -> None:
    reader, folder = LiveReader(tmp_path), spool / HERE.folder / "forced-decode"
    write(folder, [(1, 2, None)]).close()
    assert reader.streams(HERE)[0].choice.tolist() == [2]
    write(folder, [(1, 2, None), (3, 0, None)]).close()
    with open(folder / "steps.bin", "ab") as steps:
        steps.write(b"\x01\x02")
    assert reader.streams(HERE)[0].choice.tolist() == [2, 0]


def test_rows_that_were_computed_again_are_no_stream(tmp_path: Path, spool: Path) -> None:
    write(spool / HERE.folder / "replay", [(1, 1, None)], recomputed=True).close()
    write(spool / HERE.folder / "free-0", [(1, 1, 1)]).close()
    assert [stream.name for stream in LiveReader(tmp_path).streams(HERE)] == ["free-0"]


def test_a_folder_that_was_sealed_meanwhile_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="look again"):
        LiveReader(tmp_path).streams(HERE)


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "../../secret"},
        {"folder": ".."},
        {"runtime": "a/b"},
        {"study": "other"},
        {"most": "many"},
        {"planned": None},
        {"case_id": "x" * 500},
    ],
)
def test_a_strangers_mark_names_no_other_place(tmp_path: Path, spool: Path, change: dict[str, object]) -> None:
    tell(spool, HERE)
    mark = json.loads((spool / MARK).read_text(encoding="utf-8"))
    (spool / MARK).write_text(json.dumps({**mark, **change}), encoding="utf-8")
    assert live_captures(tmp_path) == ()


def test_a_vocabulary_comes_back_and_a_damaged_one_is_none(spool: Path) -> None:
    tokens = (Token(0, b"\xff\x00", True), Token(3, " é".encode()))
    write_vocabulary(spool, "int4", tokens)
    assert tuple(read_vocabulary(spool, "int4").values()) == tokens
    (spool / "int4.vocabulary").write_text("[[1]]", encoding="utf-8")
    assert read_vocabulary(spool, "int4") == {}


def test_looking_never_keeps_a_capture_from_starting(tmp_path: Path, spool: Path) -> None:
    tell(spool, HERE)
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            live_captures(tmp_path)

    looker = threading.Thread(target=look)
    looker.start()
    for _ in range(50):
        with live_capture(spool):
            pass
    stop.set()
    looker.join()


def test_rows_of_a_stream_that_is_recorded_anew_are_read_anew(tmp_path: Path, spool: Path) -> None:
    reader, folder = LiveReader(tmp_path), spool / HERE.folder / "forced-decode"
    write(folder, [(1, 2, None)]).close()
    assert reader.streams(HERE)[0].choice.tolist() == [2]
    # The old folder is kept aside, so that the new file cannot be given its number.
    folder.rename(tmp_path / "aside")
    write(folder, [(1, 4, None)]).close()
    assert reader.streams(HERE)[0].choice.tolist() == [4]


def test_only_the_last_rows_are_looked_at_and_all_tokens_are_there(tmp_path: Path, spool: Path) -> None:
    count = MOST_POSITIONS + 5
    write(spool / HERE.folder / "forced-decode", [(1, 3, None)] * count).close()
    (stream,) = LiveReader(tmp_path).streams(HERE)
    assert len(stream) == count
    assert stream.choice.tolist() == [-1] * 5 + [3] * MOST_POSITIONS


def test_how_far_the_latest_stream_is_needs_no_row(tmp_path: Path, spool: Path) -> None:
    for number, name in enumerate(("free-0", "forced-decode")):
        folder = spool / HERE.folder / name
        write(folder, [(1, 1, 1)] * (number + 2)).close()
        os.utime(folder / "steps.bin", (number, number))
    assert LiveReader(tmp_path).done(HERE) == 3
    assert [stream.name for stream in LiveReader(tmp_path).streams(HERE)] == ["free-0", "forced-decode"]
    assert LiveReader(tmp_path / "nowhere").done(HERE) == 0
