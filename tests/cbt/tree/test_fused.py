"""Fused fields of the root: the kernel against its twin, sums against fractions, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt import CompressedBufferTree
from elfmesh.cbt.kernel import Field, FieldKind, numpy_twin
from elfmesh.cbt.laws import State
from elfmesh.cbt.laws.sums import limbs_of
from elfmesh.cbt.plan import Aggregates
from elfmesh.cbt.sums.floatsum import exact, to_floats
from elfmesh.cbt.tree.fused import FusedRows

GROUPS = 4
KINDS = ("count", "sum", "min", "max", "sum", "min", "max")
TYPES = (pa.int64(), *[pa.float64()] * 3, *[pa.int64()] * 3)
cents = st.integers(-(10**8), 10**8).map(lambda units: units / 100)
rows_of_cents = st.lists(st.tuples(st.integers(0, GROUPS - 1), cents), max_size=80)
whole = st.integers(-(2**63), 2**63 - 1)


def fields_of(floats: np.ndarray, integers: np.ndarray, lowest: int) -> list[Field]:
    bits = floats.view(np.int64)
    return [
        (FieldKind.COUNT, 0, None, 0),
        (FieldKind.FLOAT_SUM, 1, bits, lowest),
        (FieldKind.LEAST_FLOAT, 3, bits, 0),
        (FieldKind.GREATEST_FLOAT, 4, bits, 0),
        (FieldKind.SUM, 5, integers, 0),
        (FieldKind.LEAST, 6, integers, 0),
        (FieldKind.GREATEST, 7, integers, 0),
    ]


@given(rows_of_cents, st.lists(whole, min_size=80, max_size=80), st.integers(-100, -60))
def test_rows_of_the_native_kernel_are_those_of_the_twin(
    rows: list[tuple[int, float]], integers: list[int], lowest: int
) -> None:
    native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)
    ids, floats = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float64)
    fields = fields_of(floats, np.array(integers[: len(rows)], np.int64), lowest)
    ours, theirs = np.zeros((GROUPS, 9), np.int64), np.zeros((GROUPS, 9), np.int64)
    for _ in range(2):
        native.add_fields(ids, ours, fields)
        numpy_twin.add_fields(ids, theirs, fields)
    assert ours.tolist() == theirs.tolist()
    assert native.take_rows(ours, ids).tolist() == numpy_twin.take_rows(ours, ids).tolist()


@given(st.lists(st.floats(allow_nan=True), max_size=40))
def test_the_span_is_that_of_the_twin_and_holds_all(values: list[float]) -> None:
    native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)
    array = np.array(values, np.float64)
    span = native.span_floats(array)
    assert span == numpy_twin.span_floats(array)
    if span is None:
        assert not array.any()
        return
    lowest, top = span
    assert (top == 1025) == (not np.isfinite(array).all())
    for value in array[np.isfinite(array)].tolist():
        assert (Fraction(value) / Fraction(2) ** lowest).denominator == 1
        assert abs(Fraction(value)) < Fraction(2) ** top


def test_fields_outside_a_row_are_refused() -> None:
    native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)
    ids, out, values = np.zeros(2, np.int64), np.zeros((3, 2), np.int64), np.ones(2, np.int64)
    for kind, place, taken, lowest in (
        (FieldKind.SUM, 2, values, 0),
        (FieldKind.SUM, -1, values, 0),
        (FieldKind.FLOAT_SUM, 1, values, 0),
        (FieldKind.FLOAT_SUM, 0, values, 5000),
        (FieldKind.SUM, 0, values[:1], 0),
        (7, 0, values, 0),
    ):
        with pytest.raises(ValueError, match=r"field|length"):
            native.add_fields(ids, out, [(kind, place, taken, lowest)])
    for bad in (-1, 3, 2**62):
        with pytest.raises(IndexError):
            native.add_fields(np.array([0, bad]), out, [(FieldKind.COUNT, 0, None, 0)])
    with pytest.raises(ValueError, match="outside"):
        native.take_rows(out, np.array([0, 3]))
    assert not out.any()


def fused_of(rows: FusedRows, ids: list[int], floats: list[float], integers: list[int]) -> bool:
    """Whether a batch of floats and integers was added."""
    v, i = pa.array(floats, pa.float64()), pa.array(integers, pa.int64())
    inputs = rows.inputs([None, v, v, v, i, i, i], 0, len(ids))
    assert inputs is not None
    if not rows.reserve(inputs):
        return False
    rows.add(inputs, np.array(ids, np.int64), GROUPS, GROUPS)
    return True


@given(rows_of_cents, st.lists(st.integers(-(2**40), 2**40), min_size=80, max_size=80))
def test_states_are_those_of_fractions(rows: list[tuple[int, float]], integers: list[int]) -> None:
    fused = FusedRows(KINDS, TYPES)
    ids, floats, integers = [row[0] for row in rows], [row[1] for row in rows], integers[: len(rows)]
    assert fused_of(fused, ids, floats, integers)
    columns = fused.columns(GROUPS)
    states = [fused.state(number, columns) for number in range(len(KINDS))]
    for group in range(GROUPS):
        own = [place for place, held in enumerate(ids) if held == group]
        assert states[0].parts["rows"][group] == len(own)
        check_group(states[1:4], group, [floats[place] for place in own])
        check_group(states[4:], group, [integers[place] for place in own])


def check_group(states: list[State], group: int, values: list[float] | list[int]) -> None:
    total, least, greatest = states
    assert exact(limbs_of(total), group) == sum(map(Fraction, values))
    assert least.parts["value"][group].as_py() == min(values, default=None)
    assert greatest.parts["value"][group].as_py() == max(values, default=None)


def test_sums_below_zero_have_small_limbs() -> None:
    """Else a sum in short would find no decimal near it."""
    fused = FusedRows(("sum",), (pa.float64(),))
    inputs = fused.inputs([pa.array([-0.25, -1e6])], 0, 2)
    assert inputs is not None
    assert fused.reserve(inputs)
    fused.add(inputs, np.array([0, 1]), 2, 2)
    limbs = limbs_of(fused.state(0, fused.columns(2)))
    assert to_floats(limbs, 2).tolist() == [-0.25, -1e6]
    assert all(abs(int(value)) < 2**32 for column in limbs.values() for value in column)
    assert max(limbs) == 0


@pytest.mark.parametrize("value", [2.0**-1000, 2.0**1000, float("inf"), float("nan")])
def test_floats_that_reach_over_the_words_are_refused(value: float) -> None:
    fused = FusedRows(KINDS, TYPES)
    assert fused_of(fused, [0], [1.25], [1])
    assert not fused_of(fused, [0, 1], [1.0, value], [1, 1])
    assert fused.columns(GROUPS)[0].tolist() == [1, 0, 0, 0], "a refused batch changed something"


def test_integers_that_might_pass_a_word_are_refused() -> None:
    fused = FusedRows(KINDS, TYPES)
    for _ in range(15):
        assert fused_of(fused, [0], [1.0], [2**58 - 1])
    added = sum(fused_of(fused, [0], [1.0], [2**58 - 1]) for _ in range(5))
    columns = fused.columns(GROUPS)
    assert added == 1
    assert exact(limbs_of(fused.state(4, columns)), 0) == 16 * (2**58 - 1)


def test_nulls_and_other_types_are_left_to_the_accumulators() -> None:
    fused = FusedRows(("sum", "max"), (pa.float64(), pa.float64()))
    whole, holes = pa.array([1.5, 2.5]), pa.array([1.5, None])
    assert fused.inputs([whole, holes], 0, 2) is None
    assert fused.inputs([whole, holes], 0, 1) is not None, "the null is in other rows"
    assert fused.inputs([pa.array([1, 2]), whole], 0, 2) is None


ODD = (1e-300, 1e300, float("nan"), -1e-9, None)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), cents | st.sampled_from(ODD)), max_size=9), max_size=8))
def test_a_tree_adds_up_whatever_went_which_way(batches: list[list[tuple[int, float | None]]]) -> None:
    spec: Aggregates = {
        "n": ("count", None),
        "c": ("count", "v"),
        "s": ("sum", "v"),
        "lo": ("min", "v"),
        "hi": ("max", "v"),
    }
    tree, apart = (CompressedBufferTree(["k"], spec) for _ in range(2))
    for number, rows in enumerate(batches):
        columns: dict[str, list[Any]] = {
            "k": [f"k{key}" for key, _ in rows],
            "v": [value for _, value in rows],
        }
        schema = pa.schema([("k", pa.string()), ("v", pa.float64())])
        tree.insert(pa.RecordBatch.from_pydict(columns, schema))
        for row in range(len(rows)):  # one by one and as states: through the accumulators
            one = CompressedBufferTree(["k"], spec)
            one.insert(pa.RecordBatch.from_pydict({name: [v[row]] for name, v in columns.items()}, schema))
            apart.insert_partial(one.partial())
        if number == 3:
            tree.push_down()
    ours, theirs = (one.flush().sort_by("k").to_pylist() for one in (tree, apart))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "a"]])
@pytest.mark.parametrize(
    "aggregates",
    [
        {"n": ("count", None)},
        {"s": ("sum", "i")},
        {"s": ("sum", "f")},
        {"a": ("min", "i"), "b": ("max", "f")},
    ],
)
def test_what_was_read_of_a_tree_stays_while_it_goes_on(keys: list[str], aggregates: Aggregates) -> None:
    def take(into: CompressedBufferTree, keys: list[str], value: int) -> None:
        rows = len(keys)
        columns = {"k": keys, "i": [value] * rows, "f": [value / 4] * rows}
        into.insert(pa.record_batch(columns))

    tree, same = (CompressedBufferTree(["k"], aggregates) for _ in range(2))
    take(tree, keys, 5)
    take(same, keys, 5)
    seen = list(tree.snapshot().rows())  # one group or one word: nothing of it may be the tree's own memory
    take(tree, ["a"], 7)
    tree.empty()
    take(tree, ["a"], 9)
    other = CompressedBufferTree(["k"], aggregates)
    for rows in seen:
        other.insert_rows(rows)
    assert other.flush().to_pylist() == same.flush().to_pylist()
