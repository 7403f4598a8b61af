"""Random statements over windows as jobs of four agents, the records of each stream dealt out among them.

What is right is what one process says of the same logs; other tests compare that with DuckDB and Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import ElfError
from tests.compat.cases import Case
from tests.e2e.fleet import Fleet
from tests.e2e.jobs.peers_jobs import Job, Streams
from tests.e2e.jobs.test_peers_on_agents import start, wrong_on_agents
from tests.properties.rows import SCHEMAS, Table, shown, table
from tests.properties.statements import Maker
from tests.properties.windows import sessions, windowed

JOBS, ROWS, TABLES = 64, 24, 2
"""Jobs, records of a stream, and how many times the streams are made again."""

SESSIONS = 0.25


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def as_log(made: Table) -> list[dict[str, object]]:
    return [{name: shown(value) for name, value in row.items()} for row in made.rows]


def random_jobs(seed: int, root: Path) -> tuple[list[Job], Streams]:
    """Jobs that agents take and that have rows, and their streams."""
    rng, streams, jobs = random.Random(f"agents {seed}"), Streams(), list[Job]()
    for part in range(TABLES):
        made = {name: table(rng, name, schema, ROWS) for name, schema in SCHEMAS.items()}
        inputs = {name: as_log(each) for name, each in made.items()}
        maker = Maker(rng, {name: each.columns for name, each in made.items()})
        while len(jobs) < JOBS * (part + 1) // TABLES:
            in_sessions = rng.random() < SESSIONS
            asked = sessions(rng, maker) if in_sessions else windowed(rng, maker, rng.choice((0, 1, 2)))
            text = asked.query.text.texts()[0]
            try:
                job = Job(len(jobs), Case(f"{seed}/{len(jobs)}", inputs, lambda _: ""), text, streams)
                read_job(job.text)
                if not any(job.oracle(root).values()):
                    continue
            except ElfError:
                continue
            jobs.append(job)
    return jobs, streams


@pytest.mark.exhaustive
def test_random_jobs_on_four_agents(fleet: Fleet, tmp_path: Path) -> None:
    whole = tmp_path / "chosen"
    whole.mkdir()
    jobs, streams = random_jobs(1, whole)
    assert len(jobs) == JOBS
    start(fleet, list(streams.all.values()))
    wrong = wrong_on_agents(fleet, jobs, tmp_path)
    assert not any(wrong.values()), "\n".join(filter(None, wrong.values()))
