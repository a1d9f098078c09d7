"""Makes a study of llama.cpp's `_logits_` files: each file a lane, each chunk of their text a case."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from capture.bundle import Bundle, RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.encoding import Encoding, encoding_to_json
from capture.engines.vocabulary import vocabulary_of
from capture.errors import UsageError
from capture.identity import id_spans, run_id, vocabulary_hash
from capture.importers.llama_kld import CUT_LOG_PROBABILITY, LARGEST_CODE, KldFile, is_cut
from capture.model import Case, Ending, Json, Keep, Mode, Origin, Prompt, Run, Runtime, ScoringPath, Steps, Token
from capture.pairs import write_missing_comparisons
from capture.prefix import chain, prefix_of
from capture.progress import Reporter
from capture.record import only_writer
from capture.rows import RowStatistics, describe_rows, row_hash
from capture.seal import mentioned_tokens
from capture.version import VERSION

ENGINE = "llama.cpp"

_TOP_K = 20
_BLOCK = 8
"""Rows decoded at once; bounds memory whatever the size of a file."""

_ORIGIN = Origin(Mode.FORCED, ScoringPath.PREFILL)
"""Forced along the text itself: no other run gave the tokens."""


@dataclass(frozen=True, slots=True)
class KldImport:
    """What to import.

    Attributes:
        files: at least one; the same text in all of them.
        library: where bundles go.
        study: the study's name; None for the reference file's.
        reference: name of the reference, a file's without its ending; None for the first file.
        add_bos: the token that stood at the start of every chunk while it was scored; None for the text's own.
        tokenizer: a `tokenizer.json`, or a folder with one; None where none is known.
        chunks: how many chunks from the first on are taken at most; None for all.
    """

    files: tuple[Path, ...]
    library: Path
    study: str | None = None
    reference: str | None = None
    add_bos: int | None = None
    tokenizer: Path | None = None
    chunks: int | None = None


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What was imported: where to, how many bundles were written, and what the files do not tell."""

    folder: Path
    bundles: int
    cases: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lane:
    """A file with its name as a runtime."""

    name: str
    file: KldFile


def import_llama_kld(wanted: KldImport, reporter: Reporter) -> ImportSummary:
    """Import files as the lanes of one study and compare them with the reference; bundles that are there stay.

    Raises:
        UsageError: a file cannot be read, is damaged, or is of another text than the first.
        BundleError, StorageFullError: as `write_bundle`.
    """
    with ExitStack() as opened:
        files = [opened.enter_context(KldFile(path)) for path in wanted.files]
        lanes = _lanes(files, wanted.reference)
        _check_same_text([lane.file for lane in lanes])
        study = wanted.study or lanes[0].name
        if _plain_name(study) != study:
            raise UsageError(f"'{study}' cannot name a study; use letters, digits, '.', '_' and '-'")
        writer = _Writer(wanted, study, _vocabulary(wanted.tokenizer, files[0].header.vocabulary_size), reporter)
        cases = min(lanes[0].file.chunks, wanted.chunks or lanes[0].file.chunks)
        _check_rows(lanes, cases, reporter)
        (wanted.library / ".spool").mkdir(parents=True, exist_ok=True)
        with only_writer(wanted.library):
            written = sum(writer.write(lanes, chunk) for chunk in range(cases))
            write_missing_comparisons(wanted.library / study, reporter)
        return ImportSummary(wanted.library / study, written, cases, _notes(lanes, wanted))


def _lanes(files: Sequence[KldFile], reference: str | None) -> list[_Lane]:
    """Return the lanes, the reference first."""
    lanes = [_Lane(_plain_name(file.path.name.removesuffix(".kld")), file) for file in files]
    names = [lane.name for lane in lanes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two files would be the lane '{twice}'; give one of them another name")
    if reference is not None and reference not in names:
        raise UsageError(f"no file is the lane '{reference}'; the lanes are {', '.join(names)}")
    return sorted(lanes, key=lambda lane: lane.name != (reference or names[0]))


def _plain_name(name: str) -> str:
    """Return a name of a lane or a study as file names allow it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:64].strip(".-_") or "lane"


def _check_same_text(files: Sequence[KldFile]) -> None:
    for file in files[1:]:
        if file.table != files[0].table:
            raise UsageError(
                f"{file.path.name} and {files[0].path.name} hold other tokens or another chunk length; "
                "write both from the same text with the same -c and --chunks"
            )


def _check_rows(lanes: Sequence[_Lane], cases: int, reporter: Reporter) -> None:
    """Read everything once before anything is written, so that a damaged file leaves no part of a study behind."""
    for lane in lanes:
        reporter.begin(f"reading {lane.file.path.name}", min(cases, lane.file.chunks) * lane.file.header.rows)
        lane.file.check(cases, reporter.advance)
        reporter.end("sound")


def _vocabulary(tokenizer: Path | None, size: int) -> Mapping[int, Token]:
    if tokenizer is None:
        return {}
    path = tokenizer / "tokenizer.json" if tokenizer.is_dir() else tokenizer
    try:
        tokens = vocabulary_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read as a tokenizer.json; leave out --tokenizer to see token ids"
        ) from error
    if tokens and tokens[-1].token_id >= size:
        raise UsageError(f"{path} has tokens beyond the file's {size:,} ids; name the tokenizer of that model")
    return {token.token_id: token for token in tokens}


def _notes(lanes: Sequence[_Lane], wanted: KldImport) -> tuple[str, ...]:
    notes = [f"{lane.file.path.name} {early}" for lane in lanes if (early := _ends_early(lane.file))]
    notes += [
        f"{lane.file.path.name} is the lane '{lane.name}': its own name has more than letters, digits, '.', '_' and '-'"
        for lane in lanes
        if lane.name != lane.file.path.name.removesuffix(".kld")
    ]
    if wanted.tokenizer is None:
        notes.append("token ids are taken to mean the same in all lanes; the files hold no tokenizer")
    if wanted.add_bos is None:
        notes.append("if the model's tokenizer puts a token before a text, tell it with --add-bos; the files do not")
    return tuple(notes)


def _ends_early(file: KldFile) -> str:
    """Return how much of a file is there, empty where it is whole."""
    whole = file.chunks == file.header.chunks
    return "" if whole else f"ends early: {file.chunks} of {file.header.chunks} chunks are whole"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the bundles of one import."""

    wanted: KldImport
    study: str
    vocabulary: Mapping[int, Token]
    reporter: Reporter

    def write(self, lanes: Sequence[_Lane], chunk: int) -> int:
        """Write what is missing of one case; return how many bundles that were."""
        return sum(self._write(lane, chunk, lane is lanes[0]) for lane in lanes if chunk < lane.file.chunks)

    def _write(self, lane: _Lane, chunk: int, is_reference: bool) -> bool:
        case_id = f"chunk-{chunk + 1:04d}"
        path = self.wanted.library / self.study / f"{case_id}--{lane.name}.duckdb"
        prompt, output = self._split(lane.file, chunk)
        facts = self._facts(lane, case_id, is_reference, self._definition(lane.file, chunk, prompt, is_reference))
        if path.is_file():
            _check_same(path, facts)
            return False
        self.reporter.begin(f"{case_id} · {lane.name}", len(output))
        run = _recorded(lane.file, chunk, prompt, output)
        write_bundle(path, facts, prompt, [run], mentioned_tokens([run], prompt.token_ids, self.vocabulary))
        self.reporter.advance(len(output))
        self.reporter.end("sealed")
        return True

    def _split(self, file: KldFile, chunk: int) -> tuple[Prompt, list[int]]:
        """Return what stands before the first scored token, as it was evaluated, and the scored tokens."""
        tokens = file.tokens[chunk].tolist()
        before, output = tokens[: file.header.prompt_length], tokens[file.header.prompt_length :]
        if self.wanted.add_bos is not None:
            if not 0 <= self.wanted.add_bos < file.header.vocabulary_size:
                raise UsageError(f"--add-bos {self.wanted.add_bos} is no token of the files; name one below their size")
            before[0] = self.wanted.add_bos
        return Prompt(self._text(before), tuple(before)), output

    def _text(self, token_ids: Sequence[int]) -> str:
        if not self.vocabulary:
            return "".join(f"<{token_id}>" for token_id in token_ids)
        parts = [self.vocabulary[token_id].data for token_id in token_ids if token_id in self.vocabulary]
        return b"".join(parts).decode("utf-8", "replace")

    def _definition(self, file: KldFile, chunk: int, prompt: Prompt, is_reference: bool) -> str:
        asked = [
            file.chunk_hash(chunk),
            list(prompt.token_ids),
            is_reference,
            vocabulary_hash(self.vocabulary.values()),
        ]
        return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()

    def _facts(self, lane: _Lane, case_id: str, is_reference: bool, definition: str) -> BundleFacts:
        known = self.vocabulary
        return BundleFacts(
            study=self.study,
            study_title=self.study,
            case=Case(case_id, ()),
            runtime=Runtime(lane.name, ENGINE, lane.name, label=lane.name),
            is_reference=is_reference,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=VERSION,
            vocabulary_hash=vocabulary_hash(known.values()) if known else "",
            id_spans=id_spans(sorted(known)),
            definition=definition,
        )


def _check_same(path: Path, facts: BundleFacts) -> None:
    with Bundle(path) as bundle:
        if bundle.facts.definition != facts.definition:
            raise UsageError(
                f"{path} holds something else, and a sealed bundle is never overwritten; "
                "give the study another name with --study"
            )


def _recorded(file: KldFile, chunk: int, prompt: Prompt, output: list[int]) -> RecordedRun:
    parts: list[RowStatistics] = []
    hashes: list[bytes] = []
    window = 0.0
    for start in range(0, file.header.rows, _BLOCK):
        rows = [file.row(chunk, row) for row in range(start, min(start + _BLOCK, file.header.rows))]
        logits = np.stack([row.log_probabilities for row in rows])
        parts.append(describe_rows(logits, _TOP_K, start))
        hashes += [row_hash(row.tobytes()) for row in logits]
        window = max(window, *(row.window_nats for row in rows))
    steps = _steps(parts, hashes, prompt, output)
    manifest = _manifest(file, chunk, Encoding(16, window / LARGEST_CODE, window, CUT_LOG_PROBABILITY))
    run = Run(
        run_id=run_id(steps, manifest, _ORIGIN),
        **{name: getattr(_ORIGIN, name) for name in Origin.__slots__},
        ending=Ending.PATH,
        complete=True,
        logits_kept=Keep.ALL,
        dtype="float32",
        vocabulary_size=file.header.vocabulary_size,
        positions=len(steps),
        seconds=0.0,
    )
    return RecordedRun(run, steps, manifest, range(len(steps)), partial(_raw_row, file, chunk))


def _raw_row(file: KldFile, chunk: int, row: int) -> bytes:
    return file.row(chunk, row).log_probabilities.astype("<f4").tobytes()


def _steps(parts: Sequence[RowStatistics], hashes: Sequence[bytes], prompt: Prompt, output: list[int]) -> Steps:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in RowStatistics.__slots__}
    return Steps(
        position=np.arange(len(output), dtype=np.int32),
        prefix_id=tuple(chain(output, prefix_of(prompt.token_ids)))[: len(output)],
        token_id=np.array(output, np.int32),
        forced=np.ones(len(output), np.bool_),
        emitted=np.full(len(output), -1, np.int32),
        row_hash=tuple(hashes),
        **columns,
    )


def _manifest(file: KldFile, chunk: int, encoding: Encoding) -> Json:
    return {
        "engine": ENGINE,
        "imported": {
            "format": "_logits_ of --kl-divergence-base",
            "file": file.path.name,
            "chunk": chunk + 1,
            **asdict(file.header),
        },
        "encoding": encoding_to_json(encoding),
        "unknown": "; ".join(_unknown(file, encoding)),
    }


def _unknown(file: KldFile, encoding: Encoding) -> Iterator[str]:
    yield "the file names no model, tokenizer, options, versions or hardware"
    if is_cut(encoding.window_nats):
        yield (
            f"of ids {encoding.window_nats:.0f} nats or more below a row's highest it tells no more than that; "
            "KL back and JSD spread over them evenly what the others leave"
        )
    if early := _ends_early(file):
        yield f"{file.path.name} {early}"
