"""Programs on the harness."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.jobs.manifest import CREATOR
from tests.control.programs.support import Program, ProgramWorld

KEY = ids.job_id("shop/top", CREATOR)


def three() -> tuple[ProgramWorld, list[Program]]:
    world = ProgramWorld(5)
    programs = [world.attach(number) for number in (0, 2, 4)]
    world.run(1.0)
    return world, programs


def master_of(world: ProgramWorld) -> Program:
    (found,) = world.masters()
    return found
