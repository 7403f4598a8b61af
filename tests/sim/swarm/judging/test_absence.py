"""Who was away, or did not reach the master, for so long that it is not expected."""

from __future__ import annotations

from tests.sim.swarm.judging.absence import joined
from tests.sim.swarm.judging.invariants import ALL
from tests.sim.test_swarm_invariants import KEY, clean


def test_a_member_away_for_five_minutes_is_not_expected_afterwards() -> None:
    """Another agent that comes back on its host, without its disk, is none of its lives."""
    out = clean()
    out.founders[KEY] = ("h1", "h2", "h3")
    expected = ALL["I6 completeness"]
    for since, until, is_away in (
        (-297.0, float("inf"), True),
        (-296.9, float("inf"), False),
        (-400.0, -100.0, True),
        (-290.0, 900.0, False),
    ):
        out.absent["h3"] = [(since, until)]
        assert bool(list(expected(out))) is not is_away, since


def test_a_member_that_did_not_reach_the_master_was_away() -> None:
    """Only from a master of the job, and only if no time lies between the cut and what followed."""
    out = clean()
    out.founders[KEY] = ("h1", "h2", "h3")
    expected = ALL["I6 completeness"]
    for other, cut, is_away in (
        ("h1", (-297.0, -280.0), True),
        ("h1", (-296.9, -280.0), False),
        ("h1", (-400.0, -280.1), False),
        ("h9", (-297.0, -280.0), False),
    ):
        out.absent["h3"], out.cut_off = [(-280.0, 900.0)], {frozenset(("h3", other)): [cut]}
        assert bool(list(expected(out))) is not is_away, (other, cut)


def test_a_host_that_is_killed_while_it_is_stopped_was_away_once() -> None:
    assert joined([(9.0, 12.0), (1.0, 4.0), (4.0, 6.0), (10.0, 11.0)]) == [(1.0, 6.0), (9.0, 12.0)]
