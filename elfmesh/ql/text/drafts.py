"""Translation of sqlglot's parse tree of SELECTs to drafts, with every name resolved to an input.

A clause that this module does not translate raises QueryError. `lowering` decides where each expression is
computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from sqlglot import exp

from elfmesh.ql.expressions.nodes import Expr, Literal, Scalar
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.refusals import CLAUSES, SELECTS_NOTHING
from elfmesh.ql.expressions.resampling import ResampleClause
from elfmesh.ql.expressions.text_source import NOWHERE, SourceText, TextPosition
from elfmesh.ql.lowering.common_columns import UNLISTED
from elfmesh.ql.lowering.nearest import ASOF_HINT
from elfmesh.ql.plan.draft_types import (
    UNION,
    Draft,
    ElementsRead,
    JoinDraft,
    LookupRead,
    NothingRead,
    Read,
    SelectDraft,
    StreamRead,
    UnionDraft,
    distinguished,
    resampling,
)
from elfmesh.ql.plan.names import Bare
from elfmesh.ql.plan.render import render
from elfmesh.ql.plan.scope import GROUP, LATE, Input, NameScope
from elfmesh.ql.plan.selection import Select, expressions
from elfmesh.ql.plan.statement import RESULT
from elfmesh.ql.plan.waiting import LOOKUP
from elfmesh.ql.text.constants import check_constants
from elfmesh.ql.text.draft_elements import Lateral, in_items, is_lateral, unnested, views
from elfmesh.ql.text.draft_groups import read_groups
from elfmesh.ql.text.draft_items import read_items
from elfmesh.ql.text.draft_limits import TOO_MANY, NodeBudget, row_count
from elfmesh.ql.text.draft_names import name_at, no_order, reads_itself, renamed
from elfmesh.ql.text.draft_order import read_order
from elfmesh.ql.text.draft_windows import with_windows
from elfmesh.ql.text.outer_names import Declared, OuterNames
from elfmesh.ql.text.translate import Translator
from elfmesh.ql.text.unnesting import Nested, Unnesting

DEPTH_MAX = 32
"""Maximum depth of nested queries."""

_CLAUSES = {
    "expressions", "from_", "from", "where", "group", "having", "order", "limit", "offset", "distinct",
    "joins", "laterals", "qualify", "windows", "with_", "with",
}  # fmt: skip
_JOINS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "cross", ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right", ("FULL", ""): "full",
    ("FULL", "OUTER"): "full", ("", "SEMI"): "semi", ("LEFT", "SEMI"): "semi", ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}  # fmt: skip
_JOIN_HINT = "Write [LEFT|RIGHT|FULL|LEFT SEMI|LEFT ANTI|CROSS] JOIN other ON a.x = b.y."


class Drafter(Struct):
    """Translator of the parse tree of one statement to drafts.

    Attributes:
        labels: ON (...) of streams, by the offset of the stream's name.
        beside: LATEST and SAME of jobs, by the offset of the job's name.
        resamples: RESAMPLE, by the alias of the subquery that it ends.
        within: WITHIN of joins, by the offset of the name: microseconds, and its own offset.
        scalars: scalar subqueries, inner ones first.
        listed: the columns of `*`, by stream.
        declared: the columns that the formats of streams declare, by stream.
        stars: positions of `*` whose columns are not known.
        bare: unqualified names that may be columns of an outer query.
        unlisted: the error for a NATURAL JOIN over columns that are not known.
    """

    origin: SourceText
    labels: Mapping[int, tuple[tuple[str, str], ...]]
    beside: Mapping[int, str]
    start: TextPosition
    scalars: list[tuple[str, Draft]] = field(default_factory=list)
    functions: Mapping[str, PythonFunction] = field(default_factory=dict)
    within: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    resamples: Mapping[str, ResampleClause] = field(default_factory=dict)
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    declared: Declared = field(default_factory=dict)
    stars: list[TextPosition] = field(default_factory=list)
    bare: list[Bare] = field(default_factory=list)
    unclear: set[TextPosition] = field(default_factory=set)
    unlisted: Exception | None = None
    _depth: int = 0
    _budget: NodeBudget = field(default_factory=NodeBudget)
    _around: list[NameScope] = field(default_factory=list)

    def draft(self, tree: Any, named: Mapping[str, Any] | None = None) -> Draft:
        """Translate a query; `named` has the queries of WITH in scope, by lower-case name."""
        self._depth += 1
        try:
            if self._depth > DEPTH_MAX:
                raise self._error(tree, "queries are nested too deeply", "Reduce the nesting.")
            return self._draft(tree, dict(named or {}))
        finally:
            self._depth -= 1

    def _draft(self, tree: Any, named: dict[str, Any]) -> Draft:
        own = set[str]()
        given = tree.args.get("with_") or tree.args.get("with")
        for cte in () if given is None else given.expressions:
            name = cte.args["alias"].this.name
            if name.lower() in own:
                raise self._error(cte, f"WITH defines {name} twice", "Give one of them another name.")
            own.add(name.lower())
            before = len(self.scalars)
            draft = self.draft(cte.this, named)  # checks the query even if it is never referenced
            del self.scalars[before:]
            named[name.lower()] = (renamed(cte.this, cte.args["alias"], draft, self._error), dict(named))
        if isinstance(tree, exp.Subquery):
            self._refuse_clauses(tree, {"this", "alias", "with_"})
            return self.draft(tree.this, named)
        if isinstance(tree, exp.SetOperation):
            return self._union(tree, named)
        if not isinstance(tree, exp.Select):
            raise self._error(tree, "this is not a SELECT", "Write SELECT ... FROM stream.")
        return self._select(tree, named)

    # -- SELECT

    def _select(self, tree: exp.Select, named: Mapping[str, Any]) -> SelectDraft:
        if not self._budget.spend(tree):
            raise self._error(tree, *TOO_MANY)
        self._refuse_clauses(tree, _CLAUSES)
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self._error(distinct, "DISTINCT ON is not supported", "Use GROUP BY with min or max.")
        if not tree.expressions:
            raise self._error(None, "the query selects nothing", SELECTS_NOTHING)
        given = tree.args.get("from_") or tree.args.get("from")
        tree = with_windows(tree, self._error)
        tree, extra = in_items(tree, self._place, self._error)
        read, one = self._nothing(tree) if given is None else self._input(given.this, named)
        reads, inputs = [read], [one]
        joins: list[Any] = [
            unnested(join, at, self._place, self._error) if is_lateral(join) else join
            for at, join in enumerate(tree.args.get("joins") or [])
        ]
        joins += [*views(tree, self._place, self._error), *extra]
        for join in joins:
            if isinstance(join, Lateral):
                one = join.one
                read = ElementsRead(Literal("null", None), join.call)  # translated below
            else:
                read, one = self._input(join.this, named)
            reads.append(read)
            inputs.append(one)
        tree, nested = self._unnested(tree, inputs, named)
        aliases = {
            node.alias.lower(): reads_itself(node) for node in tree.expressions if isinstance(node, exp.Alias)
        }
        scope = NameScope(self.origin, inputs, aliases, tuple(self._around), self.bare)
        translator = self._translator(named, scope)
        how = [self._beside(join, translator, at, reads) for at, join in enumerate(joins, 1)]
        for one, how_joined in zip(inputs[1:], how, strict=True):
            one.hidden = how_joined.kind in ("semi", "anti")
        inner = [self._nested(each, named, translator) for each in nested]
        items = read_items(tree, translator, self.stars)
        where, having = tree.args.get("where"), tree.args.get("having")
        where = None if where is None else translator.value(where.this)
        with scope.within(GROUP):
            group, sets = read_groups(tree, translator, items)
        with scope.within(LATE):
            having = None if having is None else translator.value(having.this)
            qualify = tree.args.get("qualify")
            qualify = None if qualify is None else translator.value(qualify.this)
            order = read_order(tree, translator, [expr for _, expr in items], self._error)
        place = translator.place(tree)
        select = Select(
            items, where, group, having, order, row_count(tree, "limit", translator), distinct is not None,
            None, place if self._depth > 1 and place != NOWHERE else self.start,
            row_count(tree, "offset", translator) or 0, qualify=qualify,
        )  # fmt: skip
        check_constants(self.origin, (*expressions(select), *(one.on for one in how if one.on is not None)))
        columns = tuple(name or render(expr) for name, expr in items)
        return SelectDraft(select, scope, reads, how, columns, sets, select.start, inner)

    def _unnested(
        self, tree: exp.Select, inputs: list[Input], named: Mapping[str, Any]
    ) -> tuple[exp.Select, list[Nested]]:
        if tree.find(exp.Exists, exp.Subquery) is None:
            return tree, []
        tree = tree.copy()
        outer = OuterNames(self.declared, self._error)
        outer.qualify(tree, inputs, named)
        self.unclear.update(self._place(each) for each in outer.unclear)
        return tree, Unnesting(tree, self._error).nested

    def _nested(
        self, one: Nested, named: Mapping[str, Any], translator: Translator
    ) -> tuple[Draft, JoinDraft]:
        scope = translator.scope
        self._around.append(scope)
        draft = self.draft(one.query, named)
        self._around.pop()
        scope.nested.append(Input(one.name, draft.columns, self._place(one.query)))
        return draft, JoinDraft(one.kind, translator.expr(one.on))

    def _translator(self, named: Mapping[str, Any], scope: NameScope) -> Translator:
        def scalar(node: Any) -> Expr:
            return self._scalar(node, named, scope)

        return Translator(self.origin, scope, self.start, scalar, self.functions)

    def _nothing(self, tree: exp.Select) -> tuple[Read, Input]:
        return NothingRead(), Input("#", (), self._place(tree))

    def _input(self, table: Any, named: Mapping[str, Any]) -> tuple[Read, Input]:
        place = self._place(table)
        alias, called = table.args.get("alias"), table.alias
        if isinstance(table, exp.Subquery):
            self._refuse_clauses(table, {"this", "alias", "with_"})
            if not isinstance(table.this, exp.Query):
                hint = "Remove the parentheses, or write FROM (SELECT ... FROM a JOIN b ON ...) AS t."
                raise self._error(table, "FROM does not support a join or a name in parentheses", hint)
            draft = resampling(self._named(table, alias, named), self.resamples.get(called))
            return draft, Input(called or "#", draft.columns, place)
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise self._error(
                table, "FROM and JOIN take the name of a stream, or a subquery",
                "Write LATERAL VIEW explode(x) t AS e for the elements of a list.",
            )  # fmt: skip
        self._refuse_clauses(table, {"this", "alias", "db"})
        name, space = table.name, table.db
        if name.lower() in named and not space:
            tree, before = named[name.lower()]
            around, self._around = self._around, []  # a query of WITH cannot refer to outer columns
            draft = self._named(tree, alias, before)
            self._around = around
            return draft, Input(called or name, draft.columns, place)
        if alias is not None and alias.args.get("columns"):
            raise no_order(alias, name, self._error)
        if space.lower() == LOOKUP:
            return LookupRead(name), Input(called or name, None, place, name)
        if space:
            at = (table.args["db"]._meta or {}).get("start", -1)
            if at in self.labels:
                raise self._error(table, "results have no labels", "ON (...) selects agents of a stream.")
            job = f"{self.beside.get(at, '')}{space}{RESULT}{name}"
            return StreamRead(job, ()), Input(called or name, None, place, name)
        labels = self.labels.get((table.this._meta or {}).get("start", -1), ())
        return StreamRead(name, labels), Input(
            called or name, None, place, name, listed=self.listed.get(name), stream=name,
            declared=self.declared.get(name),
        )  # fmt: skip

    def _named(self, tree: Any, alias: Any, named: Mapping[str, Any]) -> Draft:
        before = len(self.scalars)
        draft = self.draft(tree, named)
        outer = renamed(tree, alias, draft, self._error)
        if outer is tree:
            return draft
        del self.scalars[before:]
        return self.draft(outer, named)

    def _beside(self, join: Any, translator: Translator, at: int, reads: list[Read]) -> JoinDraft:
        scope = translator.scope
        later = scope.inputs[at + 1 :]
        del scope.inputs[at + 1 :]
        try:
            if not isinstance(join, Lateral):
                return self._join(join, translator, at)
            mine = scope.inputs.pop()
            try:
                reads[at] = ElementsRead(translator.expr(join.values), join.call)
            finally:
                scope.inputs.append(mine)
            return JoinDraft("lateral", None)
        finally:
            scope.inputs += later

    def _join(self, join: exp.Join, translator: Translator, at: int) -> JoinDraft:
        method = join.method.upper()
        natural, asof = method == "NATURAL", method == "ASOF"
        self._refuse_clauses(
            join, {"this", "on", "using", "side", "kind"} | ({"method"} if natural or asof else set())
        )
        kind = _JOINS.get((join.side.upper(), join.kind.upper()))
        if kind is None:
            raise self._error(join, f"{join.side} {join.kind} JOIN is not supported".strip(), _JOIN_HINT)
        on: Expr | None = None
        if join.args.get("on") is not None:
            on = translator.value(join.args["on"])
        if natural and (on is not None or kind == "cross"):
            raise self._error(join, "NATURAL JOIN takes no ON and no CROSS", "Write a NATURAL JOIN b.")
        if asof and (kind not in ("inner", "left") or on is None):
            raise self._error(join, "ASOF takes JOIN or LEFT JOIN, and ON", ASOF_HINT)
        names = self._common(join, translator, natural)
        if names is not None and on is None and kind != "cross":
            return JoinDraft(
                kind, translator.common.join(translator.scope, translator.scope.inputs, kind, names)
            )
        if (on is None) != (kind == "cross"):
            message = "CROSS JOIN takes no ON" if on is not None else "this JOIN has no ON"
            raise self._error(join, message, _JOIN_HINT)
        within_us, within_at = self.within.get(name_at(join.this), (0, -1))
        place = self.origin.place(within_at) if within_us else NOWHERE
        return JoinDraft("inner" if kind == "cross" else kind, on, within_us, place, asof)

    def _common(
        self, join: exp.Join, translator: Translator, natural: bool
    ) -> list[tuple[str, TextPosition]] | None:
        """Return the common columns of USING or NATURAL with their positions; None: the join has neither."""
        if not natural:
            given = join.args.get("using")
            return [(name.name, translator.place(name)) for name in given] if given else None
        place = translator.place(join)
        names = translator.common.natural(translator.scope.inputs, place)
        if names is None:
            self.stars.append(place)
            self.unlisted = self._error(join, *UNLISTED)
            raise self.unlisted
        return list(names)

    def _scalar(self, node: Any, named: Mapping[str, Any], scope: NameScope) -> Expr:
        place = self._place(node)
        self._around.append(scope)
        draft = self.draft(node.this, named)
        self._around.pop()
        if len(draft.columns) != 1:
            raise self.origin.error(
                f"a scalar subquery must have one column, not {len(draft.columns)}",
                place,
                "Select one column, or join with the query: JOIN (SELECT ...) t ON ...",
            )
        name = f"#q{len(self.scalars)}"
        self.scalars.append((name, draft))
        return Scalar(name, at=place)

    # -- UNION, INTERSECT, EXCEPT

    def _union(self, tree: exp.SetOperation, named: Mapping[str, Any]) -> Draft:
        known = {"this", "expression", "distinct", "order", "limit", "offset", "with_", "with"}
        self._refuse_clauses(tree, known)
        left, right = self.draft(tree.this, named), distinguished(self.draft(tree.expression, named))
        distinct, kind = bool(tree.args.get("distinct")), tree.key.upper()
        if len(left.columns) != len(right.columns):
            raise self._error(
                tree.expression,
                f"{kind} of {len(left.columns)} and {len(right.columns)} columns",
                "Select equally many in each query.",
            )
        sources = [left]
        if isinstance(left, UnionDraft) and not distinct and not left.distinct and left.kind == kind == UNION:
            sources = left.sources
        union = UnionDraft([*sources, right], distinct, left.columns, self._place(tree), kind)
        if not any(tree.args.get(name) for name in ("order", "limit", "offset")):
            return union
        scope = NameScope(self.origin, [Input("#", union.columns, union.at)], {})
        translator = self._translator(named, scope)
        with scope.within(LATE):
            items = [(name, scope.field([name], True, union.at)) for name in union.columns]
            order = read_order(tree, translator, [expr for _, expr in items], self._error)
        select = Select(
            list(items), None, None, None, order, row_count(tree, "limit", translator), False, None,
            union.at if union.at != NOWHERE else self.start, row_count(tree, "offset", translator) or 0,
        )  # fmt: skip
        return SelectDraft(select, scope, [union], [], union.columns, None, select.start)

    # -- places and errors

    def _place(self, node: Any) -> TextPosition:
        for below in node.walk(bfs=False) if isinstance(node, exp.Expr) else ():
            start = below._meta.get("start") if below._meta else None
            if start is not None:
                return self.origin.place(start)
        return self.start

    def _error(self, node: Any, message: str, hint: str = "") -> Exception:
        return self.origin.error(message, self._place(node), hint)

    def _refuse_clauses(self, node: Any, known: set[str]) -> None:
        for name, given in node.args.items():
            if given and name not in known:
                one = given[0] if isinstance(given, list) else given
                what, hint = CLAUSES.get(name, (name.strip("_").upper(), ""))
                raise self._error(
                    one if isinstance(one, exp.Expr) else node, f"{what} is not supported", hint
                )
