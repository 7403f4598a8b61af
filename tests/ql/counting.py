"""ROWS and WITHIN for the tests: oracles from the text of the paper, and runs over panes by a job's root."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from elfmesh.cbt import Panes, encode_parts
from elfmesh.control.protocol.events import Finalise
from elfmesh.ql.values.plain_ipc import ipc_to_table
from tests.ql.sessions import JOB, ROOT, Record, manifest, merged, partials, query_of

Counted = tuple[int, str | None, list[Record]]
"""Interval, key and records of a full window."""


def full_windows(records: Sequence[Record], size: int, slide: int, width: int) -> list[Counted]:
    """Algorithm 4 with a count for each key: sort, count, emit a window when its last record is counted."""
    found: list[Counted] = []
    for key in {key for _, key, _ in records}:
        mine = sorted((each for each in records if each[1] == key), key=_order)
        open_: dict[int, list[Record]] = {}
        for count, record in enumerate(mine, 1):
            if (count - 1) % slide == 0:
                open_[count - 1 + size] = []  # by its expiry count
            for window in open_.values():
                window.append(record)
            if count in open_:
                found.append((record[0] // width, key, open_.pop(count)))
            open_ = {expiry: window for expiry, window in open_.items() if expiry > count}
    return found


def _order(record: Record) -> tuple[Any, ...]:
    at, _, value = record
    return at, value is not None, value or 0


Streams = dict[str, list[Record]]
"""Records that an agent has read, by stream."""

Pair = tuple[int, Record, Record | None]
"""Interval, left record and right record; None: it has no match."""


def near_pairs(
    left: Sequence[Record], right: Sequence[Record], within: int, width: int, kind: str
) -> list[Pair]:
    """Algorithm 2 with equal keys: each record meets those of the other side that came before it.

    Of a LEFT JOIN, a left record without a match goes out alone when no later record can match it.
    """
    arriving = sorted(
        [(each[0], 0, at) for at, each in enumerate(left)]
        + [(each[0], 1, at) for at, each in enumerate(right)]
    )
    kept: tuple[list[int], list[int]] = ([], [])
    found: list[Pair] = []
    matched = set()
    for now, side, at in arriving:
        for other in kept[1 - side]:
            ours, theirs = (at, other) if side == 0 else (other, at)
            one, two = left[ours], right[theirs]
            if abs(one[0] - two[0]) < within and one[1] == two[1] and one[1] is not None:
                found.append((max(one[0], two[0]) // width, one, two))
                matched.add(ours)
        kept[side].append(at)
        for buffer, records in zip(kept, (left, right), strict=True):
            buffer[:] = [each for each in buffer if now - records[each][0] <= within]
    if kind == "LEFT":
        alone = [each for at, each in enumerate(left) if at not in matched]
        found += [((each[0] + within - 1) // width, each, None) for each in alone]
    return found


def partials_of(text: str, streams: Streams, partitions: int = 1) -> dict[int, list[bytes]]:
    """Return what one agent sends: per pane a partial of each partition."""
    query = query_of(text)
    window = query.statement.window
    assert window is not None
    panes = Panes(query.statement.tables, window.size_us, window.slide_us)
    for stream, records in streams.items():
        times, keys, values = zip(*records, strict=True) if records else ((), (), ())
        columns = [
            pa.array(times, pa.timestamp("us", tz="UTC")),
            pa.array(keys, pa.string()),
            pa.array(values, pa.int64()),
        ]
        prepared = query.prepare(pa.RecordBatch.from_arrays(columns, names=["ts", "k", "v"]), stream)
        for name, rows in prepared.tables.items():
            panes.insert(name, prepared.panes[name], rows)
    contents = {pane: panes.window(pane) for pane in sorted(panes.panes())}
    return {
        pane: encode_parts(content, partitions) for pane, content in contents.items() if content is not None
    }


def close_in_order(
    text: str,
    agents: Sequence[Sequence[Record] | Streams],
    *,
    rng: random.Random | None = None,
    partitions: int = 1,
    shares: dict[int, float] | None = None,
    more: int = 0,
) -> Iterator[tuple[int, pa.Table, float]]:
    """Yield the rows of every interval and `more` after them, with the completeness of what is in them.

    Nothing is kept between two intervals but the bytes.
    """
    rng = rng or random.Random(0)
    sent = [
        partials_of(text, each, partitions) if isinstance(each, dict) else partials(text, each, partitions)
        for each in agents
    ]
    indices = {pane for each in sent for pane in each} | set(shares or ())
    open_ = b""
    for index in range(min(indices, default=0), max(indices, default=-1) + 1 + more):
        parts = tuple(
            tuple(merged(rng, [each[index][at] for each in sent if index in each]))
            for at in range(partitions)
        )
        share = (shares or {}).get(index, 1.0)
        request = Finalise(JOB, 1, manifest(text, partitions), index, parts, 1, open_, share)
        done = ROOT.close_groups(request)
        assert done == ROOT.close_groups(request), "it is a function of its arguments"
        open_ = done.open
        yield index, ipc_to_table(done.rows), done.completeness
