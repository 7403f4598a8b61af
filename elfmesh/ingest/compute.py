"""Expensive work on partials: merging them in a tree, and the last steps of a query at its root.

Plain functions for a thread. Two caches are kept: the compiled queries of the jobs that are finalised here,
and the decoded contents of small partials that this process has encoded recently.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from elfmesh import ql
from elfmesh.cbt import (
    Content,
    SortedContent,
    encode_known,
    encode_parts,
    finish_blocks,
    merge_known,
    merged_parts,
)
from elfmesh.control.jobs.early_rows import withdrawn_rows
from elfmesh.control.jobs.kept_partials import packed_partials
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import NOT_COUNTED
from elfmesh.control.jobs.row_pages import RowLimits, packed
from elfmesh.control.jobs.tentative_accuracy import compared
from elfmesh.control.protocol.events import EarlyMerged, Finalise, Finalised, MergeEarly
from elfmesh.errors import DataError, ProtocolError
from elfmesh.ingest.early_rows import EarlyTables
from elfmesh.ingest.job_rows import latest_tables, result_block
from elfmesh.ingest.memory import give_back
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.ql.engine import group_steps
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.open_groups import ClosedPane, read_open, write_open
from elfmesh.ql.engine.partials import partial_table
from elfmesh.ql.values.plain_ipc import ipc_to_table, table_to_ipc

log = logging.getLogger("elf.agent")
QUERIES_MAX = 256
"""Maximum number of compiled queries in the cache: one per job whose master is here."""

KNOWN_BYTES_MAX = 4 << 20
"""Maximum number of bytes of decoded contents, together with their partials: those of the intervals that jobs
seal at one time."""


class KnownPartials:
    """Thread-safe cache of decoded partials by their bytes; each entry can be taken once."""

    def __init__(self, bytes_max: int = KNOWN_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[bytes, Mapping[str, SortedContent]] = OrderedDict()
        self.nbytes = 0

    def keep(self, partial: bytes, tables: Mapping[str, SortedContent]) -> None:
        """Add the contents of a partial; the oldest entries are removed."""
        if not partial or not tables:
            return
        with self._lock:
            if partial not in self._held:
                self._held[partial] = tables
                self.nbytes += _bytes_of(partial, tables)
            while self.nbytes > self._bytes_max:
                self.nbytes -= _bytes_of(*self._held.popitem(last=False))

    def take(self, partials: Sequence[bytes]) -> dict[bytes, Mapping[str, SortedContent]]:
        with self._lock:
            found = {partial: self._held.pop(partial) for partial in partials if partial in self._held}
            self.nbytes -= sum(_bytes_of(partial, tables) for partial, tables in found.items())
        return found


class PartialCompute:
    """`Compute` of the pump, and the encoder of the workers."""

    def __init__(self, rows: RowLimits | None = None) -> None:
        self._rows = rows or RowLimits()
        self._lock = threading.Lock()  # guards _queries
        self._queries: OrderedDict[tuple[bytes, str, int], ql.Query] = OrderedDict()
        self._known = KnownPartials()
        self._early = EarlyTables()

    def encode(self, tables: Mapping[str, Content], partitions: int) -> list[bytes]:
        """Return the partial of each partition. Raises PartialTooLarge if receivers would refuse one."""
        if partitions > 1:
            return encode_parts(tables, partitions, DATA_FRAME_BYTES_MAX)
        partial, known = encode_known(tables, DATA_FRAME_BYTES_MAX)
        self._known.keep(partial, known)
        return [partial]

    def merge(self, parts: Sequence[bytes]) -> bytes:
        partial, known = merge_known(parts, self._known.take(parts))
        self._known.keep(partial, known)
        return partial

    def finalised(self, effect: Finalise) -> Finalised:
        """Return the result of an interval: its rows, or the pages of its rows."""
        if effect.open is not None:
            return self.close_groups(effect)
        counts: tuple[int, ...] = ()
        lacks_prefixes = False
        if effect.inputs and not effect.parts:
            table, contents, counts = self._derived(effect)
        else:
            table, contents, lacks_prefixes = self._with_prefixes(effect)
        rows, pages = self._packed(effect, table, contents)
        about = (effect.job, effect.epoch, effect.interval, rows)
        return Finalised(
            *about, rev=effect.rev, counts=counts, pages=pages, withdrawn=_withdrawn(effect, table),
            accuracy=accuracy_of(effect, table), lacks_prefixes=lacks_prefixes,
        )  # fmt: skip

    def merged_early(self, effect: MergeEarly) -> EarlyMerged:
        """Return the early rows that a member's states complete."""
        return self._early.merged(effect)

    def finalise(self, effect: Finalise) -> bytes:
        return table_to_ipc(self._merged(effect)[0])

    def _with_prefixes(self, effect: Finalise) -> tuple[pa.Table, Mapping[str, Content], bool]:
        """Return rows and contents; without the prefixes if these are damaged or have other types."""
        if effect.prefixes:
            try:
                return *self._merged(replace(effect, parts=(*effect.parts, effect.prefixes))), False
            except (DataError, ProtocolError) as error:
                log.warning("%s: prefixes are left out: %s", effect.manifest.qualified, error)
        return *self._merged(effect), bool(effect.prefixes)

    def _merged(self, effect: Finalise) -> tuple[pa.Table, Mapping[str, Content]]:
        query = self._query(effect.manifest)
        window = query.statement.window
        assert window is not None, "a job has intervals"
        start = effect.interval * window.slide_us
        parts = [part for partition in effect.parts for part in partition]
        contents = merged_parts(parts, self._known.take(parts))
        tables: dict[str, Reduced] = dict(finish_blocks(contents))
        for name, start_us, rows in effect.inputs:
            tables |= latest_tables(query, name, start_us, ipc_to_table(rows))
        end = start + window.size_us
        return query.finalise_parts(tables, (start, end), bytes_max=self._rows.most), contents

    def _packed(
        self, effect: Finalise, table: pa.Table, contents: Mapping[str, Content], open_bytes: int = 0
    ) -> tuple[bytes, tuple[bytes, ...]]:
        statement, tail = self._query(effect.manifest).statement, b""
        if statement.job is not None and statement.job.partials and effect.open is None:
            tail = packed_partials(partial_table(statement, contents))
        what = f"the result of interval {effect.interval} of {effect.manifest.qualified}"
        self._rows.admit(table.nbytes + len(tail), what)
        if table.nbytes > self._rows.inline:
            give_back()  # frees the tables, because the pages need as much memory as the rows
        return packed(table, tail, open_bytes, self._rows)

    def close_groups(self, effect: Finalise) -> Finalised:
        """Return the groups that end in an interval, and those that stay open after it."""
        query, text = self._query(effect.manifest), effect.manifest.text
        window = query.statement.window
        assert window is not None, "a job has intervals"
        assert effect.open is not None, "groups of the job span intervals"
        start = effect.interval * window.slide_us
        parts = [part for partition in effect.parts for part in partition]
        counts: tuple[int, ...] = ()
        pane: Mapping[str, Content] = merged_parts(parts, self._known.take(parts))
        if effect.inputs:
            pane, counts = self._read_results(effect)
        before = read_open(effect.open, text, window.kind)
        closed = ClosedPane(pane, effect.completeness, start, start + window.size_us, effect.members)
        step = group_steps.step(query.statement, before, closed)
        table = query.finalise_parts(step.ended, (start, start + window.size_us), bytes_max=self._rows.most)
        left = write_open(step.open, text, window.kind)
        rows, pages = self._packed(effect, table, {}, len(left))
        return Finalised(
            effect.job, effect.epoch, effect.interval, rows, rev=effect.rev, counts=counts,
            open=left, due_us=step.open.due_us, completeness=step.completeness, pages=pages, late=step.late,
            withdrawn=_withdrawn(effect, table), broken=step.broken,
        )  # fmt: skip

    def _derived(self, effect: Finalise) -> tuple[pa.Table, Mapping[str, Content], tuple[int, ...]]:
        query = self._query(effect.manifest)
        window = query.statement.window
        assert window is not None, "a job has intervals"
        contents, counts = self._read_results(effect)
        start = effect.interval * window.slide_us
        end = start + window.size_us
        tables = finish_blocks(contents)
        return query.finalise_parts(tables, (start, end), bytes_max=self._rows.most), contents, counts

    def _read_results(self, effect: Finalise) -> tuple[Mapping[str, Content], tuple[int, ...]]:
        """Return the merged tables of an interval of a job that reads jobs, and the counts of its records."""
        statement = self._query(effect.manifest).statement
        worker = JobWorker(statement, max_future_us=None, strict=True)
        for name, start_us, rows in effect.inputs:
            worker.feed(*result_block(statement, name, start_us, ipc_to_table(rows)), 0)
        counts: tuple[int, ...] = NOT_COUNTED
        contents: Mapping[str, Content] = {}
        for interval in worker.take(worker.end_index):  # the other intervals are incomplete here
            if interval.index == effect.interval:
                counts, contents = interval.counts, interval.tables or {}
        return contents, counts

    def _query(self, manifest: Manifest) -> ql.Query:
        key = (manifest.job_id, manifest.incarnation, manifest.version)
        with self._lock:
            query = self._queries.pop(key, None) or ql.Query(ql.parse(manifest.text))
            self._queries[key] = query
            if len(self._queries) > QUERIES_MAX:
                self._queries.popitem(last=False)
            return query


def _withdrawn(effect: Finalise, table: pa.Table) -> tuple[dict[str, Any], ...]:
    """Return the early rows of an interval that are not among its rows."""
    if not effect.early:
        return ()
    return tuple(withdrawn_rows(effect.early, table, read_plan(effect.manifest.text).stable))


def accuracy_of(effect: Finalise, table: pa.Table) -> tuple[float, float, float | None] | None:
    """Return what the tentative record was worth; None: there was none, or too many rows."""
    if effect.tentative is None:
        return None
    fidelity, rows = effect.tentative
    found = compared(ipc_to_table(rows), table, read_plan(effect.manifest.text).keys)
    return None if found is None else (fidelity, found.overlap, found.error)


def _bytes_of(partial: bytes, tables: Mapping[str, SortedContent]) -> int:
    return len(partial) + sum(content.nbytes for content in tables.values())
