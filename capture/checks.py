"""A user's own check: a command that reads two continuations as JSON and answers a verdict. Starts processes.

The command comes from the study file of the user who runs it, or from the command line, and never from a bundle.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capture.bundle import Bundle
from capture.callparser import BrokenCall, ToolCall, read_calls
from capture.compare import reference_run
from capture.errors import DamagedBundleError, StorageFullError, UsageError
from capture.messages import case_to_json
from capture.model import Case, Json, Mode, Run
from capture.outcomes import answer_bytes, left_turn, output_bytes
from capture.toolschema import ToolSchemas, printable

SUFFIX = ".check.json"
"""Ends the name of the file beside a bundle that holds what a check said of its runs; derived and replaceable."""

LONGEST_VERDICT = 40
LONGEST_DETAIL = 200
LARGEST_ANSWER = 1 << 20
LARGEST_FILE = 16 * 1024 * 1024
FORMAT = 1

_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A check as a study asks for it.

    Attributes:
        command: the program and its arguments.
        timeout_seconds: after which it is ended.
        folder: where it is started.
    """

    command: tuple[str, ...]
    timeout_seconds: float
    folder: Path


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check said of one output; lines of printable characters.

    Attributes:
        run_id: the candidate's run.
        reference: the reference's run.
        verdict: the check's own word; empty where it gave none.
        detail: its own words, may be empty.
        error: one sentence where it gave no verdict, else empty.
    """

    run_id: str
    reference: str
    verdict: str
    detail: str
    error: str = ""


def check_pair(rule: CheckRule, reference: Bundle, candidate: Bundle) -> Iterator[Checked]:
    """Yield what the check says of every free run and continuation of a candidate against the reference's free run.

    Of a recorded conversation, both are cut to the turn that a continuation left. A check that fails, hangs or answers
    something else gives its sentence in `error`, and the next output is checked.

    Raises:
        UsageError: the command cannot be started.
        ComparisonError: the reference has no free run.
    """
    yardstick = reference_run(reference)
    for run in candidate.runs:
        if run.mode is Mode.FORCED:
            continue
        first = output_bytes(reference, yardstick, *(left_turn(candidate, run) or ()))
        second = answer_bytes(candidate, run)
        if first is None or second is None or run.replica:
            continue
        request = check_request(candidate, run, first, second, reference.facts.runtime.name)
        yield _checked(rule, request, run.run_id, yardstick.run_id)


def check_request(candidate: Bundle, run: Run, reference_text: bytes, text: bytes, reference: str) -> Json:
    """Return what a check reads: the case, who ran it, both continuations with their calls, and the fork."""
    facts = candidate.facts
    fork = run.fork and {"position": run.fork.position, "token_id": run.fork.token_id}
    return {
        "study": facts.study,
        "case": case_to_json(facts.case),
        "runtime": facts.runtime.name,
        "run": run.run_id,
        "mode": run.mode.value,
        "ending": run.ending.value,
        "fork": fork,
        "reference": {"runtime": reference, **_output(reference_text, facts.case)},
        "candidate": {"runtime": facts.runtime.name, **_output(text, facts.case)},
    }


def _output(text: bytes, case: Case) -> Json:
    calls = [_call(call) for call in read_calls(text, ToolSchemas(case.tools))]
    return {"text": text.decode("utf-8", "replace"), "tool_calls": calls}


def _call(call: ToolCall | BrokenCall) -> Json:
    if isinstance(call, BrokenCall):
        return {"error": call.reason}
    broken = {} if call.schema_error is None else {"error": call.schema_error}
    return {"name": call.name, "arguments": call.arguments, **broken}


def _checked(rule: CheckRule, request: Json, run_id: str, reference: str) -> Checked:
    try:
        verdict, detail = answer_of(run_command(rule, json.dumps(request)))
    except _NoAnswerError as error:
        return Checked(run_id, reference, "", "", str(error))
    return Checked(run_id, reference, verdict, detail)


class _NoAnswerError(Exception):
    pass


def run_command(rule: CheckRule, request: str) -> str:
    """Return what the command writes to stdout when it reads the request from stdin."""
    try:
        process = subprocess.Popen(
            rule.command,
            cwd=rule.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the check {rule.command[0]} cannot be started ({reason}); correct its command") from error
    with process:
        try:
            out, err = _exchange(process, request.encode(), rule.timeout_seconds)
        except subprocess.TimeoutExpired:
            raise _NoAnswerError(f"the check did not answer within {rule.timeout_seconds:g} s; it was ended") from None
        finally:
            _end(process)
    if process.returncode:
        last = printable((err.decode("utf-8", "replace").strip().splitlines() or [""])[-1])
        raise _NoAnswerError(f"the check ended with code {process.returncode}{': ' + last if last else ''}")
    return out.decode("utf-8", "replace")


def _exchange(process: subprocess.Popen[bytes], request: bytes, seconds: float) -> tuple[bytes, bytes]:
    """Write a request and return what is answered on stdout, and the end of stderr, once the process has ended.

    What it leaves running may hold its pipes open, so its own end counts, not theirs. It is not reaped here, so that
    its number still stands for it and what it started.
    """
    deadline = time.monotonic() + seconds
    ended = os.pidfd_open(process.pid)
    talk = _Talk(process, request)
    try:
        with selectors.DefaultSelector() as selector:
            talk.register(selector)
            selector.register(ended, selectors.EVENT_READ)
            is_over = False
            while not is_over:
                if time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired(process.args, seconds)
                ready = {key.fd for key, _ in selector.select(deadline - time.monotonic())}
                talk.go_on(selector, ready - {ended})
                is_over = ended in ready
            while ready := {key.fd for key, _ in selector.select(0)} - {ended, talk.stdin}:
                talk.go_on(selector, ready)
    finally:
        os.close(ended)
    return bytes(talk.out), bytes(talk.err)


class _Talk:
    """What is still to be written to a process, and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], request: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._input = process.stdin
        self._stdout, self._stderr = process.stdout.fileno(), process.stderr.fileno()
        self.stdin = process.stdin.fileno()
        self._rest = memoryview(request)
        self.out, self.err = bytearray(), bytearray()

    def register(self, selector: selectors.BaseSelector) -> None:
        """Have the pipes waited for."""
        selector.register(self.stdin, selectors.EVENT_WRITE)
        for descriptor in (self._stdout, self._stderr):
            selector.register(descriptor, selectors.EVENT_READ)

    def go_on(self, selector: selectors.BaseSelector, ready: set[int]) -> None:
        """Write and read once where it can be done at once; what has come to its end is no longer waited for."""
        if self.stdin in ready:
            self._rest = _write(self.stdin, self._rest)
            if not self._rest:
                selector.unregister(self.stdin)
                self._input.close()
        for descriptor, into in ((self._stdout, self.out), (self._stderr, self.err)):
            if descriptor in ready and not _read(descriptor, into):
                selector.unregister(descriptor)
        if len(self.out) > LARGEST_ANSWER:
            raise _NoAnswerError("the check answered more than a megabyte; it must print one short object")
        del self.err[:-LARGEST_ANSWER]


def _write(descriptor: int, rest: memoryview) -> memoryview:
    """Write what a pipe takes at once; return the rest, nothing where nobody reads any more."""
    try:
        return rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return rest[:0]


def _read(descriptor: int, into: bytearray) -> bool:
    """Read what a pipe holds; return False at its end."""
    found = os.read(descriptor, 1 << 16)
    into += found
    return bool(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End whatever the command started; only before it is reaped, else its number may be another one's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def answer_of(text: str) -> tuple[str, str]:
    """Return verdict and detail of a check's answer, as short lines of printable characters."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise _NoAnswerError("the check answered no JSON; it must print an object with a verdict") from None
    verdict = answer.get("verdict") if isinstance(answer, dict) else None
    if not isinstance(verdict, str) or not verdict.strip():
        raise _NoAnswerError('the check gave no verdict; it must print {"verdict": "...", "detail": "..."}')
    detail = answer.get("detail", "")
    return _line(verdict, LONGEST_VERDICT), _line(detail if isinstance(detail, str) else "", LONGEST_DETAIL)


def _line(text: str, longest: int) -> str:
    line = "".join(character if character.isprintable() else "\ufffd" for character in " ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def checks_path(bundle: Path) -> Path:
    """Return where the checks of a bundle's runs are kept: beside it."""
    return bundle.with_name(bundle.name.removesuffix(".duckdb") + SUFFIX)


def write_checks(path: Path, command: Sequence[str], checked: Sequence[Checked]) -> None:
    """Write what a check said of a bundle's runs, in place of what is there; raises StorageFullError."""
    value = {"format": FORMAT, "command": list(command), "checked": [asdict(one) for one in checked]}
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(json.dumps(value, indent=1), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StorageFullError(f"cannot write {path}: {error.strerror}; see that the disk has space") from error


def read_checks(path: Path) -> dict[str, Checked]:
    """Return what a check said, by run id; nothing where there is no such file. The file may come from a stranger.

    Raises:
        DamagedBundleError: the file is none that `write_checks` writes.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            raise ValueError("no file, or too large")
        value = json.loads(path.read_text(encoding="utf-8"))
        found = [_from_json(one) for one in value["checked"]] if value["format"] == FORMAT else []
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedBundleError(f"{path.name} holds no checks that can be read; check again") from error
    return {one.run_id: one for one in found}


def _from_json(value: Any) -> Checked:
    fields = {name: value[name] for name in Checked.__slots__}
    if not all(isinstance(field, str) for field in fields.values()):
        raise ValueError("a field is no text")
    if not all(_RUN_ID.fullmatch(fields[name]) for name in ("run_id", "reference")):
        raise ValueError("a run's id is no 32 hexadecimal digits")
    words = {name: _line(fields[name], LONGEST_DETAIL) for name in ("detail", "error")}
    return Checked(fields["run_id"], fields["reference"], _line(fields["verdict"], LONGEST_VERDICT), **words)
