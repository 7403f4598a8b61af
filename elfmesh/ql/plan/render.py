"""Names of output columns without AS, as Spark writes them: `count(1)`, `(bytes / 1024)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from elfmesh.ql.expressions.list_aggregates import ORDERED_VALUE
from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Duration,
    Expr,
    FieldRef,
    Frame,
    Lambda,
    Literal,
    Over,
    Parameter,
    Ref,
    Scalar,
    Star,
    WindowBound,
    WindowCall,
    rewrite,
)
from elfmesh.ql.expressions.refusals import GENERATORS
from elfmesh.ql.plan.statement import LOOKED_UP, ROWS, SEALED, SESSION
from elfmesh.ql.values.cast import format_double
from elfmesh.units import format_duration

_INFIX = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "and",
    "or",
    "&",
    "|",
    "^",
    "<<",
    ">>",
}
_NULLS = {("a", "l"): " NULLS LAST", ("d", "f"): " NULLS FIRST"}
_POSTFIX = {"is null": "IS NULL", "is true": "IS TRUE", "is false": "IS FALSE"}


def render(expr: Expr) -> str:
    """Return the text of an expression as a column name; the name of a field is its last part."""
    return expr.path.rpartition(".")[2] if isinstance(expr, FieldRef) else _text(expr)


def full_text(expr: Expr) -> str:
    return _text(expr)


def _text(expr: Expr) -> str:
    if isinstance(expr, FieldRef):
        return expr.path
    if isinstance(expr, Literal):
        if isinstance(expr.value, bool) or expr.value is None:
            return "NULL" if expr.value is None else str(expr.value).lower()
        return format_double(expr.value) if isinstance(expr.value, float) else str(expr.value)
    if isinstance(expr, Duration):
        return f"INTERVAL '{format_duration(expr.us)}'"
    if isinstance(expr, Parameter):
        return expr.name
    if isinstance(expr, Lambda):
        names = ", ".join(expr.parameters)
        if not names:
            return _text(expr.body)
        return f"{names if len(expr.parameters) == 1 else f'({names})'} -> {_text(expr.body)}"
    if isinstance(expr, WindowBound):
        return f"window_{expr.side}"
    if isinstance(expr, Aggregate):
        args = ", ".join(_text(arg) for arg in expr.args) or "1"
        if expr.args and isinstance(last := expr.args[-1], Call) and last.name == ORDERED_VALUE:
            args = f"{_list(expr.args[:-2])} ORDER BY {_ways(last)}"
        where = "" if expr.where is None else f" FILTER (WHERE {_text(expr.where)})"
        return f"{expr.kind}({'DISTINCT ' if expr.distinct else ''}{args}){where}"
    if isinstance(expr, Over):
        inner = _text(expr.args[0]) if expr.kind == "aggregate" else f"{expr.kind}({_list(expr.args)})"
        partition = f"PARTITION BY {_list(expr.partition)}" if expr.partition else ""
        order = f"ORDER BY {_list(expr.order)}" if expr.order else ""
        frame = "" if expr.frame is None else _frame(expr.frame)
        return f"{inner} OVER ({' '.join(filter(None, (partition, order, frame)))})"
    if isinstance(expr, Scalar):
        return "scalarsubquery()"
    if isinstance(expr, WindowCall):
        return {SESSION: "session_window", SEALED: "sealed", ROWS: "rows"}.get(expr.kind, "window")
    if isinstance(expr, Star):
        return "*"
    assert isinstance(expr, Call), expr
    return _call(expr)


def _ways(ordered: Call) -> str:
    """Return the items of the ORDER BY of a list, as they are written."""
    items = zip(ordered.args[1:], ordered.option[::2], ordered.option[1::2], strict=True)
    return ", ".join(
        f"{_text(item)}{' DESC' * (way == 'd')}{_NULLS.get((way, nulls), '')}" for item, way, nulls in items
    )


def _frame(frame: Frame) -> str:
    def bound(distance: int | float | None, unbounded: str) -> str:
        if distance is None:
            return f"UNBOUNDED {unbounded}"
        if distance == 0:
            return "CURRENT ROW"
        size = f"INTERVAL '{format_duration(int(abs(distance)))}'" if frame.timed else f"{abs(distance)}"
        return f"{size} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"

    kind = "ROWS" if frame.rows else "RANGE"
    return f"{kind} BETWEEN {bound(frame.first, 'PRECEDING')} AND {bound(frame.last, 'FOLLOWING')}"


def _list(exprs: Iterable[Expr]) -> str:
    return ", ".join(_text(expr) for expr in exprs)


def _call(expr: Call) -> str:
    args = [_text(arg) for arg in expr.args]
    if expr.name == "window bound":
        return f"window_{expr.option}"
    if expr.name in GENERATORS:
        return "col"  # Spark's name
    if expr.name in _INFIX:
        return f"({args[0]} {expr.name.upper() if expr.name in ('and', 'or') else expr.name} {args[1]})"
    if expr.name in _POSTFIX:
        return f"({args[0]} {_POSTFIX[expr.name]})"
    if expr.name == "neg":
        return f"(- {args[0]})"
    if expr.name == "not":
        return f"(NOT {args[0]})"
    if expr.name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if expr.name in ("like", "ilike", "rlike"):
        return f"{args[0]} {expr.name.upper()} {args[1]}"
    if expr.name in ("cast", "try_cast"):
        return f"{expr.name.upper()}({args[0]} AS {expr.option})"
    if expr.name == "element":
        return f"{args[0]}[{args[1]}]"
    if expr.name == "field of":
        return f"{args[0]}.{expr.option}"
    if expr.name == "plus months":
        return f"({args[0]} + INTERVAL '{args[1]}' MONTH)"
    if expr.name == "month sequence":
        return f"sequence({args[0]}, {args[1]}, INTERVAL '{args[2]}' MONTH)"
    if expr.name == "~":
        return f"~{args[0]}"
    if expr.name == "split at":
        return f"split({args[0]}, {args[1]})[{args[2]}]"
    if expr.name == "case":
        pairs = [f"WHEN {args[at]} THEN {args[at + 1]}" for at in range(0, len(args) - 1, 2)]
        return f"CASE {' '.join(pairs)} ELSE {args[-1]} END"
    return f"{expr.name}({', '.join(args)})"


def text_of(expr: Expr, names: Mapping[str, str] | None = None) -> str:
    """Format an expression for display, with quoted literals and with names for the columns of the plan."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Literal(kind="string"):
                return FieldRef("'" + str(node.value).replace("'", "''") + "'")
            case Ref():
                return FieldRef((names or {}).get(node.name, node.name))
            case FieldRef() if node.path.startswith(LOOKED_UP):
                return FieldRef(f"lookup.{node.path.removeprefix(LOOKED_UP)}")
            case Call(name="sum input"):
                return rewrite(node.args[0], change)
        return None

    return full_text(rewrite(expr, change))
