"""The work of `benchmarks.guard`, once in a process: `python -m benchmarks.guard_work NAME ROUNDS`.

The guard subtracts a process of few rounds from one of many, so the start is not in its figures.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

LINES = 2_000
KEYS = 20_000
BEGIN = datetime(2026, 5, 17, 7, tzinfo=UTC)


def start(_rounds: int) -> None:
    """`elf run` over one line from the standard input, in one thread."""
    from elfmesh.cli.entry import main

    main(["run", "--threads", "1", "--format", "json", "SELECT k, count(*) AS n FROM log GROUP BY k", "-"])


def parse_json(rounds: int) -> None:
    row = '{"ts":"%s","product":"p%d","user":{"location":"Berlin"},"clicks_count":%d,"price":%d.5}'
    lines = [row % (_time(at).isoformat(), at % 500, at % 7, at) for at in range(LINES)]
    _parse("json", lines, ("ts", "product", "clicks_count"), rounds)


def parse_combined(rounds: int) -> None:
    row = '10.0.%d.%d - - [%s] "GET /products/%d HTTP/1.1" 200 %d "-" "Mozilla/5.0 (X11; Linux x86_64)"'
    times = [_time(at).strftime("%d/%b/%Y:%H:%M:%S +0000") for at in range(LINES)]
    lines = [row % (at % 9, at % 250, times[at], at % 500, at) for at in range(LINES)]
    _parse("combined", lines, ("ts", "path", "status", "bytes"), rounds)


def _time(at: int) -> datetime:
    return BEGIN + timedelta(milliseconds=100 * at)


def _parse(form: str, lines: list[str], names: tuple[str, ...], rounds: int) -> None:
    from elfmesh.ingest.parsers import StreamFormat

    parser, block = StreamFormat(form).parser(), ("\n".join(lines) + "\n").encode()
    for _ in range(rounds):
        parsed = parser.parse(block, names)
        assert (parsed.errors, parsed.batch.num_rows) == (0, LINES), parsed.samples


def tree(rounds: int) -> None:
    """Insertion of two batches into a tree, and its result."""
    import pyarrow as pa

    from elfmesh.cbt import CompressedBufferTree

    keys = [f"/products/{at * 7919 % KEYS}" for at in range(2 * KEYS)]
    values = pa.array([at % 1000 for at in range(KEYS)])
    halves = (pa.array(keys[:KEYS]), pa.array(keys[KEYS:]))
    batches = [pa.RecordBatch.from_arrays([half, values], names=["k", "v"]) for half in halves]
    for _ in range(rounds):
        made = CompressedBufferTree(["k"], {"n": ("count", None), "s": ("sum", "v"), "hi": ("max", "v")})
        for batch in batches:
            made.insert(batch)
        assert made.flush().num_rows == KEYS


def agent(rounds: int) -> None:
    """As many virtual seconds of an agent that leads one job and reads ten lines a second."""
    from tests.sim.world import vloop
    from tests.sim.world.agents import SimFleet, line, wall_us

    job = (
        "CREATE JOB guard.sums EVERY '2 s' AS SELECT k, count(*) AS n, sum(v) AS s FROM log "
        "GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k"
    )

    async def main() -> None:
        fleet, rng = SimFleet(1, 1), random.Random(1)
        await fleet.start()
        await fleet.apply(job)
        for _ in range(rounds):
            for _ in range(10):
                fleet.agents[0].log.write(line(wall_us(), rng.choice("abc"), rng.randrange(1000)))
            await asyncio.sleep(1)
        assert len(await fleet.results("guard/sums")) >= rounds // 2 - 3
        fleet.check()

    vloop.run(main())


WORKS: dict[str, Callable[[int], None]] = {
    "start": start,
    "parse json": parse_json,
    "parse combined": parse_combined,
    "tree": tree,
    "agent": agent,
}

if __name__ == "__main__":
    WORKS[sys.argv[1]](int(sys.argv[2]))
