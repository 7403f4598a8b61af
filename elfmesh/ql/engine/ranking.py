"""Window functions over the rows of an interval: row_number, rank, lag and others, and frames of aggregates.

Rows with equal PARTITION BY values form a partition. They are ordered by ORDER BY, then by all columns, so
equal tables always give equal numbers. (Spark leaves the order of ties open.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from elfmesh.arrow_kernels import pc
from elfmesh.ql.engine.finalise import sorted_rows
from elfmesh.ql.expressions.nodes import Frame, Literal, Over
from elfmesh.ql.plan.statement import OrderItem
from elfmesh.ql.values.columns import float_values, null_mask
from elfmesh.ql.values.joining import row_codes, taken
from elfmesh.ql.values.types import BIGINT, DATE, DOUBLE, TIMESTAMP, VOID, type_name

Ints = npt.NDArray[np.int64]
DAY_US = 86_400_000_000
RUNNING = Frame(False, None, 0)
"""Default frame with ORDER BY: up to the current row and its peers."""


class Ranking(Struct, frozen=True):
    """Order of rows for OVER: per position the row, the bounds of its partition and of its peers."""

    rows: Ints
    start: Ints
    end: Ints
    peers: Ints
    peers_end: Ints


def ranking(
    over: Over, columns: Sequence[pa.Array], rows: int, order: Sequence[pa.Array], partition: Ints
) -> Ranking:
    """Order the rows; all `columns` break ties. Cost: one sort of the rows."""
    items = [
        OrderItem(expr, descending, nulls_first)
        for expr, (descending, nulls_first) in zip(over.order, over.directions, strict=True)
    ]
    first = OrderItem(Literal("null", None), False, True)
    wanted = [(pa.array(partition), first), *zip(order, items, strict=True)]
    ranked = sorted_rows(wanted, columns, rows)
    begins = _changes(partition[ranked])
    news = begins | _changes(row_codes(order, [True] * len(order), rows)[ranked])
    return Ranking(ranked, *_stretches(begins), *_stretches(news))


def over_rows(
    over: Over, columns: Sequence[pa.Array], rows: int, evaluate: Callable[..., pa.Array]
) -> pa.Array:
    """Return the value of a function for every row.

    Args:
        over: the function; its operands are columns.
        columns: all columns of the rows, which break ties.
        rows: number of rows.
        evaluate: returns the array of an operand; with a function, converted to the type of its value.
    """
    order = [evaluate(expr) for expr in over.order]
    partition = row_codes([evaluate(expr) for expr in over.partition], [True] * len(over.partition), rows)
    ranked = ranking(over, columns, rows, order, partition)
    if over.args and over.kind != "ntile":
        values = evaluate(over.args[0])
        shifted = over.kind in ("lag", "lead")
        inside = _shifted(over, ranked, values) if shifted else _framed(over, ranked, order, values)
        places = np.empty(rows, dtype=np.int64)
        places[ranked.rows] = (
            np.where(inside >= 0, ranked.rows[np.maximum(inside, 0)], -1) if rows else inside
        )
        found = taken(values, places)
        if not shifted:
            return found
        return pc.if_else(pa.array(places < 0), evaluate(over.args[2], over), found)
    numbers = _numbers(over, ranked)
    values = np.empty(rows, dtype=numbers.dtype)
    values[ranked.rows] = numbers
    return pa.array(values)


def bounds(over: Over, ranked: Ranking, order: Sequence[pa.Array]) -> tuple[Ints, Ints]:
    """Return for each position the bounds of its row's frame.

    Raises TypeError for values without a distance.
    """
    frame, count = over.frame or RUNNING, len(ranked.rows)
    place = np.arange(count, dtype=np.int64)
    if frame.rows:
        first = ranked.start if frame.first is None else place + int(frame.first)
        behind = ranked.end if frame.last is None else place + int(frame.last) + 1
    else:
        first = ranked.start if frame.first is None else ranked.peers
        behind = ranked.end if frame.last is None else ranked.peers_end
        if frame.first or frame.last:
            first, behind = _by_value(frame, over.directions[0][0], ranked, order[0], (first, behind))
    first = np.clip(first, ranked.start, ranked.end)
    return first, np.maximum(np.clip(behind, ranked.start, ranked.end), first)


def _by_value(
    frame: Frame, descending: bool, ranked: Ranking, order: pa.Array, known: tuple[Ints, Ints]
) -> tuple[Ints, Ints]:
    values = _distances(order, frame)[ranked.rows]
    values = -values if descending else values
    missing = null_mask(order)[ranked.rows]
    first, behind = known[0].copy(), known[1].copy()
    for start in np.unique(ranked.start):
        end = int(ranked.end[start])
        inside = start + np.flatnonzero(~missing[start:end])
        if not len(inside):
            continue
        low, some = inside[0], values[inside]
        if frame.first:
            first[inside] = low + np.searchsorted(some, some + frame.first, "left")
        if frame.last:
            behind[inside] = low + np.searchsorted(some, some + frame.last, "right")
    return first, behind


def _distances(order: pa.Array, frame: Frame) -> Ints | npt.NDArray[np.float64]:
    """Return values that distances can be added to: numbers, or microseconds; nulls have arbitrary values."""
    if order.type == VOID:
        return np.zeros(len(order), dtype=np.int64)
    if order.type == DOUBLE and not frame.timed:
        return float_values(order)
    if order.type == BIGINT and not frame.timed:
        return np.asarray(order.fill_null(0).to_numpy())
    if order.type == TIMESTAMP and frame.timed:
        return np.asarray(order.view(pa.int64()).fill_null(0).to_numpy())
    if order.type == DATE:
        days = np.asarray(order.view(pa.int32()).fill_null(0).to_numpy()).astype(np.int64)
        return days * DAY_US if frame.timed else days
    what = "an INTERVAL" if frame.timed else "a number"
    raise TypeError(f"RANGE with {what} is not for {type_name(order.type)}")


def _framed(over: Over, ranked: Ranking, order: Sequence[pa.Array], values: pa.Array) -> Ints:
    """Return for each position the position of the value of first, last or nth_value; -1 for none."""
    first, behind = bounds(over, ranked, order)
    step = 0
    if over.kind == "nth_value":
        option = over.args[1]
        assert isinstance(option, Literal)
        assert isinstance(option.value, int)
        step = option.value - 1
    if _ignores_nulls(over):
        present = ~null_mask(values)[ranked.rows]
        seen = np.concatenate([[0], np.cumsum(present)])
        places = np.append(np.flatnonzero(present), len(ranked.rows))
        if not over.kind.startswith("last"):
            found = places[np.minimum(seen[first] + step, len(places) - 1)]
            return np.where(found < behind, found, -1)
        found = places[np.maximum(seen[behind] - 1, 0)]
        return np.where((seen[behind] > seen[first]) & (found >= first), found, -1)
    found = behind - 1 if over.kind.startswith("last") else first + step
    return np.where((found >= first) & (found < behind), found, -1)


def _numbers(over: Over, ranked: Ranking) -> Ints | npt.NDArray[np.float64]:
    place = np.arange(len(ranked.rows), dtype=np.int64)
    size = ranked.end - ranked.start
    match over.kind:
        case "row_number":
            return place - ranked.start + 1
        case "rank":
            return ranked.peers - ranked.start + 1
        case "percent_rank":
            return np.where(size > 1, (ranked.peers - ranked.start) / np.maximum(size - 1, 1), 0.0)
        case "cume_dist":
            return np.asarray((ranked.peers_end - ranked.start) / np.maximum(size, 1))
        case "ntile":
            (count,) = over.args
            assert isinstance(count, Literal)
            assert isinstance(count.value, int)
            return _tiles(place - ranked.start, size, count.value)
    seen = np.cumsum(ranked.peers == place)
    return np.asarray(seen - seen[ranked.start] + 1) if len(place) else place


def _tiles(at: Ints, size: Ints, count: int) -> Ints:
    """Return the part (ntile) of each position; the first parts are larger by one if needed."""
    small, larger = size // count, size % count
    edge = larger * (small + 1)
    return np.where(at < edge, at // (small + 1), larger + (at - edge) // np.maximum(small, 1)) + 1


def _changes(codes: Ints) -> npt.NDArray[np.bool_]:
    changes = np.ones(len(codes), dtype=np.bool_)
    changes[1:] = codes[1:] != codes[:-1]
    return changes


def _stretches(begins: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    starts = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    return starts[number], np.append(starts[1:], len(begins))[number] if len(begins) else starts


def _shifted(over: Over, ranked: Ranking, values: pa.Array) -> Ints:
    """Return the position that many rows before (lag) or after (lead) in the partition, or -1."""
    step = over.args[1]
    assert isinstance(step, Literal)
    assert isinstance(step.value, int)
    place, ahead = np.arange(len(ranked.rows), dtype=np.int64), step.value
    ahead = -ahead if over.kind == "lag" else ahead
    wanted = place + ahead
    if ahead and _ignores_nulls(over):
        present = ~null_mask(values)[ranked.rows]
        seen = np.concatenate([[0], np.cumsum(present)])
        # Count the values that exist before this row, or after it.
        number = seen[:-1] + ahead if ahead < 0 else seen[1:] + ahead - 1
        found = np.flatnonzero(present)
        inside = (number >= 0) & (number < len(found))
        wanted = np.where(inside, np.append(found, 0)[np.where(inside, number, -1)], -1)
    return np.where((wanted >= ranked.start) & (wanted < ranked.end), wanted, -1)


def _ignores_nulls(over: Over) -> bool:
    at = {"lag": 3, "lead": 3, "nth_value": 2}.get(over.kind, 1)
    flag = over.args[at] if len(over.args) > at else None
    return isinstance(flag, Literal) and flag.value is True
