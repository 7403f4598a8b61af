"""How long a fleet that has lost agents need not found a job, and how long its counts may be on their way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from elfmesh import ids
from elfmesh.control.replicas.terms_query import ALL_NEAR
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.settling import CREATOR, Settling, founded
from tests.sim.swarm.residing.watch import Residence
from tests.sim.world import vloop

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


UNDER_WAY_S, COUNTED_UNTIL = 2.0, 60.0


class LateWatermark(Settling):
    """Of a fleet that closes one interval each second; a member learns the outcome of the last ones later."""

    def closed(self, key: Incarnation) -> int:
        return int(asyncio.get_running_loop().time())

    def _due_index(self, key: Incarnation) -> int:
        return self.closed(key) + 1

    def _pending_corrections(self, key: Incarnation) -> dict[str, tuple[int, ...]]:
        now, due = asyncio.get_running_loop().time(), self.due.get(key, 10)
        return {"h01": (0,)} if due < now < due + UNDER_WAY_S else {}


def test_an_outcome_that_is_under_way_is_waited_for() -> None:
    key: Incarnation = ("sim/ids", "i")
    history = SimpleNamespace(residence=Residence())
    jobs = {key: SimpleNamespace(slide_s=1)}
    swarm = SimpleNamespace(hosts=[], current={"ids": key}, lost={}, jobs=jobs, history=history)
    settling = LateWatermark(cast(Any, swarm))

    async def main() -> None:
        await settling._all_counted(COUNTED_UNTIL)
        assert asyncio.get_running_loop().time() < COUNTED_UNTIL

    settling.due = {key: 4}
    vloop.run(main())
    assert settling.pending_corrections == {key: {}}
