"""What a changed text means for a running job: the compatibility table of docs/updates.md, computed.

Compares two statements column by column. Agents evaluate the *record half* of a statement, the root evaluates
its end. The end may change while the agents keep their state. Another record half is evaluated again from the
raw logs of the windows that are open at the boundary, so that no published window mixes the two.

Paper: ELF 3 ("update the filter functions", "user-specified map/reduce functions").
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr, Ref, walk
from elfmesh.ql.plan.statement import Plan, Statement
from elfmesh.ql.text.parsing import parse

KEEP, WARM_UP, RESET = "keep", "warm up", "reset"
"""Effects on state: it goes on; it is made again from the logs of the open windows; it begins again."""

NEW, REMOVED = "new", "removed"
"""Effects on a column that only one of the two texts has, where its state is made again or not needed."""

_ENDS = frozenset(
    {"outputs", "having", "order", "limit", "offset", "distinct", "repeat", "one_row", "aliases_as_keys"}
)
"""Of a plan, what only the root evaluates."""

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
"""Of a statement, what does not say how a record is evaluated."""

COMPARED_MAX = 256


@dataclass(frozen=True, slots=True)
class Difference:
    """What applying a new text does.

    Attributes:
        state: KEEP, WARM_UP or RESET, the worst of all columns.
        in_place: intervals keep their numbers and results; otherwise they begin again at the boundary.
        columns: (name, effect) of the new text's columns, then of those that go.
    """

    state: str
    in_place: bool
    same_records: bool
    columns: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]


@lru_cache(maxsize=COMPARED_MAX)
def compare(old: str, new: str) -> Difference:
    """The difference of two texts of one job. Raises QueryError: one of them is wrong."""
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
    """Whether agents evaluate records alike by both texts, down to the names of partial columns."""
    try:
        return compare(old, new).same_records
    except QueryError:
        return False


@lru_cache(maxsize=COMPARED_MAX)
def same_state(old: str, new: str) -> bool:
    """Whether what both texts reduce records to may be merged: their open sessions are the same ones."""
    return old == new or _same_state(parse(old), parse(new))


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
    # Which parts an agent computes is part of what it does to records: their labels count.
    same = all(one.labels == other.labels and _same_records(one, other) for one, other in pairs)
    return len(before.parts) == len(after.parts) and same


def _same_state(before: Statement, after: Statement) -> bool:
    for each in fields(Statement):
        if each.name not in _NOT_RECORDS and getattr(before, each.name) != getattr(after, each.name):
            return False
    return all(
        getattr(before.plan, each.name) == getattr(after.plan, each.name)
        for each in fields(Plan)
        if each.name not in _ENDS
    )


def _ended(before: Statement, after: Statement) -> bool:
    if before.parts or after.parts:  # the parts are the same: whatever differs is evaluated at the root
        return before.text != after.text
    return any(getattr(before.plan, name) != getattr(after.plan, name) for name in sorted(_ENDS))


def _changes(before: Statement, after: Statement) -> list[tuple[str, str, bool]]:
    windows = [
        None
        if each.window is None
        else (each.window.is_session, each.window.column, each.window.size_us, each.window.slide_us)
        for each in (before, after)
    ]
    waiting = ("deadline_us", "on_straggler", "horizon_us")
    partitions = [_option(each, "partitions") for each in (before, after)]
    return [
        (RESET, "another stream", _streams(before) != _streams(after)),
        (RESET, "another window", windows[0] != windows[1]),
        (RESET, "other group keys", set(before.plan.keys) != set(after.plan.keys)),
        (RESET, "other open sessions", after.has_sessions and not _same_state(before, after)),
        (RESET, "another number of partitions", partitions[0] != partitions[1]),
        (WARM_UP, "another filter", before.plan.where != after.plan.where),
        (WARM_UP, "another version of a table", _option(before, "tables") != _option(after, "tables")),
        (KEEP, "another lateness", _option(before, "lateness_us") != _option(after, "lateness_us")),
        (KEEP, "other labels", before.labels != after.labels),
        (KEEP, "other waiting rules", any(_option(before, n) != _option(after, n) for n in waiting)),
        (KEEP, "another number of replicas", _option(before, "replicas") != _option(after, "replicas")),
        (KEEP, "whether partials are kept", _option(before, "partials") != _option(after, "partials")),
    ]


def _columns(before: Statement, after: Statement, whole: str) -> tuple[tuple[str, str], ...]:
    if before.parts or after.parts:  # what becomes of their rows is the relation's business
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
