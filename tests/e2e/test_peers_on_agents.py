"""A dozen of other systems' cases on four agents: the records of each stream dealt out among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.agent.history.engines import AGENTS as ON_AGENTS
from tests.agent.history.engines import FAILING, PASSED, note
from tests.compat import arroyo, nexmark, risingwave
from tests.compat.cases import NO_DATA, PEERS, Case, Ours, Row
from tests.e2e.fleet import Fleet, eventually

pytestmark = pytest.mark.skipif(not PEERS.is_dir(), reason=NO_DATA)

AGENTS = 4
OPTIONS = ",format=json,idle=1 h"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

DOZEN: tuple[tuple[ModuleType, str, str, str], ...] = (
    (nexmark, "q5", "date_time", "2015-07-15 00:05:00"),
    (nexmark, "q7", "date_time", "2015-07-15 00:05:00"),
    (nexmark, "q8", "date_time", "2015-07-15 00:05:00"),
    (risingwave, "group_top_n__main/6", "bidtime", "2020-04-15 12:00"),
    (risingwave, "group_top_n__main/7", "bidtime", "2020-04-15 12:00"),
    (risingwave, "time_window/0", "created_at", "2022-01-01 20:00:00"),
    (risingwave, "time_window/2", "created_at", "2022-01-01 20:00:00"),
    (risingwave, "time_window/3", "created_at", "2022-01-01 20:00:00"),
    (risingwave, "time_window/5", "created_at", "2022-01-01 20:00:00"),
    (risingwave, "time_window/6", "created_at", "2022-01-20 00:00:00"),
    (arroyo, "hourly_by_event_type", "timestamp", "2023-09-29T00:00:00Z"),
    (arroyo, "sliding_window_end", "timestamp", "2023-10-09T17:20:00Z"),
)
"""Cases with a window, the column of its time, and a time when all of it is over."""


class Job:
    """A case as a job over streams of its own."""

    def __init__(self, number: int, module: ModuleType, name: str, time: str, end: str) -> None:
        self.case: Case = next(case for case in module.cases() if case.name == name)
        self.name = f"peers/case{number}"
        self.time, self.end = time, end
        translation = module.TRANSLATIONS[name]
        assert isinstance(translation, Ours)
        text = translation.text
        self.records: dict[str, list[Row]] = {}
        for stream, records in self.case.inputs.items():
            text, found = re.subn(rf"(FROM|JOIN) {stream}\b", rf"\1 {stream}_{number}", text)
            if found:
                self.records[f"{stream}_{number}"] = in_order(records, time)
        self.text = f"CREATE JOB peers.case{number} HORIZON '60 s' ON STRAGGLER WAIT AS {text}"

    def write(self, fleet: Fleet) -> None:
        """Deal the records out, and end them with one that closes every interval before."""
        for stream, records in self.records.items():
            for agent in fleet:
                lines = [*records[agent.number :: AGENTS], {self.time: self.end}]
                with fleet.log(agent.number, stream).open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)

    def wrong(self, fleet: Fleet) -> str:
        """What is wrong with the rows until now; empty: nothing."""
        results = fleet[1].results(self.name)
        rows = [{name: timed(each) for name, each in row.items()} for one in results for row in one["rows"]]
        return self.case.check(rows)

    def right(self, fleet: Fleet) -> bool:
        return not self.wrong(fleet)


def in_order(records: Path | Any, time: str) -> list[Row]:
    if isinstance(records, Path):
        records = [json.loads(line) for line in records.read_text().splitlines()]
    return sorted(records, key=lambda record: str(record[time]))


def timed(value: Any) -> Any:
    """Times are strings in JSON."""
    return datetime.fromisoformat(value) if isinstance(value, str) and STAMP.fullmatch(value) else value


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def start(fleet: Fleet, streams: list[str]) -> None:
    """Four agents that all carry all streams, still empty."""
    first, *others = streams
    for number in range(AGENTS):
        extra = []
        for stream in others:
            path = fleet.log(number, stream)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            extra += ["--stream", f"{stream}={path}{OPTIONS}"]
        fleet.start(1, stream=first, options=OPTIONS, extra=extra)


@pytest.mark.timeout(300)
def test_a_dozen_cases_on_four_agents(fleet: Fleet) -> None:
    jobs = [Job(number, *each) for number, each in enumerate(DOZEN)]
    start(fleet, [stream for job in jobs for stream in job.records])
    for job in jobs:
        answer = fleet[2].apply(job.text)
        assert (answer["acknowledged"], answer["expected"]) == (AGENTS, AGENTS)
    for job in jobs:
        job.write(fleet)
    for job in jobs:
        eventually(partial(job.right, fleet), 60, f"what {job.case.name} expects")
    wrong = [job.wrong(fleet) for job in jobs]
    outcomes = (FAILING if each else PASSED for each in wrong)
    note("peers", ON_AGENTS, dict(zip((job.case.name for job in jobs), outcomes, strict=True)))
    assert wrong == [""] * len(jobs)
