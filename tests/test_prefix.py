from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.model import PrefixId
from capture.prefix import PREFIX_ID_BYTES, ROOT, chain, extend, output_prefixes, prefix_of

token_ids = st.integers(0, 2**32 - 1)
sequences = st.lists(token_ids, max_size=12)


def by_hand(tokens: list[int]) -> bytes:
    """The chain as DESIGN section 2 words it, with struct instead of int.to_bytes."""
    state = hashlib.blake2b(b"flipscope prefix 1", digest_size=16).digest()
    for token in tokens:
        state = hashlib.blake2b(state + struct.pack("<I", token), digest_size=16).digest()
    return state


def test_the_ids_of_bundles_already_written_stay_the_same() -> None:
    assert ROOT.hex() == "39b47ff0c445377ef6adcb245fa12575"
    assert prefix_of([1, 2, 3]).hex() == "2bc555d18a7032827a91148452246747"


@settings(deadline=None)
@given(sequences)
def test_an_id_is_the_documented_chain(tokens: list[int]) -> None:
    assert prefix_of(tokens) == by_hand(tokens)
    assert len(prefix_of(tokens)) == PREFIX_ID_BYTES


@settings(deadline=None)
@given(sequences, sequences)
def test_it_does_not_matter_where_the_prompt_ends(prompt: list[int], output: list[int]) -> None:
    assert prefix_of(output, prefix_of(prompt)) == prefix_of(prompt + output)


@settings(deadline=None)
@given(sequences, sequences)
def test_two_prefixes_have_one_id_only_when_they_are_equal(first: list[int], second: list[int]) -> None:
    assert (prefix_of(first) == prefix_of(second)) == (first == second)


@settings(deadline=None)
@given(sequences)
def test_the_chain_gives_the_id_before_each_token_and_after_the_last(tokens: list[int]) -> None:
    assert list(chain(tokens)) == [prefix_of(tokens[:length]) for length in range(len(tokens) + 1)]


@settings(deadline=None)
@given(sequences, sequences)
def test_position_0_comes_after_the_prompt_alone(prompt: list[int], output: list[int]) -> None:
    found = output_prefixes(prompt, output)
    assert found == tuple(prefix_of(prompt + output[:position]) for position in range(len(output)))


def test_every_bit_of_a_token_counts() -> None:
    ids = {extend(ROOT, token) for token in (0, *(1 << bit for bit in range(32)))}
    assert len(ids) == 33


@pytest.mark.parametrize("token", [-1, 2**32])
def test_a_token_id_that_is_none_is_refused(token: int) -> None:
    with pytest.raises(OverflowError):
        extend(PrefixId(ROOT), token)
