"""Early rows of a run: what masters emitted before their windows closed, and what the final records say.

Owns the invariant D-19. A row is compared by the columns that an early row does not change later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from elfmesh.control.jobs.records import ResultRecord
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.oracle import Rows, Truth
from tests.sim.swarm.judging.outcome import Outcome, as_record, table
from tests.sim.swarm.judging.partitions import as_row

Key = tuple[Any, ...]


def d19_early_rows_stay(out: Outcome) -> Iterator[str]:
    """A row that was emitted early is in the final record of its window, unless the record is not clean.

    An agent that leaves before the window ends may have been counted, and is not expected any more.
    """
    finals: dict[tuple[str, str], dict[int, tuple[ResultRecord, bytes]]] = {}
    for truth, each in out.records():
        finals.setdefault(truth.key, {}).setdefault(each.record.index, (each.record, each.rows))
    for key, lines in out.history.early.items():
        if key in out.truths:
            yield from _stay(out.truths[key], lines, finals.get(key, {}))
    for key, records in finals.items():
        for record, _ in records.values():
            lacks = _counted(out, key, record.index) - set(out.roster(key, record) or ())
            if replace(record, clean=True).is_clean and record.withdrawn and not lacks:
                yield f"{key[0]} {record.index}: a record that lacks nothing withdraws {record.withdrawn}"
            if record.is_clean and record.early:
                yield f"{key[0]} {record.index}: a clean record states {record.early}"


def _stay(
    truth: Truth,
    lines: list[tuple[ResultRecord, bytes]],
    finals: dict[int, tuple[ResultRecord, bytes]],
) -> Iterator[str]:
    by_epoch: dict[tuple[int, int, int], Counter[Key]] = {}
    for record, rows in lines:
        counted = by_epoch.setdefault((record.epoch, record.version, record.index), Counter())
        counted.update(_keys(truth, table(rows)))
        if not record.counted:
            yield f"{truth.key[0]} {record.index}: an early line names no agent"
    for (epoch, version, index), emitted in by_epoch.items():
        if repeated := [key for key, number in emitted.items() if number > 1]:
            yield f"{truth.key[0]} {index}: {repeated} emitted early more than once in epoch {epoch}"
        final = _final_of(index, finals)
        if final is None or final[0].version != version:
            continue
        record, rows = final
        inside = set(_keys(truth, table(rows))) if record.index == index else set()
        lacking = set(emitted) - inside
        withdrawn = set(_keys(truth, record.withdrawn))
        if record.is_clean and lacking:
            yield f"{truth.key[0]} {index}: emitted early and not in the clean record: {sorted(lacking)}"
        if not record.is_clean and record.epoch == epoch and not lacking <= withdrawn:
            yield f"{truth.key[0]} {index}: {sorted(lacking - withdrawn)} is neither final nor withdrawn"


def _counted(out: Outcome, key: Incarnation, index: int) -> set[str]:
    """Names of the agents that the early lines of an interval count."""
    lines = out.history.early.get(key, ())
    return {name for record, _ in lines if record.index == index for name in record.counted}


def _final_of(index: int, finals: dict[int, tuple[ResultRecord, bytes]]) -> tuple[ResultRecord, bytes] | None:
    """The record that represents an interval; None if it is not closed, or has no record."""
    if index in finals:
        return finals[index]
    return next((each for each in finals.values() if each[0].first <= index < each[0].index), None)


def _keys(truth: Truth, rows: Rows) -> list[Key]:
    if truth.job.stated:
        return [as_row(truth, row) for row in rows]
    return [(as_record(row)["id"],) if truth.job.ids else (row["k"],) for row in rows]
