from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise, promote
from elfmesh.cbt.errors import NotInvertible
from elfmesh.cbt.laws import LAWS, State, Values
from elfmesh.errors import DataError
from tests.cbt.sketched import taken

KINDS = st.sampled_from(
    sorted([*LAWS, "collect:2", "kll:400", "frequent:50", "set:3", "top:50", "theta:16", "thetamerge:16"])
)
FLOATS = st.lists(st.none() | st.floats(), max_size=12)
INTS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=12)
NUMBERS = st.one_of(
    FLOATS.map(lambda values: pa.array(values, pa.float64())),
    INTS.map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), max_size=12).map(
        lambda values: pa.array(values, pa.decimal128(20, 2))
    ),
)


def inputs(kind: str, values: pa.Array) -> Values:
    """What the law of this kind takes: first and last are ordered by a column with nulls and ties."""
    values = normalise(values, "x")
    if LAWS[kind].inputs < 2:
        return taken(kind, values)
    if kind == "covariance" and pa.types.is_decimal(values.type):  # a query casts them
        values = values.cast(pa.float64())
    return values, pa.array([None if len(str(v)) % 5 == 4 else len(str(v)) % 5 for v in values], pa.int64())


def lift(kind: str, values: pa.Array) -> State:
    state = LAWS[kind].lift(inputs(kind, values), np.zeros(len(values), np.int64), 1)
    LAWS[kind].check(state, 1)
    return state


def merge(kind: str, *states: State) -> State:
    state = LAWS[kind].merge(states, np.zeros(len(states), np.int64), 1)
    LAWS[kind].check(state, 1)
    return state


def result(state: State) -> Any:
    """What finish gives, as something that compares bit for bit."""
    (value,) = LAWS[state.kind].finish(state, 1).to_pylist()
    return [bits(item) for item in value] if isinstance(value, list) else bits(value)


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else np.float64(value).tobytes()
    return value


def thirds(values: pa.Array, cuts: tuple[int, int]) -> tuple[pa.Array, pa.Array, pa.Array]:
    low, high = sorted(cut % (len(values) + 1) for cut in cuts)
    return values[:low], values[low:high], values[high:]


CUTS = st.tuples(st.integers(0, 12), st.integers(0, 12))


@given(KINDS, NUMBERS, CUTS)
def test_merge_is_associative(kind: str, values: pa.Array, cuts: tuple[int, int]) -> None:
    a, b, c = (lift(kind, part) for part in thirds(values, cuts))
    left = merge(kind, merge(kind, a, b), c)
    right = merge(kind, a, merge(kind, b, c))
    assert result(left) == result(right) == result(merge(kind, a, b, c)) == result(lift(kind, values))


@given(KINDS, NUMBERS, CUTS)
def test_merge_is_commutative(kind: str, values: pa.Array, cuts: tuple[int, int]) -> None:
    a, b, _ = (lift(kind, part) for part in thirds(values, cuts))
    assert result(merge(kind, a, b)) == result(merge(kind, b, a))


@given(KINDS, NUMBERS)
def test_the_state_of_no_values_is_the_identity(kind: str, values: pa.Array) -> None:
    state, nothing = lift(kind, values), lift(kind, values[:0])
    assert result(merge(kind, state, nothing)) == result(merge(kind, nothing, state)) == result(state)


@given(st.sampled_from([kind for kind, law in sorted(LAWS.items()) if law.invertible]), NUMBERS, CUTS)
def test_a_declared_inverse_takes_back_exactly_what_was_merged(
    kind: str, values: pa.Array, cuts: tuple[int, int]
) -> None:
    a, b, _ = (lift(kind, part) for part in thirds(values, cuts))
    whole = merge(kind, a, b)
    assert result(merge(kind, whole, LAWS[kind].negate(b))) == result(a)
    assert result(merge(kind, whole, LAWS[kind].negate(whole))) == result(lift(kind, values[:0]))


def test_what_cannot_be_taken_back_declares_no_inverse() -> None:
    assert [kind for kind, law in LAWS.items() if law.invertible] == [
        "count",
        "sum",
        "sumsq",
        "variance",
        "covariance",
    ]
    for kind in set(LAWS) - {"count", "sum", "sumsq", "variance", "covariance"}:
        with pytest.raises(NotInvertible):
            LAWS[kind].negate(lift(kind, pa.array([1])))


@given(KINDS, NUMBERS)
def test_every_state_is_made_of_integers_and_plain_arrow_columns(kind: str, values: pa.Array) -> None:
    for column in lift(kind, values).parts.values():
        assert len(column) == 1
        if isinstance(column, np.ndarray):
            assert column.dtype == np.int64
            assert column.ndim == 1
        else:
            assert normalise(column, "x").type == column.type


def test_kinds_have_one_spelling_and_parameters_in_range() -> None:
    assert LAWS["kll:400"].kind == "kll:400"
    for kind in (
        "kll:200",
        "kll:0400",
        "kll:7",
        "kll:5000",
        "sum:1",
        "collect:0",
        "collect:10001",
        "x",
        "kll:",
        "theta:100",
        "theta:4096",
        "set:10001",
        "top:0",
    ):
        assert kind not in LAWS
    assert len(LAWS) == len(list(LAWS))


def spark_order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@given(FLOATS)
def test_float_aggregates_follow_spark(values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    present = [value for value in values if value is not None]
    assert result(lift("count", array)) == len(present)
    if not present:
        assert all(result(lift(kind, array)) is None for kind in ("sum", "min", "max"))
        return
    least, greatest = min(present, key=spark_order), max(present, key=spark_order)
    got_least, got_greatest = (LAWS[k].finish(lift(k, array), 1)[0].as_py() for k in ("min", "max"))
    assert got_least == least or (math.isnan(least) and math.isnan(got_least))
    assert got_greatest == greatest or (math.isnan(greatest) and math.isnan(got_greatest))
    total = LAWS["sum"].finish(lift("sum", array), 1)[0].as_py()
    if any(math.isnan(value) for value in present) or (math.inf in present and -math.inf in present):
        assert math.isnan(total)
    elif math.inf in present or -math.inf in present:
        assert total == (math.inf if math.inf in present else -math.inf)
    else:
        exact = sum(map(Fraction, present), Fraction(0))
        try:
            assert total == exact.numerator / exact.denominator
        except OverflowError:
            assert math.isinf(total)


ORDERABLE: list[tuple[Any, pa.DataType]] = [
    (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    (st.text(max_size=5), pa.string()),
    (st.binary(max_size=5), pa.binary()),
    (st.booleans(), pa.bool_()),
    (st.dates(), pa.date32()),
    (st.decimals(-(10**30), 10**30, places=3), pa.decimal128(38, 3)),
    (
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(
            lambda t: t.replace(tzinfo=dt.UTC)
        ),
        pa.timestamp("us", tz="UTC"),
    ),
    (st.times(), pa.time64("us")),
    (st.timedeltas(dt.timedelta(-999), dt.timedelta(999)), pa.duration("us")),
]


@given(st.data())
def test_min_and_max_of_any_orderable_type(data: st.DataObject) -> None:
    strategy, data_type = data.draw(st.sampled_from(ORDERABLE))
    rows = data.draw(st.lists(st.tuples(st.none() | strategy, st.integers(0, 2)), max_size=15))
    values = pa.array([value for value, _ in rows], data_type)
    ids = np.array([group for _, group in rows], np.int64)
    for kind, pick in (("min", min), ("max", max)):
        finished = LAWS[kind].finish(LAWS[kind].lift(values, ids, 3), 3)
        assert finished.type == data_type
        for group, got in enumerate(finished.to_pylist()):
            present = [value for value, number in rows if number == group and value is not None]
            # Spark compares strings by bytes; Python by code points: the same order for UTF-8.
            assert got == (pick(present) if present else None)


def test_extreme_integers_are_values_not_missing() -> None:
    for kind, value in (("min", 2**63 - 1), ("max", -(2**63))):
        assert result(lift(kind, pa.array([value]))) == value
        assert (
            result(merge(kind, lift(kind, pa.array([value])), lift(kind, pa.array([None], pa.int64()))))
            == value
        )


def test_integer_sums_widen_to_decimal_instead_of_wrapping() -> None:
    state = merge("sum", *(lift("sum", pa.array([2**63 - 1])) for _ in range(4)))
    finished = LAWS["sum"].finish(state, 1)
    assert finished.type == pa.decimal128(38, 0)
    assert finished[0].as_py() == 4 * (2**63 - 1)
    back = merge("sum", state, LAWS["sum"].negate(lift("sum", pa.array([2**63 - 1] * 3))))
    assert LAWS["sum"].finish(back, 1).type == pa.int64()


@given(INTS, FLOATS)
def test_integers_stay_exact_when_a_sum_turns_float(
    ints: list[int | None], floats: list[float | None]
) -> None:
    law = LAWS["sum"]
    wide = law.promote(lift("sum", pa.array(ints, pa.int64())), pa.float64())
    finite = [value for value in floats if value is not None and math.isfinite(value)]
    got = law.finish(merge("sum", wide, lift("sum", pa.array(finite, pa.float64()))), 1)[0].as_py()
    present = [Fraction(value) for value in [*ints, *finite] if value is not None]
    if not present:
        assert got is None
        return
    total = sum(present, Fraction(0))
    try:
        assert got == total.numerator / total.denominator
    except OverflowError:
        assert math.isinf(got)


def test_promoting_min_keeps_nulls() -> None:
    state = LAWS["min"].promote(lift("min", pa.nulls(2)), pa.string())
    assert LAWS["min"].finish(state, 1).to_pylist() == [None]
    assert promote(pa.array([1, None]), pa.float64()).to_pylist() == [1.0, None]


def test_sums_of_text_are_refused_with_the_aggregate_named() -> None:
    with pytest.raises(DataError, match="'total' is over string"):
        LAWS["sum"].value_type(pa.array(["1"]), "total")


def test_decimal_sums_have_ten_digits_more_or_all_if_one_needs_them() -> None:
    state = lift("sum", pa.array([Decimal("1.50"), None, Decimal("2.25")]))
    assert LAWS["sum"].finish(state, 1).type == pa.decimal128(13, 2)
    wide = lift("sum", pa.array([Decimal("9.99")] * 4))
    for _ in range(36):
        wide = merge("sum", wide, wide)
    assert LAWS["sum"].finish(wide, 1).type == pa.decimal128(38, 2)
    assert result(wide) == Decimal("9.99") * 4 * 2**36
    assert result(state) == Decimal("3.75")


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("count", {"other": np.zeros(1, np.int64)}),
        ("sum", {"limb+0": np.zeros(1, np.int64)}),
        ("sum", {"values": np.zeros(1, np.int64), "limb-1": np.zeros(1, np.int64)}),
        ("sum", {"values": np.zeros(1, np.int64), "limb+6": np.zeros(1, np.int64)}),
        ("sum", {"values": np.zeros(1, np.int64), "limb+99": np.zeros(1, np.int64)}),
        ("min", {"value": pa.array(["x"])}),
        ("max", {}),
    ],
)
def test_states_that_are_not_of_their_kind_are_refused(kind: str, parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=kind):
        LAWS[kind].check(State(kind, pa.int64(), parts), 1)
