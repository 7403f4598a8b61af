"""Functions that take lambda functions: they evaluate a body over the elements of lists and maps.

A body runs over the elements of all rows at once. `reduce` needs the result of a step for the next one: each
step evaluates the body for one element of each list. The comparator of `array_sort` compares many pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.arrow_kernels import pc
from elfmesh.python_values import from_python, python_values
from elfmesh.ql.expressions.nodes import Call, Lambda
from elfmesh.ql.expressions.operand import LambdaBody, Operand, convert, lift_arrays
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.expressions.registry import CompileContext, function
from elfmesh.ql.functions.nested.lists import ascending, identity, list_argument, over_rows
from elfmesh.ql.functions.nested.maps import Pairs, map_argument, plain_key, unique_pairs
from elfmesh.ql.values.civil import Ints
from elfmesh.ql.values.columns import (
    Bools,
    bool_values,
    entries_of,
    from_numpy,
    int_values,
    list_cuts,
    null_mask,
)
from elfmesh.ql.values.growth import check_steps
from elfmesh.ql.values.types import BIGINT, BOOLEAN, is_nested, type_name, wider_type

Arrays = Sequence[pa.Array]


class _Elements:
    """Elements of a list column: `flat`, and for each element its row and its position, from 0."""

    def __init__(self, lists: pa.Array) -> None:
        self.null = null_mask(lists)
        self.flat = lists.flatten()
        self.cuts = list_cuts(lists)
        starts = np.asarray(self.cuts, np.int64)
        self.starts, self.lengths = starts[:-1], np.diff(starts)
        self.rows = np.repeat(np.arange(len(lists)), self.lengths)
        self.positions = np.arange(len(self.rows)) - self.starts[self.rows]

    def lists(self, values: pa.Array) -> pa.Array:
        """Return the values of all elements as lists, null where the given list is."""
        return pa.ListArray.from_arrays(self.cuts, values, mask=pa.array(self.null))

    def chosen(self, keep: Bools) -> tuple[pa.Array, pa.Array]:
        """Return the starts of the lists of some of the elements, and these elements."""
        lengths = np.bincount(self.rows[keep], minlength=len(self.null))
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.array(cuts), self.flat.filter(pa.array(keep))


def _predicate(context: CompileContext, call: Call, *kinds: pa.DataType) -> LambdaBody:
    body = context.body(call.args[1], *kinds)
    function = call.args[1]
    assert isinstance(function, Lambda)
    return replace(body, operand=condition_operand(context, function.body, body.operand))


# -- lists


@function(
    "transform", 2, signature="$(list, x -> ...) or $(list, (x, i) -> ...)", lists=True, lambdas={1: (1, 2)}
)
def _transform(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = list_argument(context, call, args, 0)
    body = context.body(call.args[1], values.type.value_type, BIGINT)

    def kernel(lists: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(lists)
        return each.lists(body.over([each.flat, pa.array(each.positions)], outer, pa.array(each.rows)))

    return lift_arrays(pa.list_(body.operand.type), kernel, values, *body.outer)


@function("filter", 2, signature="$(list, x -> condition)", lists=True, lambdas={1: (1, 2)})
def _filter(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = list_argument(context, call, args, 0)
    body = _predicate(context, call, values.type.value_type, BIGINT)

    def kernel(lists: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(lists)
        found = body.over([each.flat, pa.array(each.positions)], outer, pa.array(each.rows))
        return pa.ListArray.from_arrays(*each.chosen(bool_values(found)), mask=pa.array(each.null))

    return lift_arrays(values.type, kernel, values, *body.outer)


@function("exists forall", 2, signature="$(list, x -> condition)", lambdas={1: (1,)})
def _quantified(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Decide by the first element that is TRUE (`exists`) or FALSE (`forall`); else null if one is null."""
    values = list_argument(context, call, args, 0)
    body = _predicate(context, call, values.type.value_type)
    exists = call.name == "exists"

    def kernel(lists: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(lists)
        found = body.over([each.flat], outer, pa.array(each.rows))
        null = null_mask(found)
        decides = ~null & (bool_values(found) == exists)
        decided = np.bincount(each.rows[decides], minlength=len(lists)) > 0
        unknown = np.bincount(each.rows[null], minlength=len(lists)) > 0
        return from_numpy(decided == exists, each.null | (~decided & unknown), BOOLEAN)

    return lift_arrays(BOOLEAN, kernel, values, *body.outer)


@function(
    "reduce aggregate", 3, 4, signature="$(list, start, (acc, x) -> ...[, acc -> ...])",
    lambdas={2: (2,), 3: (1,)},
)  # fmt: skip
def _reduce(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values, start = list_argument(context, call, args, 0), args[1]
    merge = context.body(call.args[2], start.type, values.type.value_type)
    if merge.operand.type != start.type:
        kind = wider_type(start.type, merge.operand.type) or start.type
        merge = context.body(call.args[2], kind, values.type.value_type)
        if wider_type(kind, merge.operand.type) != kind:
            kinds = f"{type_name(start.type)} and its lambda function returns {type_name(merge.operand.type)}"
            hint = f"Write the start as CAST(... AS {type_name(merge.operand.type)})."
            raise context.error(call.args[1], f"the start of {call.name} is {kinds}", hint)
        start = convert(start, kind)
    step = replace(merge, operand=convert(merge.operand, start.type))
    finish = context.body(call.args[3], start.type) if len(args) == 4 else None
    last = finish.outer if finish is not None else ()

    def kernel(lists: pa.Array, begin: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(lists)
        check_steps(int(each.lengths.max(initial=0)))
        order = np.argsort(-each.lengths, kind="stable")  # the rows of a step are a prefix of this order
        states, done = begin.take(pa.array(order)), list[pa.Array]()
        for at in range(int(each.lengths.max(initial=0))):
            rows = order[: np.count_nonzero(each.lengths > at)]
            done.append(states[len(rows) :])
            elements = each.flat.take(pa.array(each.starts[rows] + at))
            states = step.over([states[: len(rows)], elements], outer[: len(step.outer)], pa.array(rows))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        states = pa.concat_arrays([states, *reversed(done)]).take(pa.array(places, mask=each.null))
        if finish is None:
            return states
        made = finish.over([states], outer[len(step.outer) :], pa.array(np.arange(len(lists))))
        return made.take(pa.array(np.arange(len(lists)), mask=each.null))

    kind = start.type if finish is None else finish.operand.type
    return lift_arrays(kind, kernel, values, start, *step.outer, *last)


@function("zip_with", 3, signature="$(list, other, (x, y) -> ...)", lists=True, lambdas={2: (2,)})
def _zip_with(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = [list_argument(context, call, args, at) for at in range(2)]
    body = context.body(call.args[2], *(each.type.value_type for each in given))

    def kernel(left: pa.Array, right: pa.Array, *outer: pa.Array) -> pa.Array:
        sides = [_Elements(left), _Elements(right)]
        null = sides[0].null | sides[1].null
        lengths = np.where(null, 0, np.maximum(sides[0].lengths, sides[1].lengths))
        cuts = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(np.arange(len(left)), lengths)
        positions = np.arange(len(rows)) - cuts[rows]
        elements = [
            each.flat.take(pa.array(each.starts[rows] + positions, mask=positions >= each.lengths[rows]))
            for each in sides
        ]
        made = body.over(elements, outer, pa.array(rows))
        return pa.ListArray.from_arrays(pa.array(cuts.astype(np.int32)), made, mask=pa.array(null))

    return lift_arrays(pa.list_(body.operand.type), kernel, *given, *body.outer)


@function("array_sort", 1, 2, signature="$(list[, (left, right) -> ...])", lists=True, lambdas={1: (2,)})
def _array_sort(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Sort upward with nulls last, or by a comparator, whose result is negative if left is first."""
    values = list_argument(context, call, args, 0)
    kind = values.type.value_type
    if len(args) == 1:
        if is_nested(kind):
            raise context.error(call, f"array_sort cannot compare {type_name(kind)}", "Add a comparator.")
        return over_rows(values.type, lambda items: sorted(items, key=_nulls_last), values)
    body = context.body(call.args[1], kind, kind)
    if body.operand.type != BIGINT:
        message = (
            f"a comparator returns a number below, equal to or above 0, not {type_name(body.operand.type)}"
        )
        raise context.error(
            call.args[1], message, "Write CASE WHEN l < r THEN -1 WHEN l > r THEN 1 ELSE 0 END."
        )

    def kernel(lists: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(lists)
        order, failed = _sorted_places(each, body, outer)
        return pa.ListArray.from_arrays(
            each.cuts, each.flat.take(pa.array(order)), mask=pa.array(each.null | failed)
        )

    return lift_arrays(values.type, kernel, values, *body.outer)


def _nulls_last(value: Any) -> Any:
    return (3, 0) if value is None else ascending(value)


def _sorted_places(each: _Elements, compare: LambdaBody, outer: Arrays) -> tuple[Ints, Bools]:
    """Return the places of the elements in the order of their lists, and the rows of null comparisons.

    A stable merge sort of all lists at once: each pass merges runs of `width` elements with the ones behind
    them, and finds the place of each element of the right run in the left one by bisection.

    Cost: log2(n)^2 / 2 evaluations of the comparator, n being the length of the longest list.
    """
    order, failed = np.arange(len(each.rows)), np.zeros(len(each.null), np.bool_)
    width, longest = 1, int(each.lengths.max(initial=0))
    while width < longest:
        is_right = (each.positions // width) % 2 == 1
        right = np.flatnonzero(is_right)
        ahead = each.positions[right] % width
        left = right - ahead - width
        slots = left + ahead + _elements_before(order, right, left, width, (each, compare, outer), failed)
        free = np.ones(len(order), np.bool_)
        free[slots] = False
        merged = np.empty_like(order)
        merged[slots], merged[free] = order[right], order[~is_right]
        order, width = merged, 2 * width
    return order, failed


def _elements_before(
    order: Ints, right: Ints, left: Ints, width: int, by: tuple[_Elements, LambdaBody, Arrays], failed: Bools
) -> Ints:
    """Return how many of the `width` elements from `left` on stay before each element of `right`."""
    each, compare, outer = by
    low, high = np.zeros(len(right), np.int64), np.full(len(right), width)
    asked = np.arange(len(right))
    while len(asked):
        middle = (low[asked] + high[asked]) // 2
        pair = (order[right[asked]], order[left[asked] + middle])
        rows = each.rows[right[asked]]
        found = compare.over([each.flat.take(pa.array(at)) for at in pair], outer, pa.array(rows))
        failed[rows[null_mask(found)]] = True
        first = int_values(found) < 0  # what Java asks: does the right one precede the left one?
        high[asked[first]], low[asked[~first]] = middle[first], middle[~first] + 1
        asked = asked[low[asked] < high[asked]]
    return low


# -- maps


def _maps(kind: pa.DataType, cuts: Ints, null: Bools, keys: pa.Array, items: pa.Array) -> pa.Array:
    """Return maps of consecutive keys and values; null where a key is null or occurs twice."""
    pairs = list(zip(python_values(keys), python_values(items), strict=True))
    ranges = zip(null.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    return from_python([None if gone else unique_pairs(pairs[a:b]) for gone, a, b in ranges], kind)


@function(
    "map_filter transform_keys transform_values", 2, signature="$(map, (key, value) -> ...)", lists=True,
    lambdas={1: (2,)},
)  # fmt: skip
def _over_map(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = map_argument(context, call, args, 0)
    kinds = (given.type.key_type, given.type.item_type)
    if call.name == "map_filter":
        body = _predicate(context, call, *kinds)
    else:
        body = context.body(call.args[1], *kinds)
        kinds = (
            (body.operand.type, kinds[1]) if call.name == "transform_keys" else (kinds[0], body.operand.type)
        )
        plain_key(context, call, kinds[0])
    kind = pa.map_(*kinds)

    def kernel(maps: pa.Array, *outer: pa.Array) -> pa.Array:
        each = _Elements(entries_of(maps))
        keys, items = (pc.struct_field(each.flat, at) for at in (0, 1))
        found = body.over([keys, items], outer, pa.array(each.rows))
        if call.name == "map_filter":
            cuts, pairs = each.chosen(bool_values(found))
            keys, items = (pc.struct_field(pairs, at) for at in (0, 1))
            return _maps(kind, int_values(pc.cast(cuts, BIGINT)), each.null, keys, items)
        keys, items = (found, items) if call.name == "transform_keys" else (keys, found)
        return _maps(kind, int_values(pc.cast(each.cuts, BIGINT)), each.null, keys, items)

    return lift_arrays(kind, kernel, given, *body.outer)


@function("map_zip_with", 3, signature="$(map, other, (key, x, y) -> ...)", lists=True, lambdas={2: (3,)})
def _map_zip_with(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    one, other = (map_argument(context, call, args, at) for at in range(2))
    if one.type.key_type != other.type.key_type:
        names = f"{type_name(one.type.key_type)} and {type_name(other.type.key_type)}"
        raise context.error(call, f"map_zip_with joins keys of {names}", "Convert them: transform_keys(...).")
    body = context.body(call.args[2], one.type.key_type, one.type.item_type, other.type.item_type)
    kind = pa.map_(one.type.key_type, body.operand.type)

    def kernel(left: pa.Array, right: pa.Array, *outer: pa.Array) -> pa.Array:
        found, cuts = list[tuple[Any, Any, Any]](), [0]
        null = null_mask(left) | null_mask(right)
        for mine, theirs in zip(python_values(left), python_values(right), strict=True):
            found += _joined(mine, theirs) if mine is not None and theirs is not None else []
            cuts.append(len(found))
        kinds = (one.type.key_type, one.type.item_type, other.type.item_type)
        columns = [from_python([row[at] for row in found], each) for at, each in enumerate(kinds)]
        rows = np.repeat(np.arange(len(left)), np.diff(cuts))
        return _maps(kind, np.asarray(cuts), null, columns[0], body.over(columns, outer, pa.array(rows)))

    return lift_arrays(kind, kernel, one, other, *body.outer)


def _joined(left: Pairs, right: Pairs) -> list[tuple[Any, Any, Any]]:
    """Return each key of two maps with its values, null where a map does not have it."""
    mine, theirs = ({identity(key): value for key, value in pairs} for pairs in (left, right))
    keys = {identity(key): key for key, _ in (*left, *right)}
    return [(key, mine.get(same), theirs.get(same)) for same, key in keys.items()]
