"""Session windows at the root: continues open sessions with the records of one interval, and ends others.

A session ends when its group has no record for longer than the gap. Panes are as wide as the gap, so the
records of a group in one pane form one *fragment*, reduced in the tree like any group. The root adds the
panes in order. A fragment continues the open session if it begins at most one gap after its last record
(Spark's comparison). An open session that is not continued has ended and is a row of the interval.

Invariants: the step is a function of the open sessions and the interval's partials, so repeating it gives the
same rows. Fragments are merged as states. A session carries the least completeness of its intervals.

Paper: ELF 2.2 (PAOs merge wherever two meet); Akidau et al. 2015, 2.2 (sessions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.cbt import Content, TypeConflict, decode_partial, encode_partial, finish_blocks
from elfmesh.cbt.columns import promote, unify
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.contents import FinishedBlocks, all_rows
from elfmesh.cbt.rows import Rows, Types, combine, from_table
from elfmesh.errors import DataError, ProtocolError
from elfmesh.ql.engine.changes import same_state
from elfmesh.ql.engine.folds import owners_of
from elfmesh.ql.plan.statement import MAIN, SESSION_FIRST, SESSION_LAST, Statement
from elfmesh.wire import UNREADABLE

Ints = npt.NDArray[np.int64]

OPEN_ROWS_MAX = 1_000_000
"""Maximum number of rows of a table of open sessions, including distinct values, because they are in one
agent's memory."""

OPEN_BYTES_MAX = 4 << 20
"""Maximum number of bytes of open sessions, because the job's voters receive them with every interval."""

SHARES_MAX = 8
"""Maximum number of levels of completeness that are kept apart; beyond it, the two lowest become the lower
one."""

Tables = dict[str, Rows]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """Encoding of `Open`: the text that reduced it, and a partial per completeness, highest first."""

    text: str
    shares: tuple[tuple[float, bytes], ...]


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(_Stored)


@dataclass(frozen=True, slots=True)
class Open:
    """Open sessions, grouped by the least completeness of the intervals that may contain their records."""

    shares: Mapping[float, Tables]

    @property
    def is_empty(self) -> bool:
        return not self.shares


NONE = Open({})


@dataclass(frozen=True, slots=True)
class SessionStep:
    """Result of a step: ended sessions, the least completeness of their intervals, and open sessions."""

    ended: Mapping[str, FinishedBlocks]
    completeness: float
    open: Open


def write_open(open_: Open, text: str) -> bytes:
    """Encode open sessions; b"" if there are none. Raises DataError above OPEN_BYTES_MAX."""
    if open_.is_empty:
        return b""
    ordered = sorted(open_.shares.items(), reverse=True)
    shares = tuple((share, encode_partial(tables)) for share, tables in ordered)
    data = _PACK.encode(_Stored(text, shares))
    if len(data) > OPEN_BYTES_MAX:
        raise DataError(
            f"the open sessions have {len(data)} bytes, more than {OPEN_BYTES_MAX}",
            hint="Make the gap shorter, or group by less.",
        )
    return data


def read_open(data: bytes, text: str) -> Open:
    """Decode open sessions. Returns none if `text` reduces records to other states than the encoded text."""
    stored = _read(data)
    if stored is None or not same_state(stored.text, text):
        return NONE
    return _together(
        [
            (share, {name: from_table(table) for name, table in decode_partial(partial).items()})
            for share, partial in stored.shares
        ]
    )


def left_out(data: bytes) -> bytes:
    """Return the open sessions after a skipped interval, which may have had records of any of them."""
    stored = _read(data)
    if stored is None:
        return b""
    return _PACK.encode(_Stored(stored.text, tuple((0.0, partial) for _, partial in stored.shares)))


def _read(data: bytes) -> _Stored | None:
    try:
        return _UNPACK.decode(data) if data else None
    except UNREADABLE as error:
        raise ProtocolError(f"malformed open sessions: {error}") from None


def step(
    statement: Statement, open_: Open, pane: Mapping[str, Content], completeness: float = 1.0
) -> SessionStep:
    """Add the merged tables of one pane to the sessions that are open after all earlier intervals.

    Raises DataError if more than OPEN_ROWS_MAX rows are open. Cost: a copy of both sides' rows and a hash
    aggregation of keys.
    """
    assert statement.window is not None
    if any(content.rows_max > OPEN_ROWS_MAX for content in pane.values()):
        raise _too_many()
    fresh = {name: rows for name, content in pane.items() if (rows := all_rows(content)).count}
    keys, gap = statement.tables[0].keys, statement.window.size_us
    ended: list[tuple[float, Tables]] = []
    shares: list[tuple[float, Tables]] = []
    continued = np.zeros(fresh[MAIN].count if MAIN in fresh else 0, np.bool_)
    for share, tables in open_.shares.items():
        at = _continued_by(keys, tables[MAIN], fresh.get(MAIN), gap)
        ended.append((share, _chosen(keys, tables, at < 0)))
        going_on, going_places = _chosen(keys, tables, at >= 0), at[at >= 0]
        if len(going_places):
            mine = np.zeros(len(continued), np.bool_)
            mine[going_places] = True
            continued |= mine
            shares.append((min(share, completeness), _merged([going_on, _chosen(keys, fresh, mine)])))
    if not continued.all():
        shares.append((completeness, _chosen(keys, fresh, ~continued)))
    shown = [(share, tables) for share, tables in ended if tables]
    return SessionStep(
        finish_blocks(_merged([tables for _, tables in shown])),
        min((share for share, _ in shown), default=1.0),
        _together(shares),
    )


def _continued_by(keys: tuple[str, ...], sessions: Rows, fragments: Rows | None, gap: int) -> Ints:
    """Return int64 per open session: the fragment that continues it, or -1."""
    if fragments is None:
        return np.full(sessions.count, -1, np.int64)
    at = _owners(keys, fragments, sessions)
    begins, last = _times(fragments, SESSION_FIRST), _times(sessions, SESSION_LAST)
    return np.where((at >= 0) & (begins[at] - last <= gap), at, -1)


def _owners(keys: tuple[str, ...], main: Rows, others: Rows) -> Ints:
    """Return int64 per row of `others`: the row of `main` with the same group keys, or -1."""
    if not keys:
        return np.zeros(others.count, np.int64)
    ours, theirs = main.keys[: len(keys)], others.keys[: len(keys)]
    try:
        kinds = [unify(key, a.type, b.type) for key, a, b in zip(keys, ours, theirs, strict=True)]
    except TypeConflict:
        return np.full(others.count, -1, np.int64)  # keys of different types are different groups
    mine, other = (
        {key: promote(array, kind) for key, array, kind in zip(keys, arrays, kinds, strict=True)}
        for arrays in (ours, theirs)
    )
    return owners_of(mine, keys, main.count, pa.table(other))


def _times(rows: Rows, name: str) -> Ints:
    for (known, kind), state in zip(rows.layout.aggregates, rows.states, strict=True):
        if known == name:
            times = LAWS[kind].finish(state, rows.count).cast(pa.int64())
            return np.asarray(times.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    raise ProtocolError(f"partial aggregates without the session's {name}")


def _chosen(keys: tuple[str, ...], tables: Tables, mask: npt.NDArray[np.bool_]) -> Tables:
    if not mask.any():
        return {}
    main = tables[MAIN]
    chosen = {MAIN: main.take(np.flatnonzero(mask))}
    for name, rows in tables.items():
        if name != MAIN:
            owners = _owners(keys, main, rows)
            places = np.flatnonzero((owners >= 0) & mask[owners])
            if len(places):
                chosen[name] = rows.take(places)
    return chosen


def _merged(several: Sequence[Tables]) -> Tables:
    same: dict[str, list[Rows]] = {}
    for tables in several:
        for name, rows in tables.items():
            same.setdefault(name, []).append(rows)
    return {name: rows[0] if len(rows) == 1 else combine(rows) for name, rows in same.items()}


def _together(shares: Sequence[tuple[float, Tables]]) -> Open:
    """Merge open sessions that have the same completeness."""
    same: dict[float, list[Tables]] = {}
    for share, tables in shares:
        if tables:
            same.setdefault(share, []).append(tables)
    while len(same) > SHARES_MAX:
        lowest, second = sorted(same)[:2]
        same[lowest] += same.pop(second)
    merged = {share: _merged(same[share]) for share in sorted(same, reverse=True)}
    kinds: dict[str, Types] = {}
    counts: Counter[str] = Counter()
    for tables in merged.values():
        for name, rows in tables.items():
            kinds[name] = rows.layout.unify(kinds.get(name, rows.types), rows.types)
            counts[name] += rows.count
    if any(count > OPEN_ROWS_MAX for count in counts.values()):
        raise _too_many()
    return Open(merged)


def _too_many() -> DataError:
    return DataError(
        f"more than {OPEN_ROWS_MAX} rows of open sessions",
        hint="Make the gap shorter, or group by less.",
    )
