"""The workers of one agent: streams read once, every job fed, every sealed interval on disk before it leaves.

Owns the jobs that are evaluated here, the loop over each stream and the order read -> feed -> seal ->
frame log -> control plane. Knows no peer and no master; evaluates nothing itself. Reading, parsing and
evaluation run in the executor's "read" lane, the frame log in its "store" lane, so both may be threads.

Invariants: the `Sealed` events of a job follow each other without a gap and are durable before they are
given; a job that fails stops alone, with a report, and never costs another job a record; nothing is sealed
early because the agent stops.

Paper: ELF 2.2, 3 (job worker). Guarantees D-1, D-3, D-12.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from elfmesh.agent.config import StreamConfig
from elfmesh.agent.framelog import Forgotten, FrameLog, Released
from elfmesh.agent.host import Executor
from elfmesh.agent.jobs import LocalJob, Reader, Stream
from elfmesh.control import events as ctl
from elfmesh.control.records import FIRST
from elfmesh.errors import RuntimeFailure, StorageError
from elfmesh.machine import Event

log = logging.getLogger("elf.worker")
POLL_MIN_S, POLL_MAX_S = 0.02, 0.1
"""How often a stream is looked at: soon after it has grown, more rarely while it is silent."""
BUSY_BYTES = 1 << 20
"""A poll that brought so much is followed by the next at once: the reader is behind."""
HELD_BYTES_MAX = 64 << 20
"""Sealed but not closed partials of one job; above it the job stops reading until half is closed."""


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
    ) -> None:
        self._held_bytes_max = held_bytes_max
        self._emit, self._frames, self._executor, self._wall_us = emit, frames, executor, wall_us
        self._fatal = fatal
        self._streams = {
            name: Stream(name, config, open_reader(name, config)) for name, config in streams.items()
        }
        self._jobs: dict[bytes, LocalJob] = {}
        self._commands: asyncio.Queue[Callable[[], object]] = asyncio.Queue()
        self._closing = False
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._guard(self._obey()))]
        self._tasks += [
            loop.create_task(self._guard(self._read(stream))) for stream in self._streams.values()
        ]

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
        for stream in self._streams.values():
            stream.wake.set()
        self._commands.put_nowait(lambda: None)
        await asyncio.wait(self._tasks)
        await self._executor.run("read", self._close_readers)
        await self._executor.run("store", self._frames.close)

    def kill(self) -> None:
        """Stop at once, finish nothing."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    def describe(self) -> dict[str, object]:
        """What this agent reads and evaluates, for people."""
        return {name: stream.describe() for name, stream in self._streams.items()}

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
            stream = self._streams.get(job.stream)
            if stream is None:
                raise RuntimeFailure(f"no stream {job.stream!r} here")
            recovered = await self._executor.run("store", partial(job.recover, self._frames))
            for event in recovered:
                self._emit(event)
            begin = await self._executor.run("read", partial(job.begin, stream))
        except StorageError:
            raise
        except Exception as error:  # one bad job must not hurt the others
            log.warning("job %s cannot begin: %r", manifest.qualified, error)
            self._emit(ctl.WorkerReport(manifest.job_id, error=str(error) or type(error).__name__))
            return
        self._jobs[manifest.job_id] = job
        if begin is not None:
            await self._executor.run("store", partial(self._write, [begin]))
        start = job.worker.next_index
        begins = "the beginning of its logs" if start == FIRST else f"interval {start}"
        log.info("job %s from %s", manifest.qualified, begins)
        stream.wake.set()

    async def _stop(self, effect: ctl.StopWorker) -> None:
        job = self._jobs.get(effect.job)
        if job is not None and job.manifest.incarnation == effect.incarnation:
            await self._drop(effect.job)
            log.info("job %s has ended", job.manifest.qualified)
        forgotten = Forgotten(LocalJob.frame_key(effect.job, effect.incarnation))
        await self._executor.run("store", partial(self._frames.append, forgotten))

    async def _drop(self, job_id: bytes) -> None:
        job = self._jobs.pop(job_id)
        stream = self._streams[job.stream]
        await self._executor.run("read", partial(job.end, stream))

    async def _hold(self, job_id: bytes, reason: str, held: bool) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            stream = self._streams[job.stream]
            await self._executor.run("read", partial(job.hold, stream, reason, held, self._wall_us()))
            stream.wake.set()

    async def _release(self, job_id: bytes, stop: int) -> None:
        job = self._jobs.get(job_id)
        if job is None:
            return
        job.release(stop)
        released = Released(job.key, stop)
        await self._executor.run("store", partial(self._write_released, released))
        if "memory" in job.held and job.held_bytes < self._held_bytes_max // 2:
            await self._hold(job_id, "memory", False)

    def _write(self, frames: list[object]) -> None:
        for frame in frames:
            self._frames.append(frame)  # type: ignore[arg-type]  # only frames are put in these lists
        self._frames.sync()

    def _write_released(self, released: Released) -> None:
        self._frames.append(released)
        self._frames.compact()

    def _close_readers(self) -> None:
        for stream in self._streams.values():
            stream.reader.close()

    # -- reading ---------------------------------------------------------------------------------------------

    async def _read(self, stream: Stream) -> None:
        """Look at a stream for ever: at once while it is busy, ever more rarely while it is silent."""
        pause = POLL_MIN_S
        while not self._closing:
            stream.wake.clear()
            if not stream.jobs:
                await stream.wake.wait()
                continue
            brought = await self._cycle(stream)
            if brought >= BUSY_BYTES:
                await asyncio.sleep(0)
                continue
            pause = POLL_MIN_S if brought else min(POLL_MAX_S, pause * 1.5)
            ahead = (stream.next_due_us() or 0) - self._wall_us()
            wait = max(0.001, min(pause, ahead / 1e6)) if ahead > 0 else pause
            try:
                async with asyncio.timeout(wait):
                    await stream.wake.wait()
            except TimeoutError:
                pass

    async def _cycle(self, stream: Stream) -> int:
        """One poll of a stream and everything that follows from it; returns the bytes read."""
        outcome = await self._executor.run("read", partial(stream.cycle, self._wall_us))
        if outcome.frames:
            await self._executor.run("store", partial(self._write, list(outcome.frames)))
        for event in outcome.events:
            self._emit(event)
        for job_id in outcome.failed:
            self._jobs.pop(job_id, None)
        for job in list(stream.jobs.values()):
            if job.held_bytes > self._held_bytes_max and "memory" not in job.held:
                log.warning("job %s waits: %d bytes are not closed", job.manifest.qualified, job.held_bytes)
                await self._hold(job.manifest.job_id, "memory", True)
        return outcome.bytes_read
