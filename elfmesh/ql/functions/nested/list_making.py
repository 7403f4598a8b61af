"""Functions that make lists of plain values: sequences, repeated values, and lists side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import NO_ROWS, Operand, convert, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext, argument, function
from elfmesh.ql.functions.calendar_functions import add_months
from elfmesh.ql.functions.nested.lists import list_argument
from elfmesh.ql.functions.nested.structs import field_names, struct_array
from elfmesh.ql.values.civil import DAY_US, Ints
from elfmesh.ql.values.columns import from_numpy, int_values, list_cuts, null_mask
from elfmesh.ql.values.growth import check_size, check_taken
from elfmesh.ql.values.types import BIGINT, DATE, DURATION, TIMESTAMP, VOID, type_name, wider_type

ELEMENTS_MAX = 1 << 20
"""Maximum number of elements of one list, because a malicious field must not use up the memory."""

MONTH_SEQUENCE = "month sequence"
"""Operator: a sequence of times whose step is a number of months."""

_WORD_BYTES = 8


def _places(lengths: Ints) -> tuple[pa.Array, Ints, Ints]:
    """Return the starts of lists of these lengths, and for each element its list and its position.

    Raises TooLarge.
    """
    check_size(int(lengths.sum()) * _WORD_BYTES)
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return pa.array(cuts.astype(np.int32)), rows, np.arange(len(rows)) - cuts[rows]


def _is_null(operand: Operand) -> bool:
    return operand.constant and not operand.run(NO_ROWS).is_valid


# -- sequence


@function("sequence", 2, 3, signature="$(start, stop[, step])", lists=True)
def _sequence(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the values from start to stop, both inclusive; null if the step does not lead there."""
    kind, by = _sequence_types(context, call, args)
    given = [*(convert(each, kind) for each in args[:2]), *(convert(each, by) for each in args[2:])]
    unit = DAY_US if kind == DATE else 1
    usual = DAY_US if kind == TIMESTAMP else 1

    def kernel(start: pa.Array, stop: pa.Array, *step: pa.Array) -> pa.Array:
        first, last = _integers(start), _integers(stop)
        steps = _integers(step[0]) if step else np.where(first <= last, usual, -usual)
        null = np.logical_or.reduce([null_mask(each) for each in (start, stop, *step)])
        if step and unit > 1:
            null |= steps % unit != 0
            steps = steps // unit
        lengths = _lengths(first, last, steps)
        null |= (lengths == 0) | (lengths > ELEMENTS_MAX)
        cuts, rows, places = _places(np.where(null, 0, lengths))
        values = first[rows] + places * steps[rows]
        flat = from_numpy(values, np.zeros(len(values), np.bool_), kind)
        return pa.ListArray.from_arrays(cuts, flat, mask=pa.array(null))

    if args[2:] and given[2].constant and not _is_null(given[2]):
        _check_step(context, call, kind, given)
    return _made(context, call, kind, kernel, given)


def _made(
    context: CompileContext, call: Call, kind: pa.DataType, kernel: Callable[..., pa.Array],
    given: Sequence[Operand],
) -> Operand:  # fmt: skip
    """Return the lists. Raises QueryError if constants make none."""
    made = lift_arrays(pa.list_(kind), kernel, *given)
    if _is_null(made) and not any(map(_is_null, given)):
        raise context.error(
            call,
            f"no sequence of at most {ELEMENTS_MAX} values leads from this start to this stop",
            "Write sequence(1, 9, 2), or sequence(9, 1, -2).",
        )
    return made


def _month_sequence(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """As `_sequence`, for dates and timestamps; the step is a number of months, each counted from start.

    A day that a month does not have is its last day, so a step does not depend on the one before it.
    """
    kind = wider_type(args[0].type, args[1].type)
    if kind not in (DATE, TIMESTAMP, VOID):
        names = " and ".join(type_name(each.type) for each in args[:2])
        hint = "Write sequence(DATE '2024-01-01', DATE '2024-12-01', INTERVAL '1' MONTH)."
        raise context.error(call, f"a sequence by months takes dates or timestamps, not {names}", hint)
    kind = DATE if kind == VOID else kind

    def kernel(start: pa.Array, stop: pa.Array, step: pa.Array) -> pa.Array:
        first, last, steps = _integers(start), _integers(stop), int_values(step)
        null = null_mask(start) | null_mask(stop)
        lengths = np.where(first == last, 1, _lengths(_month(start), _month(stop), steps))
        away = np.where(first < last, steps <= 0, steps >= 0) & (first != last)
        null |= away | (lengths == 0) | (lengths > ELEMENTS_MAX)
        _, rows, places = _places(np.where(null, 0, lengths))
        values = add_months(start.take(pa.array(rows)), pa.array(places * steps[rows]))
        within = np.where(steps[rows] < 0, _integers(values) >= last[rows], _integers(values) <= last[rows])
        kept = (places == 0) | within
        cuts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(first)))])
        flat = values.filter(pa.array(kept))
        return pa.ListArray.from_arrays(pa.array(cuts.astype(np.int32)), flat, mask=pa.array(null))

    return _made(context, call, kind, kernel, [*(convert(each, kind) for each in args[:2]), args[2]])


OPERATORS[MONTH_SEQUENCE] = _month_sequence


def _month(times: pa.Array) -> Ints:
    """Return the months since the year 0."""
    return int_values(pc.cast(pc.year(times), BIGINT)) * 12 + int_values(pc.cast(pc.month(times), BIGINT))


def _sequence_types(
    context: CompileContext, call: Call, args: list[Operand]
) -> tuple[pa.DataType, pa.DataType]:
    """Return the type of the elements and that of the step. Raises QueryError."""
    kind = wider_type(args[0].type, args[1].type)
    kind = BIGINT if kind == VOID else kind
    if kind not in (BIGINT, DATE, TIMESTAMP):
        names = " and ".join(type_name(each.type) for each in args[:2])
        raise context.error(
            call,
            f"sequence takes two integers, dates or timestamps, not {names}",
            "Convert them: CAST(... AS BIGINT).",
        )
    by, hint = (BIGINT, "Write 2.") if kind == BIGINT else (DURATION, "Write INTERVAL '1' DAY.")
    if args[2:] and args[2].type not in (by, VOID):
        raise context.error(
            call.args[2],
            f"the step of a sequence of {type_name(kind)} is {type_name(args[2].type)}, not {type_name(by)}",
            hint,
        )
    return kind, by


def _check_step(context: CompileContext, call: Call, kind: pa.DataType, given: list[Operand]) -> None:
    """Raise QueryError for a constant step with which no sequence has two values."""
    step = int(_integers(pa.array([given[2].run(NO_ROWS)]))[0])
    if kind == DATE and step % DAY_US:
        raise context.error(
            call.args[2], "the step of a sequence of dates is whole days", "Write INTERVAL '1' DAY."
        )
    if not step and not all(each.constant for each in given):
        raise context.error(call.args[2], "the step of a sequence is 0", "Write 1 or -1.")


def _integers(array: pa.Array) -> Ints:
    """Return the values as integers: days of dates, microseconds of timestamps and intervals."""
    return int_values(pc.cast(array.view(pa.int32()), BIGINT) if array.type == DATE else array)


def _lengths(first: Ints, last: Ints, steps: Ints) -> Ints:
    """Return the numbers of values; 0: the step leads away, and too many: at most `ELEMENTS_MAX` + 1."""
    upward = first <= last
    low, high = np.where(upward, first, last), np.where(upward, last, first)
    distance = high.view(np.uint64) - low.view(np.uint64)  # up to 2^64, modulo which they are computed
    words = steps.view(np.uint64)
    size = np.where(steps < 0, np.uint64(0) - words, words)
    counted = np.minimum(distance // np.maximum(size, np.uint64(1)), np.uint64(ELEMENTS_MAX)) + np.uint64(1)
    leads = np.where(upward, steps > 0, steps < 0)
    return np.where(first == last, 1, np.where(leads, counted.astype(np.int64), 0))


# -- lists of given values


@function("array_repeat", 2, signature="$(x, times)", lists=True)
def _repeated(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return x so many times: no element below 1, null if the number is null or too large."""
    times = argument(context, call, args, 1, BIGINT)

    def kernel(values: pa.Array, counts: pa.Array) -> pa.Array:
        lengths = np.maximum(int_values(counts), 0)
        null = null_mask(counts) | (lengths > ELEMENTS_MAX)
        cuts, rows, _ = _places(np.where(null, 0, lengths))
        places = pa.array(rows)
        check_taken(values, places)
        return pa.ListArray.from_arrays(cuts, values.take(places), mask=pa.array(null))

    if times.constant and not _is_null(times) and times.value() > ELEMENTS_MAX:
        raise context.error(
            call.args[1], f"array_repeat makes at most {ELEMENTS_MAX} elements", "Write a smaller number."
        )
    return lift_arrays(pa.list_(args[0].type), kernel, args[0], times)


@function("arrays_zip", 1, None, signature="$(list, list, ...)", lists=True)
def _zipped(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return structs of the elements at one position, as many as the longest list has."""
    lists = [list_argument(context, call, args, at) for at in range(len(args))]
    names = field_names(context, call)
    kind = pa.struct([(name, each.type.value_type) for name, each in zip(names, lists, strict=True)])

    def kernel(*columns: pa.Array) -> pa.Array:
        null = np.logical_or.reduce([null_mask(column) for column in columns])
        starts = [np.asarray(list_cuts(column), np.int64) for column in columns]
        lengths = [np.diff(each) for each in starts]
        cuts, rows, places = _places(np.where(null, 0, np.maximum.reduce(lengths)))
        parts = [
            column.flatten().take(pa.array(start[rows] + places, mask=places >= length[rows]))
            for column, start, length in zip(columns, starts, lengths, strict=True)
        ]
        return pa.ListArray.from_arrays(cuts, struct_array(parts, kind), mask=pa.array(null))

    return lift_arrays(pa.list_(kind), kernel, *lists)
