"""Events and effects of the control machine.

Owns the types between the control machine and its host: requests of clients, contributions of workers, files.
The overlay and the trees own theirs; `INPUTS` lists all events. The host carries out the effects of one job
in order, for example an `Append` before a later `ReadLog`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from msgspec import Struct

from elfmesh.contribution import Contribution, replaced, within
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.stream_info import StreamInfo as StreamInfo
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events_early import EarlyMembers as EarlyMembers
from elfmesh.control.protocol.events_early import EarlyMerged as EarlyMerged
from elfmesh.control.protocol.events_early import EarlyReported as EarlyReported
from elfmesh.control.protocol.events_early import MemberStates as MemberStates
from elfmesh.control.protocol.events_early import MergeEarly as MergeEarly
from elfmesh.control.protocol.events_functions import FunctionsTried
from elfmesh.control.protocol.events_order import PostsRead as PostsRead
from elfmesh.control.protocol.events_order import ReadPosts as ReadPosts
from elfmesh.control.protocol.events_order import StopPosts as StopPosts
from elfmesh.control.protocol.events_programs import ProgramAttached as ProgramAttached
from elfmesh.control.protocol.events_programs import ProgramGone as ProgramGone
from elfmesh.control.protocol.events_programs import ProgramReported as ProgramReported
from elfmesh.control.protocol.events_programs import ToProgram as ToProgram
from elfmesh.control.protocol.events_results import LOG_PAGE_BYTES_MAX as LOG_PAGE_BYTES_MAX
from elfmesh.control.protocol.events_results import Append as Append
from elfmesh.control.protocol.events_results import DropLog as DropLog
from elfmesh.control.protocol.events_results import Finalise as Finalise
from elfmesh.control.protocol.events_results import Finalised as Finalised
from elfmesh.control.protocol.events_results import KeepPage as KeepPage
from elfmesh.control.protocol.events_results import LogDamaged as LogDamaged
from elfmesh.control.protocol.events_results import LogInfo as LogInfo
from elfmesh.control.protocol.events_results import LogRead as LogRead
from elfmesh.control.protocol.events_results import MendLog as MendLog
from elfmesh.control.protocol.events_results import ReadLog as ReadLog
from elfmesh.control.protocol.events_standby import CutPanes as CutPanes
from elfmesh.control.protocol.events_standby import EndLog as EndLog
from elfmesh.control.protocol.events_standby import LogEnded as LogEnded
from elfmesh.control.protocol.events_standby import PanesCut as PanesCut
from elfmesh.machine import Effect, Event, Received, Tick
from elfmesh.overlay.events import Joined, Leave, LookupDone, PeerDown, PeerUp, ProbeDone, RouteDelivered
from elfmesh.srt.events import (
    Attached,
    BecameRoot,
    Collected,
    Delivered,
    Detached,
    LostRoot,
    PartsDropped,
    PublishDone,
)


class LocalStreams(Event, Struct, frozen=True):
    """Streams, labels and lookup tables of this agent; sent at start and after each change."""

    streams: tuple[StreamInfo, ...]
    labels: tuple[tuple[str, str], ...] = ()
    lookups: tuple[str, ...] = ()


class ClientRequest(Event, Struct, frozen=True):
    """A client's request; the machine answers it with exactly one `Reply` with the same token.

    Attributes:
        token: number given by the host, unique among the open requests.
        verb: "apply", "list", "describe", "delete", "pause", "resume", "results", "schema", "offsets",
            "agents", "streams", "trees", "agent", "health".
        body: plain JSON values.
        wall_us: wall-clock microseconds UTC, for display only.
    """

    token: int
    verb: str
    body: dict[str, Any] = {}
    wall_us: int = 0


class ClientGone(Event, Struct, frozen=True):
    """The client of a `ClientRequest` does not wait any more, so that a request that only reads ends."""

    token: int


class Reply(Effect, Struct, frozen=True):
    """The answer to a `ClientRequest`: an HTTP status, JSON values and raw data."""

    token: int
    status: int
    body: dict[str, Any] = {}
    payload: bytes = b""


class StartWorker(Effect, Struct, frozen=True):
    """Evaluate this job from `start` on; members do not contribute to earlier intervals any more.

    The effect is repeated when the versions change; the worker then makes contributions again that another
    version than that of their interval has evaluated. `stages` are the versions with open intervals, () if
    there is only one. `begun` is repeated in the events of this worker.
    """

    manifest: Manifest
    start: int
    stages: tuple[Stage, ...] = ()
    begun: int = 0


class StopWorker(Effect, Struct, frozen=True):
    """Stop the worker of a job, and delete its frames unless the agent may work on the job again."""

    job: bytes
    incarnation: str
    keeps_frames: bool = False


class PauseWorker(Effect, Struct, frozen=True):
    """Stop reading for this job; keep the position."""

    job: bytes


class ResumeWorker(Effect, Struct, frozen=True):
    """Continue reading for this job."""

    job: bytes


class ReleaseWorker(Effect, Struct, frozen=True):
    """Release the frames of the contributions below `stop`, and of the revisions up to number `received`."""

    job: bytes
    stop: int
    received: int = 0


@dataclass(frozen=True, slots=True)
class Sealed(Event):
    """The worker has sealed [start, stop); `parts` has the contributions per partition.

    Only partition 0 has counts (the others have zeros), so that no record is counted twice. The ranges of one
    worker follow each other without a gap from `StartWorker.start` on. `again`: an earlier boot has sealed
    the range; ranges before the start come first and may have gaps, because they are closed. `evaluated`: see
    `Stage`. `begun`: see `StartWorker`; 0: the newest. `inputs`: where a text has several inputs, the records
    that pass the filters of each, by interval. `ahead`: the agent leaves at once, so copy hosts get the range
    and no tree (`RosterEntry`); set by the member.
    """

    job: bytes
    incarnation: str
    start: int
    stop: int
    parts: tuple[tuple[Contribution, ...], ...]
    again: bool = False
    evaluated: int = 1
    begun: int = 0
    inputs: tuple[tuple[int, tuple[int, ...]], ...] = ()
    ahead: bool = False

    def within(self, start: int, stop: int) -> Sealed:
        """Return the part in [start, stop)."""
        start, stop = max(start, self.start), min(stop, self.stop)
        if (start, stop) == (self.start, self.stop):
            return self
        parts = tuple(within(run, start, stop) for run in self.parts)
        return replace(self, start=start, stop=max(start, stop), parts=parts)

    def revised(self, revision: Revised) -> Sealed:
        """Return the event with the contribution of a revision."""
        pairs = zip(self.parts, revision.parts, strict=True)
        return replace(self, parts=tuple(replaced(run, new) for run, (new,) in pairs))


@dataclass(frozen=True, slots=True)
class Revised(Event):
    """Revision `rev` of a contribution, because late records arrived for a sealed interval.

    `parts` has one entry per partition; `added` are the counts that the earlier revision does not have. `seq`
    numbers the revisions of a worker in order. `again`: an earlier boot has made it; such events come first
    and have no `parts`. `evaluated`, `begun`: see `Sealed`.
    """

    job: bytes
    incarnation: str
    interval: int
    rev: int
    parts: tuple[tuple[Contribution, ...], ...]
    added: tuple[int, ...]
    seq: int
    again: bool = False
    evaluated: int = 1
    begun: int = 0


class WorkerReport(Event, Struct, frozen=True):
    """Report of a worker for display: samples of unparsable lines, or the error that has stopped it."""

    job: bytes
    samples: tuple[str, ...] = ()
    error: str = ""


class Recompute(Effect, Struct, frozen=True):
    """Compute this agent's contribution to an interval again from its raw logs, in a thread."""

    token: int
    manifest: Manifest
    interval: int


class Recomputed(Event, Struct, frozen=True):
    """The outcome of a `Recompute`: counts by bucket and one payload per partition, or an error."""

    token: int
    counts: tuple[int, ...] = ()
    payloads: tuple[bytes, ...] = ()
    error: str = ""


class DeadLetter(Effect, Struct, frozen=True):
    """Store a dead letter: a contribution of this agent that is not in a closed interval.

    `unknown`: whether no agent knows any more if the interval contains it.
    """

    manifest: Manifest
    interval: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]
    unknown: bool = False


class Persist(Effect, Struct, frozen=True):
    """Store `data` under (kind, key) across restarts; b"" deletes it."""

    kind: str
    key: bytes
    data: bytes


class Left(Effect, Struct, frozen=True):
    """This agent has left all jobs and may end."""


class Restored(Event, Struct, frozen=True):
    """Data of `Persist` and results logs of earlier boots; the first event, sent once."""

    items: tuple[tuple[str, bytes, bytes], ...] = ()
    logs: tuple[LogInfo, ...] = ()


INPUTS: tuple[type[Event], ...] = (
    Tick,
    Received,
    Joined,
    Leave,
    LookupDone,
    PeerDown,
    PeerUp,
    ProbeDone,
    RouteDelivered,
    BecameRoot,
    LostRoot,
    Collected,
    Delivered,
    Attached,
    Detached,
    PartsDropped,
    PublishDone,
    LocalStreams,
    ClientRequest,
    ClientGone,
    ProgramAttached,
    ProgramReported,
    ProgramGone,
    Sealed,
    Revised,
    EarlyReported,
    PostsRead,
    PanesCut,
    LogEnded,
    WorkerReport,
    Finalised,
    EarlyMerged,
    LogRead,
    LogDamaged,
    Recomputed,
    FunctionsTried,
    Restored,
)
"""All events of the control machine."""
