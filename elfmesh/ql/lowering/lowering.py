"""Lowering of drafts to parts, which agents compute, and relations, which the root evaluates.

A SELECT over one stream is a part. If a stream is joined, or its records depend on a value of the whole
interval, its part is the multiset of the needed fields, after the conditions that use only these fields.
Everything above is a relation. Equal parts are shared. A statement has one window, which applies to every
part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeGuard

from msgspec.structs import replace

from elfmesh.ql.expressions.aggregates import BY_TIME
from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Expr,
    FieldRef,
    Literal,
    Over,
    Scalar,
    place_of,
    rewrite,
    walk,
)
from elfmesh.ql.expressions.refusals import GENERATORS, GROUPING
from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.ql.lowering.analysis import analyse
from elfmesh.ql.lowering.nearest import NearestPlan
from elfmesh.ql.plan.declared import refuse_python
from elfmesh.ql.plan.draft_types import (
    Draft,
    ElementsRead,
    JoinDraft,
    NothingRead,
    SelectDraft,
    StreamRead,
    UnionDraft,
)
from elfmesh.ql.plan.lookup_plan import LookupPlan, all_of, conjuncts, join_key, key_fields, named, owner
from elfmesh.ql.plan.relation import (
    TIME,
    Derived,
    Exploded,
    JoinKey,
    JoinRelation,
    OneRow,
    Prefixed,
    StatementPart,
    made,
)
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.scope import Input
from elfmesh.ql.plan.selection import Select, early_expressions, late_expressions
from elfmesh.ql.plan.statement import LOOKED_UP, LookupJoin, Statement, WindowSpec, is_beside
from elfmesh.ql.plan.windowing import Times
from elfmesh.ql.plan.windows import TIME_COLUMN

PARTS_MAX = 256
"""Maximum number of parts of one statement, because each is a table at every agent."""


@dataclass(slots=True)
class Lowering(ABC):
    """Planner of one statement.

    Attributes:
        window: window of the statement; None: all records are one interval.
        times: time columns of TUMBLE and similar calls, by input (its id) and by stream.
    """

    origin: SourceText
    window: WindowSpec | None
    times: Times
    parts: list[Statement] = field(default_factory=list)

    @abstractmethod
    def query(self, draft: Draft) -> Relation: ...

    def all_rows(self, source: Relation, *, distinct: bool = False) -> Relation:
        """Return all columns of a relation in result order; with `distinct`, each row once."""
        items: list[tuple[str | None, Expr]] = [(name, FieldRef(name, True)) for name in source.columns]
        return self.over(source, Select(items, None, None, None, [], None, distinct, None, source.at))

    def over(self, source: Relation, select: Select) -> Derived:
        return self.derived(source, replace(select, window=self.window, derived=True))

    def select(self, draft: SelectDraft, select: Select) -> Relation:
        """Plan a SELECT without window functions, on the agents as far as possible."""
        for expr in (*early_expressions(select), *late_expressions(select)):
            for node in walk(expr):
                if isinstance(node, Call) and node.name in GENERATORS:
                    raise self.origin.error(
                        f"{node.name} must be the only item of the select list", node.at,
                        "Write SELECT ... FROM (SELECT explode(x) AS e, y FROM stream) t.",
                    )  # fmt: skip
                if isinstance(node, Over):
                    raise self.origin.error(
                        "OVER is allowed only in the select list and in ORDER BY", node.at,
                        "Filter outside: SELECT ... FROM (SELECT ..., rank() OVER (...) AS n) WHERE n = 1.",
                    )  # fmt: skip
        read = draft.reads[0]
        tables = LookupPlan(self.origin, draft)
        if isinstance(read, StreamRead) and len(tables.others) == 1 and not (_waits(select) or draft.nested):
            if len(draft.reads) == 1:
                return self._part(read, select, self._time(draft, 0))
            own = tables.own_names(0, named(select, draft.columns))
            return self._part(read, own, self._time(draft, 0), tables.of(0))
        window, time = self.window, self.time_of(draft)
        if time is not None and _asks_for_time(select):
            draft.scope.inputs[0].used.setdefault(time.path)  # otherwise the rows would lack it
            window = None if window is None else replace(window, column=time.path)
        where = conjuncts(select.where)
        source, rest = self._inputs(draft, where)
        return self.derived(source, replace(select, where=all_of(rest), window=window, derived=True))

    # -- parts

    def _part(
        self, read: StreamRead, select: Select, time: str, lookups: tuple[LookupJoin, ...] = ()
    ) -> StatementPart:
        window = None if self.window is None else replace(self.window, column=time)
        done = analyse(self.origin, replace(select, window=window, beside=True), None)
        part = Statement(
            "", self.origin.name, None, read.stream, read.labels, window,
            tuple(sorted({*done.fields, *key_fields(lookups)})), done.tables, done.star, done.plan,
            self.origin, lookups=lookups,
        )  # fmt: skip
        if done.star:
            raise self.origin.error(
                f"* needs the columns of {read.stream}, which has no schema", select.start, "Name the fields."
            )
        mine = _meaning(part)
        for index, known in enumerate(self.parts):
            if _meaning(known) == mine:
                return StatementPart(part.columns, select.start, index)
        self.parts.append(part)
        if len(self.parts) > PARTS_MAX:
            raise self.origin.error(f"more than {PARTS_MAX} parts", select.start, "Write several jobs.")
        return StatementPart(part.columns, select.start, len(self.parts) - 1)

    def _raw(
        self, draft: SelectDraft, at: int, where: list[Expr], tables: LookupPlan, *, timed: bool = False
    ) -> Relation:
        """Return the fields in use of an input; `timed`: and the event time, as the column TIME."""
        read, one = draft.reads[at], draft.scope.inputs[at]
        if isinstance(read, SelectDraft | UnionDraft):
            return self.query(read)
        if isinstance(read, NothingRead):
            return self._one_row(one.at)
        assert isinstance(read, StreamRead)
        # Hidden names, because fields may differ only in case, and output columns must not.
        items: list[tuple[str | None, Expr]] = [
            (f"#{number}", FieldRef(name, True, at=one.at)) for number, name in enumerate(one.used)
        ]
        looked_up = tables.columns(at)
        items += [(f"#@{number}", FieldRef(path, True, at=one.at)) for number, path in enumerate(looked_up)]
        time = self._time(draft, at)
        if timed:
            items.append((TIME, Call("event time", (FieldRef(time, True),), at=one.at)))
        columns = (*one.used, *looked_up, *([TIME] if timed else [])) or ("#0",)
        items = items or [("#0", Literal("bigint", 1))]
        select = Select(items, all_of(where), None, None, [], None, False, None, one.at)
        part = self._part(read, select, time, tables.of(at))
        return Prefixed(columns, one.at, part)

    def _one_row(self, at: TextPosition) -> OneRow:
        if self.window is not None:
            raise self.origin.error(
                "a SELECT without FROM has a row at any time, and an interval has those of its records", at,
                "Add FROM stream, or leave out the job and the window.",
            )  # fmt: skip
        return OneRow(("#0",), at)

    def _time(self, draft: SelectDraft, at: int) -> str:
        read = draft.reads[at]
        assert isinstance(read, StreamRead)
        return self.times.get(id(draft.scope.inputs[at])) or self.times.get(read.stream, TIME_COLUMN)

    def time_of(self, draft: SelectDraft) -> FieldRef | None:
        """Return the event-time field of a query's input.

        Returns None if it has none, or if there are several inputs.
        """
        read = draft.reads[0]
        if draft.scope.joined:
            return None
        if isinstance(read, StreamRead):
            return FieldRef(self._time(draft, 0), True)
        return FieldRef(TIME_COLUMN, True) if TIME_COLUMN in (draft.scope.inputs[0].columns or ()) else None

    # -- joins

    def _inputs(self, draft: SelectDraft, where: list[Expr]) -> tuple[Relation, list[Expr]]:
        source, rest = self._in_from(draft, where)
        for one, (query, join) in zip(draft.scope.nested, draft.nested, strict=True):
            columns = tuple(f"{one.name}.{name}" for name in query.columns)
            source = self._join(source, Prefixed(columns, one.at, self.query(query)), join, one)
        return source, rest

    def _in_from(self, draft: SelectDraft, where: list[Expr]) -> tuple[Relation, list[Expr]]:
        tables = LookupPlan(self.origin, draft)
        if not draft.scope.joined:
            if not isinstance(draft.reads[0], StreamRead):
                return self._raw(draft, 0, [], tables), where
            nested = {f"{one.name}.{name}" for one in draft.scope.nested for name in one.columns or ()}
            early = [each for each in where if not (_holds(each, Scalar) or _uses(each, nested))]
            return self._raw(draft, 0, early, tables), [each for each in where if each not in early]
        names = [one.name for one in draft.scope.inputs]
        pushed: list[list[Expr]] = [[] for _ in names]
        rest: list[Expr] = []
        for condition in where:
            at = self._pushed_to(draft, condition)
            (rest if at is None else pushed[at]).append(condition)
        timed = any(join.within_us for join in draft.joins)
        joined = self._prefixed(draft, 0, pushed[0], tables, timed=timed)
        for at, join in enumerate(draft.joins, 1):
            read = draft.reads[at]
            if isinstance(read, ElementsRead):
                joined = self._exploded(joined, read, draft.scope.inputs[at])
            elif at in tables.others:
                right = self._prefixed(draft, at, pushed[at], tables, timed=timed)
                joined = self._join(joined, right, join, draft.scope.inputs[at])
        return joined, rest

    def _exploded(self, source: Relation, read: ElementsRead, one: Input) -> Relation:
        own = tuple(f"{one.name}.{name}" for name in one.columns or ())
        chosen = (*source.columns, *(made(at) for at in range(len(own))))
        return Exploded((*source.columns, *own), one.at, source, read.values, read.call, chosen)

    def _pushed_to(self, draft: SelectDraft, condition: Expr) -> int | None:
        if _holds(condition, Scalar):
            return None
        used = {node.path for node in walk(condition) if isinstance(node, FieldRef)}
        for at, (one, read) in enumerate(zip(draft.scope.inputs, draft.reads, strict=True)):
            if not used or not isinstance(read, StreamRead):
                continue
            if all(owner(path, draft.scope.inputs) is one for path in used):
                # A row that an outer join fills with nulls must satisfy the condition after the join.
                filled = at > 0 and draft.joins[at - 1].kind in ("left", "full", "semi", "anti")
                # A condition on the right side of ASOF would change which row is the nearest.
                filled = filled or (at > 0 and draft.joins[at - 1].asof)
                filled = filled or any(join.kind in ("right", "full") for join in draft.joins[at:])
                return None if filled else at
        return None

    def _prefixed(
        self, draft: SelectDraft, at: int, where: list[Expr], tables: LookupPlan, *, timed: bool
    ) -> Relation:
        one = draft.scope.inputs[at]
        own = [
            rewrite(
                condition,
                lambda node: (
                    FieldRef(node.path.removeprefix(f"{one.name}."), True, at=node.at)
                    if isinstance(node, FieldRef)
                    else None
                ),
            )
            for condition in where
        ]
        source = self._raw(draft, at, own, tables, timed=timed)
        names = (
            name.removeprefix(LOOKED_UP) if name.startswith(LOOKED_UP) else f"{one.name}.{name}"
            for name in source.columns
        )
        return Prefixed(tuple(names), one.at, source)

    def _join(self, left: Relation, right: Relation, join: JoinDraft, one: Input) -> Relation:
        keys: list[JoinKey] = []
        residual: list[Expr] = []
        for condition in conjuncts(join.on):
            refuse_python(condition, self.origin)
            key = join_key(condition, set(left.columns), set(right.columns))
            if key is None:
                if _holds(condition, Aggregate):
                    raise self.origin.error(
                        "ON cannot contain an aggregate",
                        place_of(condition),
                        "Aggregate in a subquery, and join with that.",
                    )
                residual.append(condition)
            else:
                keys.append(key)
        columns = left.columns if join.kind in ("semi", "anti") else (*left.columns, *right.columns)
        if join.asof:
            nearest = NearestPlan(self.origin, join, frozenset(left.columns), frozenset(right.columns))
            return JoinRelation(
                columns, one.at, join.kind, left, right, tuple(keys), None, nearest=nearest.of(residual)
            )
        about = (join.kind, left, right, tuple(keys), all_of(residual))
        if not join.within_us:
            return JoinRelation(columns, one.at, *about)
        times = (_time_column(left), _time_column(right))
        return JoinRelation(columns, one.at, *about, join.within_us, times)

    def check_times(self) -> None:
        """Raise QueryError for parts of one stream that use different time columns."""
        first: dict[str, str] = {}
        for part in self.parts:
            column = part.window.column if part.window is not None else ""
            if first.setdefault(part.stream, column) != column:
                raise self.origin.error(
                    f"{part.stream} is divided into intervals by {first[part.stream]} and by {column}",
                    place_of(part.plan.outputs[0][1]),
                    "Use one time column of a stream in all its queries.",
                )

    # -- relations

    def derived(self, source: Relation, select: Select) -> Derived:
        """Return a SELECT over a relation.

        Raises QueryError for columns that the relation does not have.
        """
        for expr in (*early_expressions(select), *late_expressions(select)):
            for node in walk(expr):
                if isinstance(node, FieldRef) and node.quoted and node.path not in source.columns:
                    raise self.origin.error(
                        f"{node.path} is not visible after this join", node.at,
                        "LEFT SEMI JOIN and LEFT ANTI JOIN keep the columns of the left side only.",
                    )  # fmt: skip
        done = analyse(self.origin, select, None)
        statement = Statement(
            "",
            self.origin.name,
            None,
            "",
            (),
            None,
            source.columns,
            done.tables,
            False,
            done.plan,
            self.origin,
        )
        return Derived(statement.columns, select.start, source, statement)


def is_part(draft: Draft) -> TypeGuard[SelectDraft]:
    """Return whether a query is one part: the agents filter and reduce all of it."""
    if not isinstance(draft, SelectDraft) or len(draft.reads) > 1 or draft.sets is not None or draft.nested:
        return False
    if draft.select.qualify is not None:
        return False
    wanted = (*early_expressions(draft.select), *late_expressions(draft.select))
    found = any(isinstance(node, Over | Scalar) for expr in wanted for node in walk(expr))
    above = (*GROUPING, *GENERATORS)
    grouping = any(isinstance(n, Call) and n.name in above for expr in wanted for n in walk(expr))
    read = draft.reads[0]
    alone = isinstance(read, StreamRead) and not is_beside(read.stream)
    return alone and not found and not grouping


def refuse_grouping(select: Select, origin: SourceText) -> None:
    """Raise QueryError for grouping(x) with only one grouping."""
    for expr in (*early_expressions(select), *late_expressions(select)):
        for node in walk(expr):
            if isinstance(node, Call) and node.name in GROUPING:
                raise origin.error(
                    f"{node.name} needs GROUPING SETS, ROLLUP or CUBE", node.at, "It is 0 in every row."
                )


def _time_column(side: Relation) -> str:
    return next(name for name in side.columns if name.endswith(f".{TIME}"))


def _waits(select: Select) -> bool:
    if any(_holds(expr, Scalar) for expr in early_expressions(select)):
        return True
    aggregates = [
        node for expr in late_expressions(select) for node in walk(expr) if isinstance(node, Aggregate)
    ]
    return any(_holds(child, Scalar) for node in aggregates for child in node.children)


def _asks_for_time(select: Select) -> bool:
    aggregates = [node for expr in late_expressions(select) for node in walk(expr)]
    return any(isinstance(node, Aggregate) and node.kind in BY_TIME for node in aggregates)


def _meaning(part: Statement) -> object:
    return (part.stream, part.labels, part.window, part.tables, part.plan, part.lookups)


def _holds(expr: Expr, kind: type[Expr]) -> bool:
    return any(isinstance(node, kind) for node in walk(expr))


def _uses(expr: Expr, names: Collection[str]) -> bool:
    return any(isinstance(node, FieldRef) and node.path in names for node in walk(expr))
