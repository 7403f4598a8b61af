"""Lists and structs as states of min, max, first, last, array_agg and collect_set."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.cbt import Panes, decode_partial, encode_parts, finish, merge_partials
from elfmesh.cbt.columns import nested_type
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.nested import nested_keys, nested_values
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.statement import TableSpec

LISTS, DOUBLES = pa.list_(pa.int64()), pa.list_(pa.float64())
STATES: dict[str, tuple[str, str | tuple[str, ...] | None]] = {
    "min": ("min", "v"), "max": ("max", "v"), "first": ("first", ("v", "by")), "last": ("last", ("v", "by")),
    "some": ("collect:3", "v"), "each": ("set:3", "v"), "count": ("count", "v"),
}  # fmt: skip
TABLE = TableSpec("main", ("k",), STATES)

Record = tuple[str, list[float | None] | None, int]
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.none() | st.lists(st.none() | st.integers(-2, 2).map(float), max_size=3),
        st.integers(0, 3),
    ),
    max_size=10,
)


def partial(records: list[Record], kind: pa.DataType) -> list[bytes]:
    """What an agent sends whose log gives the lists this type."""
    if not records:
        return []
    names, lists, order = zip(*records, strict=True)
    values = nested_keys(pa.array(lists, DOUBLES).cast(kind), nested_type(kind))
    panes = Panes([TABLE], None)
    batch = pa.record_batch({"k": pa.array(names), "v": values, "by": pa.array(order, pa.int64())})
    panes.insert("main", np.zeros(len(records), np.int64), batch)
    window = panes.window(0)
    assert window is not None
    return encode_parts(window, 1)


def compared(one: list[float | None], other: list[float | None]) -> int:
    """Spark's order of lists: by the first element that differs, null first, then by length."""
    for left, right in zip(one, other, strict=False):
        if left != right:
            return -1 if left is None or (right is not None and left < right) else 1
    return len(one) - len(other)


ORDER = functools.cmp_to_key(compared)


def expected(records: list[Record]) -> dict[str, Any]:
    present = sorted((each for _, each, _ in records if each is not None), key=ORDER)

    times = [at for _, _, at in records]
    first = [each for _, each, at in records if at == min(times) and each is not None]
    last = [each for _, each, at in records if at == max(times) and each is not None]
    distinct = [each for at, each in enumerate(present) if each not in present[:at]]
    return {
        "min": present[0] if present else None,
        "max": present[-1] if present else None,
        "first": min(first, key=ORDER, default=None),
        "last": max(last, key=ORDER, default=None),
        "some": present[:3],
        "each": distinct[:3],
        "count": len(present),
    }


@given(RECORDS, RECORDS, RECORDS)
def test_states_of_agents_with_other_types_merge_to_those_of_plain_python(
    one: list[Record], other: list[Record], more: list[Record]
) -> None:
    sent = [*partial(one, LISTS), *partial(other, DOUBLES)]
    merged = merge_partials([merge_partials(sent), *partial(more, LISTS)] if sent else partial(more, LISTS))
    found = {}
    if merged:
        table = finish(decode_partial(merged))["main"]
        columns = {name: read_column(table.column(name)).to_pylist() for name in table.column_names}
        found = {key: {name: columns[name][at] for name in STATES} for at, key in enumerate(columns["k"])}
    records = [*one, *other, *more]
    assert found == {key: expected([r for r in records if r[0] == key]) for key in {r[0] for r in records}}


STRUCTS = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


@pytest.mark.parametrize("kind", ["min", "max", "first", "last", "collect", "set:3"])
def test_a_state_from_outside_whose_bytes_are_no_value_is_refused(kind: str) -> None:
    column = nested_keys(pa.array([{"a": 1, "b": ["x"]}], STRUCTS), nested_type(STRUCTS))
    law, ids = LAWS[kind], np.zeros(1, np.int64)
    values = (column, pa.array([1])) if law.inputs == 2 else column
    state = law.lift(values, ids, 1)
    law.check(state, 1)
    shown = law.finish(state, 1)
    read = shown[0].values if pa.types.is_list(shown.type) else nested_values(shown)
    assert read.to_pylist() == [{"a": 1, "b": ["x"]}]
    other = nested_type(pa.list_(STRUCTS))
    parts = dict(state.parts)
    if isinstance(held := parts.get("value"), pa.Array):
        parts["value"] = pa.ExtensionArray.from_storage(other, held.storage)
    with pytest.raises(ValueError, match=r"."):
        law.check(replace(state, type=other, parts=parts), 1)
