from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from tests.kld_files import random_logits, random_text, write_kld


def test_import_tells_what_was_written_and_what_the_files_do_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = random_text(1, 12, 30)
    files = [
        str(write_kld(tmp_path / f"{name}.kld", text, random_logits(text, 30, seed=seed)))
        for seed, name in enumerate(("f16", "q8"))
    ]
    assert main(["import", "llama-kld", *files, "--library", str(tmp_path / "library")]) == 0
    told = capsys.readouterr().out
    assert "1 case, 2 new bundles in" in told
    assert "token ids are taken to mean the same in all lanes" in told
    assert (tmp_path / "library" / "f16" / "chunk-0001--q8.vs.f16.comparison.duckdb").is_file()


def test_a_file_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    assert main(["import", "llama-kld", str(tmp_path / "model.gguf"), "--library", str(tmp_path / "library")]) == 2
    assert "is no file of llama.cpp's --kl-divergence-base" in capsys.readouterr().err
    assert not (tmp_path / "library").exists()
