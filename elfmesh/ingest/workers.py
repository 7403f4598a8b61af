"""Workers of one agent: they read each stream once for all jobs and make sealed intervals durable.

Owns the jobs that are evaluated here, and executes the control plane's requests for each job in order. The
loop over each stream is `elfmesh.ingest.read_loop`. Does not depend on peers or masters, and evaluates
nothing itself.

Invariants: the `Sealed` events of a job have no gap and are durable before they are emitted. A job that fails
stops alone, with a report, and costs no other job a record. No interval is sealed early because the agent
stops.

Paper: ELF 2.2, 3 (job worker). Guarantees D-1, D-3, D-12.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from elfmesh.cbt import Encode, encode_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import RuntimeFailure, StorageError
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.budget.read_rates import ReadRate
from elfmesh.ingest.frame_writer import FrameWriter
from elfmesh.ingest.functions.of_job import has_functions
from elfmesh.ingest.host import Executor
from elfmesh.ingest.inputs.post_reader import PostReaders
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.multi_stream_reader import MultiStreamReader, together
from elfmesh.ingest.ports import HELD_BYTES_MAX
from elfmesh.ingest.read_loop import Ingest
from elfmesh.ingest.scheduling.job_isolation import JobIsolation, own_home
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.scheduling.task_queue import TaskQueue
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.position import FilePosition
from elfmesh.ingest.stream import Stream, guarded
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.beginning import wanted_times
from elfmesh.ingest.worker.describing import describe_job
from elfmesh.ingest.worker.jobs import MOVING, LocalJob
from elfmesh.ingest.worker.reader import Reader
from elfmesh.machine import Event
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Forgotten, Released

log = logging.getLogger("elf.worker")


class WorkerHost:
    """`Workers` of the pump.

    Args:
        emit: receives the events for the control plane.
        streams: this agent's streams by name.
        open_reader: opens the reader of a stream.
        frames: the frame log; used only in the lane "store".
        executor: runs reading, evaluation and syncing.
        wall_us: wall clock.
        peers_us: wall clock of most other agents; None: unknown.
        fatal: called with an error that must end the agent.
        held_bytes_max: see HELD_BYTES_MAX.
        memory: the budget of all panes; None: no limit.
        tidy: see `Ingest`.
        seed: seed of the tables of keys, so that senders cannot choose keys that collide.
        encode: see `JobWorker`.
        labels, lookups: of this agent.
        cpu_s: CPU time of the calling thread; if constant, no job is classified as slow.
        scheduler, gate, guard: see `AgentParts`.
        member: id of this agent, which names it as a producer of punctuations.

    Attributes:
        rates: how fast each path has been read, by all its readers.
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
        labels: Mapping[str, str] | None = None,
        lookups: LookupTables | None = None,
        cpu_s: Callable[[], float] = lambda: 0.0,
        scheduler: Scheduler | None = None,
        gate: AuthorityGate | None = None,
        peers_us: Callable[[], int | None] = lambda: None,
        guard: CrashGuard | NoGuard = NO_GUARD,
        member: str = "",
    ) -> None:
        self._emit, self._wall_us, self._streams = emit, wall_us, streams
        self._open_reader, self._frames, self._executor, self._member = open_reader, frames, executor, member
        self._labels, self._lookups, self.held_bytes_max = labels, lookups, held_bytes_max
        self._scheduler, self._gate, self._guard = scheduler or Scheduler(), gate, guard
        self._jobs, self._early_members, self._closing = dict[bytes, LocalJob](), dict[bytes, int](), False
        self._cut_orders, self._end_orders = dict[bytes, ctl.CutPanes](), dict[bytes, ctl.EndLog]()
        self._task_queue, self.rates = TaskQueue(fatal), dict[str, ReadRate]()
        self._writer = FrameWriter(frames, executor, self._task_queue.spawn)
        self._posts = PostReaders(streams, open_reader, executor, emit, self._task_queue.spawn)
        stream = partial(Stream, memory=memory, seed=seed, encode=encode, cpu_s=cpu_s, guard=guard)

        def ingest(
            name: str, config: StreamConfig, reader: Reader, apart: bool = False, **how: Any
        ) -> Ingest:
            return Ingest(
                stream(name, config, reader, peers_us=peers_us, rate=self._rate_of(config)),
                executor,
                self._scheduler.open(POLL_BYTES, apart=apart),
                wall_us=wall_us,
                write=self._writer.write,
                emit=emit,
                ended=self._ended,
                memory=memory,
                held_bytes_max=self.held_bytes_max,
                crowded=lambda: frames.crowded,
                slow=self._too_slow,
                tidy=tidy,
                **how,
            )

        self._new_ingest = ingest
        self.ingests = {name: ingest(name, one, open_reader(name, one)) for name, one in streams.items()}
        self._isolation = JobIsolation(
            self.ingests,
            streams,
            open_apart=self._open_apart,
            run=self._run_loop,
            leave=self._leave,
            wall_us=wall_us,
            scheduler=self._scheduler,
            jobs=self._jobs,
            again=lambda job, move: self._task_queue.command(job, partial(self._place, job, move)),
        )
        for each in self.ingests.values():
            self._task_queue.spawn(each.run)
        self._isolation.watch()

    def _rate_of(self, config: StreamConfig) -> ReadRate:
        return self.rates.setdefault(config.path, ReadRate())

    def start_job(self, effect: ctl.StartWorker) -> None:
        self._task_queue.command(effect.manifest.job_id, partial(self._start, effect))

    def stop_job(self, effect: ctl.StopWorker) -> None:
        self._task_queue.command(effect.job, partial(self._stop, effect))

    def pause_job(self, job: bytes) -> None:
        self._task_queue.command(job, partial(self._hold, job, "control", True))

    def resume_job(self, job: bytes) -> None:
        self._task_queue.command(job, partial(self._hold, job, "control", False))

    def share_early(self, job: bytes, members: int) -> None:
        self._early_members[job] = members
        if (known := self._jobs.get(job)) is not None:
            known.early_members = members

    def read_posts(self, effect: ctl.ReadPosts) -> None:
        self._posts.read(effect)

    def stop_posts(self, job: bytes) -> None:
        self._posts.stop(job)

    def post_positions(self) -> list[tuple[FilePosition, ...]]:
        """Return the positions before which no ordered topic needs posts."""
        return self._posts.positions()

    def cut_panes(self, order: ctl.CutPanes) -> None:
        async def in_turn() -> None:
            self._cut(order)

        if self._task_queue.busy(order.job):  # an earlier incarnation of the job may still be stopping
            self._task_queue.command(order.job, in_turn)
        else:
            self._cut(order)

    def end_log(self, order: ctl.EndLog) -> None:
        async def in_turn() -> None:
            self._end_orders[order.job] = order
            if (known := self._jobs.get(order.job)) is not None:
                known.end_order = order
                self.ingests[known.home].wake()

        self._task_queue.command(order.job, in_turn)

    def _cut(self, order: ctl.CutPanes) -> None:
        self._cut_orders[order.job] = order
        if (known := self._jobs.get(order.job)) is not None:
            known.cut_pace.order = order
            ingest = self.ingests[known.home]
            (ingest.evaluate_next if order.after_us else ingest.wake)()

    def release(self, job: bytes, stop: int, received: int) -> None:
        if not self._task_queue.busy(job):
            self._release(job, stop, received)
            return

        async def in_turn() -> None:
            self._release(job, stop, received)

        self._task_queue.command(job, in_turn)

    async def close(self) -> None:
        """Stop reading at the current position and flush the frame log."""
        if self._closing:
            return
        self._closing = True
        self._task_queue.close()
        self._posts.close()
        self._writer.stop_waiting()
        for ingest in self.ingests.values():
            ingest.close()
        await self._task_queue.wait_done()
        self._end_functions()
        for ingest in self.ingests.values():
            await ingest.at_rest(ingest.stream.reader.close)
        await self._writer.close()

    def kill(self) -> None:
        self._closing = True
        self._writer.stop_waiting()
        self._end_functions()
        self._task_queue.kill()

    def _end_functions(self) -> None:
        self._isolation.close()
        for job in self._jobs.values():
            job.functions.close()

    @property
    def problem(self) -> str:
        """Return why reading waits; "" while the disk has room."""
        return self._writer.problem

    def lacks(self, problem: str) -> None:
        """Report to the masters what a thread of this agent waits for; "" once none waits any more."""
        for job in self._jobs.values():
            if not job.failed:
                error = problem or job.functions.problem
                self._emit(ctl.WorkerReport(job.manifest.job_id, error=error))

    def describe(self) -> dict[str, object]:
        """Return what this agent reads and evaluates, for display."""
        return {name: ingest.stream.describe() for name, ingest in self.ingests.items()}

    def describe_jobs(self) -> dict[str, dict[str, object]]:
        """Return the cost and memory of each job here."""
        return {job.manifest.qualified: describe_job(job) for job in list(self._jobs.values())}

    async def _start(self, effect: ctl.StartWorker) -> None:
        manifest = effect.manifest
        before = self._jobs.get(manifest.job_id)
        if before is not None:
            await self._drop(manifest.job_id)
        same = before is not None and before.manifest.incarnation == manifest.incarnation
        held = before.held if before is not None and same else set()
        job: LocalJob | None = None
        try:
            about = (effect.stages, self._lookups, effect.begun, self._member)
            job = LocalJob(manifest, effect.start, self._labels, *about)
            self._guard.check(guarded(job))
            if self._gate is not None:
                admit = partial(job.functions.admit, self._gate, job.stages, self._wall_us)
                await self._executor.run("store", admit)
            ingest = self._home(job)
            recovered = await self._executor.run("store", partial(job.recover, self._frames))
            if job.unwritten:
                await self._writer.write(job.unwritten)
            for event in recovered:
                job.given(event)
                self._emit(event)
            begin = await ingest.at_rest(partial(self._isolation.begin, job, ingest.stream))
        except StorageError:
            raise
        except Exception as error:  # a job's fault must not affect the others
            log.warning("job %s cannot begin: %r", manifest.qualified, error)
            self._emit(ctl.WorkerReport(manifest.job_id, error=str(error) or type(error).__name__))
            if job is not None:
                job.functions.close()
            self._leave(job.home if job is not None else manifest.qualified)
            return
        self._jobs[manifest.job_id] = job
        job.early_members = self._early_members.get(manifest.job_id, 1)
        job.cut_pace.order = self._cut_orders.get(manifest.job_id)
        job.end_order = self._end_orders.get(manifest.job_id)
        if begin is not None:
            await self._writer.write([begin])
        for reason in sorted(held - {"memory", MOVING}):
            await self._hold(manifest.job_id, reason, True)
        await self._isolation.settle(job)
        start = job.worker.next_index
        begins = "the beginning of its logs" if start == FIRST else f"interval {start}"
        log.info("job %s from %s", manifest.qualified, begins)
        self.ingests[job.home].wake()

    async def _stop(self, effect: ctl.StopWorker) -> None:
        job = self._jobs.get(effect.job)
        if job is not None and job.manifest.incarnation == effect.incarnation:
            await self._drop(effect.job)
            log.info("job %s has ended", job.manifest.qualified)
        self._early_members.pop(effect.job, None)
        self._cut_orders.pop(effect.job, None)
        self._end_orders.pop(effect.job, None)
        if not effect.keeps_frames:
            forgotten = Forgotten(LocalJob.frame_key(effect.job, effect.incarnation))
            await self._writer.write([forgotten])

    async def _drop(self, job_id: bytes) -> None:
        job = self._jobs.pop(job_id)
        ingest = self.ingests[job.home]
        await ingest.at_rest(partial(job.end, ingest.stream))
        self._leave(job.home)

    def _home(self, job: LocalJob) -> Ingest:
        names = job.reads(self._streams)
        if not names:
            raise RuntimeFailure(f"no stream {job.stream!r} here")
        job.stream = job.home = names[0]
        if len(names) == 1 and not has_functions(job.stages):
            return self.ingests[job.home]
        configs = {name: self._streams[name] for name in names}
        readers = {name: self._open_reader(name, config) for name, config in configs.items()}
        job.home = own_home(job, " + ".join(names), self.ingests)
        if len(names) > 1:
            read_from = {name: config.read_from for name, config in configs.items()}
            wanted_of = partial(wanted_times, [stage.manifest for stage in job.stages])
            reader: Reader = MultiStreamReader(readers, read_from, job.fields_of, wanted_of)
            job.stream = job.home
        else:
            reader = readers[job.stream]
        config = together(list(configs.values()))
        waits = has_functions(job.stages)
        ingest = self.ingests[job.home] = self._new_ingest(job.home, config, reader, waits=waits)
        self._run_loop(ingest)
        return ingest

    def _too_slow(self, job_id: bytes) -> None:
        self._task_queue.command(job_id, partial(self._place, job_id, self._isolation.set_apart))

    async def _place(self, job_id: bytes, move: Callable[[LocalJob], Coroutine[Any, Any, None]]) -> None:
        if (job := self._jobs.get(job_id)) is not None:
            await move(job)

    def _open_apart(self, name: str, stream: str, caught_up: Callable[[], None] | None) -> Ingest:
        reader, config = self._open_reader(stream, self._streams[stream]), self._streams[stream]
        ingest = self._new_ingest(name, config, reader, apart=True, caught_up=caught_up)
        if self._closing:
            ingest.close()
        return ingest

    def _run_loop(self, ingest: Ingest) -> None:
        if self._closing:  # it was made before the stop, which could not close it
            ingest.close()
        self._task_queue.spawn(ingest.run)

    def _leave(self, name: str) -> None:
        self._isolation.gone(name)
        ingest = None if name in self._streams else self.ingests.pop(name, None)
        if ingest is not None:
            ingest.close()
            self._task_queue.spawn(partial(self._end, ingest))

    async def _end(self, ingest: Ingest) -> None:
        self._scheduler.close(ingest.account)
        await ingest.at_rest(ingest.stream.reader.close)

    async def _hold(self, job_id: bytes, reason: str, held: bool) -> None:
        if (job := self._jobs.get(job_id)) is not None:
            ingest = self.ingests[job.home]
            await ingest.at_rest(partial(job.hold, ingest.stream, reason, held, self._wall_us()))
            ingest.wake()

    def _release(self, job_id: bytes, stop: int, received: int) -> None:
        if (job := self._jobs.get(job_id)) is not None:
            job.release(stop)
            self._writer.release(Released(job.key, stop, received))
            if "memory" in job.held and job.held_bytes < self.held_bytes_max // 2:
                self._task_queue.command(job_id, partial(self._hold, job_id, "memory", False))

    def _ended(self, job_id: bytes) -> None:
        if (job := self._jobs.pop(job_id, None)) is not None:
            self._leave(job.home)
