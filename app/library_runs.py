"""Reads runs out of bundles, and keeps what was read last. Trusts nothing that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.cache import SizedCache
from app.catalog import BundleEntry, Stamp
from app.shelf import Shelf
from capture.bundle import Bundle
from capture.bundle_steps import read_steps
from capture.errors import DamagedBundleError
from capture.model import Json, Mode, PrefixId, Prompt, Run, RunId, Steps, Token
from capture.prefix import extend
from capture.trust import is_plain

MEGABYTE = 1 << 20

MOST_TOKENS = 1 << 20
"""No vocabulary comes near a million ids."""

LONGEST_TOKEN = 1 << 14
"""Bytes of one token; no vocabulary comes near, and a page holds a token many times."""

MOST_LINKS = 8_192
"""Places of a run at which it is seen whether the next prefix follows from the token, a microsecond each."""

_BYTES_OBJECT = 49 + 8
"""What a Python `bytes` costs beside its bytes, in a tuple."""


class RunReader:
    """Steps, tokens, prompts and manifests of bundles."""

    def __init__(self, shelf: Shelf, megabytes: int = 384) -> None:
        self._shelf = shelf
        self._steps: SizedCache[tuple[Stamp, RunId], Steps] = SizedCache(megabytes * MEGABYTE, _size)
        self._tokens: SizedCache[Stamp, dict[int, Token]] = SizedCache(2 * MOST_TOKENS, len)
        self._small: SizedCache[tuple[Stamp, str], Prompt | Json] = SizedCache(2000)

    def steps(self, entry: BundleEntry, runs: Iterable[Run]) -> dict[RunId, Steps]:
        """Return the steps of runs of a bundle, by id.

        Raises:
            DamagedBundleError: they cannot be read, or contradict what the bundle says of the run.
        """
        wanted = list(runs)
        found = {run.run_id: self._steps.get((entry.stamp, run.run_id)) for run in wanted}
        missing = [run for run in wanted if found[run.run_id] is None]
        if missing:
            with self._shelf.bundle(entry) as bundle:
                numbers = {run.run_id: number for number, run in enumerate(bundle.runs)}
                if not numbers.keys() >= {run.run_id for run in missing}:
                    raise DamagedBundleError(f"{entry.name} was replaced just now; reload the page")
                read = read_steps(bundle.database, [numbers[run.run_id] for run in missing])
            for run, steps in zip(missing, read, strict=True):
                _check(entry, run, steps)
                self._steps.put((entry.stamp, run.run_id), steps)
                found[run.run_id] = steps
        return {run_id: steps for run_id, steps in found.items() if steps is not None}

    def row(self, entry: BundleEntry, run: Run, position: int) -> bytes | None:
        """Return the raw row of logits of a run at a position; None where it was not kept."""
        with self._shelf.bundle(entry) as bundle:
            return bundle.row(run.run_id, position)

    def refresh(self, entry: BundleEntry) -> None:
        """See that the file that lies there now is the one that is open."""
        with self._shelf.bundle(entry):
            pass

    def tokens(self, entry: BundleEntry) -> dict[int, Token]:
        """Return every token that a bundle mentions, by id."""
        tokens = self._tokens.get(entry.stamp)
        if tokens is None:
            with self._shelf.bundle(entry) as bundle:
                tokens = _tokens(bundle)
            self._tokens.put(entry.stamp, tokens)
        return tokens

    def prompt(self, entry: BundleEntry) -> Prompt:
        """Return the prompt of a bundle."""
        found = self._small.get((entry.stamp, "prompt"))
        if not isinstance(found, Prompt):
            with self._shelf.bundle(entry) as bundle:
                found = bundle.prompt
            self._small.put((entry.stamp, "prompt"), found)
        return found

    def manifest(self, entry: BundleEntry, run: Run) -> Json:
        """Return the manifest of a run."""
        found = self._small.get((entry.stamp, run.run_id))
        if found is None or isinstance(found, Prompt):
            with self._shelf.bundle(entry) as bundle:
                found = read_manifest(bundle, run)
            self._small.put((entry.stamp, run.run_id), found)
        return found


def _size(steps: Steps) -> int:
    columns = [getattr(steps, name) for name in Steps.__slots__]
    arrays = sum(column.nbytes for column in columns if not isinstance(column, tuple))
    return int(arrays + sum(len(column) * (_BYTES_OBJECT + 16) for column in columns if isinstance(column, tuple)))


def _check(entry: BundleEntry, run: Run, steps: Steps) -> None:
    """Raise DamagedBundleError where steps contradict the run or do not follow what they say they follow."""
    first, prefix_id = (0, entry.prompt_prefix) if run.fork is None else (run.fork.position, run.fork.prefix_id)
    elsewhere = len(steps) > 0 and (int(steps.position[0]) != first or steps.prefix_id[0] != prefix_id)
    if run.probe_stride:  # its positions lie in the prompt
        elsewhere = len(steps) > 0 and not (
            -entry.prompt_length <= int(steps.position[0]) and int(steps.position[-1]) < 0
        )
    wrong = len(steps) != run.positions or elsewhere
    if run.mode is Mode.BRANCH and not wrong:
        wrong = run.fork is None or (len(steps) > 0 and int(steps.token_id[0]) != run.fork.token_id)
    wrong = wrong or not _is_chained(steps)
    if wrong:
        raise DamagedBundleError(
            f"{entry.name}: the positions of run {run.run_id[:12]} contradict it; capture it again"
        )


def _is_chained(steps: Steps) -> bool:
    """Return whether tokens and prefix ids go together; of a long run at every so many positions."""
    stride = max(1, len(steps) // MOST_LINKS)
    tokens = steps.token_id.tolist()
    return all(
        extend(PrefixId(steps.prefix_id[at]), tokens[at]) == steps.prefix_id[at + 1]
        for at in range(0, len(steps) - 1, stride)
        if steps.position[at + 1] == steps.position[at] + 1
    )


def _tokens(bundle: Bundle) -> dict[int, Token]:
    rows = bundle.database.query(f"SELECT token_id, bytes, special FROM token LIMIT {MOST_TOKENS}")
    if not all(
        isinstance(token_id, int) and isinstance(data, bytes) and len(data) <= LONGEST_TOKEN
        for token_id, data, _ in rows
    ):
        raise DamagedBundleError(f"{bundle.path.name}: table token holds wrong values; capture it again")
    return {token_id: Token(token_id, data, bool(special)) for token_id, data, special in rows}


LONGEST_MANIFEST = 200_000
"""Characters of a manifest; those of real engines have a few thousand."""


def read_manifest(bundle: Bundle, run: Run) -> Json:
    """Return the manifest of a run.

    Raises:
        DamagedBundleError: it is no JSON, nested too deep, or too long to be compared while a reader waits.
    """
    if bundle.manifest_length(run.run_id) > LONGEST_MANIFEST:
        raise DamagedBundleError(f"{bundle.path.name}: a manifest is too long to be one of ours; capture it again")
    try:
        manifest = bundle.manifest(run.run_id)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedBundleError(f"{bundle.path.name}: a manifest cannot be read; capture it again") from error
    if not isinstance(manifest, Mapping) or not is_plain(manifest):
        raise DamagedBundleError(f"{bundle.path.name}: a manifest holds what JSON cannot; capture it again")
    return manifest
