"""Translation of number and byte literals with their signs and suffixes, and of `*`.

sqlglot does not keep the places of INTERVAL, TRUE, FALSE and NULL. The nodes of a kind stand in the order of
the text, so the n-th node is that of the n-th keyword. If their numbers differ, the nodes have no place, and
an error is at what stands around them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.nodes import Call, Expr, Literal, Star
from elfmesh.ql.functions.nested.list_making import MONTH_SEQUENCE
from elfmesh.ql.plan.names import dropped_by
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.plan.windows import interval_months
from elfmesh.ql.text.paths import dotted_parts
from elfmesh.ql.values.types import PRECISION_MAX

_LIMIT_64 = 2**63
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_KEYWORDS: dict[type[exp.Expr], tuple[TokenType, ...]] = {
    exp.Interval: (TokenType.INTERVAL,),
    exp.Boolean: (TokenType.TRUE, TokenType.FALSE),
    exp.Null: (TokenType.NULL,),
}


def literal(translator: Translating, node: exp.Literal, *, negated: bool = False) -> Expr:
    """Translate a string, a bigint, a double, or a decimal beyond 64 bits.

    With `negated`, 9223372036854775808 is a bigint.
    """
    place = translator.place(node)
    if node.is_string:
        return Literal("string", node.name, at=place)
    sign = -1 if negated else 1
    if not re.fullmatch(r"\d+", node.name):
        double = sign * (float(node.name) if _NUMBER.fullmatch(node.name) else math.nan)
        if math.isnan(double):
            raise translator.error(node, f"{node.name} is not a number", "Write 1.5, 1.5e10 or 15.")
        if math.isinf(double):
            raise translator.error(node, f"{node.name} does not fit into a double", "Write a smaller one.")
        return Literal("double", double, at=place)
    value = sign * int(node.name)
    if not -_LIMIT_64 <= value < _LIMIT_64:
        digits = str(abs(value))
        if len(digits) > PRECISION_MAX:
            hint = f"Write it as a double: {node.name}D."
            raise translator.error(node, f"{node.name} has more than {PRECISION_MAX} digits", hint)
        text = Literal("string", str(value), at=place)
        return Call("cast", (text,), f"DECIMAL({len(digits)},0)", at=place)
    return Literal("bigint", value, at=place)


def binary(translator: Translating, node: exp.HexString) -> Expr:
    """Translate X'0aff' to the bytes that `unhex` returns for the digits."""
    place = translator.place(node)
    return Call("unhex", (Literal("string", str(node.this), at=place),), at=place)


def negative(translator: Translating, node: exp.Neg) -> Expr:
    """Translate `-x`. Before a number literal the sign belongs to the literal, so -128Y is valid."""
    inner, place = node.this, translator.place(node)
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return replace(literal(translator, inner, negated=True), at=place)
    if isinstance(inner, exp.TryCast) and _is_typed_integer(inner):
        target = inner.args["to"].this.name
        return Call("cast", (literal(translator, inner.this, negated=True),), target, at=place)
    value = translator.expr(inner)
    if isinstance(value, Star):
        raise translator.error(node, "* is not a value", "Write * alone, or name a field.")
    return Call("neg", (value,), at=place)


_BY_UNIT = {
    **dict.fromkeys(("dateadd", "date_add", "timestampadd"), "timestampadd"),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff"), "timestampdiff"),
}
"""Calls whose first of three arguments is a unit of time."""


def with_unit(name: str, args: list[exp.Expr]) -> tuple[str, list[exp.Expr]] | None:
    """Return the function and arguments of a call with a unit; None for others.

    The unit of `date_add(DAY, 1, ts)` becomes a text, and a step of months a number of them.
    """
    if name == "sequence" and len(args) == 3 and (months := _months(args[2])) is not None:
        return MONTH_SEQUENCE, [*args[:2], exp.Literal.number(months)]
    first = args[0] if len(args) == 3 and name in _BY_UNIT else None
    if not isinstance(first, exp.Column) or first.table or first.this.args.get("quoted"):
        return None
    unit = exp.Literal.string(first.name)
    unit.meta.update(first.this.meta)
    return _BY_UNIT[name], [unit, *args[1:]]


def _months(node: exp.Expr) -> int | None:
    if not isinstance(node, exp.Neg):
        return interval_months(node)
    months = interval_months(node.this)
    return months and -months


def with_columns(translator: Translating, nodes: Sequence[exp.Expr]) -> Sequence[exp.Expr]:
    """Return the arguments of a function with the columns of `*` in place of it, as Spark does."""
    if not any(each.is_star for each in nodes):
        return nodes
    scope, found = translator.scope, list[exp.Expr]()
    for each in nodes:
        if not each.is_star:
            found.append(each)
            continue
        qualifier, mark = (each.table, each.this) if isinstance(each, exp.Column) else ("", each)
        whole = translator.expr(each)
        assert isinstance(whole, Star)
        fields = scope.stars(qualifier, whole.at)
        dropped = dropped_by(whole, [scope.plain(field.path) for field in fields], scope.error)
        for at, field in enumerate(fields):
            if at not in dropped:
                name = scope.plain(field.path)
                table = field.path.removesuffix(name).removesuffix(".")
                found.append(exp.column(name, table=table or None, quoted=True))
                found[-1].meta.update(mark.meta)
    return found


def star(translator: Translating, node: exp.Star, whole: exp.Expr | None = None) -> Star:
    """Translate `*` with the names of EXCEPT; `whole` is `input.*`."""
    other = next((name for name, given in node.args.items() if given and name != "except_"), None)
    if other is not None:
        raise translator.error(
            whole or node, f"* {other.strip('_').upper()} is not supported", "Name the columns in place of *."
        )
    names, scope = list[str](), translator.scope
    for each in node.args.get("except_") or ():
        parts, _ = dotted_parts(each) or ([], False)
        own = not scope.joined and len(parts) == 2 and scope.qualifies(parts[0])
        if len(parts) != 1 and not own:
            raise translator.error(each, "EXCEPT takes names of columns", "Write * EXCEPT (a, b).")
        names.append(parts[-1])
    return Star(tuple(names), at=translator.place(whole or node))


def _is_typed_integer(node: exp.TryCast) -> bool:
    """Return whether the node is 128Y, 5S or 7L, or the equivalent 128::TINYINT."""
    number = isinstance(node.this, exp.Literal) and node.this.name.isdigit() and not node.this.is_string
    return number and node.args["to"].this.name in ("TINYINT", "SMALLINT", "INT", "BIGINT")


def place_keywords(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Note the offsets of the keywords in the nodes; in an INTERVAL, also its text as it is written."""
    nodes = list(_in_order(tree))
    for kind, types in _KEYWORDS.items():
        found = [node for node in nodes if isinstance(node, kind)]
        places = [at for at, token in enumerate(tokens) if token.token_type in types]
        for node, at in zip(found, places, strict=True) if len(found) == len(places) else ():
            node.meta["start"] = tokens[at].start
            after = tokens[at + 1] if at + 1 < len(tokens) else None
            if kind is exp.Interval and after is not None and after.token_type == TokenType.STRING:
                node.meta["written"] = after.text


def _in_order(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes in the order of the text. sqlglot has WITH behind the query that it precedes."""
    rest = [node]
    while rest:
        each = rest.pop()
        yield each
        below = list(each.iter_expressions())
        below.sort(key=lambda one: not isinstance(one, exp.With))
        rest += reversed(below)
