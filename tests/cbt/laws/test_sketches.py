"""Sketches against Apache DataSketches itself: equal bytes where they can be, else equal contents."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sketches import hll_estimates, kll_quantiles
from elfmesh.errors import ConfigError
from tests.cbt.laws.sketching import ZEROS, sketch


@given(st.lists(st.floats(allow_nan=False), max_size=900), st.integers(0, 900))
def test_kll_and_frequent_give_equal_bytes_for_equal_merges_in_either_order(
    values: list[float], cut: int
) -> None:
    for kind in ("kll:8", "frequent:5"):
        law = LAWS[kind]
        a, b = (
            law.lift(normalise(pa.array(part, pa.float64()), "x"), ZEROS[: len(part)], 1)
            for part in (values[:cut], values[cut:])
        )
        one, two = (law.merge(pair, ZEROS[:2], 1) for pair in ((a, b), (b, a)))
        law.check(one, 1)
        assert law.finish(one, 1).equals(law.finish(two, 1))


def test_many_groups_at_once_equal_each_alone() -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 30, 20_000) ** 2 // 30
    columns: dict[str, pa.Array] = {
        "kll:20": pa.array(rng.normal(size=20_000)),
        "frequent:10": pa.array(rng.zipf(1.3, 20_000) % 1000),
        "hll": pa.array(rng.integers(0, 2000, 20_000)),
    }
    for kind, column in columns.items():
        law = LAWS[kind]
        together = law.finish(law.lift(column, ids, 30), 30).to_pylist()
        for group in range(30):
            own = column.filter(pa.array(ids == group))
            assert law.finish(law.lift(own, ZEROS[: len(own)], 1), 1)[0].as_py() == together[group]


def test_without_the_library_sketches_are_built_and_only_estimates_raise_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ConfigError, match="datasketches"):
        hll_estimates(pa.array([sketch("hll", [1, 2])]))
    assert kll_quantiles(pa.array([sketch("kll", [1.0, 2.0, 3.0])]), [0.5]).to_pylist() == [[2.0]]
