"""Analysis of a SELECT: what is computed per record, what is reduced, and what is computed in the last step.

Every expression is split at its aggregates. Below them it runs on the agents, batch by batch. Above them it
runs once per interval over the reduced tables: keys k0.., states a0.., distinct counts d0.., folds f0... A
query without aggregates groups by all its output expressions with a hidden count. `fields` has all fields
that are read.

Paper: ELF 2.1-2.2 (map to key and PAO on the agents, reduce in the tree, final function at the root).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.aggregates import reduce
from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Duration,
    Expr,
    FieldRef,
    Literal,
    PythonCall,
    Ref,
    Scalar,
    SealClause,
    Star,
    WindowBound,
    WindowCall,
    place_of,
    rewrite,
    walk,
)
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.declared import refuse_python
from elfmesh.ql.plan.names import SelectItem, SelectNames, dropped_by
from elfmesh.ql.plan.reduction import ReducedColumns, makes_list
from elfmesh.ql.plan.render import render
from elfmesh.ql.plan.sealing import refuse_sealed
from elfmesh.ql.plan.selection import Select
from elfmesh.ql.plan.statement import (
    LOOKED_UP,
    SEALED,
    OrderItem,
    QueryPlan,
    TableSpec,
    WindowSpec,
    record_expressions,
)
from elfmesh.text import suggest


class Analysis(Struct, frozen=True):
    """Result of the analysis of a statement."""

    plan: QueryPlan
    window: WindowSpec | None
    fields: tuple[str, ...]
    tables: tuple[TableSpec, ...]
    star: bool


def analyse(source: SourceText, select: Select, star_columns: Sequence[str] | None) -> Analysis:
    """Resolve names, find the window and split every expression at its aggregates. Raises QueryError."""
    return _Analyser(source, select, star_columns).run()


class _Analyser:
    def __init__(self, source: SourceText, select: Select, star_columns: Sequence[str] | None) -> None:
        self._source = source
        self._select = select
        self._reduction = ReducedColumns()
        self._star = False
        self._seal: SealClause | None = None
        self._window, group = self._find_window()
        self._items = self._name_items(star_columns)
        where = None if select.where is None else self._bounds(select.where)
        self._where = where
        self._names = SelectNames(source, self._items, where)
        self._group = None if group is None else [self._bounds(expr) for expr in group]

    def run(self) -> Analysis:
        select = self._select
        self._check_record_expressions()
        having = None if select.having is None else self._bounds(select.having)
        order = [(self._bounds(item.expr), item) for item in select.order]
        everything = [item.expr for item in self._items] + [expr for expr, _ in order]
        grouped = self._group is not None or having is not None
        grouped = grouped or any(isinstance(node, Aggregate) for expr in everything for node in walk(expr))
        if grouped and self._star:
            raise self._error(select.items[0][1], "* cannot be grouped", "Name the fields, or count(*).")
        finish = self._aggregated() if grouped else self._projected
        outputs = tuple((item.name, finish(item.expr)) for item in self._items)
        filtered = None
        if having is not None:
            filtered = finish(self._names.in_having(having, self._reduction.keys))
        ordered = tuple(
            OrderItem(done, item.descending, item.nulls_first)
            for expr, item in order
            for done in self._order_items(expr, outputs, finish)
        )
        repeat = ""
        reduction = self._reduction
        if not grouped and not select.distinct:
            repeat = reduction.state("count").name
        elif not reduction.keys and not reduction.aggregates:
            reduction.state("count")
        plan = QueryPlan(
            self._where, tuple(reduction.keys), tuple(reduction.values), tuple(reduction.distincts),
            tuple(reduction.folds), outputs, filtered, ordered,
            None if select.limit is None else select.limit + select.offset, select.distinct, repeat,
            one_row=grouped
            and self._group is None
            and (self._window is None or select.derived or select.beside),
            aliases_as_keys=tuple(
                expr
                for expr in self._group or []
                if isinstance(expr, FieldRef) and self._names.is_alias_key(expr)
            ),
            offset=select.offset, seal=self._sealed(),
        )  # fmt: skip
        self._check_python(plan, [item.expr for item in ordered])
        return Analysis(plan, self._window, self._fields(plan), reduction.tables(plan.seal), self._star)

    def _check_python(self, plan: QueryPlan, order: Sequence[Expr]) -> None:
        late = [expr for _, expr in plan.outputs] + [each for each in (plan.having,) if each is not None]
        for expr in (*late, *order, *(record_expressions(plan) if self._select.derived else ())):
            refuse_python(expr, self._source)
        for expr in record_expressions(plan):
            for call in walk(expr):
                if isinstance(call, PythonCall) and any(
                    isinstance(node, FieldRef) and node.path.startswith(LOOKED_UP) for node in walk(call)
                ):
                    raise self._error(
                        call, f"{call.name} is given a column of a lookup table",
                        "It can use only fields of the stream.",
                    )  # fmt: skip

    def _error(self, expr: Expr, message: str, hint: str = "") -> QueryError:
        place = place_of(expr)
        return self._source.error(message, place if place.line else self._select.start, hint)

    # -- the window

    def _find_window(self) -> tuple[WindowSpec | None, list[Expr] | None]:
        found: WindowCall | None = None
        others: list[Expr] = []
        for expr in self._select.group or []:
            call = self._ordinal(expr) if isinstance(expr, Literal) and expr.kind == "bigint" else expr
            if isinstance(call, Call) and call.name == "window bound":
                call = call.args[0]
            if not isinstance(call, WindowCall):
                others.append(expr)
                continue
            if found is not None and found != call:
                raise self._error(call, "a query has one window", "Write one job for each window.")
            found = call
        window = self._select.window
        if found is not None and found.seal is not None:
            if window is None:
                raise refuse_sealed(self._source, found.seal)
            self._seal, others = found.seal, [*found.seal.keys, *others]
            return replace(window, kind=SEALED), others
        if found is not None and not self._select.derived:
            window = WindowSpec(found.kind, found.column, found.size_us, found.slide_us)
        return window, None if self._select.group is None else others

    def _bounds(self, expr: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            call = node.args[0] if isinstance(node, Call) and node.name == "window bound" else node
            if isinstance(call, WindowCall):
                mine = self._window
                if mine is None or not self._is_mine(call, mine):
                    raise self._error(call, "this window is not in GROUP BY", "Add it to GROUP BY, once.")
                if call is node:
                    raise self._error(
                        call, "a window is not a value", "Select window_start and window_end instead."
                    )
                assert isinstance(node, Call)
                return WindowBound(node.option, at=node.at)
            if isinstance(node, WindowBound) and self._window is None:
                raise self._error(
                    node,
                    f"window_{node.side} needs a window",
                    "Add GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).",
                )
            if (
                self._window is not None
                and isinstance(node, FieldRef)
                and node.path in ("window", "session_window")
                and not node.quoted
            ):
                raise self._error(
                    node, "a window is not a value", "Select window_start and window_end instead."
                )
            return None

        return rewrite(expr, change)

    def _is_mine(self, call: WindowCall, mine: WindowSpec) -> bool:
        lengths = (call.kind, call.size_us, call.slide_us) == (mine.kind, mine.size_us, mine.slide_us)
        return lengths and (self._select.derived or call.column == mine.column)

    # -- names

    def _name_items(self, star_columns: Sequence[str] | None) -> list[SelectItem]:
        items: list[SelectItem] = []
        for name, expr in self._select.items:
            if not isinstance(expr, Star):
                bound = self._bounds(expr)
                items.append(SelectItem(name or render(bound), bound, name is not None))
            elif star_columns is None:
                self._star = True
            else:
                dropped = dropped_by(expr, star_columns, self._source.error)
                items += [
                    SelectItem(column, FieldRef(column, True, at=expr.at), False)
                    for at, column in enumerate(star_columns)
                    if at not in dropped
                ]
        seen: dict[str, SelectItem] = {}
        for item in items:
            twin = seen.setdefault(item.name.lower(), item)
            if twin is not item:  # the rows of an answer are JSON objects
                hint = "Name one of them: AS other_name."
                if any(self._source.text_at(place_of(each.expr)).startswith("*") for each in (twin, item)):
                    hint = f"In place of `*` name the columns, and one of the two {item.name} AS other_name."
                raise self._error(item.expr, f"two columns are called {item.name}", hint)
        return items

    def _ordinal(self, literal: Literal) -> Expr:
        if any(isinstance(expr, Star) for _, expr in self._select.items):
            raise self._error(literal, "a column number cannot be combined with *", "Write the name.")
        return self._numbered(literal, [expr for _, expr in self._select.items])

    def _numbered(self, literal: Literal, columns: Sequence[Expr]) -> Expr:
        at, count = literal.value, len(columns)
        assert isinstance(at, int)
        if not 1 <= at <= count:
            hint = f"The query has {count} column{'s' * (count != 1)}."
            raise self._error(literal, f"there is no column {at}", hint)
        return columns[at - 1]

    def _check_record_expressions(self) -> None:
        """Check that expressions over single records contain no aggregates, window bounds or aliases."""
        if self._where is not None:
            self._refuse_above(self._where, "WHERE", "Filter groups with HAVING.")
            self._names.refuse_aliases(self._where, "WHERE")
        for item in self._items:
            self._names.refuse_aliases(item.expr, "a select item", item)

    def _refuse_above(self, expr: Expr, clause: str, hint: str) -> None:
        for node in walk(expr):
            if isinstance(node, Aggregate):
                raise self._error(node, f"{clause} cannot contain an aggregate", hint)
            if isinstance(node, WindowBound):
                raise self._error(node, f"{clause} cannot use the window", f"Use the time itself. {hint}")

    # -- splitting at the aggregates

    def _own_bound(self, side: str) -> Expr:
        """Return the start or end of a group that spans intervals: its first record, or its last one.

        A session ends one gap after its last record.
        """
        window = self._window
        assert window is not None
        first, last = (self._reduction.state(law, Call("event time", (self.time,))) for law in ("min", "max"))
        if side == "start":
            return first
        return Call("+", (last, Duration(window.size_us))) if window.is_session else last

    def _sealed(self) -> SealClause | None:
        """Return SEALED with its keys as the reduction has them, where they are the first ones."""
        if (seal := self._seal) is None:
            return None
        for expr in seal.values:
            self._refuse_above(expr, "SEALED", "Use values of single records.")
            self._names.refuse_aliases(expr, "SEALED")
        return replace(seal, keys=tuple(dict.fromkeys(self._names.in_group_by(key) for key in seal.keys)))

    def _aggregated(self) -> Callable[[Expr], Expr]:
        if self._window is not None and self._window.spans_intervals:
            self._own_bound("start")  # these states come first, because the root reads them by name
            if self._seal is not None:
                self._reduction.state("count")
        for expr in self._group or []:
            given = expr
            if isinstance(expr, Literal) and expr.kind == "bigint":
                given = self._bounds(self._ordinal(expr))
            else:
                given = self._names.in_group_by(expr)
            if isinstance(given, WindowBound | Literal | Scalar):
                continue  # constant within an interval
            for node in walk(given):
                if isinstance(node, Aggregate):
                    raise self._error(
                        expr,
                        "GROUP BY cannot contain an aggregate",
                        "Group by fields or expressions of them.",
                    )
                if isinstance(node, Star):
                    raise self._error(expr, "GROUP BY cannot contain *", "Name the fields.")
            self._refuse_above(given, "GROUP BY", "")
            self._reduction.key(given)
        return self._split

    def _grouping_hint(self, name: str) -> str:
        if name.lower() == "grouping__id":  # Spark has it from Hive
            return "Write grouping_id()."
        outputs = [item.name for item in self._items if not item.name.startswith("#")]
        ways = f"Add it to GROUP BY, or write min({name}) or max({name})"
        near = "" if name in outputs else suggest(name, outputs)
        own = f"; the query's own columns are {', '.join(outputs)}" if outputs else ""
        return near or f"{ways}{own}."

    def _split(self, expr: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            if node in self._reduction.keys:
                return self._reduction.key(node)
            if isinstance(node, Aggregate):
                return self._reduce(node)
            if isinstance(node, WindowBound) and self._window is not None and self._window.spans_intervals:
                return self._own_bound(node.side)
            if isinstance(node, FieldRef):
                raise self._error(
                    node,
                    f"{node.path} must be in GROUP BY or in an aggregate",
                    self._grouping_hint(node.path),
                )
            return None

        return rewrite(expr, change)

    def _reduce(self, node: Aggregate) -> Expr:
        for child in node.children:
            self._refuse_above(child, f"the argument of {node.kind}", "Aggregate in a subquery.")
            self._names.refuse_aliases(child, f"the argument of {node.kind}")
        return reduce(self, node)

    # -- interface for aggregates

    @property
    def time(self) -> FieldRef:
        return FieldRef("ts" if self._window is None else self._window.column, True)

    def state(self, kind: str, *values: Expr) -> Expr:
        return self._reduction.state(kind, *values)

    def fold(self, how: str, args: tuple[Expr, ...], where: Expr | None, ranks: tuple[float, ...]) -> Expr:
        return self._reduction.fold(how, args, where, ranks)

    def error(self, expr: Expr, message: str, hint: str = "") -> QueryError:
        return self._error(expr, message, hint)

    def _projected(self, expr: Expr) -> Expr:
        """Return an output of a query without aggregates: a key, unless it is constant for all records."""
        if not any(isinstance(node, FieldRef) for node in walk(expr)):
            return expr
        if any(isinstance(node, WindowBound | Scalar) for node in walk(expr)) or makes_list(expr):
            return rewrite(
                expr,
                lambda node: self._reduction.key(node) if isinstance(node, FieldRef | PythonCall) else None,
            )
        return self._reduction.key(expr)

    def _order_items(
        self, expr: Expr, outputs: tuple[tuple[str, Expr], ...], finish: Callable[[Expr], Expr]
    ) -> list[Expr]:
        columns = [output for _, output in outputs]
        if isinstance(expr, Star) or (self._star and isinstance(expr, Literal)):  # * may not be known yet
            return columns or [Literal("null", None)]
        if isinstance(expr, Literal) and expr.kind == "bigint":
            return [self._numbered(expr, columns)]
        done = finish(self._names.in_order_by(expr))
        constant = not any(isinstance(node, Ref) for node in walk(done))
        if self._select.distinct and not constant and done not in columns:
            raise self._error(
                expr, "SELECT DISTINCT can be ordered by its own columns only", "Select this one too."
            )
        return [done]

    def _fields(self, plan: QueryPlan) -> tuple[str, ...]:
        paths = {"*"} if self._star else set()
        if self._window is not None:
            paths.add(self._window.column)
        for expr in record_expressions(plan):
            paths |= {
                node.path
                for node in walk(expr)
                if isinstance(node, FieldRef) and not node.path.startswith(LOOKED_UP)
            }
        return tuple(sorted(paths))
