"""Python functions: what a record costs as an expression of the language, over columns, and one by one.

Parts: `numbers` (arithmetic on a BIGINT) and `text` (the first letters of a STRING in capitals), nulls among
them. All three go through the same query; the CPU of the function's own process is part of its cost, its
start is not. The rows of all three are equal. Memory is that of the function's process after the run.
"""

from __future__ import annotations

from functools import partial

from benchmarks import contest
from benchmarks.contest import Contestant
from benchmarks.harness import Figure

ROWS = {False: 2_000_000, True: 50_000}
PASSES = {False: 3, True: 1}
WAYS = {"expression": "expression", "columns": "Python, vectorised", "records": "Python, per record"}


def measure(kind: str, *, small: bool) -> list[Figure]:
    """CPU of a record in nanoseconds, and the worker's memory."""
    arguments = (kind, str(ROWS[small]), str(PASSES[small]))
    all_agents = [Contestant(way, "benchmarks.peers.functions", (way, *arguments)) for way in WAYS]
    outcomes = contest.run(all_agents, repeats=1 if small else 3)
    base = outcomes["expression"].median("record_ns")
    figures = []
    for way, name in WAYS.items():
        outcome = outcomes[way]
        cost = outcome.median("record_ns")
        figure = Figure(f"{kind}: {name}", cost, "CPU ns a record", checksum=outcome.checksum)
        figure.spread = outcome.spread("record_ns")
        if way != "expression":
            figure.peer, figure.ratio = "the expression", cost / base
        figures.append(figure)
    for way in ("columns", "records"):
        for key, what in (
            ("rss_bytes", "memory of its process"),
            ("own_bytes", "of it of no file"),
        ):
            figures.append(Figure(f"{kind}: {WAYS[way]}, {what}", outcomes[way].median(key) / 1e6, "MB"))
    return figures


PARTS = {name: partial(measure, name) for name in ("numbers", "text")}
