"""Sketches against Apache DataSketches itself: equal bytes where they can be, else equal contents."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import pairwise
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.laws.blobs import from_lengths
from elfmesh.cbt.laws.hll import COUPONS_MAX, LOG_REGISTERS
from elfmesh.cbt.laws.kll import KllAccumulator
from elfmesh.cbt.laws.murmur import hash_strings, hash_words
from elfmesh.cbt.laws.sketches import hll_estimates, kll_quantiles
from elfmesh.errors import ConfigError, DataError

ZEROS = np.zeros(1 << 20, np.int64)


def sketch(kind: str, values: Any) -> bytes:
    """One group's finished sketch."""
    column = normalise(values if isinstance(values, pa.Array) else pa.array(values), "x")
    state = LAWS[kind].lift(column, ZEROS[: len(column)], 1)
    LAWS[kind].check(state, 1)
    return bytes(LAWS[kind].finish(state, 1)[0].as_py())


def library_hll(values: list[Any]) -> Any:
    held = datasketches.hll_sketch(LOG_REGISTERS, datasketches.HLL_8)
    for value in values:
        held.update(value)
    return held


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


@given(st.lists(st.text(max_size=40), max_size=20), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_strings_and_integers_are_hashed_as_the_library_does(texts: list[str], numbers: list[int]) -> None:
    for values, data_type in ((texts, pa.string()), (numbers, pa.int64())):
        ours = datasketches.hll_sketch.deserialize(sketch("hll", pa.array(values, data_type)))
        union = datasketches.hll_union(LOG_REGISTERS)
        union.update(ours)
        union.update(library_hll(list(values)))
        assert union.get_estimate() == ours.get_estimate() == library_hll(list(values)).get_estimate()


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


def test_hashes_of_strings_around_block_borders_equal_those_of_words() -> None:
    words = np.arange(50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    by_words = hash_words(words)
    by_bytes = hash_strings(np.arange(51, dtype=np.int32) * 8, words.view(np.uint8))
    assert all(np.array_equal(a, b) for a, b in zip(by_words, by_bytes, strict=True))


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


def test_frequent_values_are_read_by_the_library_within_their_bounds() -> None:
    numbers = np.random.default_rng(5).zipf(1.4, 50_000) % 20_000
    texts = [f"/path/{n}" for n in numbers.tolist()]
    held = datasketches.frequent_strings_sketch.deserialize(sketch("frequent:50", texts))
    assert held.total_weight == 50_000
    assert held.num_active_items <= 50
    counts = dict(zip(*np.unique(texts, return_counts=True), strict=True))
    for text, count in counts.items():
        assert held.get_lower_bound(text) <= count <= held.get_upper_bound(text)
        if count > 50_000 / 51:
            assert held.get_lower_bound(text) > 0
    few = ["a", "b", "a", "", "é"]
    exact = datasketches.frequent_strings_sketch.deserialize(sketch("frequent", few))
    assert [exact.get_estimate(text) for text in ("a", "b", "", "é", "c")] == [2, 1, 1, 1, 0]
    longs = datasketches.frequent_items_sketch.deserialize(
        sketch("frequent", [5, -6, -6]), datasketches.PyLongsSerDe()
    )
    assert [longs.get_estimate(number) for number in (5, -6)] == [1, 2]
    assert datasketches.frequent_strings_sketch.deserialize(sketch("frequent", pa.nulls(3))).is_empty()


def test_frequent_values_are_thinned_while_they_come() -> None:
    accumulator = LAWS["frequent:10"].accumulator(pa.int64())
    for start in range(0, 400_000, 50_000):
        accumulator.add(pa.array(np.arange(start, start + 50_000)), ZEROS[:50_000], 1)
        accumulator.add(pa.array(np.full(5_000, -1)), ZEROS[:5_000], 1)
    assert accumulator.nbytes < 30_000_000
    state = accumulator.freeze(1)
    LAWS["frequent:10"].check(state, 1)
    assert state.parts["error"][0] <= 440_000 / 11
    held = datasketches.frequent_items_sketch.deserialize(
        LAWS["frequent:10"].finish(state, 1)[0].as_py(), datasketches.PyLongsSerDe()
    )
    assert held.get_lower_bound(-1) <= 40_000 <= held.get_upper_bound(-1)


def test_quantiles_of_text_are_refused() -> None:
    with pytest.raises(DataError, match="kll 'p' is over string"):
        LAWS["kll"].value_type(pa.array(["1"]), "p")


def test_without_the_library_sketches_are_built_and_only_estimates_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ConfigError, match="datasketches"):
        hll_estimates(pa.array([sketch("hll", [1, 2])]))
    assert kll_quantiles(pa.array([sketch("kll", [1.0, 2.0, 3.0])]), [0.5]).to_pylist() == [[2.0]]


def test_a_promoted_hll_goes_on_counting_the_same_values() -> None:
    law = LAWS["hll"]
    state: State = law.promote(law.lift(pa.array([1, 2]), ZEROS[:2], 1), pa.float64())
    again = law.merge([state, law.lift(pa.array([2.0, 1.0]), ZEROS[:2], 1)], ZEROS[:2], 1)
    assert round(hll_estimates(law.finish(again, 1))[0].as_py()) == 2


def test_a_kll_of_more_levels_than_it_holds_is_refused_before_it_is_unpacked() -> None:
    law, count = LAWS["kll"], 8_000_000
    levels = from_lengths(np.array([count]), np.zeros(count, np.uint8))
    one = np.zeros(1, np.int64)
    parts = {"n": one, "least": one, "greatest": one, "levels": levels, "items": pa.array([b""], pa.binary())}
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="do not fit its levels"):
            law.check(State("kll", pa.float64(), parts), 1)
        assert tracemalloc.get_traced_memory()[1] < count // 8
    finally:
        tracemalloc.stop()
