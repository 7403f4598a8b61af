"""A job with an end: its members stop, its results stay for an hour, a leased one ends with its client."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.master.bounded import HUNG_UP_S, LEASE_S, RESULTS_S, BoundedJob, BoundedTerm
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.master.stub_term import StubTerm
from tests.control.register.support import MANIFEST

STOP = 12


@dataclass
class Term(StubTerm):
    """A job whose last interval is 11."""

    leased: bool = False
    paused: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        slide_us = read_plan(MANIFEST.text).slide_us
        self.manifest = replace(MANIFEST, until_us=STOP * slide_us - 1, leased=self.leased)
        self.committer = SimpleNamespace(closed=STOP - 1)
        self.result_service = SimpleNamespace(complete=False, waiting=0, finish=self._finished)
        self.bounded = BoundedJob(cast(BoundedTerm, self))

    def _finished(self) -> None:
        self.result_service.complete = True
        self.reports.append("no reader waits")

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.reports.append("paused")

    def after(self, seconds: float) -> list[str]:
        """Return the reports at an upkeep after some seconds."""
        self.context.now += seconds
        self.bounded.upkeep()
        found, self.reports = self.reports, []
        return found


def test_members_stop_once_after_the_last_interval() -> None:
    term = Term()
    term.bounded.advanced()
    assert term.reports == []
    assert not term.bounded.is_complete
    term.committer.closed = STOP
    term.bounded.advanced()
    term.bounded.advanced()
    assert term.reports == ["no reader waits", "paused"]
    assert term.bounded.is_complete


def test_results_stay_readable_for_an_hour() -> None:
    term = Term()
    assert term.after(2 * RESULTS_S) == [], "it is not complete yet"
    term.committer.closed = STOP
    assert term.after(1.0) == ["no reader waits", "paused"]
    assert term.after(RESULTS_S - 1) == []
    assert term.after(1.0) == ["finish"]


def test_a_job_without_members_ends_too() -> None:
    term = Term()
    term.book = RosterBook((), 3)
    assert term.after(RESULTS_S - 1) == []
    assert term.after(1.0) == ["finish"]


def test_a_job_that_waits_for_its_agents_does_not_end_before_its_time() -> None:
    term = Term()
    term.book = RosterBook((), 3)
    assert term.manifest.until_us is not None
    now_us = [term.manifest.until_us - 1]
    term.context.facts = lambda topic: {"now_us": now_us[0]}
    assert term.after(2 * RESULTS_S) == []
    now_us[0] += 1
    assert term.after(RESULTS_S - 1) == []
    assert term.after(1.0) == ["finish"]


def test_a_job_that_reads_results_has_no_agents_and_goes_on() -> None:
    world = World(3)
    fill(world, intervals=8)
    assert world.apply(world[0]).status == 200
    text = (
        "CREATE JOB shop.down EVERY '10 s' AS SELECT product, SUM(hits) AS hits FROM shop.top"
        f" UNTIL '{(BASE + 1000 * SLIDE) // 1_000_000} s' GROUP BY product"
    )
    assert world.apply(world[0], text).status == 200
    world.run(2 * RESULTS_S)
    assert world.ask(world[1], "describe", {"job": "shop/down"}).body["state"] == "running"


def test_a_leased_job_ends_without_requests_and_not_while_one_waits() -> None:
    term = Term(leased=True)
    term.result_service.waiting = 1
    assert term.after(10 * LEASE_S) == []
    term.bounded.asked()
    term.result_service.waiting = 0
    assert term.after(LEASE_S - 1) == []
    term.bounded.asked()
    assert term.after(LEASE_S - 1) == []
    assert term.after(1.0) == ["finish"]


def test_a_leased_job_ends_soon_after_a_lost_connection_unless_its_client_returns() -> None:
    term = Term(leased=True)
    term.bounded.hung_up()
    term.run(HUNG_UP_S / 2)
    term.bounded.asked()
    term.run(HUNG_UP_S)
    assert term.reports == []
    term.bounded.hung_up()
    term.run(HUNG_UP_S)
    assert term.reports == ["finish"]


def test_a_slow_client_keeps_its_query_when_another_reader_hangs_up() -> None:
    term = Term(leased=True)
    term.bounded.asked()
    term.bounded.hung_up()
    term.run(1.5)
    term.bounded.asked()
    term.run(2 * HUNG_UP_S)
    assert term.reports == []


def test_another_job_does_not_end_because_a_reader_hangs_up() -> None:
    term = Term()
    term.bounded.hung_up()
    assert term.after(10 * LEASE_S) == []


def applied(until_us: int, **body: bool) -> World:
    world = World(3)
    fill(world, intervals=8)
    text = (
        "CREATE JOB shop.top EVERY '10 s' DEADLINE '1 s' AS SELECT product, COUNT(*) AS hits FROM clicks"
        f" UNTIL '{until_us // 1_000_000} s' GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"
    )
    assert world.apply(world[0], text, **body).status == 200
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    return world


def is_free(world: World) -> bool:
    return not any(agent.masters or agent.control.member_host.members for agent in world.living)


def test_a_job_ends_in_a_fleet_and_frees_its_agents() -> None:
    world = applied(BASE + 2 * SLIDE)
    (term,) = [each.term for each in world.master().control.leadership.masters.values()]
    assert term.state == "complete"
    assert term.paused
    assert [record.index for record, _ in world.results(world[1])] == [1000, 1001]
    world.run(RESULTS_S - 60)
    assert not is_free(world)
    world.run(120.0)
    assert is_free(world)


@pytest.mark.parametrize("dies", [False, True])
def test_no_agent_works_on_a_job_whose_client_is_gone(dies: bool) -> None:
    world = applied(BASE + 9 * SLIDE, leased=True)
    if dies:
        world.kill(world.master())
        world.run(10.0)
    assert not is_free(world)
    world.run(LEASE_S + 20.0)
    assert is_free(world)


def test_without_the_lease_a_job_outlives_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedJob, "_is_left", False)
    world = applied(BASE + 9 * SLIDE, leased=True)
    world.run(10 * LEASE_S)
    assert not is_free(world)
