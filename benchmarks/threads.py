"""`elf run --threads 1, 2, ...` over the same log: elapsed time and CPU, start-up included.

The output must be equal byte by byte. The load of the machine is stated, because the elapsed time depends on
it: the ratio is that of a quiet machine only if the load is below the number of its cores.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import logs
from benchmarks.harness import Figure
from benchmarks.whole_runs import ELF, middle, run, spread

LINES = {False: 2_000_000, True: 20_000}
REPEATS = {False: 7, True: 1}
CLICKS = """SELECT product, SUM(clicks_count) AS clicks FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product ORDER BY clicks DESC, product LIMIT 10"""
ACCESS = "SELECT path, count(*) AS hits, sum(bytes) AS bytes FROM log GROUP BY path"
DISTINCT = "SELECT directory, count(DISTINCT product) AS n FROM log GROUP BY directory"


def _compare(what: str, query: str, form: str, path: Path, *, small: bool) -> list[Figure]:
    counts = sorted({1, 2, os.cpu_count() or 1})
    options = ("run", "-o", "csv", "--format", form)
    table = {str(count): (*ELF, *options, "--threads", str(count), query, str(path)) for count in counts}
    found = run(table, REPEATS[small])
    checksums = {str(each["checksum"]) for runs in found.values() for each in runs}
    if len(checksums) != 1:
        raise RuntimeError(f"{what}: the output depends on the number of threads")
    alone = middle(found["1"], "wall_s")
    figures = []
    for count, runs in found.items():
        name, wall = f"{what}, --threads {count}", middle(runs, "wall_s")
        peer = "--threads 1" if count != "1" else ""
        ratio = alone / wall if peer else 0.0
        figures.append(
            Figure(name, wall, "s", peer, ratio, next(iter(checksums)), spread=spread(runs, "wall_s"))
        )
        figures.append(Figure(f"{name}, CPU", middle(runs, "cpu_s"), "CPU s", spread=spread(runs, "cpu_s")))
    return [*figures, Figure("load of the machine", max(os.getloadavg()[0], 0.01), "processes")]


def clicks(*, small: bool) -> list[Figure]:
    """NDJSON, the top 10 products of each 10 s."""
    return _compare("clicks", CLICKS, "json", logs.ndjson(LINES[small]), small=small)


def access(*, small: bool) -> list[Figure]:
    """Combined lines, hits and bytes per path."""
    return _compare("access", ACCESS, "combined", logs.combined(LINES[small]), small=small)


def distinct(*, small: bool) -> list[Figure]:
    """Distinct products by directory: most of the work is that of the thread that aggregates."""
    return _compare("distinct", DISTINCT, "json", logs.ndjson(LINES[small]), small=small)


PARTS = {"clicks": clicks, "access": access, "distinct": distinct}
