"""Pages of what was imported: no free run, no tokenizer, every lane along the same text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from capture.importers.kld_study import KldImport, import_llama_kld
from capture.progress import SilentReporter
from tests.kld_files import random_logits, random_text, write_kld
from tests.web.conftest import client_of


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("imported")
    text = random_text(1, 40, 50)
    logits = random_logits(text, 50, scale=2.0)
    files = (
        write_kld(folder / "f16.kld", text, logits),
        write_kld(folder / "q4.kld", text, logits + random_logits(text, 50, seed=2, scale=0.6)),
    )
    import_llama_kld(KldImport(files, folder / "library"), SilentReporter())
    with client_of(folder / "library") as client:
        yield client


def case_link(client: TestClient) -> str:
    soup = BeautifulSoup(client.get("/").text, "html.parser")
    return next(str(link["href"]) for link in soup.find_all("a", href=True) if "/c/chunk-0001" in str(link["href"]))


def test_the_case_opens_with_both_lanes_along_the_text(imported: TestClient) -> None:
    answer = imported.get(case_link(imported).split("?")[0].split("/f/")[0])
    assert answer.status_code == 200
    soup = BeautifulSoup(answer.text, "html.parser")
    words = " ".join(soup.get_text(" ").split())
    token = int(random_text(1, 40, 50)[0, 21])
    assert f"<{token}>" in words
    assert "<pad" not in words
    assert "token ids are taken to mean the same in all lanes" in words
    modes = [
        link.get_text(strip=True) for link in soup.find_all("a") if link.get_text(strip=True) in ("free", "forced")
    ]
    assert modes in ([], ["forced"])


@pytest.mark.parametrize("ending", ["", ".json", "?view=transcript", "?mode=free", "?mode=forced"])
def test_every_view_of_the_case_answers(imported: TestClient, ending: str) -> None:
    path = case_link(imported).split("?")[0].split("/f/")[0]
    assert imported.get(path + ending).status_code == 200


def test_a_flip_opens_with_the_probabilities_of_both(imported: TestClient) -> None:
    soup = BeautifulSoup(imported.get(case_link(imported).split("?")[0].split("/f/")[0]).text, "html.parser")
    fork = next(str(link["href"]) for link in soup.find_all("a", href=True) if "/f/" in str(link["href"]))
    answer = imported.get(fork)
    assert answer.status_code == 200
    assert "q4" in answer.text
