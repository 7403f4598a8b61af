"""Accumulators against plain Python: any order of adding, merging, promoting, freezing and clearing."""

from __future__ import annotations

import datetime as dt
import math
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise, promote
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.laws.pairs import VALUE_BYTES_MAX, ValueTooLong
from elfmesh.cbt.laws.squares import central_squares
from elfmesh.cbt.sums import exactsum
from elfmesh.errors import DataError
from tests.cbt.sketched import is_merging, taken

GROUPS = 4
EXACT = ["count", "sum", "sumsq", "min", "max", "distinct", "collect:3", "hll"]
ODD_FLOATS = st.sampled_from(
    [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308, 0.1, 1.0, 2.0**53]
)
VALUES: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "int": (st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 2**63 - 1, -(2**63)]), pa.int64()),
    "float": (st.floats() | ODD_FLOATS, pa.float64()),
    "decimal": (st.decimals(-(10**20), 10**20, places=3), pa.decimal128(38, 3)),
    "string": (st.text("ab\0é", max_size=20), pa.string()),
    "binary": (st.binary(max_size=18), pa.binary()),
    "bool": (st.booleans(), pa.bool_()),
    "date": (st.dates(dt.date(1, 1, 1)), pa.date32()),
}
NUMERIC = ("int", "float", "decimal")
Row = tuple[Any, int]


def rows_of(name: str) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(st.none() | VALUES[name][0], st.integers(0, GROUPS - 1)), max_size=12)


def columns(rows: list[Row], data_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    values = normalise(pa.array([value for value, _ in rows], data_type), "x")
    return values, np.array([group for _, group in rows], np.int64)


def spark_key(value: Any) -> Any:
    """The order of Spark: NaN above infinity, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def exact_total(kind: str, values: list[Any]) -> Any:
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    squared = kind == "sumsq"
    if odd and not squared:
        return sum(odd)
    if odd:
        return sum(value * value for value in odd)
    numbers = [Fraction(float(v) if squared and isinstance(v, Decimal) else v) for v in values]
    return sum((v * v if squared else v for v in numbers), Fraction(0))


def expected(kind: str, values: list[Any]) -> Any:
    """What one group must finish to."""
    if kind == "count":
        return len(values)
    if kind == "distinct":
        return len({repr(value + 0.0) if isinstance(value, float) else value for value in values})
    if kind == "collect:3":
        return sorted(values, key=spark_key)[:3]
    if not values:
        return None
    if kind in ("min", "max"):
        return (min if kind == "min" else max)(values, key=spark_key)
    return exact_total(kind, values)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, float) and math.isnan(want):
        return isinstance(got, float) and math.isnan(got)
    if isinstance(got, float) and isinstance(want, Fraction):
        try:
            want = want.numerator / want.denominator
        except OverflowError:
            want = math.inf if want > 0 else -math.inf
        # A sum of squares below the normal range may round twice.
        return bool(got == want) or abs(got - want) <= 5e-324
    return bool(got == want)


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


def finished(column: pa.Array) -> str:
    return repr(column.to_pylist())


@given(st.data())
def test_first_and_last_take_the_record_with_the_least_or_greatest_by(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(VALUES)))
    strategy, data_type = VALUES[name]
    record = st.tuples(st.none() | strategy, st.none() | st.integers(0, 3), st.integers(0, GROUPS - 1))
    parts = data.draw(st.lists(st.lists(record, max_size=8), min_size=1, max_size=4))
    merged = data.draw(st.booleans())
    for kind in ("first", "last"):
        law = LAWS[kind]
        accumulator = law.accumulator(data_type)
        for part in parts:
            values = normalise(pa.array([value for value, _, _ in part], data_type), "x")
            by = pa.array([when for _, when, _ in part], pa.int64())
            ids = np.array([group for _, _, group in part], np.int64)
            if merged:
                accumulator.merge(law.lift((values, by), np.arange(len(part)), len(part)), ids, GROUPS)
            else:
                accumulator.add((values, by), ids, GROUPS)
        state = accumulator.freeze(GROUPS)
        law.check(state, GROUPS)
        everything = [row for part in parts for row in part]
        for group, got in enumerate(law.finish(state, GROUPS).to_pylist()):
            timed = [
                (when, value) for value, when, number in everything if number == group and when is not None
            ]
            pick = min if kind == "first" else max
            chosen = [value for when, value in timed if when == pick(when for when, _ in timed)]
            present = [value for value in chosen if value is not None]
            assert same(got, pick(present, key=spark_key) if present else None)


def test_first_and_last_order_integers_and_floats_exactly_in_one_column() -> None:
    ints = pa.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 7])
    floats = pa.array([float(2**53), 2.0**63, -math.inf, math.nan, 7.5])
    for kind, chosen in (("first", min), ("last", max)):
        law = LAWS[kind]
        accumulator = law.accumulator(pa.string())
        for column in (ints, floats):
            names = pa.array([repr(value) for value in column.to_pylist()])
            accumulator.add((names, column), np.arange(5) % 2, 2)
        for group in range(2):
            both = [*ints.to_pylist()[group::2], *floats.to_pylist()[group::2]]
            order = {repr(value): (math.isnan(value), 0 if math.isnan(value) else value) for value in both}
            best = chosen(order.values())
            found = law.finish(accumulator.freeze(2), 2)[group].as_py()
            assert order[found] == best


def test_times_order_first_and_last_and_dates_compare_with_them() -> None:
    law = LAWS["first"]
    moment = pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
    day = pa.array([dt.date(2024, 1, 1)])
    accumulator = law.accumulator(pa.string())
    accumulator.add((pa.array(["noon"]), moment), np.zeros(1, np.int64), 1)
    accumulator.add((pa.array(["midnight"]), day), np.zeros(1, np.int64), 1)
    assert law.finish(accumulator.freeze(1), 1).to_pylist() == ["midnight"]
    for by in (pa.array(["x"]), pa.array([Decimal("1.5")])):
        with pytest.raises(DataError, match="'f' is ordered by"):
            law.value_type((pa.array([1]), by), "f")


@pytest.mark.parametrize("kind", ["first", "last"])
def test_a_promoted_first_keeps_its_record(kind: str) -> None:
    law = LAWS[kind]
    accumulator = law.accumulator(pa.int64())
    accumulator.add((pa.array([7, None]), pa.array([5, 5])), np.array([1, 2]), 3)
    accumulator.promote(pa.float64())
    accumulator.add((pa.array([1.5]), pa.array([5])), np.array([1]), 3)
    state = accumulator.freeze(3)
    assert law.finish(state, 3).to_pylist() == [None, 1.5 if kind == "first" else 7.0, None]
    nothing = law.promote(law.accumulator(pa.null()).freeze(2), pa.string())
    assert law.finish(nothing, 2).equals(pa.nulls(2, pa.string()))


def test_strings_that_share_long_beginnings_are_told_apart() -> None:
    words = ["x" * n + tail for n in (7, 8, 9, 16, 17, 200) for tail in ("", "\0", "a", "\0\0", "é", "z")]
    rng = np.random.default_rng(1)
    for kind, pick in (("min", min), ("max", max)):
        accumulator = LAWS[kind].accumulator(pa.string())
        ids = rng.integers(0, 5, 4000)
        chosen = rng.integers(0, len(words), 4000)
        for start in range(0, 4000, 100):
            part = slice(start, start + 100)
            accumulator.add(pa.array([words[i] for i in chosen[part]]), ids[part], 5)
        got = LAWS[kind].finish(accumulator.freeze(5), 5).to_pylist()
        assert got == [pick(words[i] for i in chosen[ids == group]) for group in range(5)]
        assert accumulator.nbytes < 20_000  # bytes of former winners are dropped


SMALL_LIMITS = {"_SAFE": 1 << 46, "_NARROW": 1 << 34, "_FLOAT_ADDITIONS_MAX": 9}


@given(st.sampled_from(["sum", "sumsq"]), st.lists(rows_of("int"), max_size=6), st.lists(rows_of("float")))
def test_sums_stay_exact_when_limbs_are_carried_all_the_time(
    kind: str, ints: list[list[Row]], floats: list[list[Row]]
) -> None:
    for batches, data_type in ((ints, pa.int64()), (floats, pa.float64())):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SMALL_LIMITS.items():
                patch.setattr(exactsum, name, value)
            accumulator = LAWS[kind].accumulator(data_type)
            for rows in batches:
                accumulator.add(*columns(rows, data_type), GROUPS)
            state = accumulator.freeze(GROUPS)
        held = [row for rows in batches for row in rows]
        for group, got in enumerate(LAWS[kind].finish(state, GROUPS).to_pylist()):
            present = [value for value, number in held if number == group and value is not None]
            assert same(got, expected(kind, present))


def wrapped(monkeypatch: pytest.MonkeyPatch, without: str) -> bool:
    """Whether sums go wrong with one safeguard out of work."""
    add: Callable[..., None] = exactsum.ExactSums._add
    if without == "bound":
        monkeypatch.setattr(exactsum.ExactSums, "_settle", lambda self, number, more: None)
        monkeypatch.setattr(exactsum, "_SAFE", 1 << 20)
    elif without == "split":
        monkeypatch.setattr(exactsum, "_fits", lambda magnitude, count: True)
        monkeypatch.setattr(exactsum, "_SAFE", 1 << 80)
    assert add is exactsum.ExactSums._add
    accumulator = LAWS["sum"].accumulator(pa.int64())
    value = (1 << 39) if without == "bound" else 2**63 - 1
    for _ in range(3):
        # What 2**24 values would come to, without adding them one by one.
        limbs = {"values": np.array([1]), "limb+0": np.array([value])}
        accumulator.merge(State("sum", pa.int64(), limbs), np.zeros(1, np.int64), 1)
        if without == "bound":
            (column,) = accumulator._sums._columns.values()  # type: ignore[attr-defined]  # of SumAccumulator
            column.head(1)[:] += 1 << 62
    finished = LAWS["sum"].finish(accumulator.freeze(1), 1)[0].as_py()
    return bool(finished != (3 * value + (3 << 62 if without == "bound" else 0)))


@pytest.mark.parametrize("without", ["bound", "split"])
def test_the_safeguards_of_integer_sums_are_needed(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    assert wrapped(monkeypatch, without)


def test_many_huge_integers_never_wrap() -> None:
    accumulator = LAWS["sum"].accumulator(pa.int64())
    values = pa.array(np.full(1 << 16, 2**63 - 1))
    for _ in range(40):
        accumulator.add(values, np.zeros(1 << 16, np.int64), 1)
    assert LAWS["sum"].finish(accumulator.freeze(1), 1)[0].as_py() == 40 * (1 << 16) * (2**63 - 1)


@given(st.lists(st.floats(-1e150, 1e150) | st.integers(-(2**40), 2**40).map(float), min_size=1, max_size=8))
def test_variance_does_not_cancel(values: list[float]) -> None:
    column, ids = pa.array(values), np.zeros(len(values), np.int64)
    got = central_squares(*(LAWS[kind].lift(column, ids, 1) for kind in ("sum", "sumsq")))[0]
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    want = sum(((number - mean) ** 2 for number in numbers), Fraction(0))
    assert same(float(got), want)


def test_variance_of_other_values_or_of_nan_is_not_made_up() -> None:
    one, two = pa.array([1.0, math.nan]), pa.array([1.0, 2.0])
    ids = np.array([0, 1])
    sums, squares = LAWS["sum"].lift(one, ids, 3), LAWS["sumsq"].lift(one, ids, 3)
    assert [repr(v) for v in central_squares(sums, squares).tolist()] == ["0.0", "nan", "nan"]
    with pytest.raises(DataError, match="same values"):
        central_squares(sums, LAWS["sumsq"].lift(two, np.array([0, 0]), 3))


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
