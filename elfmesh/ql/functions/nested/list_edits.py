"""Functions that make a list of other lists and elements: ends, insertions, and lists as sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext, argument, function
from elfmesh.ql.functions.nested.lists import identity, list_argument, over_rows
from elfmesh.ql.values.civil import Ints
from elfmesh.ql.values.columns import list_cuts, null_mask
from elfmesh.ql.values.growth import check_size
from elfmesh.ql.values.types import BIGINT, BOOLEAN, is_list, type_name, wider_type

PADDING_MAX = 10_000
"""Maximum number of nulls between a list and an element that `array_insert` puts behind or before it."""

Elements = list[Any]


def _common(context: CompileContext, call: Call, kinds: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return the common type of elements. Raises QueryError if Spark has none."""
    kind = wider_type(*kinds)
    if kind is None:
        names = " and ".join(map(type_name, kinds))
        raise context.error(call, f"{call.name} mixes {names}", "Convert one of them: CAST(... AS ...).")
    return kind


def _with_element(
    context: CompileContext, call: Call, args: list[Operand], at: int
) -> tuple[Operand, Operand]:
    given = list_argument(context, call, args, 0)
    kind = _common(context, call, (given.type.value_type, args[at].type))
    return convert(given, pa.list_(kind)), convert(args[at], kind)


def joined_lists(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the elements of all lists in their order, null if a list is."""
    lists = [list_argument(context, call, args, at) for at in range(len(args))]
    kind = lists[0].type.value_type
    for each in lists[1:]:
        kind = _common(context, call, (kind, each.type.value_type))

    def kernel(*columns: pa.Array) -> pa.Array:
        check_size(sum(column.nbytes for column in columns))
        lengths = [np.asarray(np.diff(list_cuts(column)), np.int64) for column in columns]
        cuts = np.concatenate([[0], np.cumsum(sum(lengths))])
        order, start = np.argsort(_places(lengths, cuts[:-1])), pa.array(cuts.astype(np.int32))
        null = np.logical_or.reduce([null_mask(column) for column in columns])
        flat = pa.concat_arrays([column.flatten() for column in columns])
        return pa.ListArray.from_arrays(start, flat.take(pa.array(order)), mask=pa.array(null))

    return lift_arrays(pa.list_(kind), kernel, *(convert(each, pa.list_(kind)) for each in lists))


@function("flatten", 1, signature="$(list of lists)", lists=True)
def _flatten(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the elements of all lists of a list; null if one of them is."""
    given = list_argument(context, call, args, 0)
    if not is_list(given.type.value_type):
        raise context.error(call, f"flatten takes a list of lists, not {type_name(given.type)}")

    def kernel(lists: pa.Array) -> pa.Array:
        inner, cuts = lists.flatten(), np.asarray(list_cuts(lists), np.int64)
        ends = np.asarray(list_cuts(inner), np.int64)
        rows = np.repeat(np.arange(len(lists)), np.diff(cuts))
        null = null_mask(lists) | (np.bincount(rows[null_mask(inner)], minlength=len(lists)) > 0)
        return pa.ListArray.from_arrays(
            pa.array(ends[cuts].astype(np.int32)), inner.flatten(), mask=pa.array(null)
        )

    return lift_arrays(given.type.value_type, kernel, given)


@function("array_remove", 2, signature="$(list, x)", lists=True)
def _remove(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the elements that do not equal x; nulls stay, and x is not null."""
    given, element = _with_element(context, call, args, 1)

    def one(values: Elements, value: Any) -> Elements:
        key = identity(value)
        return [each for each in values if each is None or identity(each) != key]

    return over_rows(given.type, one, given, element)


def reversed_list(given: Operand) -> Operand:
    return over_rows(given.type, lambda values: values[::-1], given)


def _places(lengths: Sequence[Ints], starts: Ints) -> Ints:
    """Return the place of each element in the lists that begin at `starts`, list by list."""
    found, before = [], starts
    for each in lengths:
        own = np.cumsum(each) - each
        found.append(np.arange(int(each.sum())) + np.repeat(before - own, each))
        before = before + each
    return np.concatenate(found)


@function("array_append array_prepend", 2, signature="$(list, x)", lists=True)
def _at_end(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given, element = _with_element(context, call, args, 1)
    front = call.name == "array_prepend"

    def one(values: Elements | None, value: Any) -> Elements | None:
        if values is None:
            return None
        return [value, *values] if front else [*values, value]

    return over_rows(given.type, one, given, element, nulls=True)


@function("array_insert", 3, signature="$(list, position, x)", lists=True)
def _insert(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Insert at a position from 1, or from -1, which is the end; nulls fill the space to the list."""
    given, element = _with_element(context, call, args, 2)

    def one(values: Elements | None, position: int | None, value: Any) -> Elements | None:
        if values is None or not position:
            return None
        at = position - 1 if position > 0 else len(values) + position + 1
        if max(at - len(values), -at) > PADDING_MAX:
            return None
        if at < 0:
            return [value, *[None] * -at, *values]
        return [*values[:at], *[None] * (at - len(values)), value, *values[at:]]

    return over_rows(given.type, one, given, argument(context, call, args, 1, BIGINT), element, nulls=True)


@function("get", 2, signature="$(list, index)")
def _get(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = [list_argument(context, call, args, 0), argument(context, call, args, 1, BIGINT)]
    return OPERATORS["element"](context, Call("element", call.args, at=call.at), given)


def _both(context: CompileContext, call: Call, args: list[Operand]) -> list[Operand]:
    given = [list_argument(context, call, args, at) for at in range(2)]
    kind = pa.list_(_common(context, call, (given[0].type.value_type, given[1].type.value_type)))
    return [convert(each, kind) for each in given]


def _first(values: Elements, keep: Callable[[Hashable], bool]) -> Elements:
    seen, found = set[Hashable](), []
    for value in values:
        key = identity(value)
        if key not in seen and keep(key):
            seen.add(key)
            found.append(value)
    return found


@function("array_union array_intersect array_except", 2, signature="$(list, other)", lists=True)
def _sets(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    one, other = _both(context, call, args)

    def union(left: Elements, right: Elements) -> Elements:
        return _first([*left, *right], lambda _key: True)

    def intersect(left: Elements, right: Elements) -> Elements:
        theirs = set(map(identity, right))
        return _first(left, lambda key: key in theirs)

    def without(left: Elements, right: Elements) -> Elements:
        theirs = set(map(identity, right))
        return _first(left, lambda key: key not in theirs)

    steps = {"array_union": union, "array_intersect": intersect, "array_except": without}
    return over_rows(one.type, steps[call.name], one, other)


@function("arrays_overlap", 2, signature="$(list, other)")
def _overlap(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(left: Elements, right: Elements) -> bool | None:
        if {identity(each) for each in left if each is not None} & set(map(identity, right)):
            return True
        return None if left and right and None in [*left, *right] else False

    return over_rows(BOOLEAN, one, *_both(context, call, args))
