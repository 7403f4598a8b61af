"""Random jobs on four simulated agents: FINAL rows of an interval are those of one process over all lines.

The oracle here is `elf run` over the agents' logs, which the other classes compare with DuckDB.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.errors import ElfError
from elfmesh.local.embedded import answers
from elfmesh.ql import parse
from elfmesh.ql.values.row_json import rows_to_json
from tests.properties.rows import BASE, SCHEMAS, TEXTS, Column, shown, value
from tests.properties.statements import Maker
from tests.properties.windows import job, windowed
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, until, wall_us
from tests.sim.world.wall import EPOCH_US

AGENTS = 4
SCHEMA = {name: sort for name, sort in SCHEMAS["t"].items() if name not in ("id", "ts")}
COLUMNS = tuple(Column(*each) for each in SCHEMAS["t"].items())
WIDTH_S = 2


@dataclass(slots=True)
class Fleet:
    """What a seed says of a fleet, and what came of it.

    Attributes:
        texts: of each job, its versions.
        compared: intervals whose rows were compared.
        refused: jobs or updates that the agents refused.
        wrong: what differs, per interval: the text and why.
    """

    seed: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    compared: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


def run(seed: int, root: Path, jobs: int = 3, seconds: float = 9.0) -> Fleet:
    """Run random jobs over random lines on a fleet of virtual time, and change some of them on the way.

    Raises:
        BaseException: what an agent failed with.
    """
    made = Fleet(seed)
    rng = random.Random(f"fleet {seed}")
    maker = Maker(rng, {"log": COLUMNS})
    while len(made.texts) < jobs:
        name = f"j{len(made.texts)}"
        versions = [text for text in (_text(rng, maker, name) for _ in range(12)) if text][
            : rng.choice((1, 2))
        ]
        if versions:
            made.texts[name] = versions
    vloop.run(_live(made, rng, root, seconds))
    return made


def _text(rng: random.Random, maker: Maker, name: str) -> str:
    """A job that `elf run` takes; "" if it does not."""
    if rng.random() < 0.5:
        elf = windowed(rng, maker, rng.choice((0, 1))).query.text.texts()[0]
        for slide in (5, 10, 20):  # intervals as short as a run on virtual time can have
            elf = elf.replace(f"'{slide}'", f"'{slide // 5}'").replace(
                f"'{slide} seconds'", f"'{slide // 5} seconds'"
            )
        text = f"CREATE JOB p.{name} DEADLINE '60 s' AS {elf}"
    else:
        elf = job(rng, maker, rng.choice((1, 2))).query.text.texts()[0]
        body = elf.split(" AS ", 1)[1]
        text = f"CREATE JOB p.{name} EVERY '{WIDTH_S} s' DEADLINE '60 s' AS {body}"
    try:
        parse(text)
    except ElfError:
        return ""
    return text


async def _live(made: Fleet, rng: random.Random, root: Path, seconds: float) -> None:
    fleet = SimFleet(made.seed, AGENTS)
    await fleet.start()
    for name, versions in list(made.texts.items()):
        reply = await fleet.agents[rng.randrange(AGENTS)].ask("apply", {"text": versions[0]})
        if reply.status != 200:
            made.refused += 1
            del made.texts[name]
    loop = asyncio.get_running_loop()
    end, middle = loop.time() + seconds, loop.time() + seconds / 3
    serial = 0
    while loop.time() < end:
        if loop.time() > middle:
            middle = end
            for name, versions in made.texts.items():
                if len(versions) > 1:
                    body = {"text": versions[1], "job": f"p/{name}"}
                    reply = await fleet.agents[rng.randrange(AGENTS)].ask("apply", body)
                    if reply.status != 200:
                        made.refused += 1
                        del versions[1]
        for agent in fleet.agents:
            for _ in range(rng.randrange(3)):
                serial += 1
                agent.log.write(_line(rng, serial))
        await asyncio.sleep(0.25)
    upto = int(wall_us()) // 1_000_000 * 1_000_000
    for name, versions in made.texts.items():
        found = await _closed(fleet, f"p/{name}", upto)
        fleet.check()
        _compare(made, fleet, root, versions, found)


def _line(rng: random.Random, serial: int) -> bytes:
    now = datetime.fromtimestamp(wall_us() // 500_000 / 2, BASE.tzinfo)
    row: dict[str, Any] = {"id": serial, "ts": shown(now)}
    for name, sort in SCHEMA.items():
        row[name] = None if rng.random() < 0.2 else shown(value(rng, sort, TEXTS[:6]))
    return json.dumps(row).encode()


async def _closed(
    fleet: SimFleet, name: str, upto_us: int
) -> list[tuple[ResultRecord, list[dict[str, Any]]]]:
    """All records, once every interval that ended in time is there."""

    async def there() -> Any:
        found = await fleet.results(name, 0)
        return found if found and (found[-1][0].end_us or 0) >= upto_us else None

    done: list[tuple[ResultRecord, list[dict[str, Any]]]] = await until(there, 240, 1.0)
    return done


def _compare(
    made: Fleet,
    fleet: SimFleet,
    root: Path,
    versions: Sequence[str],
    found: Sequence[tuple[ResultRecord, list[dict[str, Any]]]],
) -> None:
    paths = []
    for agent in fleet.agents:
        paths.append(root / f"{agent.name}.json")
        paths[-1].write_bytes(bytes(agent.log.data))
    wanted: list[Mapping[int, list[dict[str, Any]]]] = [
        {one.record.index: rows_to_json(one.table) for one in answers(text, list(map(str, paths)), "json")}
        for text in versions
    ]
    for record, rows in found:
        if (record.start_us or 0) < EPOCH_US:
            continue
        text = versions[min(record.version, len(versions)) - 1]
        expected = wanted[min(record.version, len(versions)) - 1].get(record.index, [])
        made.compared += 1
        if (record.state, record.completeness) != ("FINAL", 1.0):
            made.wrong.append(f"{text}\n  interval {record.index}: {record.state} {record.reason}")
        elif sorted(map(repr, rows)) != sorted(map(repr, expected)):
            made.wrong.append(f"{text}\n  interval {record.index}: {rows[:4]} instead of {expected[:4]}")
