"""Effect of a new text on a running job: implements the compatibility table of docs/updates.md.

Compares two statements column by column. Agents evaluate the *record half* of a statement; the root evaluates
the rest. A change of the rest keeps the agents' state. If the record half changes, the agents compute the
windows that are open at the boundary again from the raw logs, so that no published window mixes both texts.

Paper: ELF 3 ("update the filter functions", "user-specified map/reduce functions").
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr, Ref, walk
from elfmesh.ql.plan.relation import JoinRelation, within_of
from elfmesh.ql.plan.statement import Statement
from elfmesh.ql.text.parsing import parse

KEEP, WARM_UP, RESET = "keep", "warm up", "reset"
"""Effects on state: it is kept; it is computed again from the logs of the open windows; it starts empty."""

NEW, REMOVED = "new", "removed"
"""Effects on a column that only one of the texts has, if its state is computed again or not needed."""

_ENDS = frozenset(
    {"outputs", "having", "order", "limit", "offset", "distinct", "repeat", "one_row", "aliases_as_keys"}
)
"""Attributes of a plan that only the root evaluates."""

_NOT_RECORDS = frozenset(
    {
        "text",
        "source",
        "job",
        "labels",
        "plan",
        "origin",
        "offset",
        "parts",
        "relation",
        "scalars",
        "functions",
    }
)
"""Attributes of a statement that do not affect how a record is evaluated."""

COMPARED_MAX = 256


class Difference(Struct, frozen=True):
    """Effect of a new text.

    Attributes:
        state: KEEP, WARM_UP or RESET, the strongest effect of all columns.
        in_place: intervals keep their numbers and results; otherwise numbering restarts at the boundary.
        columns: (name, effect) of the new text's columns, then of the removed ones.
    """

    state: str
    in_place: bool
    same_records: bool
    columns: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]


@lru_cache(maxsize=COMPARED_MAX)
def compare(old: str, new: str) -> Difference:
    """Compare two texts of one job. Raises QueryError if one of them is invalid."""
    before, after = parse(old), parse(new)
    same, reasons = _same_records(before, after), []
    whole = KEEP
    for effect, text, changed in _changes(before, after):
        if changed:
            reasons.append(text)
            whole = max(whole, effect, key=(KEEP, WARM_UP, RESET).index)
    columns = _columns(before, after, whole)
    effects = {effect for _, effect in columns}
    state = whole
    if whole == KEEP and (effects & {WARM_UP, NEW} or (not same and (before.parts or after.parts))):
        state = WARM_UP
    if not reasons and not same:
        reasons.append("what is aggregated has changed")
    if not reasons:
        reasons.append("only the end of the query has changed" if _ended(before, after) else "nothing")
    return Difference(state, _in_place(before, after), same, columns, tuple(reasons))


def same_records(old: str, new: str) -> bool:
    """Return whether both texts evaluate records alike, including the names of partial columns."""
    try:
        return compare(old, new).same_records
    except QueryError:
        return False


@lru_cache(maxsize=COMPARED_MAX)
def same_state(old: str, new: str) -> bool:
    """Return whether the states of both texts can be merged, so that open sessions can continue."""
    return old == new or _same_groups(parse(old), parse(new))


def _without_assumptions(statement: Statement) -> Statement:
    """Return a statement without ASSUME and the fields that agents read; no state contains either."""
    parts = tuple(map(_without_assumptions, statement.parts))
    return replace(statement, assumes=(), fields=(), parts=parts)


def _same_groups(before: Statement, after: Statement) -> bool:
    before, after = _without_assumptions(before), _without_assumptions(after)
    kinds = [None if join is None else join.kind for join in map(_within_of, (before, after))]
    if len(before.parts) != len(after.parts) or kinds[0] != kinds[1]:
        return False
    return _same_state(before, after) and all(map(_same_state, before.parts, after.parts))


def _within_of(statement: Statement) -> JoinRelation | None:
    return within_of(statement.relation)


def _in_place(before: Statement, after: Statement) -> bool:
    slides = [None if each.window is None else each.window.slide_us for each in (before, after)]
    return (
        _streams(before) == _streams(after)
        and slides[0] == slides[1]
        and _option(before, "partitions") == _option(after, "partitions")
    )


def _same_records(before: Statement, after: Statement) -> bool:
    if any(_option(before, name) != _option(after, name) for name in ("lateness_us", "partitions", "tables")):
        return False
    if not _same_state(before, after):
        return False
    pairs = list(zip(before.parts, after.parts, strict=False))
    # The parts that an agent computes depend on its labels, so the labels are compared.
    same = all(one.labels == other.labels and _same_records(one, other) for one, other in pairs)
    return len(before.parts) == len(after.parts) and same


def _same_state(before: Statement, after: Statement) -> bool:
    return _equal(before, after, _NOT_RECORDS) and _equal(before.plan, after.plan, _ENDS)


def _equal(before: Struct, after: Struct, excluded: frozenset[str]) -> bool:
    """Return whether all fields that are not excluded are equal.

    `msgspec.structs.fields` would evaluate every annotation again, which took a tenth of an update.
    """
    names = [name for name in before.__struct_fields__ if name not in excluded]
    return all(getattr(before, name) == getattr(after, name) for name in names)


def _ended(before: Statement, after: Statement) -> bool:
    if before.parts or after.parts:  # the parts are equal, so only the root's half differs
        return before.text != after.text
    return any(getattr(before.plan, name) != getattr(after.plan, name) for name in sorted(_ENDS))


def _changes(before: Statement, after: Statement) -> list[tuple[str, str, bool]]:
    windows = [
        None
        if each.window is None
        else (
            each.window.spans_intervals and each.window.kind,
            each.window.column,
            each.window.size_us,
            each.window.slide_us,
            each.window.rows,
            each.window.step,
            each.window.within_us,
        )
        for each in (before, after)
    ]
    standbys = ("standby_us", "standbys", "standby_across")
    replicas = ("replicas", "replicas_across")
    waiting = ("deadline_us", "on_straggler", "horizon_us")
    partitions = [_option(each, "partitions") for each in (before, after)]
    return [
        (RESET, "another stream", _streams(before) != _streams(after)),
        (RESET, "another window", windows[0] != windows[1]),
        (RESET, "other group keys", set(before.plan.keys) != set(after.plan.keys)),
        (RESET, "other punctuations", before.plan.seal != after.plan.seal),
        (RESET, "other open groups", after.spans_intervals and not _same_groups(before, after)),
        (RESET, "another number of partitions", partitions[0] != partitions[1]),
        (WARM_UP, "another filter", before.plan.where != after.plan.where),
        (WARM_UP, "another version of a table", _option(before, "tables") != _option(after, "tables")),
        (KEEP, "another lateness", _option(before, "lateness_us") != _option(after, "lateness_us")),
        (KEEP, "other assumptions", before.assumes != after.assumes),
        (KEEP, "other labels", before.labels != after.labels),
        (KEEP, "other waiting rules", any(_option(before, n) != _option(after, n) for n in waiting)),
        (KEEP, "other replicas", any(_option(before, n) != _option(after, n) for n in replicas)),
        (KEEP, "other standbys", any(_option(before, n) != _option(after, n) for n in standbys)),
        (KEEP, "other paths", _paths(before) != _paths(after)),
        (KEEP, "another period of early rows", _option(before, "early_us") != _option(after, "early_us")),
        (KEEP, "whether partials are kept", _option(before, "partials") != _option(after, "partials")),
    ]


def _paths(statement: Statement) -> tuple[Any, ...]:
    return tuple(_option(statement, name) for name in ("paths", "across", "copies", "cost"))


def _columns(before: Statement, after: Statement, whole: str) -> tuple[tuple[str, str], ...]:
    if before.parts or after.parts:  # the relation evaluates their rows
        return ()
    known = {one for _, expr in before.plan.outputs for one in _made_of(expr, before)}
    known |= {one for at in range(len(before.plan.keys)) for one in _made_of(Ref(f"k{at}"), before)}
    names = {name for name, _ in before.plan.outputs}
    found = []
    for name, expr in after.plan.outputs:
        effect = whole
        if whole == KEEP and not _made_of(expr, after) <= known:
            effect = WARM_UP if name in names else NEW
        found.append((name, effect))
    there = {name for name, _ in after.plan.outputs}
    gone = [(name, REMOVED) for name, _ in before.plan.outputs if name not in there]
    return (*found, *gone)


def _made_of(expr: Expr, statement: Statement) -> frozenset[Any]:
    plan, made = statement.plan, set[Any]()
    aggregates = statement.tables[0].aggregates if statement.tables else {}
    distincts = {one.name: ("distinct", one.args, one.where) for one in plan.distincts}
    for node in walk(expr):
        if not isinstance(node, Ref):
            continue
        if node.name in aggregates:
            kind, column = aggregates[node.name][:2]
            inputs = () if column is None else (column,) if isinstance(column, str) else column
            made.add((kind, tuple(plan.values[int(name[1:])] for name in inputs)))
        elif node.name in distincts:
            made.add(distincts[node.name])
        elif node.name[1:].isdigit() and node.name[0] == "k":
            made.add(("key", plan.keys[int(node.name[1:])]))
        else:
            made.add(("other", node.name))
    return frozenset(made)


def _option(statement: Statement, name: str) -> Any:
    return None if statement.job is None else getattr(statement.job, name)


def _streams(statement: Statement) -> frozenset[str]:
    return frozenset(part.stream for part in statement.parts) or frozenset({statement.stream})
