"""Translation of LATERAL VIEW, UNNEST and generators of several columns to inputs of a draft.

    FROM t LATERAL VIEW [OUTER] explode(x) e AS a[, b]
    FROM t CROSS JOIN UNNEST(x) [WITH ORDINALITY] AS e(a[, b])
    FROM t LEFT JOIN UNNEST(x) AS e(a[, b]) ON TRUE                  as OUTER
    SELECT posexplode(x) AS (n, a), y FROM t                         as LATERAL VIEW

Each of them adds an input with known column names. Its list is an expression over the inputs before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from sqlglot import exp

from elfmesh.ql.expressions.refusals import GENERATORS, MARK
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.elements import ElementOrder, Elements
from elfmesh.ql.plan.scope import Input

Complain = Callable[..., Exception]
VIEW = "Write LATERAL VIEW [OUTER] explode(x) t AS e, or posexplode(x) t AS n, e."
UNNEST = "Write CROSS JOIN UNNEST(x) AS t(e), or LEFT JOIN UNNEST(x) AS t(e) ON TRUE."
COLUMNS_MAX = 64
"""Maximum number of columns of one generator; `inline` makes one for each field."""


class Lateral(Struct):
    """Input that is made of the rows of earlier inputs, with the parse tree of its list or map."""

    one: Input
    values: exp.Expr
    call: Elements


def is_lateral(join: exp.Join) -> bool:
    return isinstance(join.this, exp.Unnest | exp.Lateral)


def views(tree: exp.Select, place: Callable[[Any], TextPosition], error: Complain) -> list[Lateral]:
    return [_view(node, f"#l{at}", place, error) for at, node in enumerate(tree.args.get("laterals") or ())]


def unnested(join: exp.Join, number: int, place: Callable[[Any], TextPosition], error: Complain) -> Lateral:
    """Return the input for UNNEST after JOIN. Raises QueryError for other kinds of join."""
    kind, on = (join.side.upper(), join.kind.upper()), join.args.get("on")
    true = isinstance(on, exp.Boolean) and bool(on.this)
    plain = (kind in (("", "CROSS"), ("", ""), ("", "INNER")) and (on is None or true)) or (
        kind in (("LEFT", ""), ("LEFT", "OUTER")) and true
    )
    if not plain or join.args.get("using"):
        raise error(join.this, "UNNEST is joined by CROSS JOIN, or by LEFT JOIN ... ON TRUE", UNNEST)
    node, outer = join.this, kind[0] == "LEFT"
    if isinstance(node, exp.Lateral):
        return _view(node, f"#u{number}", place, error, outer=outer)
    if len(node.expressions) != 1:
        raise error(node, "UNNEST takes one list or map", UNNEST)
    alias, offset = node.args.get("alias"), node.args.get("offset")
    names = [column.name for column in alias.columns] if alias is not None else []
    if isinstance(offset, exp.Identifier):  # sqlglot uses the last name for the ordinal number
        names.append(offset.name)
    order = ElementOrder.LAST if offset else ElementOrder.NONE
    if not 1 <= len(names) - bool(offset) <= 2:
        raise error(node, "the columns of UNNEST need names", UNNEST)
    at = place(node)
    called = alias.this.name if alias is not None and alias.this is not None else f"#u{number}"
    call = Elements("unnest", len(names), order, False, outer, at)
    return Lateral(Input(called, tuple(names), at, made=True), node.expressions[0], call)


def _view(
    node: exp.Lateral,
    name: str,
    place: Callable[[Any], TextPosition],
    error: Complain,
    *,
    outer: bool = False,
) -> Lateral:
    made = node.this
    if not isinstance(made, exp.Anonymous) or _function(made) not in GENERATORS:
        raise error(node, "LATERAL takes explode, posexplode or inline", VIEW)
    alias = node.args.get("alias")
    given = [] if alias is None else [column.name for column in alias.columns]
    called = alias.this.name if alias is not None and alias.this is not None else name
    return _generated(made, called, given, place(made), error, outer=outer or bool(node.args.get("outer")))


def _generated(
    made: exp.Anonymous,
    called: str,
    given: list[str],
    at: TextPosition,
    error: Complain,
    *,
    outer: bool = False,
) -> Lateral:
    function = _function(made)
    plain = function.removesuffix("_outer")
    if len(made.expressions) != 1:
        raise error(made, f"{function} takes one list or map", VIEW)
    names = given or {"explode": ["col"], "posexplode": ["pos", "col"]}.get(plain, [])
    least, most = {"explode": (1, 2), "posexplode": (2, 3), "inline": (1, COLUMNS_MAX)}[plain]
    if not least <= len(names) <= most:
        wanted = "a name for each field" if plain == "inline" else f"{least} or {most} names"
        raise error(made, f"the columns of {function} need {wanted}", f"Write {function}(x) t AS a, b.")
    order = ElementOrder.FIRST if plain == "posexplode" else ElementOrder.NONE
    outer = outer or function.endswith("_outer")
    call = Elements(function, len(names), order, plain == "inline", outer, at)
    return Lateral(Input(called, tuple(names), at, made=True), made.expressions[0], call)


def in_items(
    tree: exp.Select, place: Callable[[Any], TextPosition], error: Complain
) -> tuple[exp.Select, list[Lateral]]:
    """Replace generators of several columns in the select list by columns and inputs.

    Raises:
        QueryError: There are two such generators, or one together with GROUP BY or an aggregate.
    """
    if not any(_is_wide(each) for each in tree.expressions):
        return tree, []
    found: list[Lateral] = []
    items: list[exp.Expr] = []
    for node in tree.expressions:
        if not _is_wide(node):
            items.append(node)
            continue
        made = node.this if isinstance(node, exp.Aliases | exp.Alias) else node
        given = [node.alias] if isinstance(node, exp.Alias) else []
        given = [each.name for each in node.expressions] if isinstance(node, exp.Aliases) else given
        if found or tree.args.get("group") or tree.args.get("having"):
            raise error(made, "one generator in a SELECT without GROUP BY", VIEW)
        found.append(_generated(made, "#g", given, place(made), error))
        columns = found[0].one.columns or ()
        items += [
            exp.alias_(exp.column(name, table="#g", quoted=True), name, quoted=True) for name in columns
        ]
    tree = tree.copy()
    tree.set("expressions", items)
    return tree, found


def _is_wide(node: exp.Expr) -> bool:
    made = node.this if isinstance(node, exp.Aliases | exp.Alias) else node
    if not isinstance(made, exp.Anonymous) or _function(made) not in GENERATORS:
        return False
    return isinstance(node, exp.Aliases) or not _function(made).startswith("explode")


def _function(node: exp.Anonymous) -> str:
    return str(node.this).removeprefix(MARK)
