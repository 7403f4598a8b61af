"""What a real agent holds while jobs begin and end: `python -m benchmarks.long_life --cycles 10000`.

Prints one line per stretch of applies and deletes: anonymous memory, open descriptors, and the files and
bytes of the data directory. They are flat once every bound is reached: 4096 jobs for the last of them. The
test of the same counts entries instead of bytes (`tests/sim/test_long_life.py`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from benchmarks.fleet import anonymous
from elfmesh.api.client.client import connect
from elfmesh.cli.host.local_agents import LocalAgents

STREAM = "log"
JOB = """CREATE JOB shop.j{number} AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def lived(directory: Path, cycles: int, every: int, agents: int, clients: int) -> None:
    """Apply and delete, and print what is held after each stretch."""
    hosts: dict[str, Sequence[str]] = {}
    for number in range(agents):
        log = directory / f"a{number}.log"
        log.write_text('{"ts":"2026-05-21T10:00:00Z","k":"a"}\n')
        hosts[f"a{number}"] = ("--stream", f"{STREAM}={log},format=json,read_from=beginning")
    with LocalAgents(directory) as fleet, ThreadPoolExecutor(clients) as threads:
        fleet.start(hosts)
        api, pids = fleet.agents[-1].api, [each.process.pid for each in fleet.agents]
        click.echo("jobs  memory/KiB  descriptors  files  disk/KiB  s")
        _print(directory, pids, 0)
        for first in range(0, cycles, every):
            following = min(cycles, first + every)
            ends = [
                threads.submit(_cycles, api, range(first + n, following, clients)) for n in range(clients)
            ]
            for end in ends:
                end.result()
            fleet.check()
            _print(directory, pids, following)


def _cycles(api: str, numbers: range) -> None:
    """Apply and delete jobs, one after the other: each waits for answers most of its time."""
    client = connect(api)
    for number in numbers:
        client.apply(JOB.format(number=number))
        client.delete(f"shop/j{number}")


def _print(directory: Path, pids: list[int], number: int) -> None:
    files = [path for path in directory.rglob("*") if path.is_file()]
    disk = sum(path.stat().st_size for path in files)
    memory = sum(anonymous(pid) for pid in pids)
    descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
    click.echo(
        f"{number:>5} {memory >> 10:>11} {descriptors:>12} {len(files):>6} {disk >> 10:>9}"
        f" {time.monotonic():.0f}"
    )


@click.command()
@click.option("--cycles", default=10_000, show_default=True)
@click.option("--every", default=1000, show_default=True)
@click.option("--agents", default=1, show_default=True)
@click.option("--clients", default=1, show_default=True, help="At the same time.")
def main(cycles: int, every: int, agents: int, clients: int) -> None:
    """Apply and delete many jobs."""
    with tempfile.TemporaryDirectory() as directory:
        lived(Path(directory), cycles, every, agents, clients)


if __name__ == "__main__":
    main()
