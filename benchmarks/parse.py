"""Parsing alone, one core: four columns of a log as Arrow arrays, against the fastest parsers there are.

Parts are formats. All contestants must come to the same columns; they get blocks of 2 MiB in memory, DuckDB
the file. What counts is CPU from bytes to columns.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import contest, logs
from benchmarks.contest import Contestant
from benchmarks.harness import Figure

OURS = "elfmesh"
LINES = {False: 500_000, True: 10_000}
PASSES = {False: 5, True: 1}
FILES = {"json": logs.ndjson, "combined": logs.combined, "csv": logs.csv, "logfmt": logs.logfmt}
PEERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "json": (
        ("msgspec typed", "python", "msgspec"),
        ("orjson", "python", "orjson"),
        ("json", "python", ""),
        ("pyarrow.json", "pyarrow", ""),
        ("polars.read_ndjson", "polars", "polars"),
        ("duckdb read_json", "duckdb", "duckdb"),
    ),
    "combined": (
        ("re", "python", ""),
        ("pyarrow.csv", "pyarrow", ""),
        ("polars.read_csv", "polars", "polars"),
        ("duckdb read_csv", "duckdb", "duckdb"),
    ),
    "csv": (
        ("pyarrow.csv", "pyarrow", ""),
        ("polars.read_csv", "polars", "polars"),
        ("duckdb read_csv", "duckdb", "duckdb"),
    ),
    "logfmt": (("re", "python", ""),),
}
"""Format -> name, module, package it needs; the variant is the package, or the name."""


def contestants(form: str, path: Path, passes: int) -> list[Contestant]:
    """Ours first."""

    def one(name: str, module: str, needs: str) -> Contestant:
        arguments = (needs or name, str(path), form, str(passes))
        return Contestant(name, f"benchmarks.peers.parse_{module}", arguments, needs)

    return [one(OURS, "elf", ""), *(one(*peer) for peer in PEERS[form])]


def measure(form: str, *, small: bool) -> list[Figure]:
    """Million lines a second of each."""
    path = FILES[form](LINES[small])
    outcomes = contest.run(contestants(form, path, PASSES[small]))
    ours = outcomes[OURS].median("rows") / outcomes[OURS].median("cpu_s") / 1e6
    figures = []
    for name, outcome in outcomes.items():
        if outcome.skipped:
            figures.append(outcome.figure(form))
            continue
        rate = outcome.median("rows") / outcome.median("cpu_s") / 1e6
        figure = Figure(f"{form}: {name}", rate, "M lines/s", checksum=outcome.checksum)
        figure.spread = outcome.median("spread")
        if name != OURS:
            figure.peer, figure.ratio = name, ours / rate
        figures.append(figure)
    return figures


PARTS = {form: partial(measure, form) for form in FILES}
