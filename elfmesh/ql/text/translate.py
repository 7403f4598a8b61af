"""Translation of sqlglot's syntax tree to the nodes of `expressions`.

Only the modules of this folder use sqlglot's expression classes. A construct or an argument of a node that is
not in the tables below raises QueryError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace
from sqlglot import exp

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.foreign_functions import FOREIGN_FUNCTIONS
from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Duration,
    Expr,
    FieldRef,
    Literal,
    Star,
    WindowBound,
    WindowCall,
)
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.refusals import (
    GENERATORS,
    GROUPING,
    GROUPINGS,
    MARK,
    OTHER_EXTRACTS,
    OVER_FUNCTIONS,
    UNKNOWN_NODES,
    WINDOWS,
)  # fmt: skip
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import NOWHERE, SourceText, TextPosition, refused_dollar
from elfmesh.ql.functions.date_parts import PART_NAMES, PARTS
from elfmesh.ql.lowering.common_columns import CommonColumns
from elfmesh.ql.plan.declared import python_call
from elfmesh.ql.plan.scope import LATE, RECORD, NameScope
from elfmesh.ql.plan.sealing import sealed_call
from elfmesh.ql.plan.statement import ROWS, SEALED
from elfmesh.ql.plan.windows import fixed_duration_us, interval_months, rows_call, window_call
from elfmesh.ql.text.aggregate_calls import aggregate, nulls, within_group
from elfmesh.ql.text.lambdas import call_argument, parameter
from elfmesh.ql.text.like import escaped, like
from elfmesh.ql.text.literals import binary, literal, negative, star, with_columns, with_unit
from elfmesh.ql.text.over import over_call
from elfmesh.ql.text.paths import dotted_parts, with_field_names
from elfmesh.ql.values.type_targets import TYPE_NAMES, is_no_value, type_target

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "<=>", exp.And: "and", exp.Or: "or",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}  # fmt: skip

_ALWAYS = {"this", "expression", "expressions"}
_MEANT: dict[type[exp.Expr], set[str]] = {
    exp.Column: {"table", "db", "catalog"}, exp.Identifier: {"quoted"}, exp.Literal: {"is_string"},
    exp.Div: {"typed", "safe"}, exp.DPipe: {"safe"}, exp.Like: {"negate"}, exp.ILike: {"negate"},
    exp.Case: {"ifs", "default"}, exp.If: {"true"}, exp.Between: {"low", "high"}, exp.Interval: {"unit"},
    exp.Cast: {"to", "_type"}, exp.TryCast: {"to", "safe", "_type"}, exp.Trim: {"position"},
    exp.AtTimeZone: {"zone"}, exp.StrPosition: {"substr"}, exp.Substring: {"start", "length"},
    exp.Overlay: {"from_", "for_"}, exp.Star: {"except_"},
    exp.In: {"query"}, exp.Window: {"partition_by", "order", "over", "spec"}, exp.Subquery: set(),
}  # fmt: skip
"""Arguments of a node that have a meaning here. A node with any other argument is refused."""


class Translator:
    """Translator of the expressions of one statement; `scalar` plans a scalar subquery."""

    def __init__(
        self, source: SourceText, scope: NameScope, start: TextPosition, scalar: Callable[[Any], Expr],
        functions: Mapping[str, PythonFunction],
    ) -> None:  # fmt: skip
        self._source, self._functions = source, functions
        self.scope = scope
        self.common = CommonColumns()
        self._start = start
        self._cases: dict[type[Any], Callable[[Any], Expr]] = {
            exp.Column: self._column, exp.Identifier: self._path, exp.Dot: self._dot,
            exp.Bracket: self._bracket, exp.Boolean: self._boolean,
            exp.Literal: lambda node: literal(self, node),
            exp.Null: lambda node: Literal("null", None, at=self.place(node)),
            exp.Star: lambda node: star(self, node), exp.Paren: lambda node: self.expr(node.this),
            exp.Anonymous: self._call, exp.Filter: self._filter,
            exp.Window: lambda node: over_call(node, self), exp.Subquery: scalar,
            **{kind: lambda node: nulls(self, node) for kind in (exp.IgnoreNulls, exp.RespectNulls)},
            exp.WithinGroup: lambda node: within_group(self, node),
            exp.Neg: lambda node: negative(self, node),
            exp.Sqrt: lambda node: self._make("positive", node, node.this),  # see tokens.UNARY_PLUS
            exp.BitwiseNot: lambda node: self._make("~", node, node.this),
            exp.AtTimeZone: lambda node: self._make(
                "from_utc_timestamp", node, node.this, node.args["zone"]
            ),
            exp.Not: lambda node: self._make("not", node, node.this),
            exp.Is: self._is, exp.NullSafeNEQ: self._distinct_from, exp.Between: self._between,
            exp.In: self._in,
            **{kind: lambda node: like(self, node) for kind in (exp.Like, exp.ILike)},
            exp.Escape: lambda node: escaped(self, node),
            exp.RegexpLike: lambda node: self._make("rlike", node, node.this, node.expression),
            exp.DPipe: lambda node: self._make("concat", node, node.this, node.expression),
            exp.Case: self._case, exp.Cast: self._cast, exp.TryCast: self._cast, exp.Interval: self._interval,
            exp.Trim: self._trim, exp.Extract: self._extract,
            exp.StrPosition: lambda node: self._make("locate", node, node.args["substr"], node.this),
            exp.Substring: self._substring, exp.Overlay: self._overlay,
            exp.HexString: lambda node: binary(self, node),
        }  # fmt: skip

    def expr(self, node: Any) -> Expr:
        if isinstance(node, exp.Expr):
            meant = _ALWAYS | _MEANT.get(type(node), set())
            if any(given and name not in meant for name, given in node.args.items()):
                raise self._unknown(node)
        if isinstance(node, exp.Add | exp.Sub):
            moved = self._by_months(node)
            if moved is not None:
                return moved
        operator = _BINARY.get(type(node))
        if operator is not None:
            return self._make(operator, node, node.this, node.expression)
        case = self._cases.get(type(node))
        if case is None:
            raise self._unknown(node)
        return case(node)

    def value(self, node: Any) -> Expr:
        """As `expr`, but raise QueryError for `*` too."""
        found = self.expr(node)
        if isinstance(found, Star):
            raise self.error(node, "* is not a value", "Write * alone after SELECT, or name a field.")
        return found

    def place(self, node: Any) -> TextPosition:
        """Return the position of a node: its own token, else the first token below it."""
        node = node.expressions[0] if isinstance(node, exp.Lambda) else node
        for below in node.walk(bfs=False) if isinstance(node, exp.Expr) else ():
            start = below._meta.get("start") if below._meta else None
            if start is not None:
                return self._source.place(start)
        return NOWHERE

    def error(self, node: Any, message: str, hint: str = "") -> QueryError:
        place, around = self.place(node), node
        while place == NOWHERE and isinstance(around, exp.Expr) and around.parent is not None:
            around = around.parent
            place = self.place(around)
        return self._source.error(message, place if place != NOWHERE else self._start, hint)

    def _unknown(self, node: Any) -> QueryError:
        if isinstance(node, exp.Parameter):
            return refused_dollar(self._source, node.name)
        if node.key in UNKNOWN_NODES:
            return self.error(node, *UNKNOWN_NODES[node.key])
        name = node.sql_name().lower() if isinstance(node, exp.Func) else node.key
        if name in FOREIGN_FUNCTIONS:
            return self.error(node, f"ELF-QL has no function {name}", FOREIGN_FUNCTIONS[name])
        shown = self._source.text[slice(*self._written(node))]
        hint = "See the page on ELF-QL in the documentation."
        return self.error(node, f"ELF-QL does not have `{shown[:60]}`", hint)

    def _written(self, node: Any) -> tuple[int, int]:
        metas = [below.meta for below in node.walk() if below.meta] if isinstance(node, exp.Expr) else []
        starts = [meta["start"] for meta in metas if "start" in meta]
        return (min(starts), max(meta["end"] for meta in metas if "end" in meta) + 1) if starts else (0, 60)

    def _make(self, name: str, node: Any, *args: Any, option: str = "") -> Call:
        given = tuple(self.expr(arg) for arg in args)
        if any(isinstance(arg, Star) for arg in given):
            raise self.error(node, "* is not a value", "Write * alone, or name a field.")
        return Call(name, given, option, at=self.place(node))

    # -- fields and constants

    def _column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            if node.args.get("db") or not self.scope.qualifies(node.table):
                raise self.error(node, "`.*` works on the stream only", "Write * or name the fields.")
            return star(self, node.this, node)
        return self._path(node)

    def _path(self, node: Any) -> Expr:
        """Return the field of a column, of a chain of dots after a column, or of `x['name']`."""
        named = dotted_parts(node)
        if named is None:
            raise self._unknown(node)
        parts, quoted = named
        place = self.place(node)
        if (inner := parameter(self, parts, place)) is not None:
            return inner
        if not quoted and not (len(parts) > 1 and self.scope.qualifies(parts[0])):
            lower = [part.lower() for part in parts]
            if len(lower) == 2 and lower[0] in ("window", "session_window") and lower[1] in ("start", "end"):
                return WindowBound(lower[1], at=place)
            if lower in (["window_start"], ["window_end"]):
                return WindowBound(lower[0].removeprefix("window_"), at=place)
        common = self.common.find(parts[0], self.scope.inputs) if len(parts) == 1 else None
        if common is not None and not (self.scope.clause == LATE and self.scope.is_alias(parts[0], quoted)):
            return replace(common.expr, at=place)
        earlier = self.scope.earlier(parts[0], place) if len(parts) == 1 and not quoted else None
        if earlier is not None:
            return earlier
        inside = self.scope.structure(parts)
        found: Expr = self.scope.field(parts[: inside or None], quoted, place)
        for name in parts[inside:] if inside else ():
            found = Call("field of", (found,), name, at=place)
        return found

    def window_column(self, node: Any) -> Expr:
        """Return the time column of TUMBLE and similar calls, with its input if it is qualified."""
        named = dotted_parts(node)
        if named is None:
            return self.expr(node)
        if not self.scope.joined and self.scope.inputs[0].columns is None:
            return self._path(node)
        return FieldRef(".".join(named[0]), True, at=self.place(node))

    def _dot(self, node: exp.Dot) -> Expr:
        if dotted_parts(node) is not None:
            return self._path(node)
        base, name = self.expr(node.this), node.expression
        if isinstance(base, WindowCall) and name.name.lower() in ("start", "end"):
            return Call("window bound", (base,), name.name.lower(), at=base.at)
        if not isinstance(name, exp.Identifier):
            raise self._unknown(node)
        return Call("field of", (base,), name.name, at=base.at)

    def _bracket(self, node: exp.Bracket) -> Expr:
        if dotted_parts(node) is not None:
            return self._path(node)
        base, (index, *rest) = self.expr(node.this), node.expressions
        plain = isinstance(index, exp.Literal) and not index.is_string and not rest
        if isinstance(base, Call) and base.name == "split" and len(base.args) == 2 and plain:
            return Call("split at", (*base.args, self.expr(index)), at=base.at)
        if rest or not isinstance(index, exp.Expr) or isinstance(index, exp.Slice):
            raise self.error(node, "[ ] takes one index", "Write x[0].")
        return Call("element", (base, self.expr(index)), at=base.at)

    def _boolean(self, node: exp.Boolean) -> Expr:
        return Literal("bool", bool(node.this), at=self.place(node))

    def _interval(self, node: exp.Interval) -> Expr:
        return Duration(fixed_duration_us(node, self.error), at=self.place(node))

    def _by_months(self, node: exp.Add | exp.Sub) -> Expr | None:
        """Translate a sum of a time and an INTERVAL of months or years; None for other sums."""
        base, months = node.this, interval_months(node.expression)
        if months is None and isinstance(node, exp.Add):
            base, months = node.expression, interval_months(node.this)
        if months is None:
            return None
        count = Literal("bigint", -months if isinstance(node, exp.Sub) else months)
        return Call("plus months", (self.expr(base), count), at=self.place(node))

    # -- calls

    def _call(self, node: exp.Anonymous) -> Expr:
        name = str(node.this).removeprefix(MARK)
        if not str(node.this).startswith(MARK):
            raise self._unknown(node)
        if name in WINDOWS:
            if name == SEALED:
                return sealed_call(self, node)
            if name == ROWS:
                return rows_call(self, node)
            return window_call(name, node, self.window_column, self.error, self.place(node))
        if name in OVER_FUNCTIONS:
            raise self.error(
                node, f"{name} needs OVER", f"Write {name}(...) OVER (PARTITION BY a ORDER BY b)."
            )
        if name in AGGREGATES:
            return aggregate(self, name, node)
        if name in (*GENERATORS, *GROUPING):
            what = "column" if name in GROUPING else "list"
            if len(node.expressions) != 1 and name != "grouping_id":
                raise self.error(node, f"{name} takes one {what}", f"Write {name}(x).")
            return self._make(name, node, *node.expressions)
        if name in GROUPINGS:
            raise self.error(node, "ROLLUP, CUBE and GROUPING SETS are allowed only in GROUP BY")
        if name in self._functions:
            return python_call(self, self._functions[name], node)
        if (by_unit := with_unit(name, node.expressions)) is not None:
            return self._make(by_unit[0], node, *by_unit[1])
        known = FUNCTIONS[name]
        nodes, option = with_field_names(name, with_columns(self, node.expressions))
        args = tuple(call_argument(self, known, at, arg) for at, arg in enumerate(nodes))
        if len(args) < known.least or (known.most is not None and len(args) > known.most):
            raise self.error(
                node,
                f"{name} does not take {len(args)} argument{'s' * (len(args) != 1)}",
                f"Write {known.signature}.",
            )
        if any(isinstance(arg, Star) for arg in args):
            raise self.error(node, f"{name}(*) is not valid", f"Write {known.signature}.")
        return Call(name, args, option, at=self.place(node))

    def _filter(self, node: exp.Filter) -> Expr:
        inner = self.expr(node.this)
        if not isinstance(inner, Aggregate):
            raise self.error(node, "FILTER belongs to an aggregate", "Write sum(x) FILTER (WHERE condition).")
        with self.scope.within(RECORD):
            where = self.expr(node.expression.this)
        return replace(inner, where=where)

    # -- special forms

    def _is(self, node: exp.Is) -> Expr:
        if isinstance(node.expression, exp.Null):
            return self._make("is null", node, node.this)
        if isinstance(node.expression, exp.Boolean):
            return self._make("is true" if node.expression.this else "is false", node, node.this)
        raise self.error(node, "IS takes NULL, TRUE, FALSE or DISTINCT FROM", "Compare values with =.")

    def _distinct_from(self, node: exp.NullSafeNEQ) -> Expr:
        return Call("not", (self._make("<=>", node, node.this, node.expression),), at=self.place(node))

    def _between(self, node: exp.Between) -> Expr:
        value = self.expr(node.this)
        low, high = self.expr(node.args["low"]), self.expr(node.args["high"])
        at = self.place(node)
        return Call("and", (Call(">=", (value, low), at=at), Call("<=", (value, high), at=at)), at=at)

    def _in(self, node: exp.In) -> Expr:
        values = node.expressions
        if not values:
            raise self.error(node, "IN takes a list of values", "Write x IN ('a', 'b').")
        return self._make("in", node, node.this, *values)

    def _case(self, node: exp.Case) -> Expr:
        subject = node.this
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            when = self.expr(branch.this)
            if subject is not None:
                when = Call("=", (self.expr(subject), when), at=when.at)
            args += [when, self.expr(branch.args["true"])]
        default = node.args.get("default")
        args.append(Literal("null", None) if default is None else self.expr(default))
        return Call("case", tuple(args), at=self.place(node))

    def _cast(self, node: exp.Cast) -> Expr:
        kind = node.args["to"]
        target = type_target(kind) if isinstance(kind, exp.DataType) else None
        if target is None:
            simple = isinstance(kind, exp.DataType) and not kind.expressions
            shown = kind.this.name if simple else kind.sql(dialect="spark")
            raise self.error(node, f"ELF-QL has no type {shown}", f"There are {TYPE_NAMES}.")
        if is_no_value(node, target):
            raise self.error(
                node, f"{node.this.sql()} is not a {target}", "Write it as 2015-05-17[ 10:05:00]."
            )
        value = self.expr(node.this)
        if isinstance(value, Literal) and value.kind in ("bigint", "double") and target == "DOUBLE":
            assert isinstance(value.value, int | float)
            return Literal("double", float(value.value), at=value.at)
        name = "try_cast" if node.args.get("safe") else "cast"
        return Call(name, (value,), target, at=self.place(node))

    def _trim(self, node: exp.Trim) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
            str(node.args.get("position") or "").upper(), "btrim"
        )
        characters = node.args.get("expression")
        if characters is None:
            return self._make(name, node, node.this)
        # The functions differ in the order of their arguments: btrim(x, characters), but ltrim(characters,
        # x).
        args = (node.this, characters) if name == "btrim" else (characters, node.this)
        return self._make(name, node, *args)

    def _overlay(self, node: exp.Overlay) -> Expr:
        length = node.args.get("for_")
        rest = [node.args["from_"], *([] if length is None else [length])]
        return self._make("overlay", node, node.this, node.expression, *rest)

    def _extract(self, node: exp.Extract) -> Expr:
        part = node.this.name.lower()
        name = PARTS.get(part)
        if name is None:
            hint = OTHER_EXTRACTS.get(part, f"There are {PART_NAMES}.")
            raise self.error(node, f"EXTRACT does not know {part}", hint)
        return self._make(name, node, node.expression)

    def _substring(self, node: exp.Substring) -> Expr:
        length = node.args.get("length")
        return self._make(
            "substring", node, node.this, node.args["start"], *([] if length is None else [length])
        )
