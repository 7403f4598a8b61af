"""What one job costs its agent, and what it is held to."""

from __future__ import annotations

import pytest

from elfmesh.cbt.budget import Account, MemoryBudget
from elfmesh.ingest.budget.allowance import BURST_S, Allowance
from elfmesh.ingest.budget.costs import SEAL_S, JobCost


class Clock:
    """Seconds that stand still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_job_without_an_allowance_pays_and_never_waits() -> None:
    cost = JobCost()
    cost.charge(1.0, 0.5, intervals=3)
    assert (cost.cpu_s, cost.delay_s, cost.is_beyond) == (1.5, 0.0, False)


@pytest.mark.parametrize("sheds", [False, True])
def test_a_job_beyond_its_allowance_waits_or_sheds(sheds: bool) -> None:
    clock = Clock()
    cost = JobCost(allowance=Allowance(0.5, clock), sheds=sheds)
    cost.charge(100.0, 0.0)
    assert cost.is_beyond is sheds
    assert (cost.delay_s > 0) is not sheds
    clock.now = 1e6
    assert (cost.delay_s, cost.is_beyond) == (0.0, False)


def test_an_interval_costs_its_allowance_more_than_its_seal() -> None:
    clock = Clock()
    plain, sealing = (JobCost(allowance=Allowance(1.0, clock)) for _ in range(2))
    plain.charge(BURST_S, 0.0)
    sealing.charge(BURST_S, 0.0, intervals=100)
    assert sealing.cpu_s == plain.cpu_s, "it is no processor time of the job"
    assert plain.delay_s == 0.0
    assert sealing.delay_s == pytest.approx(100 * SEAL_S)


def test_a_job_that_crowds_others_is_named_once_and_cleared() -> None:
    account = Account(MemoryBudget(1_000), 0.5)
    cost = JobCost(memory=account)
    account.nbytes = 400
    assert not cost.holds(400)
    account.nbytes, account.yielded = 900, 1
    assert cost.holds(900)
    assert "its share of 0.0005 MB" in cost.crowds
    assert not cost.holds(900), "nothing new"
    account.nbytes = 100
    assert cost.holds(100)
    assert cost.crowds == ""


def test_a_job_beyond_its_share_that_has_yielded_nothing_is_not_named() -> None:
    account = Account(MemoryBudget(1_000), 0.5)
    cost = JobCost(memory=account)
    account.nbytes = 900
    assert not cost.holds(900), "no other job needed memory"
    assert cost.describe()["memory_share_bytes"] == 500
    assert JobCost().describe()["memory_share_bytes"] is None
