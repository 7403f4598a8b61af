"""Sessions for the tests: an oracle that sorts and walks, and one run over panes as a job's root makes it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa

from elfmesh import ql
from elfmesh.cbt import Panes, encode_parts, merge_partials
from elfmesh.cbt.partial.contents import RowsContent
from elfmesh.cbt.rows import from_table
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.events import Finalise
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ql.values.plain_ipc import ipc_to_table

SECOND = 1_000_000
Record = tuple[int, str | None, int | None]
"""Event time in microseconds, key, value."""

JOB = b"j" * 20
ROOT = PartialCompute()


@lru_cache(maxsize=64)
def query_of(text: str, member: str = "") -> ql.Query:
    return ql.Query(ql.parse(text), member=member)


def manifest(text: str, partitions: int = 1) -> Manifest:
    return Manifest(
        namespace="shop",
        name="visits",
        creator="tests",
        text=text,
        version=1,
        job_id=JOB,
        partitions=partitions,
        incarnation=text,  # a root keeps its compiled queries by this
    )


def partials(
    text: str, records: Sequence[Record], partitions: int = 1, member: str = ""
) -> dict[int, list[bytes]]:
    """What one agent sends: per pane a partial of each partition."""
    query = query_of(text, member)
    window = query.statement.window
    assert window is not None
    if not records:
        return {}
    times, keys, values = zip(*records, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(times, pa.timestamp("us", tz="UTC")),
            pa.array(keys, pa.string()),
            pa.array(values, pa.int64()),
        ],
        names=["ts", "k", "v"],
    )
    prepared = query.prepare(batch)
    panes = Panes(query.statement.tables, window.size_us, window.slide_us)
    for name, rows in prepared.tables.items():
        panes.insert(name, prepared.panes[name], rows)
    found = {}
    for pane in sorted(panes.panes()):
        content = panes.window(pane)
        assert content is not None
        found[pane] = encode_parts(content, partitions)
    return found


def merged(rng: random.Random, parts: list[bytes]) -> list[bytes]:
    """The same in a tree of any shape: some are merged on their way, the root gets the others as they are."""
    parts = [part for part in parts if part]
    for _ in range(rng.randrange(len(parts) + 1)):
        if len(parts) > 1:
            rng.shuffle(parts)
            cut = rng.randrange(2, len(parts) + 1)
            parts = [merge_partials(parts[:cut]), *parts[cut:]]
    return parts


def close_all(
    text: str,
    agents: Sequence[Sequence[Record]],
    *,
    rng: random.Random | None = None,
    partitions: int = 1,
    shares: dict[int, float] | None = None,
) -> Iterator[tuple[int, pa.Table, float]]:
    """The rows of every interval, with the completeness of what is in them.

    Nothing is kept between two intervals but the bytes.
    """
    rng = rng or random.Random(0)
    sent = [partials(text, records, partitions) for records in agents]
    indices = {pane for each in sent for pane in each}
    open_ = b""
    for index in range(min(indices, default=0), max(indices, default=-2) + 2):
        parts = tuple(
            tuple(merged(rng, [each[index][at] for each in sent if index in each]))
            for at in range(partitions)
        )
        share = (shares or {}).get(index, 1.0)
        asked = Finalise(JOB, 1, manifest(text, partitions), index, parts, 1, open_, share)
        done = ROOT.close_groups(asked)
        assert done == ROOT.close_groups(asked), "it is a function of what it is given"
        open_ = done.open
        yield index, ipc_to_table(done.rows), done.completeness
    assert open_ == b"", "the interval after the last records leaves nothing open"


def content(table: pa.Table) -> RowsContent:
    return RowsContent(from_table(table))


def walk(records: Sequence[Record], gap: int) -> list[dict[str, Any]]:
    """Every session of every key, by sorting: key, first time, end, and its values."""
    found: list[dict[str, Any]] = []
    by_key = sorted(records, key=lambda each: (each[1] is not None, each[1] or "", each[0]))
    for key, mine in groupby(by_key, key=lambda each: each[1]):
        last = None
        for at, _, value in mine:
            if last is None or at - last > gap:
                found.append({"k": key, "start": at, "values": []})
            found[-1]["values"].append(value)
            last = found[-1]["last"] = at
            found[-1]["end"] = at + gap
    return found
