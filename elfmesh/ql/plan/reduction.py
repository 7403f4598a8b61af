"""Columns that a statement reduces to: k0, v0, a0, d0 and f0. Equal columns are shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from msgspec import Struct, field

from elfmesh.ql.expressions.nodes import Call, Expr, Ref, SealClause
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.plan.statement import (
    COUNT_COLUMN,
    MAIN,
    PRODUCER,
    SEALED_AT,
    SEALED_PRODUCERS,
    SEALED_RECORDS,
    SEALS,
    DistinctValues,
    Fold,
    TableSpec,
)

ORDER = "order"
_BY_ORDER = ("first", "last")
_MAP_LAWS = {*_BY_ORDER, "collect", "count"}
_NESTED_LAWS = {*_MAP_LAWS, "min", "max", "set"}
_CHOICES = ("case", "coalesce", "if", "iff", "nvl", "ifnull", "nvl2", "nullif")


class ReducedColumns(Struct):
    """Collector of the columns that a statement reduces to, while its expressions are split."""

    keys: dict[Expr, int] = field(default_factory=dict)
    values: dict[Expr, int] = field(default_factory=dict)
    aggregates: dict[tuple[str, str | tuple[str, ...] | None], int] = field(default_factory=dict)
    distincts: list[DistinctValues] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    _known: dict[object, DistinctValues | Fold] = field(default_factory=dict)

    def key(self, expr: Expr) -> Ref:
        return Ref(f"k{self.keys.setdefault(expr, len(self.keys))}", at=expr.at)

    def state(self, kind: str, *exprs: Expr) -> Ref:
        names = tuple(self._value(expr) for expr in exprs)
        given = (kind, names[0] if len(names) == 1 else names or None)
        return Ref(f"a{self.aggregates.setdefault(given, len(self.aggregates))}")

    def _value(self, expr: Expr) -> str:
        return f"v{self.values.setdefault(expr, len(self.values))}"

    def fold(self, how: str, args: tuple[Expr, ...], where: Expr | None, ranks: tuple[float, ...]) -> Ref:
        """Return the column of a distinct count or of a fold over a table of distinct values."""
        counted = how not in ("count", "sum")
        table = self._known.get((args, where, counted))
        if not isinstance(table, DistinctValues):
            table = DistinctValues(f"d{len(self.distincts)}", args, where, counted)
            self._known[args, where, counted] = table
            self.distincts.append(table)
        if how == "count":
            return Ref(table.name)
        fold = self._known.get((table.name, how, ranks))
        if not isinstance(fold, Fold):
            fold = Fold(f"f{len(self.folds)}", table.name, how, ranks)
            self._known[table.name, how, ranks] = fold
            self.folds.append(fold)
        return Ref(fold.name)

    def tables(self, seal: SealClause | None = None) -> tuple[TableSpec, ...]:
        keys = tuple(f"k{at}" for at in range(len(self.keys)))
        main = TableSpec(MAIN, keys, {f"a{at}": given for given, at in self.aggregates.items()})
        others = [
            TableSpec(
                one.name,
                (*keys, *distinct_columns(len(one.args))),
                {COUNT_COLUMN: ("count", None)} if one.counted else {},
            )
            for one in self.distincts
        ]
        if seal is not None:
            others.append(seals_table(seal))
        return (main, *others)


def seals_table(seal: SealClause) -> TableSpec:
    """Return the table of seals: repeated seals of a producer are one row."""
    states = {SEALED_AT: "max"}
    states |= {SEALED_RECORDS: "max"} if seal.records is not None else {}
    states |= {SEALED_PRODUCERS: "max"} if seal.producers is not None else {}
    keys = (*(f"k{at}" for at in range(len(seal.keys))), PRODUCER)
    return TableSpec(SEALS, keys, {name: (law, name) for name, law in states.items()})


def distinct_columns(count: int) -> tuple[str, ...]:
    """Return the key columns of a distinct table after the group keys: x, x1, x2, ..."""
    return tuple(f"x{at or ''}" for at in range(count))


def laws_of_values(table: TableSpec) -> dict[str, set[str]]:
    """Return, by column of values, the laws over it; ORDER for the order of `first` and `last`."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for law, columns in table.aggregates.values():
        for at, name in enumerate((columns,) if isinstance(columns, str) else columns or ()):
            found[name].add(ORDER if at and law in _BY_ORDER else law.partition(":")[0])
    return found


def holds_nested(laws: Collection[str], *, maps: bool) -> bool:
    """Return whether all laws over a column take lists and structs, or maps, which have no order."""
    return bool(laws) and (_MAP_LAWS if maps else _NESTED_LAWS).issuperset(laws)


def makes_list(expr: Expr) -> bool:
    """Return whether an expression calls a function that returns a list.

    Of rows that are not grouped, agents of all releases send the fields, and the root makes the lists.
    """
    if not isinstance(expr, Call):
        return False
    if expr.name in _CHOICES:
        return any(makes_list(arg) for arg in expr.args)
    if expr.name in ("aggregate", "reduce"):  # the type of the result is that of the start
        return makes_list(expr.args[1])
    known = FUNCTIONS.get(expr.name)
    return known is not None and known.lists
