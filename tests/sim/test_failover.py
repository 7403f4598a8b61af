"""How long a fleet is without a master, and how soon a straggler is leapt over, on virtual time.

The load of the machine does not count here: what is measured are round trips, heartbeats and waits. Real
processes are measured by tests/chaos.
"""

from __future__ import annotations

import pytest

from elfmesh.api.what_if import FAIL_OVER_S
from elfmesh.control.register.members import Electorate
from tests.exhaustive import few, nightly
from tests.sim.swarm.close_path import RECORDS, close_paths
from tests.sim.swarm.failover import KILL, SILENCE, measure, quantile, skips
from tests.sim.swarm.racks import NEAR, far_voters, lose_a_rack
from tests.sim.swarm.soak import quiet

SEEDS = (0, 1, 2)
KILLS = 5
"""Per seed: half a second of processor time each. `python -m tests.sim.swarm.failover` is the long form."""

SKIP_S = 0.1

FLEETS_MORE, FLEETS = 8, 200
"""Fleets that lose a rack, in `make test-all` and `make test-nightly`; each takes some ten seconds."""
UNSPREAD = 0
"""A fleet whose job is founded with most voters in one rack."""


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", few((SEEDS[:1], SEEDS), 1))
@pytest.mark.parametrize("kind", [KILL, SILENCE])
def test_another_master_answers_and_closes_within_seconds(kind: str, seeds: tuple[int, ...]) -> None:
    found = [measure(seed, KILLS, kind) for seed in seeds]
    answers = [seconds for each in found for seconds in each.answers]
    closes = [seconds for each in found for seconds in each.closes]
    assert len(answers) == len(seeds) * KILLS
    assert quantile(answers, 0.99) < FAIL_OVER_S, answers
    assert quantile(closes, 0.99) < FAIL_OVER_S, closes
    assert quantile(answers, 0.5) < FAIL_OVER_S / 2, answers


@pytest.mark.slow
@pytest.mark.parametrize("seeds", few((SEEDS[:1], SEEDS), 1))
def test_a_straggler_is_leapt_over_as_soon_as_its_deadline_is_over(seeds: tuple[int, ...]) -> None:
    found = [seconds for seed in seeds for seconds in skips(seed, 4)]
    assert len(found) > 3 * len(seeds)
    assert min(found) >= 0, "no result is leapt over before"
    assert quantile(found, 0.99) < SKIP_S, found


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(FLEETS_MORE), 1))
def test_a_job_closes_its_next_interval_after_the_loss_of_any_rack(seed: int) -> None:
    assert lose_a_rack(seed) == (1, True)


@nightly
@pytest.mark.slow
def test_jobs_of_many_fleets_close_their_next_interval_after_the_loss_of_any_rack() -> None:
    assert [seed for seed in range(FLEETS_MORE, FLEETS) if lose_a_rack(seed) != (1, True)] == []


@pytest.mark.slow
def test_a_job_whose_voters_are_not_spread_closes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Electorate, "_spread", lambda self, value: ([], []))
    voters, closes = lose_a_rack(UNSPREAD)
    assert voters > 1
    assert not closes


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(3), 1))
def test_a_founder_that_reaches_no_voter_learns_them_from_the_agents_near_the_job(seed: int) -> None:
    found = far_voters(seed)
    assert (found.racks, found.learned) == (3, True)
    assert found.far > 0
    assert 2 * found.holders > NEAR


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(SEEDS, 1))
def test_a_reader_has_an_interval_four_legs_after_its_last_seal(seed: int) -> None:
    """One to the master, one to a voter and back, one to the reader (a grant is to leave two)."""
    found = close_paths(seed)
    assert len(found) == RECORDS
    assert [each.legs for each in found] == [4] * RECORDS, found
