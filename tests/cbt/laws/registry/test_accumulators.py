"""Accumulators against plain Python: any order of adding, merging, promoting, freezing and clearing."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise, promote
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.pairs import VALUE_BYTES_MAX, ValueTooLong
from tests.cbt.laws.accumulating import (
    GROUPS,
    VALUES,
    Row,
    columns,
    expected,
    finished,
    rows_of,
    same,
)
from tests.cbt.sketched import is_merging, taken

EXACT = ["count", "sum", "sumsq", "min", "max", "distinct", "collect:3", "hll"]


NUMERIC = ("int", "float", "decimal")


@given(st.sampled_from([kind for kind in EXACT if kind != "hll"]), st.data())
def test_any_mix_of_adding_merging_and_freezing_equals_plain_python(kind: str, data: st.DataObject) -> None:
    names = NUMERIC if kind in ("sum", "sumsq") else tuple(VALUES)
    name = data.draw(st.sampled_from(names))
    if kind == "sumsq" and name == "decimal":
        name = "int"
    law, data_type = LAWS[kind], VALUES[name][1]
    accumulator = law.accumulator(law.value_type(pa.array([], data_type), "x"))
    held: list[Row] = []
    groups = 1
    for step in data.draw(st.lists(st.sampled_from(["add", "merge", "freeze", "clear"]), max_size=6)):
        rows = data.draw(rows_of(name)) if step in ("add", "merge") else []
        groups = max([groups, *(group + 1 for _, group in rows)])
        values, ids = columns(rows, data_type)
        if step == "add":
            accumulator.add(values, ids, groups)
        elif step == "merge":
            # Every row its own state, so that many rows go to one group.
            accumulator.merge(law.lift(values, np.arange(len(rows)), len(rows)), ids, groups)
        elif step == "clear":
            accumulator.clear()
            held, groups = [], 1
        else:
            frozen = accumulator.freeze(groups)
            law.check(frozen, groups)
            assert accumulator.freeze(groups).nbytes == frozen.nbytes
        held += rows
    assert accumulator.nbytes >= 0
    state = accumulator.freeze(GROUPS)
    law.check(state, GROUPS)
    for group, got in enumerate(law.finish(state, GROUPS).to_pylist()):
        present = [value for value, number in held if number == group and value is not None]
        assert same(got, expected(kind, present)), (group, got, present)


@given(rows_of("int"), rows_of("float"))
def test_an_accumulator_that_turns_float_mid_way_equals_one_that_began_so(
    first: list[Row], then: list[Row]
) -> None:
    small = [(None if value is None else value % 1000, group) for value, group in first]
    kinds = [kind for kind in LAWS if LAWS[kind].inputs < 2 and not is_merging(kind)]
    for kind in [*kinds, "collect:3"]:
        law = LAWS[kind]
        changed = law.accumulator(pa.null())
        changed.add(pa.nulls(2), np.array([0, 1]), GROUPS)
        wide = law.value_type(pa.array([], pa.float64()), "x")
        promoted = [(*columns(small, pa.int64()), law.value_type(pa.array([], pa.int64()), "x"))]
        promoted += [(*columns(then, pa.float64()), wide)]
        at_once = law.accumulator(wide)
        at_once.add(pa.nulls(2, pa.float64()), np.array([0, 1]), GROUPS)
        for values, ids, data_type in promoted:
            changed.promote(data_type)
            changed.add(values, ids, GROUPS)
            at_once.add(promote(values, pa.float64()), ids, GROUPS)
        assert changed.type == at_once.type
        assert finished(law.finish(changed.freeze(GROUPS), GROUPS)) == finished(
            law.finish(at_once.freeze(GROUPS), GROUPS)
        )


@pytest.mark.parametrize("kind", ["distinct", "collect", "frequent"])
def test_values_too_long_to_be_kept_are_named_before_anything_is_added(kind: str) -> None:
    values = pa.array(["x", "y" * (VALUE_BYTES_MAX + 1), None, "z" * VALUE_BYTES_MAX])
    with pytest.raises(ValueTooLong, match="'d' got 1 values") as raised:
        LAWS[kind].value_type(values, "d")
    assert raised.value.rows.tolist() == [1]
    assert LAWS[kind].value_type(values.take(pa.array([0, 2, 3])), "d") == pa.string()


def allocated(work: Callable[[], object]) -> int:
    """The most bytes that Python and numpy hold for it at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [*EXACT, "first", "frequent", "kll"])
def test_a_small_batch_costs_nothing_per_group(kind: str) -> None:
    groups = 400_000
    values: Any = pa.array(np.arange(groups) % 1000)
    few: Any = values[:10]
    if kind == "first":
        values, few = (values, values), (few, few)
    accumulator = LAWS[kind].accumulator(pa.float64() if kind == "kll" else pa.int64())
    accumulator.add(values, np.arange(groups), groups)
    accumulator.freeze(groups)
    whole = allocated(lambda: accumulator.freeze(groups))
    small = [
        allocated(lambda: accumulator.add(few, np.arange(10) + 37 * place, groups))  # noqa: B023 - called at once
        for place in range(200)
    ]
    assert sum(small) < 40 * whole + 8 * groups


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("kind", sorted(kind for kind, law in LAWS.items() if law.inputs < 2))
def test_what_is_frozen_stays_while_the_accumulator_goes_on(kind: str, groups: int) -> None:
    law = LAWS[kind]
    values = taken(kind, normalise(pa.array([1.5, 2.5, 3.5] * 2, pa.float64()), "x"))
    ids = np.arange(len(values)) % groups
    accumulator = law.accumulator(law.value_type(values, "x"))
    accumulator.add(values, ids, groups)
    seen, same = accumulator.freeze(groups), law.lift(values, ids, groups)
    accumulator.add(values, ids, groups)
    accumulator.clear()
    accumulator.add(values, np.zeros_like(ids), groups)
    assert law.finish(seen, groups).equals(law.finish(same, groups))
