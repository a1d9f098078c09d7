"""Prefix identity (DESIGN section 2): a chain of hashes names every prefix of tokens. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from capture.model import PrefixId

PREFIX_ID_BYTES = 16

ROOT = PrefixId(hashlib.blake2b(b"flipscope prefix 1", digest_size=PREFIX_ID_BYTES).digest())
"""The id of the empty prefix, before the first prompt token."""


def extend(prefix_id: PrefixId, token_id: int) -> PrefixId:
    """Return the id of the prefix that `token_id` makes longer by one.

    Raises:
        OverflowError: the token id does not fit an unsigned 32-bit integer.
    """
    data = prefix_id + int(token_id).to_bytes(4, "little")
    return PrefixId(hashlib.blake2b(data, digest_size=PREFIX_ID_BYTES).digest())


def chain(token_ids: Iterable[int], start: PrefixId = ROOT) -> Iterator[PrefixId]:
    """Yield the prefix id before each token, then the one after the last: one more than there are tokens."""
    current = start
    yield current
    for token_id in token_ids:
        current = extend(current, token_id)
        yield current


def prefix_of(token_ids: Iterable[int], start: PrefixId = ROOT) -> PrefixId:
    """Return the id of the prefix that holds exactly `token_ids` after `start`."""
    current = start
    for token_id in token_ids:
        current = extend(current, token_id)
    return current


def output_prefixes(prompt: Iterable[int], tokens: Sequence[int]) -> tuple[PrefixId, ...]:
    """Return the prefix id at every output position: position 0 is after the prompt alone."""
    return tuple(chain(tokens, prefix_of(prompt)))[: len(tokens)]
