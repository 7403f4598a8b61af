"""What every aggregate has: its states as columns, its law, and the accumulator that both are made of.

Owns: the types `State`, `Law`, `Accumulator`.
Refuses to know: any particular aggregate.

Paper: ELF 2.2 (PAO).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from elfmesh.cbt.errors import NotInvertible

Values: TypeAlias = pa.Array | tuple[pa.Array, ...] | None
"""Raw canonical values: none (count of rows), one column, or several for kinds with several inputs."""


@dataclass(frozen=True, slots=True)
class State:
    """The states of one aggregate for all groups.

    Attributes:
        kind: the law, with its parameter.
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
        """The states in [start, stop), without a copy."""
        return State(self.kind, self.type, {n: c[start:stop] for n, c in self.parts.items()})

    @property
    def rows(self) -> int:
        return len(next(iter(self.parts.values())))

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.parts.values())


class Accumulator(ABC):
    """One aggregate of a growing number of groups, updated in place.

    Group numbers are int64 below `groups`, which never falls between two calls of `clear`. An accumulator has
    one writer. What `add` and `merge` are given has the accumulator's type (or, to `add`, a narrower one
    where the law takes that); `promote` first if it is wider.
    Inputs that `Law.value_type` and `Law.check` accept never raise here: a batch goes into all accumulators
    of a table or into none.

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
        """The states of the first `groups` groups, a copy. Cost: O(groups)."""

    @abstractmethod
    def clear(self) -> None:
        """Back to no groups; the type and the memory stay."""

    @abstractmethod
    def promote(self, data_type: pa.DataType) -> None:
        """Go on with a type that `columns.unify` gave for this one and another."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...


class Law(ABC):
    """One kind of aggregate. Instances hold no state of their own.

    Attributes:
        kind: its name, with its parameter.
        invertible: whether `negate` gives an inverse.
        inputs: columns it needs, 0 if it can do without one (count).
        takes_narrower: whether accumulators add raw values of a narrower type as they are: an integer that is
            rounded to a float first would give a result that depends on when the column turned float.
    """

    kind: str
    invertible: bool = False
    inputs: int = 1
    takes_narrower: bool = False

    @abstractmethod
    def value_type(self, values: Values, name: str) -> pa.DataType:
        """The type of the state for canonical values.

        Raises:
            DataError: this kind cannot aggregate such values.
        """

    @abstractmethod
    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """A new one, empty, for values of a type that `value_type` gave."""

    @abstractmethod
    def finish(self, state: State, rows: int) -> pa.Array: ...

    @abstractmethod
    def check(self, state: State, rows: int) -> None:
        """Refuse a state that came from outside and does not look like one of this kind.

        Raises:
            ValueError: which part is wrong.
        """

    def partial(self, state: State, rows: int) -> dict[str, pa.Array]:
        """The states as plain columns of which anyone can make the state of several groups together.

        Returns:
            Suffix -> column; "" where the finished value is all that is needed. Floats are rounded once.
        """
        return {"": self.finish(state, rows)}

    def lift(self, values: Values, ids: np.ndarray, groups: int) -> State:
        """States of raw values: canonical values[n] (None for count of rows), int64[n] group numbers."""
        accumulator = self.accumulator(self.value_type(values, self.kind))
        accumulator.add(values, ids, groups)
        return accumulator.freeze(groups)

    def merge(self, states: Sequence[State], ids: np.ndarray, groups: int) -> State:
        """Merge states of one type, laid below each other in this order, by group."""
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
        """The inverse: merging a state with its negation gives the identity."""
        raise NotInvertible(f"{self.kind} declares no inverse")


def one_column(values: Values) -> pa.Array:
    assert isinstance(values, pa.Array)
    return values
