"""The workers of one agent: streams read once, every job fed, every sealed interval on disk before it leaves.

Owns the jobs that are evaluated here and what the control plane wants of them, one thing after the other;
the loop over each stream is `elfmesh.agent.ingest`. Knows no peer and no master; evaluates nothing itself.

Invariants: the `Sealed` events of a job follow each other without a gap and are durable before they are
given; a job that fails stops alone, with a report, and never costs another job a record; nothing is sealed
early because the agent stops.

Paper: ELF 2.2, 3 (job worker). Guarantees D-1, D-3, D-12.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from elfmesh.agent.config import StreamConfig
from elfmesh.agent.framelog import Forgotten, Frame, FrameLog, Released
from elfmesh.agent.host import Executor
from elfmesh.agent.ingest import HELD_BYTES_MAX, Ingest
from elfmesh.agent.jobs import LocalJob, Reader
from elfmesh.agent.stream import Stream
from elfmesh.cbt import Encode, encode_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control import events as ctl
from elfmesh.control.records import FIRST
from elfmesh.errors import DiskFull, RuntimeFailure, StorageError
from elfmesh.machine import Event

log = logging.getLogger("elf.worker")
FULL_RETRY_S = 0.5
"""How often a full disk is tried again."""


class WorkerHost:
    """`Workers` of the pump.

    Args:
        emit: takes the events for the control plane.
        streams: this agent's streams by name.
        open_reader: opens the reader of a stream.
        frames: the frame log; only used in the "store" lane.
        executor: where reading, evaluation and syncing run.
        wall_us: wall clock.
        fatal: told of an error that must end the agent.
        held_bytes_max: see HELD_BYTES_MAX.
        memory: the budget of all panes; None: without limit.
        tidy: see `Ingest`.
        seed: of the tables of keys, so that nobody can choose keys that collide.
        encode: see `JobWorker`.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        streams: Mapping[str, StreamConfig],
        open_reader: Callable[[str, StreamConfig], Reader],
        frames: FrameLog,
        executor: Executor,
        wall_us: Callable[[], int],
        fatal: Callable[[BaseException], None],
        held_bytes_max: int = HELD_BYTES_MAX,
        memory: MemoryBudget | None = None,
        seed: int = 0,
        encode: Encode = encode_parts,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        self._held_bytes_max = held_bytes_max
        self._emit, self._frames, self._executor, self._wall_us = emit, frames, executor, wall_us
        self._fatal = fatal
        self._jobs: dict[bytes, LocalJob] = {}
        self._ingests = {
            name: Ingest(
                Stream(name, config, open_reader(name, config), memory=memory, seed=seed, encode=encode),
                executor,
                wall_us=wall_us,
                write=self._write,
                emit=emit,
                ended=self._ended,
                memory=memory,
                held_bytes_max=held_bytes_max,
                tidy=tidy,
            )
            for name, config in streams.items()
        }
        self._commands: asyncio.Queue[Callable[[], object]] = asyncio.Queue()
        self._closing = False
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._guard(self._obey()))]
        self._tasks += [loop.create_task(self._guard(ingest.run())) for ingest in self._ingests.values()]

    # -- what the control plane wants; carried out one after the other -----------------------------------

    def start_job(self, effect: ctl.StartWorker) -> None:
        """Begin a job, or go on with it after a restart."""
        self._commands.put_nowait(partial(self._start, effect))

    def stop_job(self, effect: ctl.StopWorker) -> None:
        """End a job and forget its frames."""
        self._commands.put_nowait(partial(self._stop, effect))

    def pause_job(self, job: bytes) -> None:
        """Stop reading for a job."""
        self._commands.put_nowait(partial(self._hold, job, "control", True))

    def resume_job(self, job: bytes) -> None:
        """Go on reading for a job."""
        self._commands.put_nowait(partial(self._hold, job, "control", False))

    def release(self, job: bytes, stop: int) -> None:
        """Intervals of a job below `stop` are closed."""
        self._commands.put_nowait(partial(self._release, job, stop))

    async def close(self) -> None:
        """Stop reading where we are and flush the frame log."""
        if self._closing:
            return
        self._closing = True
        for ingest in self._ingests.values():
            ingest.close()
        self._commands.put_nowait(lambda: None)
        await asyncio.wait(self._tasks)
        for ingest in self._ingests.values():
            await ingest.at_rest(ingest.stream.reader.close)
        await self._executor.run("store", self._frames.close)

    def kill(self) -> None:
        """Stop at once, finish nothing."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    def describe(self) -> dict[str, object]:
        """What this agent reads and evaluates, for people."""
        return {name: ingest.stream.describe() for name, ingest in self._ingests.items()}

    # -- commands ------------------------------------------------------------------------------------------

    async def _guard(self, work: object) -> None:
        try:
            await work  # type: ignore[misc]  # any awaitable: a coroutine of ours or of the executor
        except Exception as error:
            log.exception("the worker host has failed")
            self._fatal(error)

    async def _obey(self) -> None:
        while not self._closing:
            command = await self._commands.get()
            outcome = command()
            if asyncio.iscoroutine(outcome):
                await outcome

    async def _start(self, effect: ctl.StartWorker) -> None:
        manifest = effect.manifest
        if manifest.job_id in self._jobs:
            await self._drop(manifest.job_id)
        try:
            job = LocalJob(manifest, effect.start)
            ingest = self._ingests.get(job.stream)
            if ingest is None:
                raise RuntimeFailure(f"no stream {job.stream!r} here")
            recovered = await self._executor.run("store", partial(job.recover, self._frames))
            for event in recovered:
                if isinstance(event, ctl.Sealed):
                    job.given(event)
                self._emit(event)
            begin = await ingest.at_rest(partial(job.begin, ingest.stream))
        except StorageError:
            raise
        except Exception as error:  # one bad job must not hurt the others
            log.warning("job %s cannot begin: %r", manifest.qualified, error)
            self._emit(ctl.WorkerReport(manifest.job_id, error=str(error) or type(error).__name__))
            return
        self._jobs[manifest.job_id] = job
        if begin is not None:
            await self._write([begin])
        start = job.worker.next_index
        begins = "the beginning of its logs" if start == FIRST else f"interval {start}"
        log.info("job %s from %s", manifest.qualified, begins)
        ingest.wake()

    async def _stop(self, effect: ctl.StopWorker) -> None:
        job = self._jobs.get(effect.job)
        if job is not None and job.manifest.incarnation == effect.incarnation:
            await self._drop(effect.job)
            log.info("job %s has ended", job.manifest.qualified)
        forgotten = Forgotten(LocalJob.frame_key(effect.job, effect.incarnation))
        await self._write([forgotten])

    async def _drop(self, job_id: bytes) -> None:
        job = self._jobs.pop(job_id)
        ingest = self._ingests[job.stream]
        await ingest.at_rest(partial(job.end, ingest.stream))

    async def _hold(self, job_id: bytes, reason: str, held: bool) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            ingest = self._ingests[job.stream]
            await ingest.at_rest(partial(job.hold, ingest.stream, reason, held, self._wall_us()))
            ingest.wake()

    async def _release(self, job_id: bytes, stop: int) -> None:
        job = self._jobs.get(job_id)
        if job is None:
            return
        job.release(stop)
        released = Released(job.key, stop)
        await self._executor.run("store", partial(self._write_released, released))
        if "memory" in job.held and job.held_bytes < self._held_bytes_max // 2:
            await self._hold(job_id, "memory", False)

    def _ended(self, job_id: bytes) -> None:
        """A job has failed by itself."""
        self._jobs.pop(job_id, None)

    async def _write(self, frames: Sequence[Frame]) -> None:
        """Make frames durable; while the disk is full, who waits for this does not read on."""
        left = deque(frames)
        waiting = False
        while True:
            try:
                await self._executor.run("store", partial(self._append, left))
            except DiskFull as error:
                if self._closing:  # what is not on disk is read again by the next start
                    raise
                if not waiting:
                    log.error("reading waits: %s", error)
                waiting = True
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if waiting:
                    log.info("there is room on disk again")
                return

    def _append(self, frames: deque[Frame]) -> None:
        while frames:
            self._frames.append(frames[0])
            frames.popleft()
        self._frames.sync()

    def _write_released(self, released: Released) -> None:
        with contextlib.suppress(DiskFull):  # a later one says the same and more
            self._frames.append(released)
        self._frames.compact()
