"""covariance: the sum of products of distances from two means, exact and invertible, in a tree of any shape.

The state is an exact sum of each input and an exact sum of their products, over the records that have both.
Nothing is rounded before `finish`, so there is no cancellation, as in `variance`.

Owns the state of the three sums. Does not depend on the divisor of the result.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import type_name, valid_mask
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values
from elfmesh.cbt.laws.squares import SumOfSquares, rounded
from elfmesh.cbt.laws.sums import Sum, limbs_of
from elfmesh.cbt.sums import floatsum
from elfmesh.cbt.sums.exactsum import ExactSums
from elfmesh.errors import DataError

_SUM, _PRODUCTS = Sum(), SumOfSquares()
_SPLITTER = float((1 << 27) + 1)
_SHIFT_LIMBS = 38
_SHIFT_BITS = _SHIFT_LIMBS * floatsum.LIMB_BITS
"""Products outside the range of floats are added scaled by a power of two, and their limbs are moved back."""

Parts = dict[str, np.ndarray | pa.Array]
_NAMES = ("limb", "other", "product")
"""The limbs of the sums of the first input, of the second, and of their products."""


class Covariance(Law):
    """Sum of products of distances from the means of two inputs, float64; null without a pair."""

    kind, invertible, inputs, takes_narrower = "covariance", True, 2, True

    def value_type(self, values: Values, name: str) -> pa.DataType:
        assert isinstance(values, tuple)
        for column in values:
            if column.type not in (pa.null(), pa.int64(), pa.float64()):
                raise DataError(
                    f"{self.kind} {name!r} is over {type_name(column.type)} values",
                    hint="Cast them in the query: CAST(x AS DOUBLE).",
                )
        return pa.float64()

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with four times the limbs of a sum."""
        return CovarianceAccumulator(data_type)

    def negate(self, state: State) -> State:
        return _join([_SUM.negate(part) for part in _split(state)], state.type)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return float64, rounded once; NaN if a value is not finite. Cost: some microseconds per group."""
        first, second, products = _split(state)
        counts = state.parts["values"]
        special = state.parts.get("nan", np.zeros(rows, np.int64)) > 0
        one, other, both = (limbs_of(each) for each in (first, second, products))
        out = np.full(rows, np.nan)
        for group in np.flatnonzero((counts > 0) & ~special).tolist():
            means = floatsum.exact(one, group) * floatsum.exact(other, group) / int(counts[group])
            out[group] = rounded(floatsum.exact(both, group) - means)
        return pa.array(out, pa.float64(), mask=counts <= 0)

    def partial(self, state: State, rows: int) -> dict[str, pa.Array]:
        """Return the number of pairs, both sums, and the products around the means."""
        first, second, _ = _split(state)
        return {
            "n": pa.array(np.asarray(state.parts["values"], np.int64)),
            "sum_x": _SUM.finish(first, rows),
            "sum_y": _SUM.finish(second, rows),
            "c2": self.finish(state, rows),
        }

    def check(self, state: State, rows: int) -> None:
        """Check the three sums, which are all of float64."""
        if state.type != pa.float64() or {"posinf", "neginf"} & set(state.parts):
            raise ValueError(f"a {self.kind} is not of this shape")
        first, second, products = _split(state)
        known = sum(len(each.parts) for each in (first, second, products))
        if known != len(state.parts) + 2 * len({"values", "nan"} & set(state.parts)):
            raise ValueError(f"a {self.kind} has columns {sorted(state.parts)}")
        for part in (first, second):
            _SUM.check(part, rows)
        _PRODUCTS.check(products, rows)


class CovarianceAccumulator(Accumulator):
    """Sums of both inputs, and of their products by the limbs by which scaling moved them."""

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self._sums = [_SUM.accumulator(data_type) for _ in range(2)]
        self._products: dict[int, ExactSums] = {}

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add pairs. Cost: that of four sums."""
        assert isinstance(values, tuple)
        present = np.ones(len(ids), np.bool_)
        columns = []
        for column in values:
            valid = valid_mask(column)
            present &= True if valid is None else valid
            columns.append(column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy())
        ids, pairs = ids[present], [column[present] for column in columns]
        finite = np.isfinite(pairs[0]) & np.isfinite(pairs[1])
        for sums, numbers in zip(self._sums, pairs, strict=True):
            # A pair with a value that is not finite counts as NaN in both, so that their counters are equal.
            sums.add(pa.array(np.where(finite, numbers, np.nan)), ids, groups)
        self._multiply(pairs[0][finite], pairs[1][finite], ids[finite], groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        first, second, products = _split(state)
        for sums, part in zip(self._sums, (first, second), strict=True):
            sums.merge(part, ids, groups)
        self._scaled(0).merge(limbs_of(products), ids, groups)

    def freeze(self, groups: int) -> State:
        whole, everyone = ExactSums(), np.arange(groups)
        for by, sums in self._products.items():
            moved = {number + by * _SHIFT_LIMBS: column for number, column in sums.limbs(groups).items()}
            whole.merge(moved, everyone, groups)
        limbs = {f"limb{number:+d}": column for number, column in sorted(whole.limbs(groups).items())}
        parts = [each.freeze(groups) for each in self._sums]
        return _join([*parts, State(_PRODUCTS.kind, self.type, limbs)], self.type)

    def clear(self) -> None:
        for each in self._sums:
            each.clear()
        for products in self._products.values():
            products.clear()

    def promote(self, data_type: pa.DataType) -> None:
        self.type = data_type

    @property
    def nbytes(self) -> int:
        products = sum(each.nbytes for each in self._products.values())
        return products + sum(each.nbytes for each in self._sums)

    def _scaled(self, by: int) -> ExactSums:
        return self._products.setdefault(by, ExactSums())

    def _multiply(self, first: np.ndarray, second: np.ndarray, ids: np.ndarray, groups: int) -> None:
        """Add exact products: the rounded product and its error, which is a float too (Dekker 1971)."""
        (one, up), (other, more) = np.frexp(first), np.frexp(second)
        product = one * other
        error = _low(one) * _low(other) - (
            ((product - _high(one) * _high(other)) - _low(one) * _high(other)) - _high(one) * _low(other)
        )
        exponents = up.astype(np.int64) + more
        shifts = np.rint(exponents / _SHIFT_BITS).astype(np.int64)
        for by in np.unique(shifts).tolist():
            mine = shifts == by
            rest = (exponents[mine] - by * _SHIFT_BITS).astype(np.int32)
            for numbers in (product[mine], error[mine]):
                self._scaled(by).add_floats(np.ldexp(numbers, rest), ids[mine], groups)


def _high(values: np.ndarray) -> np.ndarray:
    spread = values * _SPLITTER
    return np.asarray(spread - (spread - values))


def _low(values: np.ndarray) -> np.ndarray:
    return np.asarray(values - _high(values))


def _join(parts: list[State], data_type: pa.DataType) -> State:
    """Combine the states; the counters, which are common to all, are stored once."""
    joined = dict(parts[0].parts)
    for name, part in zip(_NAMES[1:], parts[1:], strict=True):
        limbs = part.parts.items()
        joined |= {key.replace("limb", name): column for key, column in limbs if key.startswith("limb")}
    return State(Covariance.kind, data_type, joined)


def _split(state: State) -> tuple[State, State, State]:
    """Return the sums of the first input, of the second, and of their products."""
    counters: Parts = {name: state.parts[name] for name in ("values", "nan") if name in state.parts}
    parts: list[Parts] = []
    for prefix in _NAMES:
        limbs = {key: column for key, column in state.parts.items() if key.startswith(prefix)}
        parts.append({**counters, **{key.replace(prefix, "limb"): column for key, column in limbs.items()}})
    first, second, products = parts
    return (
        State(_SUM.kind, state.type, first), State(_SUM.kind, state.type, second),
        State(_PRODUCTS.kind, state.type, products),
    )  # fmt: skip
