"""RESAMPLE: its columns, and how far it looks back.

A neighbour of a grid point may lie before the interval. The window is then widened at its front by MAX GAP,
in whole intervals, and only the rows of its last interval are shown, so no state passes from one record to
the next. This needs a SELECT whose rows each belong to one time; others are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Duration, Expr, FieldRef, Literal, WindowBound, walk
from elfmesh.ql.expressions.resampling import ResampleClause
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.lowering import is_part
from elfmesh.ql.plan.draft_types import Draft, SelectDraft, StreamRead
from elfmesh.ql.plan.relation import Resampled
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import early_expressions, late_expressions
from elfmesh.ql.plan.statement import ONE_INTERVAL_US, WindowSpec
from elfmesh.ql.plan.windowing import Times, selects
from elfmesh.ql.plan.windows import TIME_COLUMN
from elfmesh.units import format_duration

_ALONE = "Write one SELECT over one stream, without OVER, subqueries and DISTINCT, or leave MAX GAP out."


def looked_back(
    origin: SourceText, drafts: Sequence[Draft], window: WindowSpec | None, times: Times
) -> WindowSpec | None:
    """Return the window with the look-back of a RESAMPLE that has MAX GAP. Raises QueryError."""
    found = [each for draft in drafts for each in selects(draft) if each.resample is not None]
    if (
        _is_whole(window)
        or window is None
        or not found
        or found[0].resample is None
        or not found[0].resample.gap_us
    ):
        return window
    draft, clause = found[0], found[0].resample
    if window.kind != "tumble":
        raise origin.error(
            "RESAMPLE with MAX GAP looks back itself", clause.at, "Write TUMBLE, or EVERY of the job."
        )
    step, slide = format_duration(clause.every_us), format_duration(window.slide_us)
    if window.slide_us % clause.every_us:
        raise origin.error(
            f"EVERY {step} does not divide the interval of {slide}", clause.at, "Make it shorter."
        )
    outer = drafts[0]
    alone = (
        len(drafts) == 1 and isinstance(outer, SelectDraft) and outer.reads == [draft] and not outer.nested
    )
    if not alone or not is_part(draft) or draft.select.distinct:
        raise origin.error(
            "MAX GAP looks back into earlier intervals, which this query cannot", clause.at, _ALONE
        )
    _check_time(origin, draft, clause, window, times)
    back = -(-clause.gap_us // window.slide_us) * window.slide_us
    return replace(window, kind="hop", size_us=window.size_us + back)


def _check_time(
    origin: SourceText, draft: SelectDraft, clause: ResampleClause, window: WindowSpec, times: Times
) -> None:
    """Raise QueryError unless each row belongs to one bin of the event time, inside one interval."""
    bound = next(
        (
            node
            for expr in (*early_expressions(draft.select), *late_expressions(draft.select))
            for node in walk(expr)
            if isinstance(node, WindowBound)
        ),
        None,
    )
    if bound is not None:
        raise origin.error(
            f"window_{bound.side} is that of the look-back", bound.at, "Leave it out, or leave MAX GAP out."
        )
    (read,) = draft.reads
    assert isinstance(read, StreamRead)
    time = times.get(id(draft.scope.inputs[0])) or times.get(read.stream, TIME_COLUMN)
    at = _place(draft.columns, clause.column)
    value = None if at is None else draft.select.items[at][1]
    size = _bin_us(value, time)
    grouped = draft.select.group
    named = draft.columns[at].lower() if at is not None else ""
    keyed = grouped is None or any(
        expr == value
        or (isinstance(expr, FieldRef) and expr.path.lower() == named)
        or (isinstance(expr, Literal) and expr.value == (at or 0) + 1)
        for expr in grouped
    )
    if value is None or size is None or not keyed:
        every = format_duration(clause.every_us)
        hint = f"Write date_bin(INTERVAL '{every}', {time}) AS {clause.column}, and group by it."
        text = f"MAX GAP looks back by {clause.column}, which is not a bin of the event time {time}"
        raise origin.error(text, clause.at, hint)
    if size and window.slide_us % size:
        bins, slide = format_duration(size), format_duration(window.slide_us)
        text = f"bins of {bins} do not divide the interval of {slide}"
        raise origin.error(text, clause.at, "Make them shorter.")


def _bin_us(value: Expr | None, time: str) -> int | None:
    """Return the size of the bins that a column has of the event time, 0: the time itself; None: neither."""
    if isinstance(value, FieldRef):
        return 0 if value.path == time else None
    if not isinstance(value, Call) or value.name != "date_bin" or len(value.args) != 2:
        return None
    size, of = value.args
    return size.us if isinstance(size, Duration) and isinstance(of, FieldRef) and of.path == time else None


def resampled(
    origin: SourceText, draft: SelectDraft, source: Relation, window: WindowSpec | None
) -> Resampled:
    """Return the rows of a SELECT with those that RESAMPLE adds. Raises QueryError for an unknown column."""
    clause = draft.resample
    assert clause is not None
    columns = source.columns

    def named(name: str, what: str) -> str:
        at = _place(columns, name)
        if at is None:
            raise origin.error(
                f"{name} of {what} is not a column of the SELECT", clause.at, f"It has {', '.join(columns)}."
            )
        return columns[at]

    column = named(clause.column, "RESAMPLE")
    partition = tuple(named(name, "PARTITION BY") for name in clause.partition)
    fills = tuple(replace(fill, column=named(fill.column, "FILL")) for fill in clause.fills)
    for fill in fills:
        if fill.column in (column, *partition) or sum(fill.column == each.column for each in fills) > 1:
            raise _filled_twice(origin, fill.column, fill.column in (column, *partition), clause)
    if column in partition or len({*partition}) < len(partition):
        raise origin.error(
            "PARTITION BY has a column twice, or the column of RESAMPLE", clause.at, "Remove it."
        )
    whole = replace(clause, column=column, partition=partition, fills=fills)
    bounded = window is not None and not _is_whole(window)
    shown_us = window.slide_us if window is not None and bounded and clause.gap_us else 0
    return Resampled(columns, clause.at, source, whole, shown_us, bounded)


def _is_whole(window: WindowSpec | None) -> bool:
    """Return whether the one interval of a job contains all its records, as that of a query to the fleet."""
    return window is not None and window.size_us == ONE_INTERVAL_US


def _filled_twice(origin: SourceText, column: str, key: bool, clause: ResampleClause) -> QueryError:
    why = "is known in every row" if key else "is filled twice"
    return origin.error(f"{column} {why}", clause.at, "Remove it from FILL.")


def _place(columns: Sequence[str], name: str) -> int | None:
    return next((at for at, column in enumerate(columns) if column.lower() == name.lower()), None)
