"""Window of a statement, and the time column of each stream.

Any GROUP BY of the statement may define the window. Its column is a field of a stream, which subqueries may
pass on. A second window, and a time column that a subquery computes, raise QueryError.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import FieldRef, Literal, WindowBound, WindowCall
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.draft_types import Draft, SelectDraft, StreamRead, UnionDraft
from elfmesh.ql.plan.statement import ONE_INTERVAL_US, ROWS, WindowSpec, is_beside
from elfmesh.ql.plan.windows import TIME_COLUMN

Times = dict[int | str, str]
"""Time columns by the id of an input, and by the name of a stream."""


def window_of(
    origin: SourceText, drafts: Sequence[Draft], every: WindowSpec | None, times: Times
) -> WindowSpec | None:
    """Return the window of a statement, from any of its GROUP BYs or from EVERY; fills `times`."""
    found: WindowCall | None = None
    for draft in drafts:
        for select in selects(draft):
            for call in _calls(select):
                if found is not None and _shape(call) != _shape(found):
                    raise origin.error(
                        "a statement has one window, in all its queries",
                        call.at,
                        "Write one job for each window.",
                    )
                found = call
                _assign(origin, call, call.column, select, times)
    if found is None:
        return every
    if found.kind == ROWS:
        whole = WindowSpec(ROWS, TIME_COLUMN, ONE_INTERVAL_US, ONE_INTERVAL_US) if every is None else every
        return replace(whole, kind=ROWS, rows=found.rows, step=found.step)
    return WindowSpec(found.kind, TIME_COLUMN, found.size_us, found.slide_us)


def _shape(call: WindowCall) -> tuple[str, int, int, int, int]:
    return call.kind, call.size_us, call.slide_us, call.rows, call.step


def selects(draft: Draft) -> list[SelectDraft]:
    if isinstance(draft, UnionDraft):
        return [each for source in draft.sources for each in selects(source)]
    below = [read for read in draft.reads if isinstance(read, SelectDraft | UnionDraft)]
    below += [each for each, _ in draft.nested]
    return [draft, *(each for read in below for each in selects(read))]


def _calls(draft: SelectDraft) -> list[WindowCall]:
    items = [expr for _, expr in draft.select.items]
    found = []
    for expr in draft.select.group or []:
        given = expr
        if isinstance(expr, Literal) and isinstance(expr.value, int) and 1 <= expr.value <= len(items):
            given = items[expr.value - 1]
        found += [node for node in (given, *given.children) if isinstance(node, WindowCall)]
    return found


def _assign(origin: SourceText, call: WindowCall, column: str, draft: SelectDraft, times: Times) -> None:
    """Find the streams that a window's time column belongs to, through the subqueries that pass it on."""
    inputs = draft.scope.inputs
    first, _, rest = column.partition(".")
    named = [at for at, one in enumerate(inputs) if rest and one.answers_to(first)]
    for at in named or range(len(inputs)):
        name, read = rest if named else column, draft.reads[at]
        if isinstance(read, StreamRead) and is_beside(read.stream):
            continue  # an interval reads one result, whatever times its rows have
        if isinstance(read, StreamRead):
            times[id(inputs[at])] = times[read.stream] = name
        elif isinstance(read, SelectDraft | UnionDraft):
            _trace(origin, call, name, read, times)


def _trace(origin: SourceText, call: WindowCall, name: str, draft: Draft, times: Times) -> None:
    at = next((at for at, column in enumerate(draft.columns) if column.lower() == name.lower()), None)
    if at is None:
        raise origin.error(
            f"the window's column {name} is not selected in the subquery", call.at, "Select it."
        )
    if isinstance(draft, UnionDraft):
        for source in draft.sources:
            _trace(origin, call, source.columns[at], source, times)
        return
    expr = draft.select.items[at][1]
    if isinstance(expr, FieldRef):
        _assign(origin, call, expr.path, draft, times)
    elif not isinstance(expr, WindowBound):
        raise origin.error(
            f"the window's column {name} is computed in a subquery", call.at,
            "Write TUMBLE over a field of the stream, in the query that reads it.",
        )  # fmt: skip
