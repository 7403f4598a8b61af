"""Runs merges and finalisations in two threads, one for small requests and one for large requests.

Small waiting requests are passed to a thread together, because the transfer of each alone would cost as much
as its work when many jobs close an interval at the same time. The module owns the queues.

Invariants: the outcomes of small requests arrive in the order of the requests, and so do those of large
requests. A large request never delays a small one. A request that fails affects no other request. A request
is large if its payload is large, or if the previous request of its kind and job took long.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Protocol

from elfmesh.control.protocol import events as ctl
from elfmesh.errors import DataError, ElfError, RuntimeFailure
from elfmesh.ingest import traces
from elfmesh.ingest.host import Executor
from elfmesh.ingest.timings import timed
from elfmesh.machine import Event
from elfmesh.safeguards import safeguard
from elfmesh.srt.events import Merged, MergeRequest
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.failpoints import reach

if TYPE_CHECKING:
    from elfmesh.cbt import Content

log = logging.getLogger("elf.agent")
Request = MergeRequest | ctl.Finalise | ctl.MergeEarly
LANES = ("compute", "bulk")
BULK_BYTES = 256 << 10
"""Minimum payload of a large request. Its job has many keys, and other jobs must not wait for its merge."""

ID_BYTES = 8
"""Length of the part of a job's id that distinguishes jobs with equal names and different creators."""

LONG_S = 0.002
"""Processor seconds of a request beyond which the next request of its kind and job is large."""

LONG_MAX = 1024
"""Maximum number of remembered slow kinds."""

TOGETHER_MAX, TOGETHER_BYTES_MAX = 32, 1 << 20
"""Maximum number and payload of requests that run together; the first one waits for the outcome of the last.
"""


class Compute(Protocol):
    """Operations on partials. They are plain functions that run in a thread."""

    def encode(self, tables: Mapping[str, Content], partitions: int) -> list[bytes]:
        """Encode the partial of each partition of an interval. Workers call this in their own threads."""
        ...

    def merge(self, parts: tuple[bytes, ...]) -> bytes: ...

    def finalised(self, effect: ctl.Finalise) -> ctl.Finalised: ...

    def merged_early(self, effect: ctl.MergeEarly) -> ctl.EarlyMerged: ...


class HeavyWork:
    """Queues merges and finalisations, and runs them in threads.

    Args:
        compute: performs the operations.
        executor: threads; the lanes are `LANES`.
        spawn: runs a coroutine on the event loop.
        step: receives the outcomes.
        counters: counters of failures.
        cpu_s: CPU time of the calling thread; if it is constant, only the payload makes a request large.
        guard: refuses intervals that have killed the process.
        job_of: returns the name of the job that a tree reduces, for display.
    """

    def __init__(
        self,
        compute: Compute,
        executor: Executor,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        step: Callable[[Event], None],
        counters: Counter[str],
        cpu_s: Callable[[], float] = lambda: 0.0,
        *,
        guard: CrashGuard | NoGuard = NO_GUARD,
        job_of: Callable[[bytes], str] = bytes.hex,
    ) -> None:
        self._cpu_s, self._guard, self._job_of = cpu_s, guard, job_of
        self._compute, self._executor, self._spawn, self._step = compute, executor, spawn, step
        self._counters = counters
        self._waiting: dict[str, deque[Request]] = {lane: deque() for lane in LANES}
        self._working = dict.fromkeys(LANES, False)
        self._long: OrderedDict[tuple[type[Request], bytes], None] = OrderedDict()
        self._lock = threading.Lock()  # guards _long

    def ask(self, request: Request) -> None:
        with self._lock:
            lane = LANES[_bytes_of(request) > BULK_BYTES or _kind_of(request) in self._long]
        self._waiting[lane].append(request)
        if not self._working[lane]:
            self._working[lane] = True
            self._spawn(self._work(lane))

    async def _work(self, lane: str) -> None:
        waiting = self._waiting[lane]
        while waiting:
            batch = [waiting.popleft()]
            size = _bytes_of(batch[0])
            while waiting and len(batch) < TOGETHER_MAX:
                size += _bytes_of(waiting[0])
                if size > TOGETHER_BYTES_MAX:
                    break
                batch.append(waiting.popleft())
            for event in await self._executor.run(lane, partial(self._outcomes, batch)):
                self._step(event)
        self._working[lane] = False

    def _outcomes(self, batch: list[Request]) -> list[Event]:
        return [self._outcome(each) for each in batch]

    def _outcome(self, request: Request) -> Event:
        began_s = self._cpu_s()
        outcome: Event
        match request:
            case MergeRequest():
                outcome = self._merged(request)
            case ctl.MergeEarly():
                outcome = self._merged_early(request)
            case _:
                outcome = made_in_turn(request, self._timed)
        self._remember(_kind_of(request), self._cpu_s() - began_s)
        return outcome

    def _remember(self, kind: tuple[type[Request], bytes], cpu_s: float) -> None:
        with self._lock:
            self._long.pop(kind, None)
            if cpu_s >= LONG_S:
                self._long[kind] = None
            if len(self._long) > LONG_MAX:
                self._long.popitem(last=False)

    def _timed(self, effect: ctl.Finalise) -> ctl.Finalised:
        began_ns = time_ns()
        with timed("finalise"):
            outcome = self._finalised(effect)
        traces.span("finalise", effect.job, effect.interval, began_ns)
        return outcome

    @property
    def waiting(self) -> dict[str, int]:
        return {lane: len(waiting) for lane, waiting in self._waiting.items()}

    def _merged(self, request: MergeRequest) -> Merged:
        began_ns = time_ns()
        try:
            with timed("merge"), self._guard.making(_partials_of(request), request.interval):
                reach("merge", str(request.interval))
                merged = Merged(request.token, self._compute.merge(request.parts))
            traces.span("merge", request.tree, request.interval, began_ns)
            return merged
        # the partials have killed the process before, or the result would be too large for its receivers
        except RuntimeFailure as error:
            about = (request.interval, self._job_of(request.tree), error)
            log.error("interval %d of %s is not merged here: %s", *about)
            return Merged(request.token, None, self._peers_fault("merge", error))
        except Exception as error:  # partials come from peers, so any failure is attributed to them
            return Merged(request.token, None, self._peers_fault("merge", error))

    def _finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
        job, epoch, interval, rev = effect.job, effect.epoch, effect.interval, effect.rev
        try:
            with self._guard.making(_rows_of(effect), interval):
                reach("finalise", f"{effect.manifest.qualified}.{interval}")
                return self._compute.finalised(effect)
        # the rows are too large, or have killed the process before
        except (DataError, RuntimeFailure) as error:
            log.warning("interval %d of %s has no rows: %s", interval, effect.manifest.qualified, error)
            return ctl.Finalised(job, epoch, interval, error=self._peers_fault("finalise", error), rev=rev)
        except Exception as error:  # as above
            return ctl.Finalised(job, epoch, interval, error=self._peers_fault("finalise", error), rev=rev)

    def _merged_early(self, effect: ctl.MergeEarly) -> ctl.EarlyMerged:
        try:
            with self._guard.making(_early_of(effect), effect.interval):
                return self._compute.merged_early(effect)
        except Exception as error:  # as above
            fault = self._peers_fault("early", error)
            return ctl.EarlyMerged(effect.job, effect.epoch, effect.interval, error=fault)

    def _peers_fault(self, what: str, error: Exception) -> str:
        self._counters[f"{what}_failed"] += 1
        if not isinstance(error, ElfError):
            log.exception("%s failed", what)
        return str(error) or type(error).__name__


def made_in_turn(order: ctl.Finalise, make: Callable[[ctl.Finalise], ctl.Finalised]) -> ctl.Finalised:
    """Return the outcome of an order and of those in its `then`; `make` makes the rows of one interval."""
    made = [make(order)]
    for each in order.then:
        if made[-1].error:
            break
        made.append(make(continuing(each, made[-1])))
    return replace(made[0], then=tuple(made[1:]))


@safeguard("groups-in-turn")
def continuing(order: ctl.Finalise, before: ctl.Finalised) -> ctl.Finalise:
    """Return an order with the groups that the order before it has left open."""
    return replace(order, open=before.open)


def _kind_of(request: Request) -> tuple[type[Request], bytes]:
    return type(request), request.tree if isinstance(request, MergeRequest) else request.job


def _partials_of(request: MergeRequest) -> str:
    """Name of a merge for the crash guard. An inner agent may not know which job the tree belongs to."""
    return f"the partials of tree {request.tree.hex()}"


def _early_of(effect: ctl.MergeEarly) -> str:
    return f"the early rows of {effect.manifest.qualified} version {effect.manifest.version}"


def _rows_of(effect: ctl.Finalise) -> str:
    """Name of an interval's rows for the crash guard. The rows of another version are tried again."""
    manifest = effect.manifest
    about = f"{manifest.qualified} version {manifest.version}"
    return f"the rows of {about} {effect.job[:ID_BYTES].hex()}{manifest.incarnation}"


def _bytes_of(request: Request) -> int:
    if isinstance(request, MergeRequest):
        return sum(map(len, request.parts))
    if isinstance(request, ctl.MergeEarly):
        return sum(len(each.payload) for each in request.states)
    read = len(request.open or b"") + sum(len(rows) for _, _, rows in request.inputs)
    read += sum(len(part) for partition in request.parts for part in partition)
    return read + sum(map(_bytes_of, request.then))
