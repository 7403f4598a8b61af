"""Initial state of a job's worker: the objects it shares with others, and the state of an earlier boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from elfmesh import ql
from elfmesh.cbt import Encode, encode_parts
from elfmesh.cbt.budget import Budget
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ingest.worker.offsets import ReadUpTo, Stretch
from elfmesh.ingest.worker.tally import Carried
from elfmesh.ingest.worker.watermark import IDLE_US
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.safeguards import safeguard


class SharedWorkerState(Struct, frozen=True):
    """Objects that all workers of a job at an agent share.

    Attributes:
        idle_us: see `Watermark`.
        budget: the memory budget of all panes; None: no limit.
        seed: seed of the tables of keys, so that senders cannot choose keys that collide.
        encode: makes the partials of an interval, one per partition.
        labels: labels of this agent; None: all parts of the statement are computed.
        stream: stream of blocks that do not name one, for a job over several.
        functions: evaluators of Python functions, for each version that has any.
        member: id of this agent, which names it as a producer of punctuations.
    """

    idle_us: int = IDLE_US
    budget: Budget | None = None
    seed: int = 0
    encode: Encode = encode_parts
    labels: Mapping[str, str] | None = None
    stream: str | None = None
    lookup: LookupSource | None = None
    functions: Mapping[int, FunctionSource] = field(default_factory=dict)
    member: str = ""


@safeguard("replay-boundary")
class Resumed(Struct, frozen=True):
    """State of a job at a restart, from its last frame.

    Attributes:
        next: the first interval that is not sealed.
        shed: dropped stretches of input (`Offsets.shed`).
        read_up_to: how far the sealed frames had read, with the intervals that they had sealed.
        carried: counts that a replay does not repeat and that are not sealed.
        revs: for intervals from `next` on, the last revision that another version has reported.
        turns: positions that no block may cross, besides those of `read_up_to` and `shed`.
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
"""State of a job without an earlier boot."""

ALONE = SharedWorkerState()
"""Shared objects of a worker that shares nothing."""


def wanted_times(versions: Sequence[Manifest], stream: str) -> WantedTimes | None:
    """Return the event times that a job takes of a stream, in any of its versions; None: all."""
    statements = [ql.parse(manifest.text) for manifest in versions]
    if any(statement.window is None for statement in statements):
        return None
    columns = {statement.time_of(stream) for statement in statements}
    since_us = _limit(min, [manifest.since_us for manifest in versions])
    until_us = _limit(max, [manifest.until_us for manifest in versions])
    if len(columns) > 1 or since_us is until_us is None:
        return None
    return WantedTimes(columns.pop(), since_us, until_us)


def _limit(of: Callable[[list[int]], int], limits: Sequence[int | None]) -> int | None:
    """Return the limit of all versions together; None if one of them has none."""
    known = [limit for limit in limits if limit is not None]
    return of(known) if len(known) == len(limits) else None
