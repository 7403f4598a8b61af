"""The registry of aggregates: what state each keeps per group, and the laws that state obeys.

A PAO (partial aggregation object) is, per group, one state per aggregate. States are columns, so every
operation below works on all groups at once. Laws, tested for every kind in tests/cbt/test_laws.py:

    kind    state columns                       identity          merge       inverse     finish
    count   rows (of *) or values (of x)        0                 +           negate      int64
    sum     values, limb+k, nan, posinf, neginf no limbs, 0       + per limb  negate      null if values = 0,
    else exact min     value                               null              least       none        the value
    max     value                               null              greatest    none        the value

merge is associative and commutative with that identity; where an inverse is declared, merge(x, negate(x)) is
the identity. Nulls are ignored, as in SQL. NaN is the greatest number, as in Spark. Integers never wrap,
floats never round before finish.

Owns: the laws. Refuses to know: keys, trees, bytes on the wire.

Paper: ELF 2.2 ("each newly parsed key-value pair is represented as a partial aggregation object"; "invertible
reduce").
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.cbt import floatsum
from elfmesh.cbt.columns import (
    decimal_words,
    from_int64,
    is_orderable_as_int,
    promote,
    to_int64,
    type_name,
    valid_mask,
)
from elfmesh.cbt.errors import NotInvertible
from elfmesh.cbt.kernel import grouping
from elfmesh.errors import DataError

_INT64 = np.iinfo(np.int64)
_FLOAT_MAGNITUDE = np.int64(_INT64.max)


@dataclass(frozen=True, slots=True)
class State:
    """The states of one aggregate for all groups.

    Attributes:
        kind: the law.
        type: canonical type of the aggregated values (int64 for a count).
        parts: column name -> int64 numpy array, or the canonical Arrow array "value" of min and max; all of
            one length.
    """

    kind: str
    type: pa.DataType
    parts: dict[str, np.ndarray | pa.Array]

    def take(self, rows: np.ndarray) -> State:
        """The states at these places."""
        index = pa.array(rows) if self.kind in ("min", "max") else rows
        return State(
            self.kind,
            self.type,
            {n: c[rows] if isinstance(c, np.ndarray) else c.take(index) for n, c in self.parts.items()},
        )

    def slice(self, start: int, stop: int) -> State:
        """The states in [start, stop), without a copy."""
        return State(self.kind, self.type, {n: c[start:stop] for n, c in self.parts.items()})

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(int(column.nbytes) for column in self.parts.values())


class Law(ABC):
    """One kind of aggregate. Instances hold no state of their own."""

    kind: str
    invertible: bool
    needs_input: bool

    @abstractmethod
    def value_type(self, values: pa.Array | None, name: str) -> pa.DataType:
        """The type of the state for canonical values.

        Raises:
            DataError: this kind cannot aggregate such values.
        """

    @abstractmethod
    def lift(self, values: pa.Array | None, ids: np.ndarray, groups: int) -> State:
        """States of raw values: canonical values[n] (None for count of rows), intp[n] group numbers."""

    @abstractmethod
    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """Merge states of one type, laid below each other in this order, by group."""

    @abstractmethod
    def finish(self, state: State, rows: int) -> pa.Array:
        """The aggregate's values."""

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """The same states for a wider value type."""
        return state if state.type == data_type else State(state.kind, data_type, state.parts)

    def negate(self, state: State) -> State:
        """The inverse: merging a state with its negation gives the identity."""
        raise NotInvertible(f"{self.kind} declares no inverse")

    @abstractmethod
    def check(self, state: State, rows: int) -> None:
        """Refuse a state that came from outside and does not look like one of this kind.

        Raises:
            ValueError: which part is wrong.
        """


def _added(states: Sequence[State], part: str, ids: np.ndarray, groups: int) -> np.ndarray:
    """The sums by group of one integer column, absent meaning zero."""
    rows = [_rows(state) for state in states]
    columns = [
        state.parts.get(part, np.zeros(count, np.int64)) for state, count in zip(states, rows, strict=True)
    ]
    return grouping.add(ids, groups, columns[0] if len(columns) == 1 else np.concatenate(columns))


def _rows(state: State) -> int:
    return len(next(iter(state.parts.values())))


class Count(Law):
    """count(*) counts rows, count(x) the values that are not null."""

    kind, invertible, needs_input = "count", True, False

    def value_type(self, values: pa.Array | None, name: str) -> pa.DataType:
        """Anything can be counted."""
        return pa.int64()

    def lift(self, values: pa.Array | None, ids: np.ndarray, groups: int) -> State:
        """One per row or value."""
        if values is None:
            return State(self.kind, pa.int64(), {"rows": np.bincount(ids, minlength=groups)})
        valid = np.asarray(values.is_valid()) if values.null_count else None
        counted = ids if valid is None else ids[valid]
        return State(self.kind, pa.int64(), {"values": np.bincount(counted, minlength=groups)})

    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """Addition. Counts of real records cannot overflow 64 bits."""
        (part,) = states[0].parts
        return State(self.kind, pa.int64(), {part: _added(states, part, ids, groups)})

    def negate(self, state: State) -> State:
        """Minus."""
        return State(self.kind, state.type, {part: -column for part, column in state.parts.items()})

    def finish(self, state: State, rows: int) -> pa.Array:
        """int64."""
        (column,) = state.parts.values()
        return pa.array(column)

    def check(self, state: State, rows: int) -> None:
        """Exactly one of the two columns."""
        if set(state.parts) not in ({"rows"}, {"values"}) or state.type != pa.int64():
            raise ValueError(f"a count has columns {sorted(state.parts)}")


_LIMB = re.compile(r"limb([+-]\d{1,2})")
_SPECIALS = ("nan", "posinf", "neginf")


class Sum(Law):
    """Exact sums of int64, float64 and decimals; null where no value was there."""

    kind, invertible, needs_input = "sum", True, True

    def value_type(self, values: pa.Array | None, name: str) -> pa.DataType:
        """A number's own type; decimals at full precision, since sums outgrow their inputs."""
        assert values is not None
        data_type = values.type
        if pa.types.is_decimal128(data_type):
            return pa.decimal128(38, data_type.scale)
        if data_type in (pa.null(), pa.int64(), pa.float64()):
            return data_type
        raise DataError(
            f"sum {name!r} is over {type_name(data_type)} values, which are no numbers",
            hint="Cast them in the query, for example SUM(CAST(x AS DOUBLE)).",
        )

    def lift(self, values: pa.Array | None, ids: np.ndarray, groups: int) -> State:
        """Limbs of the values, and counts of values, NaN and infinities."""
        assert values is not None
        valid = valid_mask(values)
        if valid is not None:
            values, ids = values.filter(pa.array(valid)), ids[valid]
        parts = {"values": np.bincount(ids, minlength=groups)}
        data_type = self.value_type(values, "")
        if pa.types.is_null(data_type):
            limbs: floatsum.Limbs = {}
        elif pa.types.is_decimal128(data_type):
            limbs = floatsum.lift_decimals(decimal_words(values), ids, groups)
        else:
            numbers = to_int64(values)[0]
            if pa.types.is_floating(data_type):
                numbers, ids = self._count_specials(numbers.view(np.float64), ids, groups, parts)
                limbs = floatsum.lift_floats(numbers, ids, groups)
            else:
                limbs = floatsum.lift_ints(numbers, ids, groups)
        return State(self.kind, data_type, {**parts, **_named(limbs)})

    @staticmethod
    def _count_specials(
        numbers: np.ndarray, ids: np.ndarray, groups: int, parts: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count NaN and infinities into `parts`; the finite rest."""
        finite = np.isfinite(numbers)
        if finite.all():
            return numbers, ids
        for name, mask in zip(
            _SPECIALS, (np.isnan(numbers), numbers == np.inf, numbers == -np.inf), strict=True
        ):
            if mask.any():
                parts[name] = np.bincount(ids[mask], minlength=groups)
        return numbers[finite], ids[finite]

    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """Addition, limb by limb."""
        parts = {"values": _added(states, "values", ids, groups)}
        for name in _SPECIALS:
            if any(name in state.parts for state in states):
                counts = _added(states, name, ids, groups)
                if counts.any():
                    parts[name] = counts
        limbs = floatsum.concat([(_limbs(state), _rows(state)) for state in states])
        return State(self.kind, states[0].type, {**parts, **_named(floatsum.merge(limbs, ids, groups))})

    def negate(self, state: State) -> State:
        """Minus, the counters too."""
        parts = {name: -state.parts[name] for name in ("values", *_SPECIALS) if name in state.parts}
        return State(self.kind, state.type, {**parts, **_named(floatsum.negate(_limbs(state)))})

    def finish(self, state: State, rows: int) -> pa.Array:
        """int64 (decimal(38,0) if one needs it), float64 rounded once, decimal(38,s); null if all null."""
        limbs = _limbs(state)
        null = state.parts["values"] <= 0
        if pa.types.is_null(state.type):
            return pa.nulls(rows)
        if pa.types.is_floating(state.type):
            result = pa.array(self._with_specials(floatsum.to_floats(limbs, rows), state, rows))
        elif pa.types.is_decimal(state.type):
            result = floatsum.to_decimals(limbs, rows, state.type.scale)
        else:
            result = floatsum.to_integers(limbs, rows)
        return pc.if_else(pa.array(null), pa.scalar(None, result.type), result) if null.any() else result

    @staticmethod
    def _with_specials(sums: np.ndarray, state: State, rows: int) -> np.ndarray:
        if not any(name in state.parts for name in _SPECIALS):
            return sums
        nan, plus, minus = (state.parts.get(name, np.zeros(rows, np.int64)) > 0 for name in _SPECIALS)
        sums = np.where(plus, np.inf, np.where(minus, -np.inf, sums))
        return np.where(nan | (plus & minus), np.nan, sums)

    def check(self, state: State, rows: int) -> None:
        """Known counters, limbs in range; integers and decimals have no limbs below the unit."""
        if "values" not in state.parts:
            raise ValueError("a sum without its count of values")
        fraction = pa.types.is_floating(state.type)
        for name in state.parts.keys() - {"values", *_SPECIALS}:
            match = _LIMB.fullmatch(name)
            lowest = floatsum.LIMB_MIN if fraction else 0
            highest = floatsum.LIMB_MAX if fraction else floatsum.WHOLE_LIMB_MAX
            if match is None or not lowest <= int(match[1]) <= highest:
                raise ValueError(f"a sum of {type_name(state.type)} has a column {name!r}")


def _named(limbs: Mapping[int, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"limb{number:+d}": limbs[number] for number in sorted(limbs)}


def _limbs(state: State) -> floatsum.Limbs:
    return {int(name[4:]): column for name, column in state.parts.items() if name.startswith("limb")}


class Extreme(Law):
    """min or max of any orderable type. Strings and binary compare by unsigned bytes, as in Spark."""

    invertible, needs_input = False, True

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._greatest = kind == "max"

    def value_type(self, values: pa.Array | None, name: str) -> pa.DataType:
        """The values' own type."""
        assert values is not None
        return values.type

    def lift(self, values: pa.Array | None, ids: np.ndarray, groups: int) -> State:
        """The extreme of each group's values, null without any."""
        assert values is not None
        return State(self.kind, values.type, {"value": self._extreme(values, ids, groups)})

    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """The extreme of extremes."""
        columns = [state.parts["value"] for state in states]
        values = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
        return State(self.kind, states[0].type, {"value": self._extreme(values, ids, groups)})

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Promotion keeps the order, so the extreme of promoted values is the promoted extreme."""
        if state.type == data_type:
            return state
        return State(state.kind, data_type, {"value": promote(state.parts["value"], data_type)})

    def finish(self, state: State, rows: int) -> pa.Array:
        """As it is."""
        return state.parts["value"]

    def check(self, state: State, rows: int) -> None:
        """Exactly one column, of the value type."""
        column = state.parts.get("value")
        if len(state.parts) != 1 or not isinstance(column, pa.Array) or column.type != state.type:
            raise ValueError(f"a {self.kind} has columns {sorted(state.parts)}")

    def _extreme(self, values: pa.Array, ids: np.ndarray, groups: int) -> pa.Array:
        if pa.types.is_null(values.type):
            return pa.nulls(groups)
        ranks, valid, ordered = _ranks(values)
        if valid is not None:
            ranks, ids = ranks[valid], ids[valid]
        scatter = grouping.greatest if self._greatest else grouping.least
        best = scatter(ids, groups, ranks)
        found = None
        if valid is not None or (self._greatest and (best == _INT64.min).any()) or (best == _INT64.max).any():
            found = np.zeros(groups, np.bool_)
            found[ids] = True
        if ordered is not None:
            place = pa.array(
                best if found is None else np.where(found, best, 0), mask=None if found is None else ~found
            )
            return ordered.take(place)
        if pa.types.is_floating(values.type):
            best = _float_rank(best)
        return from_int64(best, found, values.type)


def _ranks(values: pa.Array) -> tuple[np.ndarray, np.ndarray | None, pa.Array | None]:
    """int64 in the order of the values; which are valid; sorted values, if the int64 are places in them."""
    if is_orderable_as_int(values.type):
        numbers, valid = to_int64(values)
        return (_float_rank(numbers) if pa.types.is_floating(values.type) else numbers), valid, None
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    codes = np.asarray(encoded.indices.fill_null(0)) if values.null_count else np.asarray(encoded.indices)
    ranks = rank[codes] if len(rank) else np.zeros(len(values), np.int64)
    return ranks, valid_mask(values), encoded.dictionary.take(order)


def _float_rank(bits: np.ndarray) -> np.ndarray:
    """Between float bits and integers of the same order, its own inverse; canonical NaN is above infinity."""
    return np.where(bits < 0, bits ^ _FLOAT_MAGNITUDE, bits)


LAWS: dict[str, Law] = {law.kind: law for law in (Count(), Sum(), Extreme("min"), Extreme("max"))}
"""Every aggregate the tree knows, by kind."""
