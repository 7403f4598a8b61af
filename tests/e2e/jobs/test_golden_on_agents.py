"""A sample of Spark's golden queries on four agents, the records of each stream dealt out among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.errors import ElfError
from elfmesh.ql import parse
from tests.compat.cases import NO_DATA, Case
from tests.compat.golden import outcomes as o
from tests.compat.golden.data import CASES, Golden, cases
from tests.e2e.fleet import Fleet
from tests.e2e.jobs.peers_jobs import TIMES, Job, Streams
from tests.e2e.jobs.test_peers_on_agents import start, wrong_on_agents

pytestmark = pytest.mark.skipif(not CASES.is_file(), reason=NO_DATA)

SAMPLE, OF_A_FILE = 200, 20
IN_JSON = {"int", "bigint", "smallint", "tinyint", "double", "string", "boolean"}
"""Types whose values a JSON log holds as they are."""

NONE_TAKEN = {
    "group-by#21", "group-by#22", "group-by#34", "listagg#5", "postgreSQL/aggregates_part2#2",
    "postgreSQL/aggregates_part2#12",
}  # fmt: skip
"""WHERE takes no record: a query without a window has one row then, and an interval none (docs/elf-ql.md)."""

ONE_ROW = {"order-by#8"}
"""A scalar subquery needs a log of one row. The line that ends the intervals of each log is another row."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def in_logs(case: Golden) -> bool:
    """Whether the input of a case can be JSON logs that agents share, and its text a job."""
    columns = [column for view in case.views.values() for column in view.columns]
    names = {name.lower() for name, _ in columns}
    return (
        case.accepted
        and case.name not in NONE_TAKEN | ONE_ROW
        and bool(case.views)
        and bool(case.rows)
        and all(view.rows for view in case.views.values())
        and all(kind in IN_JSON for _, kind in columns)
        and not any(isinstance(value, list) for row in case.rows for value in row)  # a job selects no list
        and not any("{" in str(row) for view in case.views.values() for row in view.rows)
        and not names & {*TIMES, *map(str.lower, case.views)}
        and not re.search(r"(\bselect\s+|\.|,\s*)\*", case.text, re.IGNORECASE)  # a job names its columns
    )


def job_of(number: int, case: Golden, streams: Streams) -> Job | None:
    """A case as a job over streams of its own; None: it cannot be one."""
    text, inputs = case.text, {}
    for name, view in case.views.items():
        rows = [dict(zip((column for column, _ in view.columns), row, strict=True)) for row in view.rows]
        stream = streams.of(rows)
        text = re.sub(rf"\b{re.escape(name)}\b", stream.name, text, flags=re.IGNORECASE)
        inputs[stream.name] = rows
    try:
        if set(parse(text).streams) != set(inputs) or len(inputs) != len(case.views):
            return None
        return Job(number, Case(case.name, inputs, lambda _: ""), text, streams)
    except ElfError:
        return None


def sample(count: int) -> tuple[list[Job], Streams]:
    """So many of the cases that are equal, of each file in turn, and their streams."""
    streams = Streams()
    files: dict[str, list[Golden]] = {}
    for case in cases():
        mine = files.setdefault(case.file, [])
        if len(mine) < OF_A_FILE and in_logs(case) and job_of(0, case, Streams()) is not None:
            mine += [case] if o.outcome(case).state == o.EQUAL else []
    in_turn = sorted(
        ((at, case) for found in files.values() for at, case in enumerate(found)), key=lambda each: each[0]
    )
    jobs = [job_of(number, case, streams) for number, (_, case) in enumerate(in_turn[:count])]
    return [job for job in jobs if job is not None], streams


@pytest.mark.exhaustive
def test_golden_queries_on_four_agents(fleet: Fleet, tmp_path: Path) -> None:
    jobs, streams = sample(SAMPLE)
    assert len(jobs) == SAMPLE
    start(fleet, list(streams.all.values()))
    wrong = wrong_on_agents(fleet, jobs, tmp_path)
    assert not any(wrong.values()), "\n".join(filter(None, wrong.values()))
