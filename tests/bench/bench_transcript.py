"""What a long transcript costs: pages at the server, memory, and windows, tables and elements in a browser.

    PYTHONPATH=. python tests/bench/bench_transcript.py [LANES] [POSITIONS] [FLIPS] [--library FOLDER]

Writes a library without computing logits, serves it in a process of its own, asks over HTTP as a browser does (with
compression), and opens it in Chromium where playwright and a Chromium are installed. Times are in ms. The figures are
printed last, one a line; nothing is asserted.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.synthetic_large import make_large_library

ASKED = 60
"""Pages of each kind that are asked for."""

SERVER = """
import sys
from pathlib import Path
import uvicorn
from app.settings import Settings
from app.web.main import create_app
config = uvicorn.Config(create_app(Settings(library=Path(sys.argv[1]))), port=0, log_level="error", ws="none")
server = uvicorn.Server(config)
import threading, time
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.05)
print(server.servers[0].sockets[0].getsockname()[1], flush=True)
sys.stdin.read()
"""

SWAP = """async (skipping) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const text = document.querySelector("[data-transcript]");
  const places = [...text.querySelectorAll(".chunk")];
  const step = Math.floor(places.length / 13);
  const address = (index) => text.dataset.chunks.replace("{}", index);
  const found = [];
  for (let at = 1; at < 13; at += 1) {
    const index = at * step;
    const html = await (await fetch(address(index))).text();
    const old = document.querySelector(`.chunk[data-chunk="${index}"]`);
    const copies = Array.from({ length: 16 }, () => html).join("");
    const before = performance.now();
    const holder = document.createElement("template");
    holder.innerHTML = copies;
    const made = [...holder.content.querySelectorAll(".chunk")];
    for (const one of skipping ? made.slice(2) : []) {
      one.classList.add("settled");
      one.style.containIntrinsicHeight = "auto 480px";
    }
    old.replaceWith(...made);
    document.body.offsetHeight;
    found.push(performance.now() - before);
    made[0].before(old);
    for (const one of made) one.remove();
    await frame();
  }
  return found;
}"""

JUMP = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const found = [];
  for (let at = 1; at < 13; at += 1) {
    scrollTo(0, ((at * 5) % 13) / 13 * document.documentElement.scrollHeight);
    const before = performance.now();
    await frame();
    while (!document.elementFromPoint(720, 480)?.closest(".stretch")) await frame();
    found.push(performance.now() - before);
    await new Promise((done) => setTimeout(done, 500));
  }
  return found;
}"""


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the address of a server of its own process, and the process's number."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        process.kill()


def asked(address: str) -> tuple[float, bytes]:
    """Return how long an answer took, in ms, and the answer."""
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
    start = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
    took = (time.perf_counter() - start) * 1000
    return took, gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body


def told(name: str, times: Sequence[float]) -> str:
    """Return a line with the median, the 95th percentile and the largest of some times."""
    ordered = sorted(times)
    high = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    return f"{name}: median {statistics.median(ordered):.1f}, p95 {high:.1f}, most {ordered[-1]:.1f} ms"


def memory_of(process: int) -> str:
    """Return the memory that a process holds and the most it held, in MiB."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return "unknown here"
    now, most = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) >> 10 for name in ("VmRSS", "VmHWM"))  # type: ignore[index]
    return f"{now} MiB, at most {most} MiB"


def at_the_server(address: str, case: str, process: int) -> Iterator[str]:
    """Yield the figures of the server."""
    yield f"first page: {asked(f'{address}{case}?mode=forced')[0]:.0f} ms"
    chooser = random.Random(7)
    page = asked(f"{address}{case}?mode=forced")[1].decode()
    total = int(re.search(r'data-total="(\d+)" role="group"|data-total="(\d+)"', page)[1] or 0) or len(page)  # type: ignore[index]
    links = sorted(set(re.findall(r'hx-get="(/c/[^"]*/f/[^"]*)"', page)))
    for first in range(0, 1000, 100):
        more = asked(f"{address}{case}?mode=forced&flips={first}")[1].decode()
        links += re.findall(r'<td><a href="(/c/[^"]*/f/[^"]*)"', more)
    chosen = [address + link.replace("&amp;", "&") for link in chooser.choices(links, k=ASKED)]
    for link in chosen[:5]:
        asked(link)
    answers = [asked(link) for link in chosen]
    yield told(f"fork page, warm ({len(answers[0][1]) >> 10} KiB)", [took for took, _ in answers])
    count = len(re.search(r'data-plan="([^"]*)"', page)[1].split())  # type: ignore[index]
    chunks = [f"{address}{case}/chunks/{chooser.randrange(count)}?mode=forced" for _ in range(ASKED)]
    yield told("chunk of the text", [asked(chunk)[0] for chunk in chunks])
    firsts = [chooser.randrange(count) * 256 for _ in range(ASKED)]
    tables = [f"{address}{case}/tables.json?mode=forced&first={first}&count=256" for first in firsts]
    yield told("tables of a chunk", [asked(table)[0] for table in tables])
    asked(f"{address}{case}?mode=free")
    yield told("page of the free runs", [asked(f"{address}{case}?mode=free&at={first}")[0] for first in firsts])
    yield f"memory of the server after {total and len(links)} links: {memory_of(process)}"


def in_the_browser(address: str, case: str) -> Iterator[str]:
    """Yield the figures of a browser, where there is one."""
    try:
        from playwright.sync_api import sync_playwright

        from tests.browser.conftest import FLAGS, find_chromium
    except ImportError:
        yield "browser: playwright is not installed"
        return
    path = find_chromium()
    if path is None:
        yield "browser: no Chromium is installed"
        return
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}{case}?mode=forced")
        page.wait_for_load_state("networkidle")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        yield f"first text: {paint:.0f} ms after the request"
        yield told("window of 4,096 positions put in", page.evaluate(SWAP, True))
        yield told("the same where all of it is in sight", page.evaluate(SWAP, False))
        yield told("text after a jump, the server included", page.evaluate(JUMP))
        yield told("table after its delay", list(hovering(page)))
        yield f"elements in the page: {', '.join(map(str, elements(page)))} while scrolling to the end and back"
        chromium.close()


def hovering(page: Any) -> Iterator[float]:
    """Yield how long the table took to come after its delay of 150 ms, once the tables of the chunk are there."""
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(800)
    for index in range(12):
        token = page.locator(".stretch .t").nth(40 + 3 * index)
        token.scroll_into_view_if_needed()
        page.mouse.move(5, 5)
        page.wait_for_function("() => !document.querySelector('#popover.open')")
        page.evaluate(
            """() => {
              document.addEventListener("pointerover", (event) => {
                if (event.target.closest?.(".t")) window.began ??= performance.now();
              });
              window.began = null;
              window.came = null;
              new MutationObserver((_, watcher) => {
                if (!document.querySelector("#popover.open")) return;
                window.came = performance.now();
                watcher.disconnect();
              }).observe(document.getElementById("popover"), { attributes: true });
            }"""
        )
        token.hover()
        page.wait_for_function("() => window.came")
        if index:
            yield page.evaluate("window.came - window.began - 150")


def elements(page: Any) -> Iterator[int]:
    """Yield how many elements the page has at the start, on the way, at the end, and back at the start."""
    count = "document.querySelectorAll('*').length"
    yield page.evaluate(count)
    for place in (0.3, 0.31, 0.32, 0.7, 1, 0.5, 0):
        page.evaluate(f"scrollTo(0, {place} * document.documentElement.scrollHeight)")
        page.wait_for_timeout(700)
        yield page.evaluate(count)


def main() -> None:
    """Write, serve, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sizes", nargs="*", type=int, default=[5, 100_000, 1000], metavar="N")
    parser.add_argument("--library", type=Path, help="a library that was written before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = options.library or make_large_library(Path(folder), *options.sizes)
        with served(library) as (address, process):
            page = asked(f"{address}/")[1].decode()
            case = re.search(r'href="(/c/long-[0-9a-f]+)', page)[1]  # type: ignore[index]
            lines = [*at_the_server(address, case, process), *in_the_browser(address, case)]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        "\n".join(
            [f"sizes: {options.sizes if options.library is None else library}", *lines, f"bench itself: {own} MiB"]
        )
    )


if __name__ == "__main__":
    main()
