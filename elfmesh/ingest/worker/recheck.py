"""Recomputation of one interval of one job from this host's raw logs, for `elf verify`.

It reads the files of the stream's path and their rotated forms. Only the parsers, the evaluation and the
encoding are shared with the worker.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import ElfError, RuntimeFailure
from elfmesh.ingest.functions.evaluator import Evaluator
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources.blocks import is_compressed, read_blocks
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.records import cutter_for
from elfmesh.ingest.sources.surroundings import NeighbourFiles
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker import beginning
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql.engine.block import INT64_MIN, BlockRows
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.spill import SpillStore

log = logging.getLogger("elf.worker")
MEMORY_BYTES = 32_000_000
"""Memory of the panes of a recheck; the rest is spilled to files."""


class Recheck:
    """Recomputation of intervals.

    `new_format` makes the format of a stream, with its own schema. State beyond the memory limit is spilled
    to `spill_dir` (None: the system's). `guard` refuses an interval that has crashed the process before.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        new_format: Callable[[str, StreamConfig], StreamFormat],
        *,
        spill_dir: Path | None,
        labels: Mapping[str, str] | None = None,
        lookups: LookupTables | None = None,
        functions: Callable[[Manifest], Evaluator | None] = lambda _manifest: None,
        guard: CrashGuard | NoGuard = NO_GUARD,
    ) -> None:
        self._functions, self._guard = functions, guard
        self._labels, self._lookups = labels, lookups
        self._streams, self._new_format, self._spill_dir = streams, new_format, spill_dir

    def __call__(self, effect: ctl.Recompute) -> ctl.Recomputed:
        """Return the contribution of this host; call it in a thread.

        Cost: reads all of the stream's logs once.
        """
        try:
            with self._guard.making(_rows_of(effect.manifest), effect.interval):
                counts, payloads = self._compute(effect)
        except Exception as error:  # no fault of the recheck may end the agent
            if not isinstance(error, ElfError):
                log.exception("interval %d cannot be computed again", effect.interval)
            return ctl.Recomputed(effect.token, error=str(error) or type(error).__name__)
        return ctl.Recomputed(effect.token, counts, payloads)

    def _compute(self, effect: ctl.Recompute) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        statement = ql.parse(effect.manifest.text)
        streams = ql.Query(statement, self._labels).streams_of(self._streams)
        if not streams:
            raise RuntimeFailure(f"no stream {statement.stream!r} here")
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(contextlib.closing(SpillStore(self._spill_dir)))
            functions = self._functions(effect.manifest)
            if functions is not None:
                stack.callback(functions.close)
            budget = MemoryBudget(MEMORY_BYTES, store)
            worker = JobWorker(
                statement,
                around=beginning.SharedWorkerState(
                    budget=budget, seed=effect.token, labels=self._labels, lookup=self._lookups
                ),
                start_index=effect.interval,
                max_future_us=None,
                functions=functions,
            )
            for name in streams:
                self._feed(worker, name, effect, budget)
            for sealed in worker.seal(effect.interval + 1):
                if sealed.index == effect.interval:
                    return sealed.counts, sealed.payloads
        return (), (b"",) * effect.manifest.partitions

    def _feed(self, worker: JobWorker, stream: str, effect: ctl.Recompute, budget: MemoryBudget) -> None:
        config, statement = self._streams[stream], worker.statement
        formats = self._new_format(stream, config)
        for path in raw_logs(config.path):
            parser = formats.parser(path)
            for read in read_blocks(path, new_cutter=cutter_for(formats.framing)):
                block = replace(read, stream=stream)
                parsed = parse_block(parser, block, statement.fields_of(stream))
                rows = BlockRows(parsed.arrays, parsed.rows)
                worker.feed(parsed, block, 0, _wanted(statement, stream, effect, rows))
                rows.release()
                if budget.over and budget.problem is not None:
                    raise budget.problem


def _rows_of(manifest: Manifest) -> str:
    """Return the crash guard's key, which includes the version, so that a new version is tried."""
    about = f"{manifest.qualified} version {manifest.version}"
    return f"the rows for a verification of {about} {manifest.incarnation}"


def _wanted(statement: ql.Statement, stream: str, effect: ctl.Recompute, rows: BlockRows) -> BlockRows:
    window = statement.window
    if window is None:
        return rows
    since_us = effect.manifest.since_us
    least_us, end_us = INT64_MIN if since_us is None else since_us, effect.interval * window.slide_us
    end_us += window.size_us
    if effect.manifest.until_us is not None:
        end_us = min(end_us, effect.manifest.until_us)
    return rows.within(statement.time_of(stream), least_us, end_us - 1)


def raw_logs(pattern: str) -> list[str]:
    """Return the files of a path or glob and their rotated forms, each content once, in a fixed order.

    A compressed file whose plain original still exists is a copy. Raises RuntimeFailure if a file cannot be
    examined, because the interval would be incomplete without it.
    """
    around = NeighbourFiles(pattern)
    found = around.listed()
    for path, why in around.problems.items():
        if why != os.strerror(errno.ENOENT):
            raise RuntimeFailure(why, where=path)
    for each in around.nearby(0.0, at_once=True).values():
        if around.is_rotated(each.path):
            found.setdefault(each.id, each)
    paths = sorted(each.path for each in found.values())
    return [path for path in paths if not (is_compressed(path) and Path(path).with_suffix("").exists())]
