"""variance: the sum of squared distances from the mean, exact and invertible, whatever the shape of the tree.

The state is an exact sum and an exact sum of squares of the same values. Nothing is rounded before `finish`,
so there is no cancellation. (Welford's and Chan's updates round at every merge and depend on the order.)

Owns the state of the two sums. Does not depend on the divisor of the result.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.squares import SumOfSquares, central_squares
from elfmesh.cbt.laws.sums import Sum

_SUM, _SQUARES = Sum(), SumOfSquares()
_LIMB, _SQUARE = "limb", "square"
_OF_SQUARES = re.compile(rf"{_SQUARE}[+-]\d{{1,2}}")


class Variance(Law):
    """Sum of squared distances from the mean; null without values. Decimals count as float64, as in Spark."""

    kind, invertible, takes_narrower = "variance", True, True

    def value_type(self, values: Values, name: str) -> pa.DataType:
        """Return float64, or int64 for integers."""
        return _SQUARES.value_type(values, name)

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with three times the limbs of a sum."""
        return VarianceAccumulator(data_type)

    def negate(self, state: State) -> State:
        return _join(*(law.negate(part) for law, part in zip((_SUM, _SQUARES), _split(state), strict=True)))

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return float64, rounded once; NaN if a value is not finite. Cost: some microseconds per group."""
        squares = central_squares(*_split(state))
        return pa.array(squares, pa.float64(), mask=state.parts["values"] <= 0)

    def partial(self, state: State, rows: int) -> dict[str, pa.Array]:
        """Return the number of values, their sum, and the squares around their mean."""
        sums, _ = _split(state)
        counts = pa.array(np.asarray(state.parts["values"], np.int64))
        return {"n": counts, "sum": _SUM.finish(sums, rows), "m2": self.finish(state, rows)}

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Keep the limbs, because they represent the same number for every type."""
        return State(state.kind, data_type, state.parts)

    def check(self, state: State, rows: int) -> None:
        sums, squares = _split(state)
        _SUM.check(sums, rows)
        _SQUARES.check(squares, rows)


class VarianceAccumulator(Accumulator):
    """Two accumulators over the same values."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._sums, self._squares = _SUM.accumulator(data_type), _SQUARES.accumulator(data_type)
        self._both = (self._sums, self._squares)
        self.type = data_type

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values. Cost: that of three sums."""
        column = one_column(values)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        for each in self._both:
            each.add(column, ids, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        for each, part in zip(self._both, _split(state), strict=True):
            each.merge(part, ids, groups)

    def freeze(self, groups: int) -> State:
        return _join(*(each.freeze(groups) for each in self._both))

    def clear(self) -> None:
        for each in self._both:
            each.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Keep the limbs, because they represent the same number for every type."""
        self.type = data_type
        for each in self._both:
            each.promote(data_type)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._both)


def _join(sums: State, squares: State) -> State:
    """Combine the states; the counters, which both have, are stored once."""
    renamed = {
        name.replace(_LIMB, _SQUARE): column for name, column in squares.parts.items() if _LIMB in name
    }
    return State(Variance.kind, sums.type, {**sums.parts, **renamed})


def _split(state: State) -> tuple[State, State]:
    sums, squares = {}, {}
    for name, column in state.parts.items():
        if _OF_SQUARES.fullmatch(name):
            squares[name.replace(_SQUARE, _LIMB)] = column
        else:
            sums[name] = column
            if not name.startswith(_LIMB):
                # The square of -inf is inf, so a state of squares has no other infinity.
                squares[name] = column
    return State(_SUM.kind, state.type, sums), State(_SQUARES.kind, state.type, squares)
