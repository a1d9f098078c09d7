from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from capture.engines.model_files import local_source, text_hash
from capture.errors import EngineError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "some-model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("not part of the model")
    (folder / "notes.json").mkdir()
    return folder


def test_hashes_of_the_files_that_matter(folder: Path) -> None:
    source = local_source(str(folder))
    assert source is not None
    assert source.name == "some-model"
    assert source.size() == len("{}") + len("weights")
    assert source.hashes() == {
        "config.json": hashlib.sha256(b"{}").hexdigest(),
        "model.safetensors": hashlib.sha256(b"weights").hexdigest(),
    }


def test_changed_file_has_another_hash(folder: Path) -> None:
    source = local_source(str(folder))
    assert source is not None
    before = source.hashes()
    (folder / "model.safetensors").write_bytes(b"other weights")
    after = source.hashes()
    assert before["config.json"] == after["config.json"]
    assert before["model.safetensors"] != after["model.safetensors"]


def test_gguf_file_is_a_model_of_its_own(folder: Path) -> None:
    file = folder / "small.Q4_0.gguf"
    file.write_bytes(b"GGUF")
    source = local_source(str(file))
    assert source is not None
    assert (source.name, source.directory, source.gguf) == ("small.Q4_0.gguf", folder, "small.Q4_0.gguf")
    assert list(source.hashes()) == ["small.Q4_0.gguf"]


def test_nothing_there(tmp_path: Path) -> None:
    assert local_source(str(tmp_path / "none")) is None
    assert local_source("someone/some-model") is None


@pytest.mark.parametrize(("missing", "said"), [("config.json", "no config.json"), ("model.safetensors", "no weights")])
def test_incomplete_folder_is_named(folder: Path, missing: str, said: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(EngineError, match=said) as caught:
        local_source(str(folder))
    assert str(folder) in str(caught.value)


def test_hash_of_a_text() -> None:
    assert text_hash("é") == hashlib.sha256(b"\xc3\xa9").hexdigest()
