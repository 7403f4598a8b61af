"""Evaluation of `Exploded`: one row for each element of a list or map, with the columns of its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.functions.compiler import Compiler, read_column
from elfmesh.ql.functions.nested.maps import elements_of
from elfmesh.ql.plan.elements import ElementOrder, Elements
from elfmesh.ql.plan.relation import Exploded, made
from elfmesh.ql.values.columns import as_array
from elfmesh.ql.values.joining import Ints, taken
from elfmesh.ql.values.types import STRING, VOID, is_map, type_name

Check = Callable[[int], None]
Notify = Callable[[Elements, str | None], None]
SHOWN_CHARS = 40


def exploded(
    relation: Exploded,
    source: pa.Table,
    scalars: Mapping[str, pa.Scalar],
    origin: SourceText,
    check: Check,
    notified: Notify,
) -> pa.Table:
    """Return the rows of `relation`.

    `check` receives the number of rows in advance and raises if it is too large. If strings are expanded,
    `notified` receives one of them if none contains a list or map, else None.
    """
    rows, call = source.num_rows, relation.call
    columns = {name: read_column(source.column(name)) for name in source.column_names}
    env = Env(columns | {name: as_array(value, rows) for name, value in scalars.items()}, rows)
    compiler = Compiler({name: array.type for name, array in env.columns.items()}, origin)
    operand = compiler.compile(relation.values)
    node = Call(call.name, (relation.values,), at=call.at)
    values, lists_of = elements_of(compiler, node, operand, pairs=call.pairs)
    lists = lists_of(values.array(env))
    if operand.type == STRING:
        notified(call, _unlisted(operand.array(env), lists))
    counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    kept = np.maximum(counts, 1) if call.outer else counts
    check(int(kept.sum()))
    whose = np.repeat(np.arange(rows), kept)
    there = np.repeat(counts > 0, kept)
    places = np.where(there, np.cumsum(there) - 1, -1)
    elements = taken(pc.list_flatten(lists), places)
    if operand.type == VOID:
        parts = [pa.nulls(len(elements)) for _ in range(call.values)]
    else:
        parts = _parts(call, elements, is_pair=is_map(values.type), origin=origin)
    if call.order is not ElementOrder.NONE:
        numbers = _numbers(kept, places, call.order)
        parts = [numbers, *parts] if call.order is ElementOrder.FIRST else [*parts, numbers]
    given = {made(at): part for at, part in enumerate(parts)}
    chosen = pa.array(whose)
    arrays = [given[name] if name in given else columns[name].take(chosen) for name in relation.chosen]
    return pa.Table.from_arrays(arrays, names=list(relation.columns))


def _unlisted(texts: pa.Array, lists: pa.Array) -> str | None:
    given = pc.drop_null(texts)
    return given[0].as_py() if len(given) and lists.null_count == len(lists) else None


def _numbers(kept: Ints, places: Ints, order: ElementOrder) -> pa.Array:
    begins = np.repeat(np.cumsum(kept) - kept, kept)
    numbers = np.arange(len(places)) - begins + (order is ElementOrder.LAST)
    return pa.array(numbers, pa.int64(), mask=places < 0)


def _parts(call: Elements, elements: pa.Array, *, is_pair: bool, origin: SourceText) -> list[pa.Array]:
    """Return the columns of the elements.

    Raises QueryError if their number differs from the number of names.
    """
    kind = elements.type
    struct = pa.types.is_struct(kind) and not is_pair
    if call.fields and not struct:
        raise _misfit(call, f"inline takes a list of structs, not of {type_name(kind)}", origin)
    if not is_pair and not call.fields and call.values == 1:
        return [elements]
    opened = is_pair or call.fields or (struct and call.name == "unnest")
    count = kind.num_fields if opened else 1
    if count != call.values:
        found = f"{count} column{'s' * (count > 1)}"
        raise _misfit(call, f"an element has {found}, not {call.values}", origin)
    return [pc.struct_field(elements, at) for at in range(count)]


def _misfit(call: Elements, message: str, origin: SourceText) -> QueryError:
    return origin.error(
        message,
        call.at,
        "Name as many columns: LATERAL VIEW explode(x) t AS k, v for a map, AS e for a list.",
    )


def untaken(call: Elements, text: str) -> str:
    """Return the warning for strings of which none contains a list or map; `text` is one of them."""
    wanted, hint = "array", f"Make lists of other texts: {call.name}(split(x, ','))."
    if call.pairs:
        wanted, hint = "object", "Make maps of other texts: str_to_map(x, '&', '=')."
    elif text.lstrip().startswith("{"):
        hint = "Name the keys and the values of objects: AS k, v."
    shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
    where = f"line {call.at.line}, column {call.at.column}"
    return f"{call.name} at {where} gave nothing: no text there is a JSON {wanted}, as {shown!r}. {hint}"
