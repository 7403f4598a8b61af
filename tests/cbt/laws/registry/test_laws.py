from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.errors import NotInvertible
from elfmesh.cbt.laws import LAWS, State
from tests.cbt.laws.values import FLOATS, INTS, lift, merge, result

KINDS = st.sampled_from(
    sorted([*LAWS, "collect:2", "kll:400", "frequent:50", "set:3", "top:50", "theta:16", "thetamerge:16"])
)


NUMBERS = st.one_of(
    FLOATS.map(lambda values: pa.array(values, pa.float64())),
    INTS.map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), max_size=12).map(
        lambda values: pa.array(values, pa.decimal128(20, 2))
    ),
)


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
