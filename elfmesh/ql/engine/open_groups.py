"""Groups that are open between two intervals of a job: their rows, their encoding, and the step.

A statement whose window spans intervals (SESSION, SEALED, ROWS, WITHIN) has one function that adds the merged
tables of an interval to the groups that earlier intervals left open. It returns the groups that end, and
those that stay open: `step(statement, open, pane) -> ended, open`. `sessions`, `sealed`, `counted` and
`within` are these functions.

Invariants: a step is a function of its arguments, so repeating it gives the same rows. Groups are merged as
states. A group carries the least completeness of its intervals.

Paper: ELF 2.2 (PAOs merge wherever two meet).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from elfmesh.cbt import Content, TypeConflict, decode_partial, encode_partial
from elfmesh.cbt.columns import promote, unify
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.contents import FinishedBlocks, all_rows
from elfmesh.cbt.rows import Rows, Types, combine, from_table
from elfmesh.errors import DataError, ProtocolError
from elfmesh.ql.engine.changes import same_state
from elfmesh.ql.engine.folds import owners_of
from elfmesh.ql.plan.statement import MAIN, ROWS, SEALED, SESSION, WITHIN
from elfmesh.wire import UNREADABLE

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OPEN_ROWS_MAX = 1_000_000
"""Maximum number of rows of a table of open groups, including distinct values, because they are in one
agent's memory."""

OPEN_BYTES_MAX = 4 << 20
"""Maximum number of bytes of open groups, because the job's voters receive them with every interval."""

SHARES_MAX = 8
"""Maximum number of levels of completeness that are kept apart; beyond it, the two lowest become the lower
one."""

LACKING_MAX = 64
"""Maximum number of intervals that lack records which are kept apart."""

AT_ONCE_US = -(1 << 62)
"""The next interval has a record, whether or not members have records for it."""

NEVER_US = 1 << 62
"""Only records of members give an interval a record."""

CALLED = {
    SESSION: ("open sessions", "Make the gap shorter, or group by less."),
    SEALED: ("open partitions", "Make AFTER shorter, seal partitions sooner, or group by less."),
    ROWS: ("records of open windows", "Make the windows or the intervals shorter, or group by less."),
    WITHIN: ("records that wait for a match", "Make WITHIN or the intervals shorter, or read fewer fields."),
}
"""What the open groups of a kind of window are called in an error, and how a user has fewer of them."""

Tables = dict[str, Rows]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """Encoding of `Open`: the text that reduced it, and a partial per completeness, highest first.

    Attributes:
        ended: partial of the ended groups.
        due_us, lacking: as in `Open`.
    """

    text: str
    shares: tuple[tuple[float, bytes], ...]
    ended: bytes = b""
    due_us: int = AT_ONCE_US
    lacking: tuple[tuple[int, float], ...] = ()


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(_Stored)


class Open(Struct, frozen=True):
    """Open groups, by the least completeness of the intervals that may contain their records.

    Attributes:
        ended: keys of groups that have ended, while records of them are late.
        due_us: some of the groups end with the first interval that ends then or later, even if it has no
            records.
        lacking: end and completeness of earlier intervals that lack records on which later rows depend,
            whether or not they had records of open groups.
    """

    shares: Mapping[float, Tables]
    ended: Tables = field(default_factory=dict)
    due_us: int = AT_ONCE_US
    lacking: tuple[tuple[int, float], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.shares or self.ended or self.lacking)

    def tables(self) -> Tables:
        """Return the tables of a kind of window that keeps no completeness for each group."""
        return dict(self.shares.get(1.0, {}))


NONE = Open({})


class ClosedPane(Struct, frozen=True):
    """Content of an interval that closes.

    Attributes:
        tables: its merged tables.
        completeness: completeness of the interval.
        start_us, end_us: its bounds.
        members: ids of the members that it expects.
        is_last: whether no interval follows, so all groups end.
    """

    tables: Mapping[str, Content] = field(default_factory=dict)
    completeness: float = 1.0
    start_us: int = 0
    end_us: int = 0
    members: tuple[str, ...] = ()
    is_last: bool = False

    def rows(self, kind: str) -> Tables:
        """Return the tables in memory. Raises DataError if one has more than OPEN_ROWS_MAX rows."""
        if any(content.rows_max > OPEN_ROWS_MAX for content in self.tables.values()):
            raise _too_many(kind)
        return {name: rows for name, content in self.tables.items() if (rows := all_rows(content)).count}


class GroupStep(Struct, frozen=True):
    """Result of a step.

    Attributes:
        ended: tables of the ended groups.
        completeness: the least completeness of the ended groups.
        open: groups that stay open.
        late: number of records of groups that had ended earlier.
        broken: number of dependencies of ASSUME that groups which are open together contradict for the first
            time.
    """

    ended: Mapping[str, FinishedBlocks]
    completeness: float
    open: Open
    late: int = 0
    broken: int = 0


def write_open(open_: Open, text: str, kind: str) -> bytes:
    """Encode open groups; b"" if there are none. Raises DataError above OPEN_BYTES_MAX."""
    if open_.is_empty:
        return b""
    ordered = sorted(open_.shares.items(), reverse=True)
    shares = tuple((share, encode_partial(tables)) for share, tables in ordered)
    ended = encode_partial(open_.ended) if open_.ended else b""
    data = _PACK.encode(_Stored(text, shares, ended, open_.due_us, open_.lacking))
    if len(data) > OPEN_BYTES_MAX:
        called, hint = CALLED[kind]
        raise DataError(f"the {called} have {len(data)} bytes, more than {OPEN_BYTES_MAX}", hint=hint)
    return data


def read_open(data: bytes, text: str, kind: str) -> Open:
    """Decode open groups. Returns none if `text` reduces records to other states than the encoded text."""
    stored = _read(data)
    if stored is None or not same_state(stored.text, text):
        return NONE
    shares = [(share, _tables(partial)) for share, partial in stored.shares]
    found = together(shares, kind, _tables(stored.ended) if stored.ended else {}, stored.due_us)
    return replace(found, lacking=stored.lacking)


def lacking_after(data: bytes, text: str, kind: str, end_us: int) -> bytes:
    """Return the open groups after a skipped interval, which may have had records of any of them.

    Counts begin again, because records that do not fit would make all later intervals fail too. Records that
    wait for a match are dropped by their age. Partitions and sessions go on, with completeness 0. A partition
    that begins later has no record in an earlier interval.
    """
    stored = _read(data)
    if stored is None and kind == SEALED:
        return b""
    stored = stored or _Stored(text, (), due_us=NEVER_US)
    shares = () if kind == ROWS else stored.shares
    if kind in (SESSION, SEALED):
        shares = tuple((0.0, partial) for _, partial in shares)
    lacking = () if kind == SEALED else with_lacking(stored.lacking, end_us, 0.0)
    return _PACK.encode(replace(stored, shares=shares, lacking=lacking))


def with_lacking(
    lacking: Sequence[tuple[int, float]], end_us: int, completeness: float
) -> tuple[tuple[int, float], ...]:
    """Add an interval to those that lack records; beyond LACKING_MAX, the two oldest become one."""
    found = [*lacking, *([(end_us, completeness)] if completeness < 1.0 else [])]
    while len(found) > LACKING_MAX:
        (_, first), (end, second), *rest = found
        found = [(end, min(first, second)), *rest]
    return tuple(found)


def due_us(data: bytes) -> int:
    """Return `Open.due_us` of encoded groups."""
    stored = _read(data)
    return NEVER_US if stored is None else stored.due_us


def _read(data: bytes) -> _Stored | None:
    try:
        return _UNPACK.decode(data) if data else None
    except UNREADABLE as error:
        raise ProtocolError(f"malformed open groups: {error}") from None


def _tables(partial: bytes) -> Tables:
    return {name: from_table(table) for name, table in decode_partial(partial).items()}


# -- tools of the steps


def owners(keys: tuple[str, ...], main: Rows, others: Rows) -> Ints:
    """Return int64 per row of `others`: the row of `main` with the same first keys, or -1."""
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


def state_of(rows: Rows, name: str) -> pa.Array:
    """Return the value of an aggregate of each row. Raises ProtocolError if there is none of this name."""
    for (known, kind), state in zip(rows.layout.aggregates, rows.states, strict=True):
        if known == name:
            return LAWS[kind].finish(state, rows.count)
    raise ProtocolError(f"partial aggregates without the window's {name}")


def integers(rows: Rows, name: str) -> Ints:
    """Return an aggregate as int64 per row (event times in microseconds); null is 0."""
    values = state_of(rows, name).cast(pa.int64())
    return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def chosen(keys: tuple[str, ...], tables: Tables, mask: Bools) -> Tables:
    """Return the rows of the main table where `mask` is true, and their rows of the other tables."""
    if not mask.any():
        return {}
    main = tables[MAIN]
    found = {MAIN: main.take(np.flatnonzero(mask))}
    for name, rows in tables.items():
        if name != MAIN:
            owned = owners(keys, main, rows)
            places = np.flatnonzero((owned >= 0) & mask[owned])
            if len(places):
                found[name] = rows.take(places)
    return found


def merged(several: Sequence[Tables]) -> Tables:
    same: dict[str, list[Rows]] = {}
    for tables in several:
        for name, rows in tables.items():
            same.setdefault(name, []).append(rows)
    return {name: rows[0] if len(rows) == 1 else combine(rows) for name, rows in same.items()}


def together(
    shares: Sequence[tuple[float, Tables]],
    kind: str,
    ended: Tables | None = None,
    due_us: int = AT_ONCE_US,
) -> Open:
    """Merge open groups that have the same completeness. Raises DataError above OPEN_ROWS_MAX rows."""
    same: dict[float, list[Tables]] = {}
    for share, tables in shares:
        if tables:
            same.setdefault(share, []).append(tables)
    while len(same) > SHARES_MAX:
        lowest, second = sorted(same)[:2]
        same[lowest] += same.pop(second)
    joined = {share: merged(same[share]) for share in sorted(same, reverse=True)}
    kinds: dict[str, Types] = {}
    counts: Counter[str] = Counter({f"ended {name}": rows.count for name, rows in (ended or {}).items()})
    for tables in joined.values():
        for name, rows in tables.items():
            kinds[name] = rows.layout.unify(kinds.get(name, rows.types), rows.types)
            counts[name] += rows.count
    if any(count > OPEN_ROWS_MAX for count in counts.values()):
        raise _too_many(kind)
    return Open(joined, ended or {}, due_us)


def _too_many(kind: str) -> DataError:
    called, hint = CALLED[kind]
    return DataError(f"more than {OPEN_ROWS_MAX} rows of {called}", hint=hint)
