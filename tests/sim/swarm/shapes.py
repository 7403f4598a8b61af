"""Scenarios made for one question: what a safeguard is there for happens often, and little else does.

Owns the parameters that are pinned; everything else is the seed's. A small fleet with short intervals costs
about a second of processor time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from elfmesh.limits import FANOUT_MAX
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.network import CALM, Weather
from tests.sim.swarm.scenario import Scenario
from tests.sim.world.network import Faults

Shape = Callable[[Scenario], Scenario]
LOSSY = Weather(Faults(delay_min=0.005, delay_max=0.05, loss=0.25))
BUSY = Weather(Faults(delay_min=0.001, delay_max=0.05, loss=0.01))
REPEATING = Weather(Faults(delay_min=0.005, delay_max=0.05, duplicate=0.3), late_copy=0.2, late_copy_s=30.0)


def small(*faults: str, job: dict[str, Any] | None = None, **changes: Any) -> Shape:
    """A small fleet with these faults, one job, and what is changed beyond that."""

    def shape(scenario: Scenario) -> Scenario:
        pinned: dict[str, Any] = {
            "slide_s": 2,
            "size_s": 2,
            "lateness_s": 0,
            "partitions": 1,
            "replicas": 0,
            "least": None,
            "standby_ms": None,
        }
        pinned |= {"straggler": "correct", "deadline_s": 1.0, "horizon_s": None} | (job or {})
        traffic = replace(scenario.traffic, rate=1.5, silent=0.0, disorder_s=0.0, late=0.0)
        traffic = replace(traffic, broken=0.0, future=0.0, torn=0.0, writing_s=0.0)
        base = replace(
            scenario,
            hosts=3,
            safety_s=60.0,
            calm_s=4.0,
            faults=faults,
            trouble_s=3.0,
            jobs=(replace(scenario.jobs[0], **pinned),),
            traffic=traffic,
            weather=CALM,
            poll_s=0.5,
            store_s=0.0,
            compute_s=0.0,
            clock_offset_s=0.0,
            clock_drift=0.0,
            replay=False,
            fanout=FANOUT_MAX,
            read_bytes=None,
            changing=False,
            page_bytes=None,
        )
        return replace(base, **changes)

    return shape


AWAY = small(
    kinds.STOPPED_AT_REJOIN,
    job={"lateness_s": 1, "deadline_s": 2.0, "horizon_s": 8.0},
    hosts=5,
    safety_s=72.0,
)
"""A member is stopped, and two masters close intervals without it."""


LEAVING = small(
    *(kinds.JOIN, kinds.LEAVE, kinds.ISOLATE_MASTER, kinds.PARTITION),
    trouble_s=2.0,
    hosts=5,
    safety_s=80.0,
)
"""Members come and leave while masters that lack each other's rosters follow one another."""

VOTES = small(kinds.LOST_VOTES, safety_s=90.0, trouble_s=6.0)
"""The votes of one agent rot away where they are needed."""
ROLLBACKS = small(kinds.GOES_BACK, safety_s=90.0, trouble_s=4.0, weather=BUSY)
"""Voters go back in time within seconds, where the others have seen what they forget."""
FOUNDING = small(
    *(kinds.JOB_CHANGE, kinds.CRASH, kinds.POWER, kinds.JOIN, kinds.PARTITION),
    hosts=5,
    trouble_s=1.5,
    safety_s=60.0,
    weather=LOSSY,
)
"""Jobs are deleted and begun again while the agents that voted on their end come and go."""
RECOVERIES = small(kinds.RECOVERY, safety_s=150.0, trouble_s=10.0, hosts=5, weather=BUSY)
"""Jobs lose most of their voters, go on without them, and these come back."""
CLIENTS = small(
    *(kinds.CRASH, kinds.POWER, kinds.PAUSE, kinds.PARTITION, kinds.ISOLATE_MASTER),
    clients=3,
    hosts=4,
    trouble_s=4.0,
    weather=BUSY,
)
"""Clients change a job of their own, and read it, while its masters come and go."""
PAGED = small(
    kinds.CRASH,
    kinds.FAILPOINT,
    kinds.POWER,
    kinds.PARTITION,
    kinds.FULL_DISK,
    trouble_s=3.0,
    hosts=5,
    page_bytes=120,
)
"""Rows of a record are pages of a few rows each, and voters come and go while they fetch them."""


VOTING = small(
    *(kinds.CRASH, kinds.POWER, kinds.ISOLATE_MASTER, kinds.PARTITION, kinds.JOIN),
    job={"paths": 3, "early_ms": None, "sealed": "", "delivery": "", "spans": "", "stated": False},
    hosts=5,
    racks=3,
    trouble_s=4.0,
    safety_s=80.0,
    weather=BUSY,
)
"""Sites in three racks close intervals by votes, while masters and members come and go."""


PRUNING = small(
    *(kinds.CRASH, kinds.POWER, kinds.ISOLATE_MASTER, kinds.PARTITION),
    job={
        "paths": 3,
        "copies": 2,
        "cost": "2",
        "early_ms": None,
        "sealed": "",
        "delivery": "",
        "spans": "",
        "stated": False,
        "name": "sums",
        "assume": "",
        "summed": None,
    },
    hosts=6,
    racks=3,
    calm_s=20.0,
    trouble_s=4.0,
    safety_s=60.0,
    ordered=False,
    weather=BUSY,
)
"""Two trees of each rack, most of whose paths are idle, while masters, gateways and links come and go."""


ROT = small(kinds.ROT, trouble_s=4.0)
"""The results of one agent rot again and again, while it runs and while it does not."""


def lines(shape: Shape, **traffic: Any) -> Shape:
    """The same with other lines; arguments are those of `Traffic`."""

    def made(scenario: Scenario) -> Scenario:
        base = shape(scenario)
        return replace(base, traffic=replace(base.traffic, **traffic))

    return made


def losing(**changes: Any) -> Shape:
    """A fleet that loses agents with their disks, one at a time."""
    shape = small(**changes)
    return lambda scenario: replace(kinds.losing(shape(scenario)), trouble_s=15.0)
