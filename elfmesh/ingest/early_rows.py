"""Early rows at the master: the members' states of open windows, and the rows that they allow (EARLY).

Plain functions for a thread, with the states between the calls. Owns the merge of states and HAVING; the
control plane decides which messages count, and keeps the rows.

Invariants: of the states that a member has sent of a group, the newest (boot, number) counts. A group makes a
row once in an epoch, unless more than `JOBS_MAX` jobs have states here. A row is made of states that are all
part of the window, so that a missing state delays it and never makes it wrong.

Paper: Blazes III; threshold queries over local values: Cormode et al., SIGMOD 2006.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.cbt.rows import Rows, combine, combine_numbered, from_table, within_groups
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.events import EarlyMerged, MergeEarly
from elfmesh.errors import DataError, ElfError
from elfmesh.ingest.early_partitions import OTHER_STATES, SealedPartitions, is_newer, of_statement
from elfmesh.ql.engine.early import EarlyCondition
from elfmesh.ql.plan.directions import early_having
from elfmesh.ql.plan.early import early_parts
from elfmesh.ql.plan.statement import MAIN
from elfmesh.ql.values.intervals import intervals_as_text
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.safeguards import safeguard

GROUPS_MAX = 1_000_000
"""Maximum number of groups of all members in the open windows of a job; further ones are skipped."""

STATES_BYTES_MAX = 64 << 20
"""Maximum size in memory of the states in one message, which has at most 64 KiB on the wire."""

JOBS_MAX = 256
"""Maximum number of jobs with states; the state of the job that was used least recently is dropped."""

Tables = dict[str, Rows]


@dataclass(slots=True)
class _MemberStates:
    """The newest states of one member: rows by table, and (boot, number) of each group."""

    tables: Tables
    boots: np.ndarray
    numbers: np.ndarray


@dataclass(slots=True)
class _Window:
    """States by member, and the groups that have made their row."""

    members: dict[bytes, _MemberStates] = field(default_factory=dict)
    emitted: set[tuple[Any, ...]] = field(default_factory=set)

    @property
    def groups(self) -> int:
        return sum(each.tables[MAIN].count for each in self.members.values()) + len(self.emitted)


class _Job:
    """Windows of one version of a job in one epoch, by interval and part."""

    def __init__(self, manifest: Manifest) -> None:
        self.statement = ql.parse(manifest.text)
        self.parts = early_parts(self.statement)
        self.conditions = [EarlyCondition(part, early_having(part)) for part in self.parts]
        self.windows: dict[tuple[int, int], _Window] = {}
        self.partitions = None if self.statement.plan.seal is None else SealedPartitions(self.statement)

    @property
    def groups(self) -> int:
        if self.partitions is not None:
            return self.partitions.groups
        return sum(each.groups for each in self.windows.values())

    def drop_below(self, index: int) -> None:
        for place in [place for place in self.windows if place[0] < index]:
            del self.windows[place]
        if self.partitions is not None:
            self.partitions.drop_below(index)


class EarlyTables:
    """States of all jobs with EARLY whose master is here. Thread-safe."""

    def __init__(self, groups_max: int = GROUPS_MAX) -> None:
        self._groups_max = groups_max
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[bytes, int, int], _Job] = OrderedDict()

    def merged(self, effect: MergeEarly) -> EarlyMerged:
        """Return the rows that messages complete. States that do not fit are refused, not raised.

        Cost: decoding of each message, and one evaluation of HAVING over the groups of all of them.
        """
        about = effect.job, effect.epoch, effect.interval
        with self._lock:
            job = self._job(effect)
            merge = self._merged if job.partitions is None else self._ended
            made = merge(effect, job)
        return replace(made[0], others=tuple(made[1:])) if made else EarlyMerged(*about)

    def _job(self, effect: MergeEarly) -> _Job:
        """Return the states of a job, without those of earlier epochs and of closed intervals."""
        key = effect.job, effect.epoch, effect.manifest.version
        job = self._jobs.pop(key, None) or _Job(effect.manifest)
        self._jobs[key] = job
        for old in [each for each in self._jobs if each[0] == effect.job and each[1] < effect.epoch]:
            del self._jobs[old]
        if len(self._jobs) > JOBS_MAX:
            self._jobs.popitem(last=False)
        job.drop_below(effect.below)
        return job

    def _merged(self, effect: MergeEarly, job: _Job) -> list[EarlyMerged]:
        about = effect.job, effect.epoch, effect.interval
        changed: dict[int, list[Rows]] = {}
        made = list[EarlyMerged]()
        for each in effect.states:
            try:
                part, new = _of_payload(job, each.payload)
                if job.groups + new[MAIN].count > self._groups_max:
                    made.append(EarlyMerged(*about, skipped=new[MAIN].count))
                    continue
                members = job.windows.setdefault((effect.interval, part), _Window()).members
                members[each.member] = _newest(members.get(each.member), new, each.boot, each.number)
                changed.setdefault(part, []).append(new[MAIN])
            except ElfError as error:
                made.append(EarlyMerged(*about, error=str(error)))
        for part, groups in changed.items():
            try:
                rows, inside = _rows(job, part, job.windows[effect.interval, part], groups, effect.interval)
                if rows is not None:
                    made.append(EarlyMerged(*about, table_to_ipc(rows), rows.num_rows, inside))
            except ElfError as error:
                made.append(EarlyMerged(*about, error=str(error)))
        return made

    def _ended(self, effect: MergeEarly, job: _Job) -> list[EarlyMerged]:
        """Return the rows of the partitions of SEALED that messages, or a closed interval, complete."""
        about, partitions = (effect.job, effect.epoch), job.partitions
        assert partitions is not None, "the job has SEALED"
        changed = list[Tables]()
        made = list[EarlyMerged]()
        for each in effect.states:
            try:
                tables = _decoded(each.payload)
                partitions.check(tables)
                count = sum(rows.count for rows in tables.values())
                if job.groups + count > self._groups_max:
                    made.append(EarlyMerged(*about, effect.interval, skipped=count))
                    continue
                partitions.add(effect.interval, each, tables)
                changed.append(tables)
            except ElfError as error:
                made.append(EarlyMerged(*about, effect.interval, error=str(error)))
        if changed or not effect.states:
            try:
                for ended in partitions.take(effect, changed):
                    rows, count = table_to_ipc(ended.rows), ended.rows.num_rows
                    made.append(EarlyMerged(*about, ended.interval, rows, count, ended.members))
            except ElfError as error:
                made.append(EarlyMerged(*about, effect.interval, error=str(error)))
        return made


def _decoded(payload: bytes) -> Tables:
    return {name: from_table(table) for name, table in decode_partial(payload, STATES_BYTES_MAX).items()}


def _of_payload(job: _Job, payload: bytes) -> tuple[int, Tables]:
    """Return the number of the part and the tables of a message. Raises DataError if no part has these."""
    tables = _decoded(payload)
    names = iter(job.statement.tables)
    for number, part in enumerate(job.parts):
        own = {next(names).name: each.name for each in part.tables} if len(job.parts) > 1 else None
        if own is None or set(tables) <= set(own):
            mine = tables if own is None else {own[name]: rows for name, rows in tables.items()}
            if _fits(part, mine):
                return number, mine
            break
    raise DataError(OTHER_STATES)


def _fits(part: ql.Statement, tables: Tables) -> bool:
    return MAIN in tables and tables[MAIN].count > 0 and of_statement(part, tables)


@safeguard("early-newest")
def _newest(known: _MemberStates | None, new: Tables, boot: int, number: int) -> _MemberStates:
    count = new[MAIN].count
    boots, numbers = np.full(count, boot, np.int64), np.full(count, number, np.int64)
    if known is None:
        return _MemberStates(new, boots, numbers)
    before = known.tables[MAIN]
    _, (_, places) = combine_numbered([before, new[MAIN]])
    there = places < before.count
    replaces = np.ones(count, bool)
    replaces[there] = is_newer(boot, number, known.boots[places[there]], known.numbers[places[there]])
    stays = np.ones(before.count, bool)
    stays[places[there & replaces]] = False
    left, taken = before.take(np.flatnonzero(stays)), new[MAIN].take(np.flatnonzero(replaces))
    tables = {MAIN: combine([left, taken])}
    for name in sorted({*known.tables, *new} - {MAIN}):
        kept = [(known.tables.get(name), left), (new.get(name), taken)]
        parts = [rows.take(within_groups(rows, groups)) for rows, groups in kept if rows is not None]
        tables[name] = combine(parts)
    return _MemberStates(
        tables,
        np.concatenate([known.boots[stays], boots[replaces]]),
        np.concatenate([known.numbers[stays], numbers[replaces]]),
    )


def _rows(
    job: _Job, part: int, window: _Window, changed: Sequence[Rows], interval: int
) -> tuple[pa.Table | None, tuple[bytes, ...]]:
    """Return the rows of changed groups that pass now and have no row yet, and the members inside."""
    several = combine(changed)
    fresh = [at for at, key in enumerate(_keys(several)) if key not in window.emitted]
    if not fresh:
        return None, ()
    wanted = several.take(np.array(fresh, np.int64))
    parts: dict[str, list[Rows]] = {}
    for states in window.members.values():
        for name, rows in states.tables.items():
            parts.setdefault(name, []).append(rows.take(within_groups(rows, wanted)))
    groups = {name: combine(each) for name, each in parts.items()}
    size = job.statement.window
    assert size is not None
    start = interval * size.slide_us
    condition = job.conditions[part]
    found = condition.passing(groups, (start, start + size.size_us))
    if not found.rows:
        return None, ()
    main = groups[MAIN]
    passed = main if found.places is None else main.take(found.places)
    window.emitted.update(_keys(passed))
    ordered = condition.ordered(found)
    table = intervals_as_text(
        pa.Table.from_arrays(list(ordered.outputs.values()), names=list(job.statement.columns))
    )
    inside = (
        member for member, states in window.members.items() if len(within_groups(states.tables[MAIN], passed))
    )
    return table, tuple(sorted(inside))


def _keys(rows: Rows) -> Iterable[tuple[Any, ...]]:
    """Return the keys of rows as plain values; NaN equals itself."""
    columns = [_plain(column) for column in rows.keys]
    return zip(*columns, strict=True) if columns else [()] * rows.count


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    values: list[Any] = column.to_pylist()
    return ["\0nan" if isinstance(each, float) and math.isnan(each) else each for each in values]
