"""What a run of the swarm leaves behind for the invariants. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ql.plan.delivery import POSITION, PRODUCER
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from tests.sim.swarm.fidelity.watch import FidelityWatch
from tests.sim.swarm.judging.absence import joined
from tests.sim.swarm.judging.history import Appended, History, Incarnation
from tests.sim.swarm.judging.oracle import Rows, Truth
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.workload import IDS_PER_HOST, Written

PostName = tuple[str, str, int]
"""A post: agent, producer, position."""

Published = dict[int, tuple[ResultRecord, bytes]]


@dataclass
class Outcome:
    """What a run left behind.

    Attributes:
        scenario: what was run.
        history: what happened.
        truths: by job and incarnation.
        final: what any agent says at the end, by job and incarnation.
        due: by job, the last interval that had to be closed by the end.
        pending_corrections: by job and agent, counts that are in no record though the agent contributes
            again.
        counted: by job, the first interval that is not closed after everything was counted.
        resting: by job, the hosts whose rule excludes the newest master then: they count when it admits them.
        there: names of the agents that are members at the end.
        closed_in_s: by job, how long after the faults ended everything due was closed; None: never.
        absent: names of agents that were away, and when (from, to).
        cut_off: by names of two agents, when one did not reach the other (from, to).
        founders: by job, who was a member from the beginning, or from that of a job before it was recovered.
        bugs: agents that ended for no fault of ours.
        replayed: what a replay of all messages changed.
        limits: what grew over its limit.
        crowded: jobs whose voters could be in more racks.
        starving: jobs whose live paths are fewer than a bound may leave.
        pruned: how many paths were pruned.
        lost: jobs whose register has lost its majority for good, and how.
        silent: what was asked after the faults and not answered, of jobs that are not lost.
        orders: what is read of the ORDERED topic at each agent, in its order.
        posted: what has to be in it.
        written: what the web server of each host has written.
        written_until_us: when the web servers fell silent; what they write later is written to settle.
        fidelity: what masters knew of the rates of members when they made records.
    """

    scenario: Scenario
    history: History
    truths: dict[Incarnation, Truth]
    final: dict[Incarnation, Published]
    due: dict[Incarnation, int]
    closed_in_s: dict[Incarnation, float | None]
    pending_corrections: dict[Incarnation, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    counted: dict[Incarnation, int] = field(default_factory=dict)
    resting: dict[Incarnation, set[str]] = field(default_factory=dict)
    there: tuple[str, ...] = ()
    absent: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    cut_off: dict[frozenset[str], list[tuple[float, float]]] = field(default_factory=dict)
    founders: dict[Incarnation, tuple[str, ...]] = field(default_factory=dict)
    bugs: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)
    starving: list[str] = field(default_factory=list)
    pruned: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    orders: dict[str, list[PostName]] = field(default_factory=dict)
    posted: frozenset[PostName] = frozenset()
    written: tuple[tuple[Written, ...], ...] = ()
    written_until_us: int = 0
    fidelity: FidelityWatch = field(default_factory=FidelityWatch)
    trace: str = ""
    seconds: float = 0.0
    faults: int = 0
    crashes: int = 0
    messages: int = 0

    def records(self) -> Iterator[tuple[Truth, Appended]]:
        """Everything that was ever published in a job that is checked."""
        for key, appended in self.history.appended.items():
            if key in self.truths:
                for each in appended:
                    yield self.truths[key], each

    def unreached(self, key: Incarnation, agent: str, epoch: int) -> Iterator[list[tuple[float, float]]]:
        """For each master of a job up to an epoch: when an agent was away, or cut off from it."""
        led = [
            hosts
            for (job, each), hosts in self.history.leaders.items()
            if self._led(job, key) and each <= epoch
        ]
        for master in sorted({host for hosts in led for host in hosts}):
            cuts = self.cut_off.get(frozenset((agent, master)), ())
            yield joined([*self.absent.get(agent, ()), *cuts])

    def _led(self, job: bytes, key: Incarnation) -> bool:
        return self.history.names.get(job) == key[0]

    def revs(self, key: Incarnation, record: ResultRecord) -> dict[str, int]:
        """The revision of each member's contribution that is inside, where it is not the first."""
        return self.history.revised.get((key, record.epoch, record.index), {})

    def version(self, key: Incarnation, record: ResultRecord) -> int:
        """The version by which the members inside a record were evaluated."""
        return self.history.evaluated.get((key, record.epoch, record.index), record.version)

    def roster(self, key: Incarnation, record: ResultRecord) -> tuple[str, ...] | None:
        return self.history.rosters.get((key, record.epoch, record.index))


def table(rows: bytes) -> Rows:
    """The rows of a record; those of a topic as the records that are its posts."""
    return [as_record(row) for row in posts(rows)]


def posts(rows: bytes) -> Rows:
    """The rows of a record, as they are."""
    return rows_to_json(ipc_to_table(rows)) if rows else []


def as_record(row: dict[str, Any]) -> dict[str, Any]:
    """The record that is a post; another row as it is."""
    if POSITION not in row:
        return row
    return {"id": int(row[PRODUCER].removeprefix("p")) * IDS_PER_HOST + row[POSITION], "n": 1}
