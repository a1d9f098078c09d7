"""Growing over HTTP: only where the server was started with it, only from its own pages, and told to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from httpx2 import Response
from starlette.testclient import TestClient

from app.growable import Growable, Growing
from app.growing import Jobs, State
from app.settings import Settings
from app.web import create_app
from app.web.security import POLICY
from tests.growing_fakes import STUDY, WITHIN_SECONDS, FakeGrower

KEY = "the key of this server's forms"

OWN = {"sec-fetch-site": "same-origin", "origin": "http://localhost"}


@dataclass
class Server:
    client: TestClient
    grower: FakeGrower
    jobs: Jobs

    def page(self, address: str) -> BeautifulSoup:
        return BeautifulSoup(self.client.get(address).text, "html.parser")

    def post(self, address: str, data: dict[str, str] | None = None, headers: dict[str, str] = OWN) -> Response:
        return self.client.post(address, data=data, headers=headers, follow_redirects=False)

    def near_tie(self) -> str:
        """The address of a flip that nothing was grown from."""
        flips = self.client.get("/c/iface.json?mode=forced").json()["flips"]
        return str(next(flip["href"] for flip in flips if flip["class"] == "near-tie"))

    def form(self) -> dict[str, str]:
        form = self.page(self.near_tie()).select_one(".way form[data-grow]")
        assert form is not None
        return fields(form)


def fields(form: Tag) -> dict[str, str]:
    return {str(one["name"]): str(one["value"]) for one in form.select("input")}


@pytest.fixture
def server(made: Path) -> Iterator[Server]:
    app = create_app(Settings(library=made))
    grower = FakeGrower()
    jobs = Jobs(grower, made, app.state.library.look)
    app.state.growing = Growing(Growable([STUDY]), jobs, KEY)
    with TestClient(app, base_url="http://localhost") as client:
        yield Server(client, grower, jobs)


def events(server: Server, job: str) -> list[tuple[str, dict[str, object]]]:
    found = []
    with server.client.stream("GET", f"/grow/{job}/events") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["content-security-policy"] == POLICY
        name = ""
        for line in answer.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("POST", "/grow"),
        ("POST", "/grow.json"),
        ("GET", "/grow/1.json"),
        ("GET", "/grow/1/events"),
        ("POST", "/grow/1/cancel"),
    ],
)
def test_without_the_option_nothing_of_it_is_there(client: TestClient, address: str, method: str) -> None:
    answer = client.request(method, address, headers=OWN)
    assert answer.status_code == 403
    assert "--grow" in answer.text
    other = "GET" if method == "POST" else "POST"
    assert client.request(other, address, headers=OWN).status_code == 405


def test_without_the_option_pages_offer_nothing(client: TestClient) -> None:
    flips = client.get("/c/iface.json?mode=forced").json()["flips"]
    for flip in flips:
        page = BeautifulSoup(client.get(flip["href"]).text, "html.parser")
        assert page.select("#fork") != []
        assert page.select("form[action^='/grow'], .grow-way, link[href*=growing]") == []


def test_a_flip_without_a_continuation_has_a_button_for_its_lane_and_the_others(server: Server) -> None:
    page = server.page(server.near_tie())
    (growing,) = page.select(".way .grow-way")
    assert [button.get_text(strip=True) for button in growing.select(".grow-way > form button")] == ["Grow from hereC"]
    assert [button.get_text(strip=True)[-1] for button in growing.select("details button")] == ["A", "B", "D"]
    assert "not grown" in growing.find_parent("article").get_text()  # type: ignore[union-attr]
    assert page.select("link[href*='growing.css']") != []


def test_started_from_its_form_the_page_shows_how_far_it_is(server: Server) -> None:
    form = server.form()
    answer = server.post("/grow", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, form["back"])
    assert server.grower.halfway.wait(WITHIN_SECONDS)
    page = server.page(form["back"])
    bar = page.select_one(".job progress")
    assert bar is not None
    assert (bar["value"], bar["max"]) == ("4", "10")
    assert page.select_one(".job [aria-live]").get_text() == "growing: 4 of 10 positions"  # type: ignore[union-attr]
    assert page.select(".grow-way > form") == []
    cancel = page.select_one("form[data-grow-cancel]")
    assert cancel is not None
    (job,) = server.jobs.all()
    stopped = server.post(str(cancel["action"]), data=fields(cancel))
    assert (stopped.status_code, stopped.headers["location"]) == (303, form["back"])
    assert events(server, job.job_id)[-1][0] == "cancelled"
    page = server.page(form["back"])
    assert page.select_one(".job.cancelled [role=status]").get_text() == "cancelled"  # type: ignore[union-attr]
    assert page.select(".grow-way > form button") != []


def test_a_job_is_told_to_its_end(server: Server) -> None:
    form = server.form()
    answer = server.post("/grow.json", data=form)
    assert answer.status_code == 202
    job = answer.json()["job"]
    assert (job["runtime"], job["position"], answer.json()["href"]) == (
        "int4-int8cache",
        int(form["position"]),
        form["back"],
    )
    assert server.grower.halfway.wait(WITHIN_SECONDS)
    now = server.client.get(f"/grow/{job['job']}.json").json()
    assert (now["state"], now["steps"], now["most"]) == ("growing", 4, 10)
    server.grower.go_on.set()
    told = events(server, job["job"])
    assert told[-1][0] == "done"
    assert told[-1][1]["href"] == form["back"]
    assert {name for name, _ in told} <= {"queued", "starting", "progress", "done"}


def test_why_it_failed_is_on_the_page(server: Server) -> None:
    server.grower.error = RuntimeError("a secret")
    server.grower.go_on.set()
    form = server.form()
    job = server.post("/grow.json", data=form).json()["job"]
    assert events(server, job["job"])[-1][0] == "failed"
    note = server.page(form["back"]).select_one(".job.failed [role=status]")
    assert note is not None
    assert "log" in note.get_text()
    assert "secret" not in note.get_text()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:1234"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},
        {"sec-fetch-site": "none"},
    ],
)
def test_a_page_from_elsewhere_can_start_and_cancel_nothing(server: Server, headers: dict[str, str]) -> None:
    form = server.form()
    for address in ("/grow", "/grow.json"):
        answer = server.post(address, data=form, headers=headers)
        assert answer.status_code == 403
        assert "elsewhere" in answer.text
    assert server.jobs.all() == ()
    job = server.post("/grow.json", data=form).json()["job"]["job"]
    assert server.post(f"/grow/{job}/cancel", data={"key": KEY}, headers=headers).status_code == 403
    assert server.jobs.get(job).state is not State.CANCELLED


@pytest.mark.parametrize("headers", [{}, {"origin": "null"}])
def test_where_a_browser_does_not_say_where_it_comes_from_the_key_of_the_form_counts(
    server: Server, headers: dict[str, str]
) -> None:
    form = server.form()
    assert server.post("/grow.json", data={**form, "key": "guess"}, headers=headers).status_code == 403
    assert server.post("/grow.json", data={**form, "key": ""}, headers=headers).status_code == 403
    assert server.post("/grow.json", data=form, headers=headers).status_code == 202


@pytest.mark.parametrize(
    "headers", [{"origin": "http://localhost"}, {"sec-fetch-site": "same-origin", "origin": "null"}]
)
def test_what_a_browser_says_is_enough_without_the_key(server: Server, headers: dict[str, str]) -> None:
    form = {**server.form(), "key": ""}
    assert server.post("/grow.json", data=form, headers=headers).status_code == 202


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"run": "f" * 32}, 404, "not in this library"),
        ({"run": "<b>"}, 404, "not in this library"),
        ({"run": ""}, 404, "not in this library"),
        ({"position": "100000"}, 422, "none of them"),
        ({"position": "-1"}, 422, "both numbers"),
        ({"position": "\u0663"}, 422, "both numbers"),
        ({"token": ""}, 422, "both numbers"),
        ({"back": "x" * 9000}, 413, "too long"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    server: Server, change: dict[str, str], status: int, reason: str
) -> None:
    answer = server.post("/grow.json", data={**server.form(), **change})
    assert (answer.status_code, reason in answer.json()["error"]) == (status, True)
    assert server.jobs.all() == ()


@pytest.mark.parametrize("back", ["http://evil.example/", "//evil.example", "javascript:alert(1)", "", "/healthz"])
def test_it_leads_back_to_pages_of_this_server_only(server: Server, back: str) -> None:
    answer = server.post("/grow", data={**server.form(), "back": back})
    assert answer.headers["location"] == "/"


def test_a_host_in_front_of_a_page_of_ours_is_left_out(server: Server) -> None:
    answer = server.post("/grow", data={**server.form(), "back": "http://evil.example/c/iface"})
    assert answer.headers["location"] == "/c/iface"


def test_jobs_that_do_not_exist_are_told_so(server: Server) -> None:
    for address in ("/grow/nothing.json", "/grow/nothing/events"):
        answer = server.client.get(address)
        assert answer.status_code == 404
        assert "no such job" in answer.text
    assert server.post("/grow/nothing/cancel").status_code == 404


def test_too_many_are_refused_and_the_sentence_says_what_to_do(server: Server) -> None:
    form = server.form()
    answers = [server.post("/grow.json", data={**form, "token": str(token)}) for token in range(1, 8)]
    assert [answer.status_code for answer in answers][-1] == 422
    assert "cancel one" in answers[-1].json()["error"]


def test_in_a_transcript_its_own_lane_is_offered(server: Server) -> None:
    page = server.page(server.near_tie() + "&view=transcript")
    (growing,) = page.select(".transcript .way .grow-way")
    assert len(growing.select(".grow-way > form button")) == 1
    assert growing.select("details") == []
    assert "view=transcript" in fields(growing.select("form")[0])["back"]
