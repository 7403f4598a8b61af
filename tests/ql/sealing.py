"""Partitions for the tests: an oracle that walks the intervals, and one run as a job's root makes it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from elfmesh import ql
from elfmesh.cbt import Panes, encode_parts
from elfmesh.control.protocol.events import Finalise
from elfmesh.ql.engine.open_groups import NEVER_US
from elfmesh.ql.values.plain_ipc import ipc_to_table
from tests.ql.sessions import JOB, ROOT, manifest, merged

WIDTH = 1_000_000
Rows = dict[int, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Line:
    """A record, or with `ends` a punctuation that states `total` records and `n` producers."""

    ts: int
    k: str
    v: int = 0
    ends: bool = False
    by: str = "p"
    total: int | None = None
    n: int | None = None


@dataclass
class Ended:
    """What an interval closes with: rows, completeness, number of late records, violations of ASSUME."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    completeness: float = 1.0
    late: int = 0
    broken: int = 0


def batch_of(lines: Sequence[Line]) -> pa.RecordBatch:
    kinds = {"ts": pa.timestamp("us", tz="UTC"), "k": pa.string(), "v": pa.int64(), "ends": pa.bool_()}
    kinds |= {"by": pa.string(), "total": pa.int64(), "n": pa.int64()}
    arrays = [pa.array([getattr(line, name) for line in lines], kind) for name, kind in kinds.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def partials(
    text: str, member: str, lines: Sequence[Line], partitions: int, rng: random.Random
) -> dict[int, list[bytes]]:
    """What one member sends, whatever the cut of its log into batches."""
    query = ql.Query(ql.parse(text), member=member)
    panes = Panes(query.statement.tables, WIDTH, WIDTH)
    at = 0
    while at < len(lines):
        size = rng.randrange(1, len(lines) + 1)
        prepared = query.prepare(batch_of(lines[at : at + size]))
        for name, rows in prepared.tables.items():
            panes.insert(name, prepared.panes[name], rows)
        at += size
    return {
        pane: encode_parts(content, partitions) for pane in panes.panes() if (content := panes.window(pane))
    }


def close_all(
    text: str,
    members: Mapping[str, Sequence[Line]],
    *,
    rng: random.Random | None = None,
    partitions: int = 1,
    shares: Mapping[int, float] | None = None,
    expected: Mapping[int, tuple[str, ...]] | None = None,
    until: int = 3,
) -> Iterator[tuple[int, Ended]]:
    """The intervals up to `until` behind the last record; nothing is kept between two but the bytes."""
    rng = rng or random.Random(0)
    sent = [partials(text, name, lines, partitions, rng) for name, lines in members.items()]
    indices = {pane for each in sent for pane in each}
    open_, due_us = b"", NEVER_US
    for index in range(min(indices, default=0), max(indices, default=-1) + until):
        parts = tuple(
            tuple(merged(rng, [each[index][at] for each in sent if index in each]))
            for at in range(partitions)
        )
        asked = Finalise(
            JOB, 1, manifest(text, partitions), index, parts, 1, open_, (shares or {}).get(index, 1.0),
            members=(expected or {}).get(index, tuple(members)),
        )  # fmt: skip
        done = ROOT.close_groups(asked)
        assert done == ROOT.close_groups(asked), "it is a function of what it is given"
        if not any(map(any, parts)) and (index + 1) * WIDTH < due_us and expected is None:
            assert ipc_to_table(done.rows).num_rows == 0, "nothing ends before it is due"
        open_, due_us = done.open, done.due_us
        rows = [tuple(row.values()) for row in ipc_to_table(done.rows).to_pylist()]
        yield index, Ended(sorted(rows), done.completeness, done.late, done.broken)


@dataclass
class _Partition:
    """An open partition of the oracle."""

    share: float = 1.0
    rows: dict[int, list[int]] = field(default_factory=dict)
    seals: dict[str, int] = field(default_factory=dict)
    needed: int | None = None
    last: int = 0


def oracle(
    members: Mapping[str, Sequence[Line]],
    *,
    how: str,
    after: int,
    by: bool = False,
    counted: bool = False,
    shares: Mapping[int, float] | None = None,
    expected: Mapping[int, tuple[str, ...]] | None = None,
    until: int = 3,
) -> dict[int, Ended]:
    """By walking all lines in order of their intervals. `how` is ONE, ALL or n."""
    lines = [(line.ts // WIDTH, name, line) for name, mine in members.items() for line in mine]
    open_: dict[str, _Partition] = {}
    gone: dict[str, int] = {}
    found = {}
    first, last = min((each[0] for each in lines), default=0), max((each[0] for each in lines), default=-1)
    for index in range(first, last + until):
        done = found[index] = Ended()
        share = (shares or {}).get(index, 1.0)
        for one in open_.values():
            one.share = min(one.share, share)
        for at, member, line in lines:
            if at != index:
                continue
            if gone.get(line.k, 0) > index * WIDTH:
                done.late += not line.ends
                continue
            one = open_.setdefault(line.k, _Partition(share))
            one.last = max(one.last, line.ts)
            if not line.ends:
                one.rows.setdefault(line.v, []).append(line.ts)
                continue
            name = line.by if by else member
            one.seals[name] = max(one.seals.get(name, 0), line.total or 0)
            if line.n is not None:
                one.needed = max(one.needed or 1, line.n)
        wanted = (expected or {}).get(index, tuple(members))
        end = (index + 1) * WIDTH
        for key, one in sorted(open_.items()):
            sealers = len(set(one.seals) & set(wanted)) if how == "ALL" else len(one.seals)
            needed = {"ONE": 1, "ALL": len(wanted)}.get(how, one.needed)
            sealed = needed is not None and needed > 0 and sealers >= needed
            if not sealed and end - one.last < after:
                continue
            ratio = 1.0 if sealed else sealers / needed if needed else 0.0
            had, stated = sum(map(len, one.rows.values())), sum(one.seals.values())
            if counted and max(had, stated):
                ratio = min(ratio, min(had, stated) / max(had, stated))
            done.completeness = min(done.completeness, one.share, ratio)
            done.rows += [(key, value, len(times)) for value, times in one.rows.items()]
            gone[key] = end + after
            del open_[key]
        done.rows.sort()
    return found
