"""What it costs to start: `elf run` over one line, DuckDB's Python over the same line, and `elf --version`.

CPU seconds of the whole process, because the elapsed time depends on what else the machine does.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Figure
from benchmarks.whole_runs import ELF, middle, run, spread

REPEATS = {False: 15, True: 1}
LINE = '{"ts":"2026-11-27T10:00:00Z","k":"a","n":1}\n'
QUERY = "SELECT k, count(*) AS n FROM log GROUP BY k"
DUCKDB = "import duckdb, sys; print(duckdb.sql(sys.argv[1].replace('log', repr(sys.argv[2]))).fetchall())"
OURS, PEER = "elf run, one line", "duckdb, one line"


def commands(*, small: bool) -> list[Figure]:
    """The CPU of short commands; the ratio is to DuckDB in the same run."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "one.json"
        log.write_text(LINE)
        table = {OURS: (*ELF, "run", QUERY, str(log)), "elf --version": (*ELF, "--version")}
        table["elf completion bash"] = (*ELF, "completion", "bash")
        if importlib.util.find_spec("duckdb"):
            table[PEER] = (sys.executable, "-c", DUCKDB, QUERY, str(log))
        found = run(table, REPEATS[small])
    cpu = {name: middle(runs, "cpu_s") for name, runs in found.items()}
    figures = [
        Figure(
            name,
            cpu[name],
            "CPU s",
            peer=PEER if name != PEER and PEER in cpu else "",
            ratio=cpu[name] / cpu[PEER] if name != PEER and PEER in cpu else 0.0,
            spread=spread(runs, "cpu_s"),
        )
        for name, runs in found.items()
    ]
    return [*figures, Figure("load of the machine", max(os.getloadavg()[0], 0.01), "processes")]


PARTS = {"commands": commands}
