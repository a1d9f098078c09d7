"""llama.cpp's `_logits_` files (`--kl-divergence-base`), read row by row. Knows their bytes; numpy only.

A file holds a text cut into chunks of equal length and, for the second half of each, one row of 16-bit codes a token:
log p = scale * code + minimum. It names no tokenizer, no model and no settings, and it has no checksum, so that every
row is checked for what every row must be.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capture.codec import LARGEST_ROW_BYTES
from capture.errors import UsageError
from capture.model import Float32Array, Int32Array

MAGIC = b"_logits_"

LARGEST_CODE = 65535

CUT_LOG_PROBABILITY = -16.0
"""llama.cpp leaves ids out of KL to which the base gives this or less."""

WINDOWS_NATS = (16.0, 24.0)
"""How far below the highest logit writers cut: llama.cpp, and ik_llama.cpp."""

_HEADER = struct.Struct("<8sIii")

_OTHER_FORMATS = {b"_logits2": "beellama.cpp's second format", b"DECKLK01": "the format of decode-kl"}

_MOST_TOKENS = 1 << 24
"""Tokens of a text; more are no text that anybody scored, and reading them would take gigabytes."""

_WINDOW_TOLERANCE = 1e-3
_LEAST_SUM, _LARGEST_SUM = 0.95, 1.001


@dataclass(frozen=True, slots=True)
class KldHeader:
    """What a file says of itself.

    Attributes:
        context_length: tokens of a chunk.
        vocabulary_size: logits of a row.
        chunks: how many chunks were planned.
    """

    context_length: int
    vocabulary_size: int
    chunks: int

    @property
    def prompt_length(self) -> int:
        """Tokens of a chunk before the first one that is scored."""
        return self.context_length // 2 + 1

    @property
    def rows(self) -> int:
        """Rows of a chunk: each is the distribution of one token after all before it in the chunk."""
        return self.context_length - self.prompt_length

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: two float32 and a code for each id, their number rounded up to even."""
        return 2 * (2 * ((self.vocabulary_size + 1) // 2) + 4)

    @property
    def rows_offset(self) -> int:
        """Where the first row starts."""
        return _HEADER.size + 4 * self.chunks * self.context_length

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk's rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class KldRow:
    """One row: log-probabilities float32 [V], and how far below the highest its codes reach, in nats.

    What the window cuts off has no value of its own in the file: the ids there share the probability that the others
    leave, so that the row sums to 1.
    """

    log_probabilities: Float32Array
    window_nats: float


class KldFile:
    """A file, open for reading; use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        """Read the header and the tokens.

        Raises:
            UsageError: it is no such file, contradicts itself, or holds no whole chunk.
        """
        self.path = path
        if not path.is_file():
            raise UsageError(f"{path} is no file; name one of llama.cpp's --kl-divergence-base")
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror})") from error
        try:
            self._size = os.fstat(self._descriptor).st_size
            self.header = self._read_header()
            self.table = self._read(0, self.header.rows_offset)
            self.tokens = self._read_tokens()
            self.chunks = self._whole_chunks()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> KldFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def chunk_hash(self, chunk: int) -> str:
        """Return a hash of the bytes of a chunk's rows."""
        digest = hashlib.blake2b(digest_size=16)
        start = self.header.rows_offset + chunk * self.header.chunk_bytes
        for row in range(self.header.rows):
            digest.update(self._read(start + row * self.header.row_bytes, self.header.row_bytes))
        return digest.hexdigest()

    def row(self, chunk: int, row: int) -> KldRow:
        """Return a row of a chunk.

        Raises:
            UsageError: it cannot be a row of log-probabilities.
        """
        header = self.header
        offset = header.rows_offset + chunk * header.chunk_bytes + row * header.row_bytes
        found = decode_row(self._read(offset, header.row_bytes), header.vocabulary_size)
        if found is None:
            raise UsageError(
                f"{self.path.name}: row {row + 1} of chunk {chunk + 1} holds no log-probabilities; "
                "the file is damaged, so write it again with llama.cpp"
            )
        return found

    def check(self, chunks: int, told: Callable[[int], None]) -> None:
        """Read every row of the first chunks, and tell each time how many more were read.

        Raises:
            UsageError: as `row`.
        """
        for chunk in range(min(chunks, self.chunks)):
            for row in range(self.header.rows):
                self.row(chunk, row)
            told(self.header.rows)

    def _read(self, offset: int, size: int) -> bytes:
        parts, wanted = [], size
        while wanted and (part := os.pread(self._descriptor, min(wanted, 1 << 30), offset)):
            parts.append(part)
            offset, wanted = offset + len(part), wanted - len(part)
        if wanted:
            raise UsageError(f"{self.path.name} ends too early; write it again with llama.cpp")
        return b"".join(parts)

    def _read_header(self) -> KldHeader:
        start = self._read(0, min(self._size, _HEADER.size))
        other = _OTHER_FORMATS.get(start[:8])
        if other is not None:
            raise UsageError(f"{self.path.name} is in {other}, which is not read; write it with llama.cpp itself")
        if len(start) < _HEADER.size or start[:8] != MAGIC:
            raise UsageError(f"{self.path.name} is no file of llama.cpp's --kl-divergence-base; name one that is")
        _, context_length, vocabulary_size, chunks = _HEADER.unpack(start)
        header = KldHeader(context_length, vocabulary_size, chunks)
        plausible = context_length >= 3 and 2 <= vocabulary_size <= LARGEST_ROW_BYTES // 4 and chunks > 0
        if not plausible or context_length * chunks > _MOST_TOKENS:
            raise UsageError(f"{self.path.name} has a header that cannot be; write it again with llama.cpp")
        if header.rows_offset > self._size:
            raise UsageError(f"{self.path.name} ends before its tokens do; write it again with llama.cpp")
        return header

    def _read_tokens(self) -> Int32Array:
        tokens = np.frombuffer(self.table, "<i4", offset=_HEADER.size).astype(np.int32)
        if tokens.min() < 0 or tokens.max() >= self.header.vocabulary_size:
            raise UsageError(f"{self.path.name} holds tokens outside its vocabulary; write it again with llama.cpp")
        return tokens.reshape(self.header.chunks, self.header.context_length)

    def _whole_chunks(self) -> int:
        rest = self._size - self.header.rows_offset
        if rest > self.header.chunks * self.header.chunk_bytes:
            raise UsageError(f"{self.path.name} is longer than its header says; write it again with llama.cpp")
        if rest < self.header.chunk_bytes:
            raise UsageError(f"{self.path.name} ends before its first chunk does; write it again with llama.cpp")
        return rest // self.header.chunk_bytes


def decode_row(data: bytes, vocabulary_size: int) -> KldRow | None:
    """Return the row that `data` holds; None where it cannot be one.

    Args:
        data: scale and minimum as float32, then a 16-bit code for each id, little-endian.
        vocabulary_size: how many ids; a code that fills the row up to an even number is not looked at.
    """
    scale, minimum = (float(value) for value in np.frombuffer(data, "<f4", 2))
    codes = np.frombuffer(data, "<u2", vocabulary_size, 8)
    window = scale * LARGEST_CODE
    if not (0 <= window <= 1e4 and -1e4 <= minimum <= 0) or (window > 0 and int(codes.max()) < LARGEST_CODE - 1):
        return None
    logs = scale * codes.astype(np.float64) + minimum
    below = codes == 0
    count = int(np.count_nonzero(below)) if is_cut(window) else 0
    with np.errstate(over="ignore"):
        inside = float(np.exp(logs).sum()) - count * math.exp(minimum)
    if not _LEAST_SUM <= inside <= _LARGEST_SUM:
        return None
    if count:  # they share what the others leave, none of them more than the window's lower end
        np.copyto(logs, min(math.log(max(1.0 - inside, 1e-9) / count), minimum), where=below)
    return KldRow(logs.astype(np.float32), window)


def is_cut(window_nats: float) -> bool:
    """Return whether a writer cut the row: its codes then reach exactly so far, and code 0 means that or less."""
    return any(abs(window_nats - cut) < _WINDOW_TOLERANCE for cut in WINDOWS_NATS)
