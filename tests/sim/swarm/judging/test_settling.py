"""How long a fleet that has lost agents need not found a job."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.replicas.terms_query import ALL_NEAR
from tests.sim.swarm.judging.settling import CREATOR, founded

JOB = "sim/ids"
HOME, OTHER = ids.job_placements(JOB, CREATOR)


def near(placement: bytes, count: int) -> list[bytes]:
    """Return ids so close to a placement that no agent elsewhere is closer."""
    return [placement[:-1] + bytes((placement[-1] ^ number,)) for number in range(1, count + 1)]


FAR = [bytes((first,)) + bytes(19) for first in range(0, 200, 10)]


def test_most_of_the_nearest_of_both_placements_have_to_be_there() -> None:
    assert founded(JOB, FAR, [])
    for placement in (HOME, OTHER):
        assert founded(JOB, FAR, near(placement, ALL_NEAR // 2 - 1))
        assert not founded(JOB, FAR, near(placement, ALL_NEAR // 2)), "a half is no majority"


def test_how_many_are_gone_elsewhere_does_not_matter() -> None:
    there = [*near(HOME, ALL_NEAR), *near(OTHER, ALL_NEAR)]
    assert founded(JOB, there, FAR)
    assert not founded(JOB, there[:3], FAR[:5]), "in a small fleet all agents are near"


def test_a_fleet_of_one_founds_alone_when_the_others_are_forgotten() -> None:
    assert founded(JOB, FAR[:1], [])
    assert not founded(JOB, FAR[:1], FAR[1:2])
