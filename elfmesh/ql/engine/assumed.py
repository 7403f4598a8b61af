"""Checks what a job assumes of its records (ASSUME): bounds of each record, dependencies of each interval.

Owns the evaluation over records and what an agent holds of the open panes. A bound is broken once by each
record whose value is beyond it. A dependency is broken by each further value on the right, of one value on
the left, among the records of an interval: n different values are n - 1 violations. So the number does not
depend on the order of the records, nor on the blocks in which they are read. A record without a value breaks
nothing. Values are compared by 64-bit hashes, equal numbers of different types are equal.

An agent sees its own records of one interval. It does not notice a dependency that the records of two agents,
or of two intervals, contradict. Under SEALED, the root holds the groups of all agents until their partitions
end, so it checks dependencies between keys instead of the agents.

Paper: Blazes V-A (functional dependencies); the check is an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.kernel.placement import hash_rows
from elfmesh.cbt.rows import Rows
from elfmesh.errors import QueryError
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.expressions.assumption import AssumedBound, AssumedDependency
from elfmesh.ql.expressions.nodes import Call, FieldRef, Literal
from elfmesh.ql.expressions.operand import Operand
from elfmesh.ql.functions.compiler import Compiler
from elfmesh.ql.plan.statement import MAIN, Statement
from elfmesh.ql.values.columns import bool_values, null_mask
from elfmesh.ql.values.types import type_name
from elfmesh.safeguards import safeguard

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

PAIRS_MAX = 1 << 20
"""Maximum number of pairs of values that are held of a dependency and a pane, of 16 bytes each. Values beyond
are not checked, which the samples of the job state."""

_SCHEMAS_MAX = 64
_MERGED_MIN = 4096
"""Number of new pairs below which they are not merged with the others, because merging sorts all of them."""

_LEFT, _RIGHT = 1, 2
"""Seeds of the hashes of the two sides."""


class CheckedRecords(Struct, frozen=True):
    """What a block of records says of the assumptions.

    Attributes:
        beyond: for each record, the number of bounds that it breaks.
        pairs: for each dependency, the records that have all values, and the hashes of both sides.
    """

    beyond: Ints
    pairs: tuple[tuple[Ints, Hashes, Hashes], ...]


class AssumptionChecker:
    """Evaluates the assumptions of a statement; holds nothing of the records."""

    def __init__(self, statement: Statement) -> None:
        self._origin = statement.origin
        self.bounds = [each for each in statement.assumes if isinstance(each, AssumedBound)]
        at_root = _among_keys(statement)
        self.dependencies = [
            each for each in statement.assumes if isinstance(each, AssumedDependency) and each not in at_root
        ]
        self._fields = tuple(dict.fromkeys(each.column for each in self.bounds))
        self._compiled: dict[tuple[pa.DataType | None, ...], list[Operand]] = {}

    def check(self, records: BlockRows) -> CheckedRecords | None:
        """Evaluate all assumptions over some records; None: there are no assumptions.

        Raises:
            DataError, QueryError: a column has a type that cannot be compared.
        """
        if not (self.bounds or self.dependencies):
            return None
        beyond = np.zeros(records.rows, np.int64)
        if self.bounds:
            env = records.env(self._fields)
            types = {name: array.type for name, array in env.columns.items()}
            for operand in self._operands(types):
                beyond += bool_values(operand.array(env))
        return CheckedRecords(beyond, tuple(_pairs(records, each) for each in self.dependencies))

    def _operands(self, types: dict[str, pa.DataType]) -> list[Operand]:
        """Return for each bound the condition of the records that break it, for columns of these types."""
        schema = tuple(types.get(name) for name in self._fields)
        known = self._compiled.get(schema)
        if known is None:
            compiler = Compiler(types, self._origin)
            known = [self._beyond(compiler, each) for each in self.bounds]
            if len(self._compiled) >= _SCHEMAS_MAX:
                self._compiled.clear()
            self._compiled[schema] = known
        return known

    def _beyond(self, compiler: Compiler, bound: AssumedBound) -> Operand:
        """Return the condition over the number that sum adds, because EARLY relies on that number."""
        value = Call("sum input", (FieldRef(bound.column, True, at=bound.at),), at=bound.at)
        try:
            compiler.compile(value)
        except QueryError:
            kind = type_name(compiler.compile(value.args[0]).type)
            message = f"ASSUME compares numbers, and {bound.column} is of type {kind}"
            raise self._origin.error(message, bound.at) from None
        limit = Literal("bigint" if isinstance(bound.limit, int) else "double", bound.limit)
        return compiler.compile(Call(">" if bound.upper else "<", (value, limit), at=bound.at))


def _pairs(records: BlockRows, dependency: AssumedDependency) -> tuple[Ints, Hashes, Hashes]:
    columns = []
    for name in dependency.columns:
        found = records.column(name)
        columns.append(normalise(pa.nulls(records.rows) if found is None else found, name))
    missing = np.logical_or.reduce([null_mask(each) for each in columns])
    left = hash_rows(columns[:-1], records.rows, _LEFT)
    right = hash_rows(columns[-1:], records.rows, _RIGHT)
    rows = np.flatnonzero(~missing)
    return rows, left[rows], right[rows]


def _among_keys(statement: Statement) -> dict[AssumedDependency, tuple[int, ...]]:
    """Return the dependencies between group keys of a text with SEALED, with the places of these keys."""
    if statement.plan.seal is None:
        return {}
    places = {key.path: at for at, key in enumerate(statement.plan.keys) if isinstance(key, FieldRef)}
    return {
        each: tuple(places[name] for name in each.columns)
        for each in statement.assumes
        if isinstance(each, AssumedDependency) and places.keys() >= {*each.columns}
    }


def contradictions(statement: Statement, tables: Iterable[Mapping[str, Rows]]) -> int:
    """Return how many dependencies between keys of SEALED the groups contradict that are open together."""
    found, rows = 0, [each[MAIN] for each in tables if MAIN in each]
    for places in _among_keys(statement).values():
        parts = [_key_pairs(each, places) for each in rows]
        found += _repeated(_distinct(parts)[0]) if parts else 0
    return found


def _key_pairs(rows: Rows, places: tuple[int, ...]) -> tuple[Hashes, Hashes]:
    columns = [rows.keys[at] for at in places]
    there = ~np.logical_or.reduce([null_mask(each) for each in columns])
    left, right = hash_rows(columns[:-1], rows.count, _LEFT), hash_rows(columns[-1:], rows.count, _RIGHT)
    return left[there], right[there]


class OpenAssumptions:
    """What an agent holds of the assumptions in its open panes.

    `dependencies` is the number of these. `closed` counts violations in closed panes.
    """

    def __init__(self, dependencies: int) -> None:
        self._dependencies, self.closed = dependencies, 0
        self._is_full = False
        self._beyond: dict[int, int] = {}
        self._pairs: dict[int, list[_PairSet]] = {}

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for pairs in self._pairs.values() for each in pairs)

    def add(self, checked: CheckedRecords, panes: Ints | None, note: Callable[[str], None]) -> None:
        """Add records with their panes; None: all are in pane 0.

        `note` receives the reason if values are not checked from now on.
        """
        if panes is None:
            panes = np.zeros(len(checked.beyond), np.int64)
        for pane in np.unique(panes[checked.beyond > 0]).tolist():
            more = int(checked.beyond[panes == pane].sum())
            self._beyond[pane] = self._beyond.get(pane, 0) + more
        for at, (rows, left, right) in enumerate(checked.pairs):
            places = panes[rows]
            for pane in np.unique(places).tolist():
                mine = places == pane
                held = self._pairs.setdefault(pane, [_PairSet() for _ in range(self._dependencies)])
                is_held = held[at].add(left[mine], right[mine])
                if not (is_held or self._is_full):
                    self._is_full = True
                    note(f"ASSUME: a pane has {PAIRS_MAX} pairs of values; further ones are not checked")

    @safeguard("assumptions-counted")
    def broken(self, panes: Iterable[int]) -> int:
        """Return the number of violations among the records of some panes, which are one interval."""
        if not (self._beyond or self._pairs):
            return 0
        inside = list(panes)
        found = sum(self._beyond.get(pane, 0) for pane in inside)
        for at in range(self._dependencies):
            found += _contradictions([self._pairs[pane][at] for pane in inside if pane in self._pairs])
        return found

    def close_below(self, pane: int) -> None:
        self.closed += sum(self.broken((at,)) for at in {*self._beyond, *self._pairs} if at < pane)
        self._beyond = {at: number for at, number in self._beyond.items() if at >= pane}
        self._pairs = {at: pairs for at, pairs in self._pairs.items() if at >= pane}


class _PairSet:
    """The pairs of one dependency in one pane, each once."""

    def __init__(self) -> None:
        self._left = self._right = np.zeros(0, np.uint64)
        self._fresh: list[tuple[Hashes, Hashes]] = []
        self._waiting = 0

    @property
    def nbytes(self) -> int:
        return self._left.nbytes + self._right.nbytes + 16 * self._waiting

    def add(self, left: Hashes, right: Hashes) -> bool:
        """Add pairs; return whether they are held."""
        if len(self._left) >= PAIRS_MAX:
            return False
        self._fresh.append((left, right))
        self._waiting += len(left)
        if self._waiting >= max(_MERGED_MIN, len(self._left)):
            self.pairs()
        return True

    def pairs(self) -> tuple[Hashes, Hashes]:
        """Return all pairs, by left."""
        if self._fresh:
            self._left, self._right = _distinct([(self._left, self._right), *self._fresh])
            self._fresh, self._waiting = [], 0
        return self._left, self._right


def _contradictions(sets: list[_PairSet]) -> int:
    """Return how many pairs have a left side that an earlier pair has."""
    if not sets:
        return 0
    left, _ = sets[0].pairs() if len(sets) == 1 else _distinct([each.pairs() for each in sets])
    return _repeated(left)


def _repeated(left: Hashes) -> int:
    return int(np.count_nonzero(left[1:] == left[:-1]))


def _distinct(parts: list[tuple[Hashes, Hashes]]) -> tuple[Hashes, Hashes]:
    left, right = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    new = np.ones(len(left), np.bool_)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return left[new], right[new]
