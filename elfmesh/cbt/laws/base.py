"""Base of aggregates: states as columns, laws, and accumulators.

Owns the types `State`, `Law` and `Accumulator`. Does not depend on particular aggregates.

Paper: ELF 2.2 (PAO).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt.errors import NotInvertible

Values: TypeAlias = pa.Array | tuple[pa.Array, ...] | None
"""Raw canonical values: none (count of rows), one column, or several for kinds with several inputs."""


class State(Struct, frozen=True):
    """States of one aggregate for all groups.

    Attributes:
        kind: name of the law, with its parameter.
        type: canonical type of the aggregated values (int64 for a count).
        parts: column name -> int64 numpy array, or a canonical Arrow array; all of one length.
    """

    kind: str
    type: pa.DataType
    parts: dict[str, np.ndarray | pa.Array]

    def take(self, rows: np.ndarray) -> State:
        index = pa.array(rows) if any(isinstance(c, pa.Array) for c in self.parts.values()) else None
        return State(
            self.kind,
            self.type,
            {n: c[rows] if isinstance(c, np.ndarray) else c.take(index) for n, c in self.parts.items()},
        )

    def slice(self, start: int, stop: int) -> State:
        """Return the states in [start, stop), without a copy."""
        return State(self.kind, self.type, {n: c[start:stop] for n, c in self.parts.items()})

    @property
    def rows(self) -> int:
        return len(next(iter(self.parts.values())))

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.parts.values())


class Accumulator(ABC):
    """Accumulator of one aggregate for a growing number of groups, updated in place.

    Group numbers are int64 below `groups`, which never decreases between two calls of `clear`. An accumulator
    has one writer. The arguments of `add` and `merge` have the accumulator's type (for `add`, also a narrower
    one if the law accepts that); call `promote` first if they are wider. Inputs that `Law.value_type` and
    `Law.check` accept never raise here, because a batch is added to all accumulators of a table or to none.

    Attributes:
        type: canonical type of the values, null before any is known.
    """

    type: pa.DataType

    @abstractmethod
    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add raw canonical values[n] to int64[n] groups. Cost: O(n), amortised; never O(groups)."""

    @abstractmethod
    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        """Merge states[rows] into int64[rows] groups, which may repeat. Cost: O(rows), amortised."""

    @abstractmethod
    def freeze(self, groups: int) -> State:
        """Return a copy of the states of the first `groups` groups. Cost: O(groups)."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all groups; the type and the memory stay."""

    @abstractmethod
    def promote(self, data_type: pa.DataType) -> None:
        """Change to a type that `columns.unify` returned for this one and another."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...


class Law(ABC):
    """Kind of aggregate. Instances have no state.

    Attributes:
        kind: its name, with its parameter.
        invertible: whether `negate` returns an inverse.
        inputs: number of columns it needs, 0 if it can do without one (count).
        takes_narrower: whether accumulators add raw values of a narrower type unconverted. If an integer were
            rounded to a float first, the result would depend on when the column became float.
    """

    kind: str
    invertible: bool = False
    inputs: int = 1
    takes_narrower: bool = False

    @abstractmethod
    def value_type(self, values: Values, name: str) -> pa.DataType:
        """Return the type of the state for canonical values.

        Raises:
            DataError: This kind cannot aggregate such values.
        """

    @abstractmethod
    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return a new, empty accumulator for values of a type from `value_type`."""

    @abstractmethod
    def finish(self, state: State, rows: int) -> pa.Array: ...

    @abstractmethod
    def check(self, state: State, rows: int) -> None:
        """Check a state from outside.

        Raises:
            ValueError: It is not a valid state of this kind; the message names the part.
        """

    def partial(self, state: State, rows: int) -> dict[str, pa.Array]:
        """Return the states as plain columns, from which another system can merge groups.

        Returns:
            Suffix -> column; "" if the finished value is sufficient. Floats are rounded once.
        """
        return {"": self.finish(state, rows)}

    def lift(self, values: Values, ids: np.ndarray, groups: int) -> State:
        """Return the states of canonical values[n] (None for count of rows), by int64[n] group numbers."""
        accumulator = self.accumulator(self.value_type(values, self.kind))
        accumulator.add(values, ids, groups)
        return accumulator.freeze(groups)

    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """Merge the concatenated states of one type by group."""
        accumulator = self.accumulator(states[0].type)
        start = 0
        for state in states:
            accumulator.merge(state, ids[start : start + state.rows], groups)
            start += state.rows
        return accumulator.freeze(groups)

    def promote(self, state: State, data_type: pa.DataType) -> State:
        if state.type == data_type:
            return state
        accumulator = self.accumulator(state.type)
        accumulator.merge(state, np.arange(state.rows), state.rows)
        accumulator.promote(data_type)
        return accumulator.freeze(state.rows)

    def negate(self, state: State) -> State:
        """Return the inverse: merging a state with its negation gives the identity."""
        raise NotInvertible(f"{self.kind} declares no inverse")


def one_column(values: Values) -> pa.Array:
    assert isinstance(values, pa.Array)
    return values
