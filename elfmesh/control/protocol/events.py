"""What goes into the control machine and what comes out of it.

Owns the words between the control plane and its host: requests of clients, the workers' seals, files. The
words of the overlay and the trees are theirs; `INPUTS` and `OUTPUTS` name all that pass either way. The host
carries out the effects of one job in the order they were given: an `Append` before the `ReadLog` behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from elfmesh.contribution import Contribution, replaced, within
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.stream_info import StreamInfo as StreamInfo
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events_finalising import Finalise as Finalise
from elfmesh.control.protocol.events_finalising import Finalised as Finalised
from elfmesh.control.protocol.events_functions import FunctionsTried
from elfmesh.control.protocol.events_programs import ProgramAttached as ProgramAttached
from elfmesh.control.protocol.events_programs import ProgramGone as ProgramGone
from elfmesh.control.protocol.events_programs import ProgramReported as ProgramReported
from elfmesh.control.protocol.events_programs import ToProgram as ToProgram
from elfmesh.control.protocol.events_results import LOG_PAGE_BYTES_MAX as LOG_PAGE_BYTES_MAX
from elfmesh.control.protocol.events_results import Append as Append
from elfmesh.control.protocol.events_results import DropLog as DropLog
from elfmesh.control.protocol.events_results import KeepPage as KeepPage
from elfmesh.control.protocol.events_results import LogDamaged as LogDamaged
from elfmesh.control.protocol.events_results import LogInfo as LogInfo
from elfmesh.control.protocol.events_results import LogRead as LogRead
from elfmesh.control.protocol.events_results import MendLog as MendLog
from elfmesh.control.protocol.events_results import ReadLog as ReadLog
from elfmesh.machine import Effect, Event, Received, Tick
from elfmesh.overlay.events import (
    Joined,
    LookupDone,
    PeerDown,
    PeerUp,
    ProbeDone,
    RouteDelivered,
)
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


@dataclass(frozen=True, slots=True)
class LocalStreams(Event):
    """What this agent carries, its labels and lookup tables. Given at start, and again when it changes."""

    streams: tuple[StreamInfo, ...]
    labels: tuple[tuple[str, str], ...] = ()
    lookups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientRequest(Event):
    """A client's question; answered by exactly one `Reply` with the same token.

    Attributes:
        token: of the host, unique among the open requests.
        verb: "apply", "list", "describe", "delete", "pause", "resume", "results", "schema", "offsets",
            "agents", "streams", "trees", "agent", "health".
        body: plain JSON values.
        wall_us: wall-clock microseconds UTC, for people only.
    """

    token: int
    verb: str
    body: dict[str, Any] = field(default_factory=dict)
    wall_us: int = 0


@dataclass(frozen=True, slots=True)
class ClientGone(Event):
    """Who sent a `ClientRequest` waits for its answer no more: what only reads is not asked for any more."""

    token: int


@dataclass(frozen=True, slots=True)
class Reply(Effect):
    """The answer to a `ClientRequest`: an HTTP status, JSON values and raw data beside them."""

    token: int
    status: int
    body: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class StartWorker(Effect):
    """Evaluate this job from `start` on; no member contributes records of earlier intervals any more.

    Said again when the versions change: what was sealed by another version than its interval's is made again.
    `stages`: which version evaluates from where on, below the first nothing is open; () where there never was
    another version. `begun`: what the events of this worker carry.
    """

    manifest: Manifest
    start: int
    stages: tuple[Stage, ...] = ()
    begun: int = 0


@dataclass(frozen=True, slots=True)
class StopWorker(Effect):
    """Stop evaluating this job and forget its frames."""

    job: bytes
    incarnation: str


@dataclass(frozen=True, slots=True)
class PauseWorker(Effect):
    """Stop reading for this job; keep the position."""

    job: bytes


@dataclass(frozen=True, slots=True)
class ResumeWorker(Effect):
    """Go on reading from the kept position."""

    job: bytes


@dataclass(frozen=True, slots=True)
class ReleaseWorker(Effect):
    """All below `stop` is settled, its revisions up to `received` as well: their frames are not needed."""

    job: bytes
    stop: int
    received: int = 0


@dataclass(frozen=True, slots=True)
class Sealed(Event):
    """The worker has nothing more for [start, stop) than these parts, one per partition of the job.

    Counts stand in partition 0 only (the others carry zeros), so that no record is counted twice. Ranges of
    one worker follow each other without a gap, beginning at `StartWorker.start`. `again`: sealed in an
    earlier boot of this agent; those from before the start come first, with gaps: they are closed, and may
    not be settled. `evaluated`: by whose text, see `Stage`. `begun`: see `StartWorker`; 0: by the newest.
    """

    job: bytes
    incarnation: str
    start: int
    stop: int
    parts: tuple[tuple[Contribution, ...], ...]
    again: bool = False
    evaluated: int = 1
    begun: int = 0

    def within(self, start: int, stop: int) -> Sealed:
        """As much of it as lies in [start, stop)."""
        start, stop = max(start, self.start), min(stop, self.stop)
        if (start, stop) == (self.start, self.stop):
            return self
        parts = tuple(within(run, start, stop) for run in self.parts)
        return replace(self, start=start, stop=max(start, stop), parts=parts)

    def revised(self, revision: Revised) -> Sealed:
        """With another contribution to one of its intervals."""
        pairs = zip(self.parts, revision.parts, strict=True)
        return replace(self, parts=tuple(replaced(run, new) for run, (new,) in pairs))


@dataclass(frozen=True, slots=True)
class Revised(Event):
    """Records came late for an interval that was sealed: its contribution is this one now, revision `rev`.

    `parts` has a part of one entry per partition; `added` is what it counts that the revision before did not.
    `seq` numbers those of a worker, in order. `again`: of an earlier boot, without `parts`, told first.
    `evaluated`, `begun`: as of `Sealed`.
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


@dataclass(frozen=True, slots=True)
class WorkerReport(Event):
    """Something about a worker that people should see: samples of unparsable lines, or why it stands."""

    job: bytes
    samples: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Recompute(Effect):
    """Compute this agent's share of an interval again from its raw logs: for a thread, and slow."""

    token: int
    manifest: Manifest
    interval: int


@dataclass(frozen=True, slots=True)
class Recomputed(Event):
    """The outcome of a `Recompute`: counts by bucket and one payload per partition, or why there are none."""

    token: int
    counts: tuple[int, ...] = ()
    payloads: tuple[bytes, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter(Effect):
    """Keep what an interval was closed without: this agent's partials, and the counts that go with them.

    `unknown`: no agent can say any more whether it was closed without them.
    """

    manifest: Manifest
    interval: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Persist(Effect):
    """Remember `data` under (kind, key) across restarts; b"" forgets it."""

    kind: str
    key: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Left(Effect):
    """Nothing is expected of this agent any more: it may end."""


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """What `Persist` remembered and which results logs there are; given once, before anything else."""

    items: tuple[tuple[str, bytes, bytes], ...] = ()
    logs: tuple[LogInfo, ...] = ()


INPUTS: tuple[type[Event], ...] = (
    Tick,
    Received,
    Joined,
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
    WorkerReport,
    Finalised,
    LogRead,
    LogDamaged,
    Recomputed,
    FunctionsTried,
    Restored,
)
"""Every event the control machine takes."""
