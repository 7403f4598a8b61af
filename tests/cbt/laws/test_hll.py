"""HLL against Apache DataSketches itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.laws.hll import COUPONS_MAX
from elfmesh.cbt.laws.sketches import hll_estimates
from tests.cbt.laws.sketching import ZEROS, library_hll, sketch


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 24, 25, 100, COUPONS_MAX, COUPONS_MAX + 1, 500, 20_000])
def test_hll_holds_what_the_library_holds(count: int) -> None:
    values = [(-1) ** i * i * 1_000_003 for i in range(count)]
    ours, theirs = sketch("hll", pa.array(values, pa.int64())), library_hll(values).serialize_compact()
    assert len(ours) == len(theirs)
    if count > COUPONS_MAX:
        # All but the library's running estimate, which depends on order, and the flag that says so.
        assert ours[:5] + ours[6:8] + ours[16:] == theirs[:5] + theirs[6:8] + theirs[16:]
        assert abs(hll_estimates(pa.array([ours]))[0].as_py() / count - 1) < 0.06
        return
    start = 8 if count < 8 else 12
    assert ours[:start] == theirs[:start]
    coupons = [np.sort(np.frombuffer(held[start:], "<u4")).tolist() for held in (ours, theirs)]
    assert coupons[0] == coupons[1]
    assert round(hll_estimates(pa.array([ours]))[0].as_py()) == count


def test_hll_takes_every_type_and_floats_count_as_the_integers_they_equal() -> None:
    integers, floats = pa.array([1, 2, 3, None]), pa.array([1.0, 2.0, 3.0, None])
    assert sketch("hll", integers) == sketch("hll", floats)
    assert sketch("hll", pa.array([1.5, float("nan"), float("inf"), -0.0])) != sketch(
        "hll", pa.array([1, 2, 3, 0])
    )
    for column in (
        pa.array([b"\xff", b""]),
        pa.array([True, False]),
        pa.array([1, 2]).cast(pa.timestamp("us", "UTC")),
        pa.array([1, 2]).cast(pa.decimal128(20, 0)),
        pa.nulls(2),
    ):
        assert hll_estimates(pa.array([sketch("hll", column)]))[0].as_py() < 2.1


@given(st.lists(st.integers(0, 3000), max_size=3), st.integers(0, 1000))
def test_hll_states_depend_on_the_set_alone(cuts: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).permutation(3000)
    whole = sketch("hll", pa.array(np.arange(3000)))
    parts = [values[a:b] for a, b in pairwise([0, *sorted(cuts), 3000])]
    states = [LAWS["hll"].lift(pa.array(part, pa.int64()), ZEROS[: len(part)], 1) for part in parts]
    while len(states) > 1:
        pair = states[:2]
        states = [*states[2:], LAWS["hll"].merge(pair, ZEROS[:2], 1)]
    assert LAWS["hll"].finish(states[0], 1)[0].as_py() == whole


def test_a_promoted_hll_goes_on_counting_the_same_values() -> None:
    law = LAWS["hll"]
    state: State = law.promote(law.lift(pa.array([1, 2]), ZEROS[:2], 1), pa.float64())
    again = law.merge([state, law.lift(pa.array([2.0, 1.0]), ZEROS[:2], 1)], ZEROS[:2], 1)
    assert round(hll_estimates(law.finish(again, 1))[0].as_py()) == 2
