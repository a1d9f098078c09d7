"""How long the library page takes at the server, for a library of a thousand runs.

`python -m tests.bench.bench_library [FOLDER]` makes the library in a temporary folder, or uses the one that is named,
and asks for pages in a row. The 95th percentile of the library page stands last.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

from app.settings import Settings
from app.web import create_app
from tests.synthetic_many import make_many

REQUESTS = 200

VIEWS = ("/", "/?cells=kl", "/?cells=verdict", "/?columns=ranges", "/?weights=int4", "/index.json")

TARGET_MILLISECONDS = 100.0


def milliseconds(client: TestClient, address: str) -> float:
    """Return how long one answer takes, compressed as browsers ask for it."""
    started = time.perf_counter()
    response = client.get(address, headers={"accept-encoding": "gzip"})
    taken = (time.perf_counter() - started) * 1000
    assert response.status_code == 200, address
    return taken


def bench(folder: Path) -> float:
    """Print the times of a library's pages; return the 95th percentile of the first one's."""
    with TestClient(create_app(Settings(library=folder)), base_url="http://localhost") as client:
        library = client.app.state.library  # type: ignore[attr-defined]
        started = time.perf_counter()
        library.look()
        catalog = library.catalog()
        runs = sum(len(bundle.runs) for bundle in catalog.bundles)
        print(f"{runs} runs in {len(catalog.bundles)} bundles, read in {time.perf_counter() - started:.1f} s")
        print(f"first page, nothing known: {milliseconds(client, '/'):.0f} ms")
        busy = [milliseconds(client, "/") for _ in range(20)]
        print(f"while summaries are worked out: p50 {np.median(busy):.0f} ms, p95 {np.quantile(busy, 0.95):.0f} ms")
        started = time.perf_counter()
        library.settle()
        print(f"summaries known after {time.perf_counter() - started:.1f} s more")
        for view in VIEWS[1:]:
            times = [milliseconds(client, view) for _ in range(REQUESTS // 10)]
            print(f"{view}: first {times[0]:.0f} ms, then p50 {np.median(times[1:]):.1f} ms")
        times = [milliseconds(client, VIEWS[0]) for _ in range(REQUESTS)]
        p95 = float(np.quantile(times, 0.95))
        print(f"/ p50: {np.median(times):.1f} ms, largest {max(times):.1f} ms, target {TARGET_MILLISECONDS:.0f} ms")
        print(f"/ p95: {p95:.1f} ms")
        return p95


def main() -> None:
    """Bench the library that is named, or one that is made."""
    if len(sys.argv) > 1:
        bench(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        bench(make_many(Path(folder)))


if __name__ == "__main__":
    main()
