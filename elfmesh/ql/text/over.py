"""Translation of OVER: row_number() OVER (PARTITION BY a ORDER BY b), sum(x) OVER (PARTITION BY a)."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Aggregate, Duration, Expr, Frame, Literal, Over
from elfmesh.ql.expressions.refusals import MARK, OVER_FUNCTIONS
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.text.draft_order import is_all

FRAMED = ("first", "first_value", "last", "last_value", "nth_value")
"""Functions whose ORDER BY selects the first or last row of the frame, and not the first or last by time."""

VALUED = ("lag", "lead", "nth_value")
"""Functions that return a value of another row."""

_HINT = "Write row_number() OVER (PARTITION BY a ORDER BY b), or sum(x) OVER (PARTITION BY a)."
_FRAME_HINT = (
    "Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL '5' SECOND PRECEDING ..."
)
_SHAPES = {"nth_value": "(x, n)", "ntile": "(n)", "lag": "(x[, n[, default]])", "lead": "(x[, n[, default]])"}


def over_call(node: exp.Window, translator: Translating) -> Expr:
    order = node.args.get("order")
    items = order.expressions if order is not None else []
    kind, args = _function(node.this, translator, ordered=bool(items))
    if kind != "aggregate" and not items:
        raise translator.error(node, f"{kind} without ORDER BY has no meaning", _HINT)
    for item in items:
        if not isinstance(item, exp.Ordered) or item.args.get("with_fill"):
            raise translator.error(node, "this form of ORDER BY is not supported", _HINT)
        if is_all(item.this):
            raise translator.error(node, "ORDER BY ALL belongs to a whole query", "Write ORDER BY a, b.")
    directions = tuple((bool(i.args.get("desc")), bool(i.args.get("nulls_first"))) for i in items)
    partition = tuple(translator.expr(each) for each in node.args.get("partition_by") or ())
    ordered = tuple(translator.expr(item.this) for item in items)
    frame = _frame(node, translator, len(items))
    if frame is not None and not (kind == "aggregate" or kind in FRAMED):
        raise translator.error(node, f"{kind} does not support a frame (ROWS or RANGE)", "Leave it out.")
    return Over(kind, args, partition, ordered, directions, frame, at=translator.place(node))


def _function(node: Any, translator: Translating, *, ordered: bool) -> tuple[str, tuple[Expr, ...]]:
    inner = node.this if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) else node
    if isinstance(inner, exp.Anonymous) and str(inner.this).removeprefix(MARK) in OVER_FUNCTIONS:
        return _own(inner, translator, ignoring=None if inner is node else isinstance(node, exp.IgnoreNulls))
    function = translator.expr(node)
    if not isinstance(function, Aggregate):
        raise translator.error(
            node, "OVER can be used only with aggregates and window functions such as row_number", _HINT
        )
    if not (ordered and function.kind in FRAMED):
        return "aggregate", (function,)
    if function.where is not None:
        raise translator.error(node, f"FILTER of {function.kind} with ORDER BY is not supported", _HINT)
    return function.kind, function.args


def _own(
    node: exp.Anonymous, translator: Translating, *, ignoring: bool | None
) -> tuple[str, tuple[Expr, ...]]:
    """Return the name of a function that exists only with OVER, and its arguments if it returns a value.

    `lag` and `lead` have the value, the number of rows and the default; `nth_value` has the value and the
    number. A final TRUE means IGNORE NULLS.
    """
    name = str(node.this).removeprefix(MARK)
    least, most = OVER_FUNCTIONS[name]
    args = tuple(translator.expr(arg) for arg in node.expressions)
    valued = name in VALUED
    if ignoring is not None and not valued:
        raise translator.error(
            node,
            f"{name} has no nulls to ignore",
            "IGNORE NULLS belongs to first, last, nth_value, lag and lead.",
        )
    given = args[1:] if valued else args
    number = given[0] if given else Literal("bigint", 1)
    whole = isinstance(number, Literal) and number.kind == "bigint"
    positive = not name.startswith("n") or (whole and int(getattr(number, "value", 0) or 0) > 0)
    if not least <= len(args) <= most or not whole or not positive:
        shape = _SHAPES.get(name, "()")
        raise translator.error(node, f"{name} does not take these arguments", f"Write {name}{shape}.")
    if not valued:
        return name, args
    last = (Literal("bool", True),) if ignoring else ()
    if name == "nth_value":
        return name, (args[0], number, *last)
    return name, (args[0], number, args[2] if len(args) == 3 else Literal("null", None), *last)


def _frame(node: exp.Window, translator: Translating, items: int) -> Frame | None:
    spec = node.args.get("spec")
    if spec is None:
        return None
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude") or not items:
        if not items:
            hint = f"Say the order of the rows: OVER (ORDER BY ts {kind} BETWEEN ...)."
            raise translator.error(node, f"{kind} without ORDER BY has no meaning", hint)
        raise translator.error(node, f"a frame of {kind} is not supported", _FRAME_HINT)
    first = _bound(spec, "start", translator, node)
    last = _bound(spec, "end", translator, node) if spec.args.get("end") is not None else Literal("bigint", 0)
    numbers = [each for each in (first, last) if each is not None]
    timed = any(isinstance(each, Duration) for each in numbers)
    if timed and any(isinstance(each, Literal) and each.value for each in numbers):
        message = "a frame has an INTERVAL at one end and a number at the other"
        raise translator.error(node, message, _FRAME_HINT)
    found = [_distance(each, translator, node, kind) for each in (first, last)]
    if any(found) and kind == "RANGE" and items != 1:
        raise translator.error(
            node, "RANGE with a distance takes one ORDER BY item", "Write ROWS BETWEEN ..."
        )
    if found[0] is not None and found[1] is not None and found[0] > found[1]:
        raise translator.error(node, "the end of this frame is before its start", _FRAME_HINT)
    return Frame(kind == "ROWS", found[0], found[1], timed)


def _bound(spec: Any, side: str, translator: Translating, node: exp.Window) -> Expr | None:
    """Return the start or end of a frame as it is written: None for UNBOUNDED, 0 for the current row."""
    given, direction = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
    if given == "CURRENT ROW":
        return Literal("bigint", 0)
    if given == "UNBOUNDED":
        if direction != ("PRECEDING" if side == "start" else "FOLLOWING"):
            raise translator.error(node, f"a frame cannot {side} with UNBOUNDED {direction}", _FRAME_HINT)
        return None
    value = translator.expr(given)
    sign = -1 if direction == "PRECEDING" else 1
    if isinstance(value, Duration):
        return Duration(sign * value.us, at=value.at)
    if isinstance(value, Literal) and value.kind in ("bigint", "double"):
        assert isinstance(value.value, int | float)
        return Literal(value.kind, sign * value.value, at=value.at)
    raise translator.error(node, "the distance of a frame must be a constant", _FRAME_HINT)


def _distance(bound: Expr | None, translator: Translating, node: exp.Window, kind: str) -> int | float | None:
    if isinstance(bound, Duration) and kind == "RANGE":
        return bound.us
    if bound is None:
        return None
    if isinstance(bound, Literal) and (kind == "RANGE" or bound.kind == "bigint"):
        assert isinstance(bound.value, int | float)
        return bound.value
    raise translator.error(node, "ROWS BETWEEN takes whole numbers of rows", _FRAME_HINT)
