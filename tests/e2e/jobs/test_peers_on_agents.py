"""Other systems' cases on four agents, the records of each stream dealt out among them.

A dozen in every run, all of them by `make test-spark`, as jobs of one overlay at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.cases import NO_DATA, PEERS
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.jobs.peers_jobs import AGENTS, Job, Stream, Streams, left_out
from tests.spark_bridge.history.engines import AGENTS as ON_AGENTS
from tests.spark_bridge.history.engines import FAILING, PASSED, note
from tests.spark_bridge.history.test_peers import cases
from tests.spark_tests import EVERYTHING, all_of_spark

pytestmark = pytest.mark.skipif(not PEERS.is_dir(), reason=NO_DATA)

AT_ONCE = 4
"""Jobs applied side by side: each answers when four agents have acknowledged it."""

DOZEN = {
    "q4", "q5", "q8", "group_top_n__main/6", "time_window/6", "union/4", "basic/4", "hourly_by_event_type",
    "session_window", "TestWindowFuncSQL/TestRowNumber1", "TestSRFSQL/TestSingleSQLRule18", "08 select_aggr",
}  # fmt: skip
"""Joins, windows of each kind, UNION, OVER, lists, aggregates over everything: run each time."""


def asked() -> tuple[list[Job], Streams]:
    """The cases as jobs, and their streams."""
    streams = Streams()
    given = [each for each in cases() if EVERYTHING or each[0].name in DOZEN]
    assert EVERYTHING or len(given) == len(DOZEN)
    jobs = [
        Job(number, case, text, streams)
        for number, (case, text) in enumerate(given)
        if not left_out(case, text)
    ]
    return jobs, streams


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def start(fleet: Fleet, streams: list[Stream]) -> None:
    """Four agents that all carry all streams."""
    for number in range(AGENTS):
        config = fleet.log(number, "agent").with_suffix(".toml")
        config.parent.mkdir(parents=True)
        for stream in streams:
            path = fleet.log(number, stream.name)
            path.write_text(stream.share(number))
            settings = "".join(f"{name} = {toml(value)}\n" for name, value in stream.settings(path).items())
            with config.open("a") as file:
                file.write(f'[streams.{stream.name}]\nidle = "1 h"\n{settings}')
        fleet.start(1, stream="unused", extra=("-c", str(config)))
    known = partial(fleet[0].get, "/v1/streams")
    eventually(lambda: all(len(each["agents"]) == AGENTS for each in known()["streams"]), what="all streams")


def toml(value: str | dict[str, str]) -> str:
    """A value of a configuration file."""
    if isinstance(value, str):
        return json.dumps(value)
    return "{" + ", ".join(f"{name} = {json.dumps(each)}" for name, each in value.items()) + "}"


def published(fleet: Fleet, job: Job, wanted: int) -> dict[int, dict[str, Any]]:
    """The intervals of a job, when that one is there."""

    def closed() -> list[dict[str, Any]]:
        found = fleet[1].results(job.name)
        return found if any(each["interval"]["index"] >= wanted for each in found) else []

    found = eventually(closed, what=f"interval {wanted} of {job.case.name}")
    return {each["interval"]["index"]: each for each in found}


def wrong_on_agents(fleet: Fleet, jobs: list[Job], tmp_path: Path) -> dict[str, str]:
    """By case how what agents publish of it differs from what one process says; empty: not at all."""

    def apply(job: Job) -> str:
        try:
            fleet.apply(job.text, 2)
        except AssertionError as refused:
            return f"{job.case.name}: {refused}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        refused = [each for each in pool.map(apply, jobs) if each]
    assert not refused, "\n".join(refused)
    whole = tmp_path / "whole"
    whole.mkdir()
    wrong = {}
    for job in jobs:
        oracle = job.oracle(whole)
        wrong[job.case.name] = job.wrong(published(fleet, job, max(oracle)), whole)
    return wrong


@all_of_spark
def test_cases_on_four_agents(fleet: Fleet, tmp_path: Path) -> None:
    jobs, streams = asked()
    start(fleet, list(streams.all.values()))
    wrong = wrong_on_agents(fleet, jobs, tmp_path)
    note("peers", ON_AGENTS, {name: FAILING if each else PASSED for name, each in wrong.items()})
    assert not any(wrong.values()), "\n".join(filter(None, wrong.values()))
