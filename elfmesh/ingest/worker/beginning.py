"""What a worker of a job begins with: what it shares with others, and what its last boot has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elfmesh.cbt import Encode, encode_parts
from elfmesh.cbt.budget import Budget
from elfmesh.control.jobs.records import FIRST
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.worker.offsets import ReadUpTo, Stretch
from elfmesh.ingest.worker.tally import Carried
from elfmesh.ingest.worker.watermark import IDLE_US
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.safeguards import safeguard


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all workers of a job at an agent share.

    Attributes:
        idle_us: see `Watermark`.
        budget: the memory that the panes share with those of other jobs; None: as much as they take.
        seed: of the tables of keys, so that no sender can choose keys that collide.
        encode: makes the partials of an interval, one per partition.
        labels: of this agent; None: all parts of the statement are computed.
        stream: where blocks are from that do not say it, of a job over several.
        functions: evaluators of Python functions, per version that has any.
    """

    idle_us: int = IDLE_US
    budget: Budget | None = None
    seed: int = 0
    encode: Encode = encode_parts
    labels: Mapping[str, str] | None = None
    stream: str | None = None
    lookup: LookupSource | None = None
    functions: Mapping[int, FunctionSource] = field(default_factory=dict)


@safeguard("replay-boundary")
@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a job goes on: what its last frame says.

    Attributes:
        next: the first interval that is not sealed.
        shed: what was left out (`Offsets.shed`).
        read_up_to: how far the sealed frames had read, each for the intervals that it had sealed.
        carried: what no replay counts and is not sealed.
        revs: of intervals from `next` on, the last revision that another version has said.
        turns: where no block may reach across, beside what `read_up_to` and `shed` say.
        newest: the interval of the newest record that was read before the restart.
    """

    next: int = FIRST
    shed: tuple[Stretch, ...] = ()
    read_up_to: tuple[ReadUpTo, ...] = ()
    carried: tuple[Carried, ...] = ()
    revs: tuple[tuple[int, int], ...] = ()
    turns: tuple[FilePosition, ...] = ()
    newest: int | None = None


FRESH = Resumed()
"""A job that nothing of was read before."""

ALONE = Surroundings()
"""A worker that shares nothing."""
