from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.engines.vocabulary import byte_of_character, vocabulary_of
from capture.errors import EngineError

tokenizers = pytest.importorskip("tokenizers")

BYTE_TOKENS = {f"<0x{byte:02X}>": byte for byte in range(256)}
PIECES = {"\u2581": 256, "\u2581h": 257, "h": 258, "e": 259, "l": 260, "o": 261, "<s>": 262, "\n": 263}
SENTENCE_PIECE = {"type": "BPE", "vocab": {**BYTE_TOKENS, **PIECES}, "byte_fallback": True}


def byte_level() -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["show version", "show ip route", "naïve café 日本語 😀 naïve café"], trainer)
    tokenizer.add_tokens(["<tool_call>", "\u0120raw", "ünïcode"])
    return tokenizer


def sentence_piece(**pre_tokenizer: Any) -> Any:
    vocabulary = {**BYTE_TOKENS, **PIECES}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab=vocabulary, merges=[("\u2581", "h")], byte_fallback=True, unk_token="<s>", fuse_unk=True
        )
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(**pre_tokenizer)
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("\u2581", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


BYTE_LEVEL = byte_level()
SPACED = sentence_piece(prepend_scheme="always")
UNSPACED = sentence_piece(prepend_scheme="never")


def bytes_of(tokenizer: Any, text: str) -> bytes:
    table = {token.token_id: token.data for token in vocabulary_of(json.loads(tokenizer.to_str()))}
    return b"".join(table[token_id] for token_id in tokenizer.encode(text, add_special_tokens=False).ids)


TEXTS = st.text(max_size=40) | st.text("hello <s>|tool_cal\n\u0120raw\u2581é😀", max_size=40)


class TestByteLevel:
    def test_table_holds_every_byte_once(self) -> None:
        table = byte_of_character()
        assert sorted(table.values()) == list(range(256))
        assert set(table) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())

    @pytest.mark.parametrize(
        ("character", "byte"), [("\u0120", 0x20), ("\u010a", 0x0A), ("A", 0x41), ("\u0100", 0), ("\u0143", 0xAD)]
    )
    def test_known_characters(self, character: str, byte: int) -> None:
        assert byte_of_character()[character] == byte

    @given(TEXTS)
    def test_bytes_of_a_text_are_the_text(self, text: str) -> None:
        assert bytes_of(BYTE_LEVEL, text) == text.encode()

    def test_token_can_be_half_a_character(self) -> None:
        data = {token.data for token in vocabulary_of(json.loads(BYTE_LEVEL.to_str()))}
        assert b"\xf0" in data
        assert b" " in data

    def test_added_tokens_stand_for_their_text(self) -> None:
        tokens = {token.data: token for token in vocabulary_of(json.loads(BYTE_LEVEL.to_str()))}
        assert tokens[b"<s>"].special
        assert not tokens[b"<tool_call>"].special
        assert "\u0120raw".encode() in tokens
        assert "ünïcode".encode() in tokens

    def test_every_id_is_there_once_in_order(self) -> None:
        ids = [token.token_id for token in vocabulary_of(json.loads(BYTE_LEVEL.to_str()))]
        assert ids == list(range(BYTE_LEVEL.get_vocab_size(with_added_tokens=True)))

    def test_level_inside_a_sequence_is_found(self) -> None:
        description = json.loads(BYTE_LEVEL.to_str())
        expected = vocabulary_of(description)
        inner = description.pop("pre_tokenizer")
        description["decoder"] = None
        description["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, inner]}
        assert vocabulary_of(description) == expected


class TestSentencePiece:
    @given(TEXTS)
    def test_bytes_of_a_text_are_the_text_after_a_space(self, text: str) -> None:
        plain = text.replace("\u2581", " ").replace("<s>", "")
        expected = f" {plain}" if plain and not plain.startswith(" ") else plain
        assert bytes_of(SPACED, plain).decode() == expected

    @given(TEXTS)
    def test_bytes_of_a_text_are_the_text_where_no_space_is_put_before(self, text: str) -> None:
        plain = text.replace("\u2581", " ")
        assert bytes_of(UNSPACED, plain).decode() == plain

    def test_byte_tokens(self) -> None:
        tokens = vocabulary_of({"model": SENTENCE_PIECE, "decoder": {"type": "ByteFallback"}, "added_tokens": []})
        assert [token.data for token in tokens[:256]] == [bytes([byte]) for byte in range(256)]

    def test_text_that_looks_like_a_byte_without_byte_fallback(self) -> None:
        model = {"type": "WordLevel", "vocab": {"<0x41>": 0}}
        assert vocabulary_of({"model": model})[0].data == b"<0x41>"

    def test_unigram_ids_are_their_order(self) -> None:
        model = {
            "type": "Unigram",
            "vocab": [["<unk>", 0.0], ["\u2581a", -1.0], ["<0x0A>", -2.0]],
            "byte_fallback": True,
        }
        tokens = vocabulary_of({"model": model, "decoder": {"type": "Metaspace", "replacement": "\u2581"}})
        assert [(token.token_id, token.data) for token in tokens] == [(0, b"<unk>"), (1, b" a"), (2, b"\n")]

    def test_added_token_takes_the_place_of_a_piece(self) -> None:
        added = [{"id": 262, "content": "<s>", "special": True}, {"id": 300, "content": "\u2581x", "special": False}]
        tokens = vocabulary_of({"model": SENTENCE_PIECE, "decoder": {"type": "Metaspace"}, "added_tokens": added})
        table = {token.token_id: token for token in tokens}
        assert table[262].special
        assert table[300].data == "\u2581x".encode()
        assert table[257].data == b" h"


@pytest.mark.parametrize(
    "description",
    [
        {"model": {"type": "WordPiece", "vocab": {"a": 0}}, "decoder": {"type": "WordPiece", "prefix": "##"}},
        {"model": {"type": "BPE", "vocab": {"a": 0}}, "decoder": {"type": "CTC"}},
    ],
)
def test_tokenizer_without_fixed_bytes_is_refused(description: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="fixed bytes"):
        vocabulary_of(description)
