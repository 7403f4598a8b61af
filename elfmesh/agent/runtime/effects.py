"""The outbox of an agent: executes the core's effects in order, each after earlier writes are durable.

The module owns the waiting effects, the writes, and the reads between them. The pump passes in how all other
effects are executed.

Invariants: effects are executed in their order. An effect after a write is executed only when the write is
durable, except for effects that promise nothing (`unsynced_effects`). If the disk is full, nothing was
written, and the agent waits for space; its peers see it as absent meanwhile. The same applies while the
writing thread waits for a descriptor (`elfmesh.storage.starving`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from elfmesh.agent.runtime.unsynced_effects import overtakes
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import DiskFull
from elfmesh.ingest import traces
from elfmesh.ingest.host import Executor
from elfmesh.ingest.ports import Results
from elfmesh.ingest.timings import observe, timed
from elfmesh.machine import Effect, Event, Send
from elfmesh.safeguards import safeguard
from elfmesh.storage import starving
from elfmesh.storage.durable import Durable, Write

log = logging.getLogger("elf.agent")
Store = Write | ctl.KeepPage | ctl.DeadLetter | ctl.DropLog | ctl.MendLog | ctl.ReadLog
"""Effects that access the disk. Later effects wait for them."""

FULL_RETRY_S = 0.5
"""Pause between two attempts to write to a full disk."""

STORE_THREADS = "elf-store"
"""Prefix of the names of the threads of the lane "store" (`elfmesh.ingest.host`)."""

WRITES_MAX = 128
"""Maximum number of writes in one sync, because the first one waits for the last one."""


class Outbox:
    """Executes effects in order.

    Args:
        carry_out: executes effects that do not access the disk.
        promises_nothing: whether an answer may be given while the disk is full.
        durable: makes writes durable, in a thread.
        results: results logs.
        dead_letter: stores a dead letter durably.
        executor: threads; the lane is "store".
        spawn: runs a coroutine on the event loop.
        step: receives what was read.
        counters: counters of delays by a full disk.
        wall_us: wall clock, for metrics and traces only.
    """

    def __init__(
        self,
        *,
        carry_out: Callable[[Effect], None],
        promises_nothing: Callable[[ctl.Reply], bool],
        durable: Durable,
        results: Results,
        dead_letter: Callable[[ctl.DeadLetter], None],
        executor: Executor,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        step: Callable[[Event], None],
        counters: Counter[str],
        wall_us: Callable[[], int],
    ) -> None:
        self._carry_out = carry_out
        self._promises_nothing = promises_nothing
        self._durable = durable
        self._results = results
        self._dead_letter = dead_letter
        self._executor = executor
        self._spawn = spawn
        self._step = step
        self._counters = counters
        self._wall_us = wall_us
        self._full = ""
        self._waiting = deque[Effect]()
        self._stored = asyncio.Event()  # not set while effects wait for a write
        self._stored.set()
        self._writing_since = 0.0
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def problem(self) -> str:
        """Why nothing can be written; "" if the disk has space and the thread has a descriptor."""
        return self._full or ("" if self._stored.is_set() else starving.problem(STORE_THREADS))

    def put(self, effects: list[Effect], now: float) -> None:
        """Execute effects that need not wait for the disk, and queue the others. Never blocks."""
        waits_s = 0.0 if self._stored.is_set() else now - self._writing_since
        for effect in effects:
            if overtakes(effect, waits_s) and not self.problem:
                self._carry_out(effect)
            else:
                self._waiting.append(effect)
        if self.problem:
            self._give_up_sending()
        self._drain()

    def close(self) -> None:
        """Stop waiting for space on a full disk."""
        self._closing = True

    async def wait_stored(self) -> None:
        await self._stored.wait()

    @safeguard("effects-wait")
    def _drain(self) -> None:
        while self._waiting and self._stored.is_set():
            effect = self._waiting.popleft()
            if type(effect) is not Send and isinstance(effect, Store):  # a send is the most frequent effect
                self._stored.clear()
                self._writing_since = asyncio.get_running_loop().time()
                self._spawn(self._store(effect))
            else:
                self._carry_out(effect)

    async def _store(self, effect: Store) -> None:
        match effect:
            case ctl.Append() | ctl.Persist():
                # this runs in a task, so all writes of this iteration of the event loop are queued by now
                writes = [effect, *self._more_writes()]
                appended = [each for each in writes if isinstance(each, ctl.Append)]
                await self._with_room(partial(self._write, writes))  # removes writes that are done
                self._observe_closed(appended)
                self._say_damage()
            case ctl.KeepPage():
                await self._with_room(partial(self._results.keep_page, effect))
            case ctl.DropLog():
                await self._executor.run(
                    "store", partial(self._results.drop, effect.job, retire=effect.retire)
                )
            case ctl.ReadLog():
                # a read keeps its place in the thread's queue and delays no other effect
                self._stored.set()
                self._drain()
                read = await self._executor.run("store", partial(self._results.read, effect))
                self._say_damage()
                self._step(read)
                return
            case ctl.MendLog():
                await self._with_room(partial(self._results.mend, effect))
            case ctl.DeadLetter():
                await self._executor.run("store", partial(self._dead_letter, effect))
        self._stored.set()
        self._drain()

    def _say_damage(self) -> None:
        for found in self._results.damaged():
            self._step(ctl.LogDamaged(found))

    def _more_writes(self) -> list[Write]:
        found: list[Write] = []
        kept: deque[Effect] = deque()
        while self._waiting and len(found) < WRITES_MAX - 1:
            effect = self._waiting.popleft()
            if isinstance(effect, ctl.Append | ctl.Persist):
                found.append(effect)
                continue
            kept.append(effect)
            if isinstance(effect, Store):
                break
        self._waiting.extendleft(reversed(kept))
        return found

    def _write(self, writes: list[Write]) -> None:
        with timed("store_sync"):
            self._durable.write(writes)

    def _observe_closed(self, appended: list[ctl.Append]) -> None:
        for each in appended:
            record = each.record
            if record.end_us is not None and record.state != "TENTATIVE":
                observe("close_lag", (self._wall_us() - record.end_us) / 1e6)
                traces.span(traces.CLOSE, each.job, record.index, record.end_us * 1000)

    # -- a full disk -----------------------------------------------------------------------------------

    async def _with_room(self, write: Callable[[], None]) -> None:
        while True:
            try:
                await self._executor.run("store", write)
            except DiskFull as error:
                self._counters["disk_full"] += 1
                if not self._full:
                    log.error("the agent waits, and is away to its peers: %s", error)
                self._full = str(error)
                self._give_up_sending()
                if self._closing:  # as if the process had been killed
                    self._waiting.clear()
                    return
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if self._full:
                    log.info("there is room on disk again")
                self._full = ""
                return

    def _give_up_sending(self) -> None:
        """Drop queued messages, as a network might, and give answers that promise nothing."""
        kept: deque[Effect] = deque()
        for effect in self._waiting:
            if isinstance(effect, Send):
                self._counters["not_sent_disk_full"] += 1
            elif isinstance(effect, ctl.Reply) and self._promises_nothing(effect):
                self._carry_out(effect)
            else:
                kept.append(effect)
        self._waiting = kept
