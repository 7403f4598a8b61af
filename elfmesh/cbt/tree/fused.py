"""Fused rows: counts, sums and extremes of a group in one row, so that a batch is added in one pass.

A batch with nulls, with floats of too different magnitudes, or of states goes to the accumulators of these
aggregates instead; readers add up both. A batch is added to all fields or to none, so one counter serves all.
An upper bound grows with every batch, and a batch is refused before a sum could overflow its words.

Paper: ELF 2.2 (PAOs in the root's buffer are updated in place).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import from_int64, is_orderable_as_int, to_int64
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.kernel import FLIPS, Field, FieldKind
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws import State
from elfmesh.cbt.laws.base import Values
from elfmesh.cbt.sums.floatsum import LIMB_BITS, LIMB_MIN, Limbs, bound

_MASK = np.int64((1 << LIMB_BITS) - 1)
_COUNTER = 0
"""Word of the counter: the number of values that were added to the row."""

_FIXED_BITS = 126
_WHOLE_BITS = 62
"""Magnitudes of sums of floats, in their unit, and of integers stay below 2 to this power."""

_MARGIN_BITS = 12
"""Bits by which the unit of sums of floats is lower than the first batch needs."""

_SPARE_BITS = 4
"""A batch that alone could fill 2**-4 of this goes to the accumulators."""

_PIECES = 5
"""Limbs that 128 bits touch, wherever they begin."""

_ROWS_AT_ONCE = 4096
"""Rows that are converted to limbs at once, because columns for all rows would need newly allocated
memory."""

_LOWEST_MIN = LIMB_BITS * LIMB_MIN
_TOP_MAX = 1024
"""Finite floats are below 2 to this power."""


class _Fields:
    """Position of one aggregate in a row.

    `field` is None if the aggregate needs only the counter. `part` is the name of a count's column.
    """

    __slots__ = ("field", "kind", "part", "place", "type")

    def __init__(self, kind: str, data_type: pa.DataType, place: int) -> None:
        self.kind, self.type, self.place, self.part = kind, data_type, place, "rows"
        self.field = _field_of(kind, data_type)

    @property
    def words(self) -> int:
        return 0 if self.field is None else 1 + (self.field == FieldKind.FLOAT_SUM)


def _field_of(kind: str, data_type: pa.DataType) -> FieldKind | None:
    floating = pa.types.is_floating(data_type)
    if kind == "sum":
        return FieldKind.FLOAT_SUM if floating else FieldKind.SUM
    if kind == "min":
        return FieldKind.LEAST_FLOAT if floating else FieldKind.LEAST
    if kind == "max":
        return FieldKind.GREATEST_FLOAT if floating else FieldKind.GREATEST
    return None


def _has_fields(kind: str, data_type: pa.DataType) -> bool:
    if kind in ("min", "max"):
        return is_orderable_as_int(data_type)
    return kind == "count" or (kind == "sum" and data_type in (pa.int64(), pa.float64()))


class FusedRows:
    """Fused rows of a table; `numbers` selects the aggregates with fields."""

    __slots__ = ("_added", "_bounds", "_fields", "_lowest", "_rows", "numbers")

    def __init__(self, kinds: Sequence[str], types: Sequence[pa.DataType]) -> None:
        self._fields: dict[int, _Fields] = {}
        words = 1
        for number, (kind, data_type) in enumerate(zip(kinds, types, strict=True)):
            if _has_fields(kind, data_type):
                self._fields[number] = own = _Fields(kind, data_type, words)
                words += own.words
        self.numbers = frozenset(self._fields)
        self._rows = Growing(width=words)
        self._lowest: int | None = None
        self._bounds = {number: 0 for number, own in self._fields.items() if own.kind == "sum"}
        self._added = 0

    @property
    def used(self) -> int:
        return self._rows.used

    @property
    def may_be_read_out(self) -> bool:
        """Return whether enough was added since `clear` that reading all rows costs little per added row."""
        return self._added >= self._rows.used > 0

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes if self._fields else 0

    def inputs(self, values: Sequence[Values], start: int, count: int) -> dict[int, np.ndarray] | None:
        """Return the inputs of `count` rows for the fields: int64, floats by their bits.

        Returns None if they do not fit.
        """
        parts: dict[int, pa.Array] = {}
        numbers: dict[int, np.ndarray] = {}
        out: dict[int, np.ndarray] = {}
        for number, own in self._fields.items():
            column = values[number]
            if column is None:
                continue
            if isinstance(column, tuple) or (own.field is not None and column.type != own.type):
                return None
            key = id(column)  # aggregates of one column share one object
            if key not in parts:
                parts[key] = column if len(column) == count else column.slice(start, count)
                if parts[key].null_count:
                    return None
            if own.field is None:
                own.part = "values"
                continue
            if key not in numbers:
                numbers[key] = to_int64(parts[key])[0]
            out[number] = numbers[key]
        return out

    def reserve(self, inputs: dict[int, np.ndarray]) -> bool:
        """Reserve room for inputs in the bounds of the sums.

        Returns False, without a change, if one might overflow.
        """
        lowest, more = self._lowest, {}
        spans: dict[int, tuple[int, int] | None] = {}
        for number, held in self._bounds.items():
            taken, room = inputs[number], _WHOLE_BITS
            if self._fields[number].field == FieldKind.SUM:
                magnitude = bound(taken) * len(taken)
            else:
                if id(taken) not in spans:
                    spans[id(taken)] = kernel.active.span_floats(taken.view(np.float64))
                span, room = spans[id(taken)], _FIXED_BITS
                if span is None:  # all values are zero
                    continue
                if lowest is None:
                    lowest = max(span[0] - _MARGIN_BITS, _LOWEST_MIN)
                if span[0] < lowest or span[1] > _TOP_MAX:
                    return False
                magnitude = len(taken) << max(span[1] - lowest, 0)
            if magnitude >> (room - _SPARE_BITS) or (held + magnitude) >> room:
                return False
            more[number] = held + magnitude
        self._lowest = lowest
        self._bounds |= more
        return True

    def add(self, inputs: dict[int, np.ndarray], ids: np.ndarray, groups: int, most: int) -> None:
        """Add reserved inputs to int64 groups, of which at most `most` are expected."""
        coded: list[Field] = [(FieldKind.COUNT, _COUNTER, None, 0)]
        for number, taken in inputs.items():
            own = self._fields[number]
            assert own.field is not None
            coded.append((own.field, own.place, taken, self._lowest or 0))
        kernel.active.add_fields(ids, self._rows.reach(groups, most), coded)
        self._added += len(ids)

    def columns(self, groups: int, rows: np.ndarray | None = None) -> np.ndarray:
        """Return int64[words, rows]: a copy of the first rows, or of the given rows."""
        block = self._rows.head(groups)
        return block.T.copy() if rows is None else kernel.active.take_rows(block, rows)

    def state(self, number: int, columns: np.ndarray) -> State:
        own, counts = self._fields[number], columns[_COUNTER]
        if own.kind == "count":
            return State(own.kind, own.type, {own.part: counts})
        assert own.field is not None
        column = columns[own.place]
        if own.field in FLIPS:
            ranks = column ^ FLIPS[own.field]
            bits = float_rank(ranks) if pa.types.is_floating(own.type) else ranks
            return State(own.kind, own.type, {"value": from_int64(bits, counts > 0, own.type)})
        limbs = {0: column}
        if own.field == FieldKind.FLOAT_SUM:
            limbs = _limbs(column, columns[own.place + 1], self._lowest or 0)
        parts = {f"limb{limb:+d}": limbs[limb] for limb in sorted(limbs) if limbs[limb].any()}
        return State(own.kind, own.type, {"values": counts, **parts})

    def clear(self) -> None:
        self._rows.clear()
        self._lowest, self._added = None, 0
        self._bounds = dict.fromkeys(self._bounds, 0)


def _limbs(low: np.ndarray, high: np.ndarray, lowest: int) -> Limbs:
    """Return limbs of 128-bit multiples of 2**lowest. Limbs of a negative number are negative."""
    low = low.view(np.uint64)
    negative = high < 0
    if some := bool(negative.any()):
        sign = np.where(negative, np.int64(-1), np.int64(1))
        high = np.where(negative, ~high + (low == 0), high)
        low = np.where(negative, np.uint64(0) - low, low)
    number, shift = divmod(lowest, LIMB_BITS)
    limbs = np.empty((_PIECES, len(low)), np.int64)
    for start in range(0, len(low), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        _cut(low[rows], high[rows], shift, limbs[:, rows])
    if some:
        limbs *= sign
    return {number + place: column for place, column in enumerate(limbs)}


def _cut(low: np.ndarray, high: np.ndarray, shift: int, limbs: np.ndarray) -> None:
    """Write the limbs of non-negative 128-bit numbers that are shifted left by less than a limb."""
    word = low.view(np.int64)
    left, right, above = np.int64(shift), np.int64(LIMB_BITS - shift), 2 * LIMB_BITS - shift
    np.bitwise_and(word << left, _MASK, out=limbs[0])
    np.bitwise_and(word >> right, _MASK, out=limbs[1])
    # A shift by 64 bits, if the left shift is 0, gives 0.
    np.bitwise_and((low >> np.uint64(above)).view(np.int64) | (high << left), _MASK, out=limbs[2])
    np.bitwise_and(high >> right, _MASK, out=limbs[3])
    np.right_shift(high, np.int64(above), out=limbs[4])
