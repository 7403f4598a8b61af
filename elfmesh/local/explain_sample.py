"""Measures what a job would send for each interval, by running a sample through the agent's own code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from elfmesh.cbt import decode_partial
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import MEMORY_BYTES, LogRun
from elfmesh.local.named_logs import Logs
from elfmesh.ql import Statement
from elfmesh.storage.spill import SpillStore


def measure(
    statement: Statement,
    paths: Sequence[str],
    format: StreamFormat,
    *,
    streams: Mapping[str, Logs],
    lookups: LookupTables,
) -> dict[str, Any]:
    """Return the bytes per interval of one agent with these logs. Raises as `LogRun`.

    The result contains the numbers of intervals, records, contributed records and groups (rows of partials
    over all tables), the bytes on the wire (in total, per interval on average, and of the largest interval),
    and the bytes read.
    """
    read = 0

    def count(more: int) -> None:
        nonlocal read
        read += more

    run = LogRun(statement, paths, format=format, streams=streams, lookups=lookups, on_bytes=count)
    sizes, groups, contributed = [], 0, 0
    with contextlib.closing(SpillStore(None)) as store:
        worker = run.read(MemoryBudget(MEMORY_BYTES, store, new_lock=threading.Lock))
        for sealed in worker.seal(worker.end_index):
            sizes.append(sum(map(len, sealed.payloads)))
            contributed += sealed.counts[0]
            for payload in filter(None, sealed.payloads):
                groups += sum(table.num_rows for table in decode_partial(payload).values())
    total = sum(sizes)
    return {
        "records": run.stats.records,
        "contributed": contributed,
        "bytes_read": read,
        "intervals": len(sizes),
        "groups": groups,
        "bytes": total,
        "bytes_per_interval": round(total / len(sizes)) if sizes else 0,
        "bytes_of_largest_interval": max(sizes, default=0),
    }
