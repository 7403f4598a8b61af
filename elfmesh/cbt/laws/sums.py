"""sum and sumsq: exact, whatever the order and the shape of the tree; rounded once, at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt import kernel
from elfmesh.cbt.columns import DURATION, decimal_words, to_int64, type_name, valid_mask
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.sums import floatsum
from elfmesh.cbt.sums.exactsum import ExactSums
from elfmesh.errors import DataError

_LIMB = re.compile(r"limb([+-]\d{1,2})")
_SPECIALS = ("nan", "posinf", "neginf")


class Sum(Law):
    """Exact sums of int64, float64 and decimals; null without values."""

    kind, invertible, takes_narrower = "sum", True, True
    timed: tuple[pa.DataType, ...] = (DURATION,)
    """Other types of 64 bits, whose sum has the same type; null if it leaves 64 bits."""
    limb_min, limb_max = floatsum.LIMB_MIN, floatsum.LIMB_MAX

    def value_type(self, values: Values, name: str) -> pa.DataType:
        data_type = one_column(values).type
        plain = (pa.null(), pa.int64(), pa.float64(), *self.timed)
        if pa.types.is_decimal128(data_type) or data_type in plain:
            return data_type
        raise DataError(
            f"{self.kind} {name!r} is over {type_name(data_type)} values, which are not numbers",
            hint=f"Cast them in the query, for example {self.kind.upper()}(CAST(x AS DOUBLE)).",
        )

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with a counter, and 8 bytes per limb in use."""
        return SumAccumulator(self.kind, data_type)

    def negate(self, state: State) -> State:
        parts = {name: -state.parts[name] for name in ("values", *_SPECIALS) if name in state.parts}
        return State(self.kind, state.type, {**parts, **_named(floatsum.negate(limbs_of(state)))})

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return int64 (or decimal(38,0)), float64 rounded once, or decimals of up to ten more digits.

        The result is null if all values are null.
        """
        limbs = limbs_of(state)
        null = state.parts["values"] <= 0
        if pa.types.is_null(state.type):
            return pa.nulls(rows)
        if pa.types.is_floating(state.type):
            result = pa.array(_with_specials(floatsum.to_floats(limbs, rows), state, rows))
        elif pa.types.is_decimal(state.type):
            result = _narrowed(floatsum.to_decimals(limbs, rows, state.type.scale), state.type.precision)
        else:
            result = floatsum.to_integers(limbs, rows)
        if state.type == DURATION:
            result = _within_64_bits(result).view(DURATION)
        return pc.if_else(pa.array(null), pa.scalar(None, result.type), result) if null.any() else result

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Keep the limbs, because they represent the same number for every type."""
        return state if state.type == data_type else State(state.kind, data_type, state.parts)

    def check(self, state: State, rows: int) -> None:
        """Check the names of counters and the range of limbs.

        Integers and decimals have no limbs below the unit.
        """
        if "values" not in state.parts:
            raise ValueError(f"a {self.kind} without its count of values")
        if not all(isinstance(column, np.ndarray) for column in state.parts.values()):
            raise ValueError(f"a {self.kind} is not made of plain integers")
        fraction = pa.types.is_floating(state.type)
        for name in state.parts.keys() - {"values", *_SPECIALS}:
            match = _LIMB.fullmatch(name)
            lowest = self.limb_min if fraction else 0
            highest = self.limb_max if fraction else floatsum.WHOLE_LIMB_MAX
            if match is None or not lowest <= int(match[1]) <= highest:
                raise ValueError(f"a {self.kind} of {type_name(state.type)} has a column {name!r}")


def _within_64_bits(sums: pa.Array) -> pa.Array:
    if sums.type == pa.int64():
        return sums
    inside = [each if -(2**63) <= each < 2**63 else None for each in map(int, sums.to_pylist())]
    return pa.array(inside, pa.int64())


def _narrowed(sums: pa.Array, precision: int) -> pa.Array:
    """Return decimals with ten digits more than their values, as Spark's sums.

    The result has all 38 digits if one sum needs them.
    """
    try:
        return sums.cast(pa.decimal128(min(precision + 10, 38), sums.type.scale))
    except pa.ArrowInvalid:
        return sums


def _with_specials(sums: np.ndarray, state: State, rows: int) -> np.ndarray:
    if not any(name in state.parts for name in _SPECIALS):
        return sums
    nan, plus, minus = (state.parts.get(name, np.zeros(rows, np.int64)) > 0 for name in _SPECIALS)
    sums = np.where(plus, np.inf, np.where(minus, -np.inf, sums))
    return np.where(nan | (plus & minus), np.nan, sums)


def _named(limbs: Mapping[int, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"limb{number:+d}": limbs[number] for number in sorted(limbs)}


def limbs_of(state: State) -> floatsum.Limbs:
    return {int(name[4:]): column for name, column in state.parts.items() if name.startswith("limb")}


class SumAccumulator(Accumulator):
    """Per group the number of values, an exact sum of the finite ones, and counts of the others."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        self.type = data_type
        self._kind = kind
        self._values = Growing()
        self._specials: dict[str, Growing] = {}
        self._sums = ExactSums()

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values to the limbs. Cost: float64 about three additions, int64 one, and one for the count."""
        column = one_column(values)
        valid = valid_mask(column)
        if valid is not None:
            ids = ids[valid]
        if pa.types.is_null(column.type):
            self._count(ids, groups)
            return
        if pa.types.is_decimal128(column.type):
            self._count(ids, groups)
            words = decimal_words(column)
            self._add_decimals(words if valid is None else words[valid], ids, groups)
            return
        numbers = to_int64(column)[0]
        if valid is not None:
            numbers = numbers[valid]
        if pa.types.is_floating(column.type):
            self._add_floats(numbers.view(np.float64), ids, groups)
        else:
            self._count(ids, groups)
            self._add_ints(numbers, ids, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        kernel.active.add(ids, state.parts["values"], self._values.reach(groups))
        for name in _SPECIALS:
            if name in state.parts:
                kernel.active.add(ids, state.parts[name], self._special(name).reach(groups))
        self._sums.merge(limbs_of(state), ids, groups)

    def freeze(self, groups: int) -> State:
        parts = {"values": self._counts(groups)}
        for name in _SPECIALS:
            if name in self._specials and (counts := self._specials[name].head(groups)).any():
                parts[name] = counts.copy()
        return State(self._kind, self.type, {**parts, **_named(self._limbs(groups))})

    def clear(self) -> None:
        for column in (self._values, *self._specials.values()):
            column.clear()
        self._sums.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Keep the limbs, because they represent the same number for every type."""
        self.type = data_type

    @property
    def nbytes(self) -> int:
        columns = (self._values, *self._specials.values())
        return self._sums.nbytes + sum(column.nbytes for column in columns)

    def _count(self, ids: np.ndarray, groups: int) -> None:
        if len(ids):
            kernel.active.count(ids, self._values.reach(groups))

    def _counts(self, groups: int) -> np.ndarray:
        """Return the number of values of each group.

        The exact sum counts finite floats in the row it updates.
        """
        added = self._sums.floats_added(groups)
        return added + self._values.head(groups) if self._values.used else added

    def _add_floats(self, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
        done = self._sums.add_floats(values, ids, groups)
        if done < len(values):
            self._sums.add_floats(*self._finite(values[done:], ids[done:], groups), groups)

    def _add_ints(self, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
        self._sums.add_ints(values, ids, groups)

    def _add_decimals(self, words: np.ndarray, ids: np.ndarray, groups: int) -> None:
        self._sums.add_decimals(words, ids, groups)

    def _limbs(self, groups: int) -> floatsum.Limbs:
        return self._sums.limbs(groups)

    def _finite(self, numbers: np.ndarray, ids: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
        finite = np.isfinite(numbers)
        if finite.all():
            return numbers, ids
        masks = (np.isnan(numbers), numbers == np.inf, numbers == -np.inf)
        for name, mask in zip(_SPECIALS, masks, strict=True):
            if mask.any():
                kernel.active.count(ids[mask], self._special(name).reach(groups))
        self._count(ids[~finite], groups)
        return numbers[finite], ids[finite]

    def _special(self, name: str) -> Growing:
        return self._specials.setdefault(name, Growing())
