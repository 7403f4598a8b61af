"""KLL against Apache DataSketches itself."""

from __future__ import annotations

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.laws.blobs import from_lengths
from elfmesh.cbt.laws.kll import KllAccumulator
from elfmesh.cbt.laws.sketches import kll_quantiles
from elfmesh.errors import DataError
from tests.cbt.laws.sketching import ZEROS, sketch
from tests.hostile.memory import peak_bytes


@pytest.mark.parametrize("kind", ["kll", "kll:8", "kll:1000"])
@pytest.mark.parametrize("count", [0, 1, 2, 199, 200, 201, 3000, 100_000])
def test_kll_is_read_by_the_library_and_right_within_its_error(kind: str, count: int) -> None:
    values = np.random.default_rng(count).lognormal(size=count)
    held = sketch(kind, pa.array(values))
    theirs = datasketches.kll_doubles_sketch.deserialize(held)
    assert theirs.n == count
    assert theirs.serialize() == held
    if count == 0:
        assert kll_quantiles(pa.array([held]), [0.5]).to_pylist() == [None]
        return
    ordered = np.sort(values)
    assert (theirs.get_min_value(), theirs.get_max_value()) == (ordered[0], ordered[-1])
    ranks = np.linspace(0.01, 0.99, 50).tolist()
    (quantiles,) = kll_quantiles(pa.array([held]), ranks).to_pylist()
    error = theirs.normalized_rank_error(False)
    for rank, quantile in zip(ranks, quantiles, strict=True):
        low, high = (np.searchsorted(ordered, quantile, side) / count for side in ("left", "right"))
        assert low - error - 1 / count <= rank <= high + error + 1 / count


def test_kll_merged_in_any_tree_stays_within_its_error_and_n_is_exact() -> None:
    rng = np.random.default_rng(7)
    parts = [np.sort(rng.normal(size=700)) for _ in range(64)]  # sorted: the worst for a biased coin
    ordered = np.sort(np.concatenate(parts))
    states = [LAWS["kll"].lift(pa.array(part), ZEROS[:700], 1) for part in parts]
    for width in (2, 8, 64):
        level = states
        while len(level) > 1:
            groups = [level[i : i + width] for i in range(0, len(level), width)]
            level = [LAWS["kll"].merge(group, ZEROS[: len(group)], 1) for group in groups]
        held = datasketches.kll_doubles_sketch.deserialize(LAWS["kll"].finish(level[0], 1)[0].as_py())
        assert held.n == len(ordered)
        ranks = np.linspace(0.02, 0.98, 49)
        got = [np.searchsorted(ordered, held.get_quantile(rank)) / len(ordered) for rank in ranks.tolist()]
        assert np.abs(np.array(got) - ranks).max() < held.normalized_rank_error(False)


def test_a_coin_that_always_falls_alike_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(60_000.0)

    def bias() -> float:
        accumulator = LAWS["kll:8"].accumulator(pa.float64())
        assert isinstance(accumulator, KllAccumulator)
        errors = []
        for start in range(0, 60_000, 600):
            state = LAWS["kll:8"].lift(pa.array(values[:600] + start), ZEROS[:600], 1)
            held = datasketches.kll_doubles_sketch.deserialize(LAWS["kll:8"].finish(state, 1)[0].as_py())
            errors.append(held.get_rank(float(start + 300)) - 0.5)
        return abs(float(np.mean(errors)))

    fair = bias()
    monkeypatch.setattr(
        "elfmesh.cbt.laws.kll._coins", lambda first, last, size: np.zeros(len(size), np.int64)
    )
    assert fair < 0.02
    assert bias() > 2 * fair


def test_quantiles_of_text_are_refused() -> None:
    with pytest.raises(DataError, match="kll 'p' is over string"):
        LAWS["kll"].value_type(pa.array(["1"]), "p")


def test_a_kll_of_more_levels_than_it_holds_is_refused_before_it_is_unpacked() -> None:
    law, count = LAWS["kll"], 8_000_000
    levels = from_lengths(np.array([count]), np.zeros(count, np.uint8))
    one = np.zeros(1, np.int64)
    parts = {"n": one, "least": one, "greatest": one, "levels": levels, "items": pa.array([b""], pa.binary())}

    def refused() -> None:
        with pytest.raises(ValueError, match="do not fit its levels"):
            law.check(State("kll", pa.float64(), parts), 1)

    assert peak_bytes(refused, count // 8) < count // 8
