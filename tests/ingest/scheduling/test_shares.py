"""How the processor time of an agent is shared out: tables, and a model of an agent that reads logs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from elfmesh.ingest.scheduling.shares import CALM, CORES_MIN, ROOM, WINDOW, Limit, Shares, Use, level

CORES, SHARE = 0.5, 0.5
GOOD = {f"good{number}": 0.03 for number in range(10)}


@pytest.mark.parametrize(
    ("needs", "cores", "expected"),
    [
        ([], 1.0, float("inf")),
        ([0.2, 0.3], 1.0, float("inf")),
        ([0.2, 2.0], 1.0, 0.8),
        ([2.0, 2.0], 1.0, 0.5),
        ([0.1, 0.5, float("inf")], 1.0, 0.45),
        ([0.1, float("inf"), 0.3], 1.0, 0.6),
        ([0.1, 2.0], 0.05, 0.025),
        ([0.1], -0.5, 0.0),
    ],
)
def test_what_a_job_does_not_need_goes_to_the_others(
    needs: list[float], cores: float, expected: float
) -> None:
    assert level(needs, cores) == pytest.approx(expected)


class Agent:
    """A model: jobs that need the processor at some rates, and wait in a common queue for it.

    Attributes:
        behind: seconds of its log that each job has not read.
        shed: part of its work that each job has shed.
        changes: begun and ended limits.
    """

    def __init__(self, needs: Callable[[int], Mapping[str, float]], *, sheds: bool = False) -> None:
        self.needs, self.sheds = needs, sheds
        self.shares = Shares(CORES, SHARE)
        jobs = list(needs(0))
        self.work, self.used, self.dropped = (dict.fromkeys(jobs, 0.0) for _ in range(3))
        self.limits: dict[str, float] = {}
        self.apart = set[str]()
        self.process_s, self.second, self.changes = 0.0, 0, 0

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second += 1
            self._second(self.needs(self.second))

    def _second(self, needs: Mapping[str, float]) -> None:
        wanted = {}
        for job, need in needs.items():
            self.work[job] += need
            most = self.limits.get(job, CORES * SHARE if job in self.apart else float("inf"))
            if self.sheds and job in self.limits:
                self.dropped[job] += max(0.0, self.work[job] - most)
                self.work[job] = min(self.work[job], most)
            wanted[job] = min(self.work[job], most)
        total = sum(wanted.values())
        got = min(1.0, CORES / total)
        for job, want in wanted.items():
            self.work[job] -= want * got
            self.used[job] += want * got
        self.process_s += total * got
        uses = {job: Use(used, self.sheds) for job, used in self.used.items()}
        for limit in self.shares.observe(1.0 - got, self.process_s, uses):
            self._obey(limit)

    def _obey(self, limit: Limit) -> None:
        self.changes += limit.cores is None or limit.job not in self.limits
        if limit.cores is None:
            del self.limits[limit.job]
        else:
            self.limits[limit.job] = limit.cores
            self.apart |= set() if self.sheds else {limit.job}

    def behind(self, job: str) -> float:
        return self.work[job] / self.needs(self.second)[job]

    def shed(self, job: str) -> float:
        return self.dropped[job] / (self.dropped[job] + self.used[job] + self.work[job])


def steady(needs: Mapping[str, float]) -> Callable[[int], Mapping[str, float]]:
    return lambda second: needs


@pytest.mark.parametrize(
    "needs",
    [
        steady({**GOOD, "bad": 2.0}),
        steady({**GOOD, "bad": 1.0, "worse": 3.0}),
        steady({"good0": 0.12, "good1": 0.12, "good2": 0.12, "bad": 1.0}),
        steady({"good0": 0.2, "bad": 0.5}),
        lambda second: {**GOOD, "bad": 1.0 if second // 20 % 2 else 0.01},
        lambda second: (
            {job: need * random.Random(second).uniform(0.3, 1.7) for job, need in GOOD.items()} | {"bad": 0.5}
        ),
    ],
    ids=["one bad job", "two", "few good ones", "one good one", "on and off", "noise"],
)
def test_jobs_that_need_less_than_an_equal_share_are_not_behind(
    needs: Callable[[int], Mapping[str, float]],
) -> None:
    agent = Agent(needs)
    agent.run(60)
    for _ in range(300):
        agent.run(1)
        assert max(agent.behind(job) for job in needs(0) if job.startswith("good")) < 1.0
    assert all(job.startswith(("bad", "worse")) for job in agent.limits)
    assert agent.changes <= 2, "a limit stays while it is needed"


def test_the_rest_of_the_time_goes_to_the_job_that_needs_most() -> None:
    agent = Agent(steady({"good": 0.3, "bad": 2.0}))
    agent.run(200)
    assert agent.limits["bad"] == pytest.approx(CORES * ROOM - 0.3, abs=0.1)
    lonely = Agent(steady({"good": 0.01, "bad": 2.0}))
    lonely.run(200)
    assert lonely.limits["bad"] == CORES * SHARE, "no job gets more than its share while others lack time"


def test_jobs_that_shed_drop_what_is_beyond_an_equal_share() -> None:
    agent = Agent(steady({**GOOD, "bad": 2.0}), sheds=True)
    agent.run(600)
    assert max(agent.shed(job) for job in GOOD) < 0.01
    assert agent.shed("bad") == pytest.approx(1 - (CORES - 0.3) / 2.0, abs=0.05)
    only = Agent(steady({"only": 1.0}), sheds=True)
    only.run(600)
    assert only.shed("only") == pytest.approx(1 - CORES * SHARE, abs=0.05)


def test_equal_jobs_that_lose_nothing_wait_together() -> None:
    for needs in ({f"job{number}": 0.2 for number in range(5)}, {"only": 1.0}):
        agent = Agent(steady(needs))
        agent.run(100)
        assert agent.limits == {}


def test_a_burst_is_no_overload() -> None:
    shares = Shares(1.0, 0.5)
    for second in range(4 * WINDOW):
        waited = 1.0 if second % WINDOW == 0 else 0.0
        assert shares.observe(waited, second, {"a": Use(0.1 * second), "bad": Use(0.9 * second)}) == []


def test_the_job_that_costs_most_is_limited_first_and_to_no_less_than_a_poll_needs() -> None:
    shares = Shares(1.0, 0.5)
    for second in range(WINDOW):
        uses = {"a": Use(0.1 * second), "bad": Use(0.8 * second)}
        found = shares.observe(0.9, 5.0 * second, uses)
    assert [(each.job, each.cores) for each in found] == [("bad", CORES_MIN)], (
        "other threads take all there is"
    )
    assert found[0].used_cores == pytest.approx(0.8)


def test_a_limit_ends_when_the_job_has_not_needed_it_for_a_while() -> None:
    needs = {**GOOD, "bad": 2.0}
    agent = Agent(lambda second: needs, sheds=True)
    agent.run(60)
    assert "bad" in agent.limits
    needs["bad"] = 0.05
    agent.run((CALM - 1) * WINDOW)
    assert "bad" in agent.limits
    agent.run(3 * WINDOW)
    assert agent.limits == {}


def test_a_job_that_is_gone_is_forgotten() -> None:
    shares = Shares(1.0, 0.5)
    for second in range(WINDOW):
        found = shares.observe(1.0, second, {"a": Use(0.1 * second), "bad": Use(0.9 * second)})
    assert [each.job for each in found] == ["bad"]
    for second in range(3 * WINDOW):
        assert shares.observe(0.0, second, {"a": Use(0.1 * second)}) == []
