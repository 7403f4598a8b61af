"""Finished sketches are merged as Apache DataSketches merges them; bytes that are none make a group null."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from typing import Any

import datasketches as library
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sketches import kll_quantiles, theta_estimate, theta_held
from elfmesh.errors import DataError

PARTS = ((0, 0), (0, 1), (1, 7), (3, 40), (30, 420), (100, 5_000), (4_000, 20_000))


def merged(kind: str, sketches: Sequence[bytes | None]) -> bytes | None:
    law = LAWS[kind]
    state = law.lift(pa.array(sketches, pa.binary()), np.zeros(len(sketches), np.int64), 1)
    law.check(state, 1)
    held: bytes | None = law.finish(state, 1)[0].as_py()
    return held


def hll(span: tuple[int, int], *, kind: Any = library.tgt_hll_type.HLL_8, updatable: bool = False) -> bytes:
    sketch = library.hll_sketch(12, kind)
    for value in range(*span):
        sketch.update(value)
    return bytes(sketch.serialize_updatable() if updatable else sketch.serialize_compact())


def theta(span: tuple[int, int], log: int = 12) -> bytes:
    sketch = library.update_theta_sketch(log)
    for value in range(*span):
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def kll(span: tuple[int, int], k: int = 200) -> bytes:
    sketch = library.kll_doubles_sketch(k)
    sketch.update(np.arange(*span, dtype=np.float64))
    return bytes(sketch.serialize())


@pytest.mark.parametrize("updatable", [False, True])
@pytest.mark.parametrize("count", range(1, len(PARTS) + 1))
def test_hll(count: int, updatable: bool) -> None:
    union = library.hll_union(12)
    parts = [hll(span, updatable=updatable) for span in PARTS[:count]]
    for part in parts:
        union.update(library.hll_sketch.deserialize(part))
    held = merged("hllmerge", [*parts, None])
    assert held is not None
    expected = union.get_result(library.tgt_hll_type.HLL_8)
    estimate = library.hll_sketch.deserialize(held).get_estimate()
    assert estimate == pytest.approx(expected.get_estimate(), rel=0.02), "the library's running one at best"
    if len(held) > 4096:
        assert held[40:] == bytes(expected.serialize_compact())[40:], "the registers"
    assert merged("hllmerge", [held, held]) == held


@pytest.mark.parametrize("log", [4, 8, 12])
@pytest.mark.parametrize("count", range(1, len(PARTS) + 1))
def test_theta(count: int, log: int) -> None:
    """Also of sketches that keep fewer, or more, than the union does."""
    logs = [5, 12, 14, 4, 12, 6, 12]
    parts = [theta(span, max(each, 5)) for span, each in zip(PARTS[:count], logs, strict=False)]
    held = merged(f"thetamerge:{1 << log}" if log != 12 else "thetamerge", parts)
    assert held is not None
    union = library.theta_union(max(log, 5))
    for part in parts:
        union.update(library.compact_theta_sketch.deserialize(part))
    if log >= 5:  # the library keeps no fewer than 32
        expected = union.get_result()
        found = library.compact_theta_sketch.deserialize(held)
        assert sorted(found) == sorted(expected)
        assert found.theta64 == expected.theta64
    low, high = PARTS[0][0], max(span[1] for span in PARTS[:count])
    assert theta_estimate(held) == pytest.approx(high - low, rel=0.9 if log == 4 else 0.6)


def test_a_union_of_thetas_is_the_same_in_any_tree() -> None:
    rng = random.Random(3)
    parts = [
        theta((low := rng.randrange(9_000), low + rng.randrange(9_000)), rng.choice([5, 9, 12]))
        for _ in range(9)
    ]
    whole = merged("thetamerge", list(parts))
    law = LAWS["thetamerge"]
    for _ in range(10):
        rng.shuffle(parts)
        states = [law.lift(pa.array([part]), np.zeros(1, np.int64), 1) for part in parts]
        while len(states) > 1:
            pair = [states.pop(rng.randrange(len(states))) for _ in range(2)]
            states.append(law.merge(pair, np.zeros(2, np.int64), 1))
        assert law.finish(states[0], 1)[0].as_py() == whole


@pytest.mark.parametrize("k", [8, 200, 1000])
def test_kll(k: int) -> None:
    parts = [kll(span, each) for span, each in zip(PARTS, [200, 8, 200, 400, 200, 100, 200], strict=True)]
    held = merged("kllmerge" if k == 200 else f"kllmerge:{k}", parts)
    assert held is not None
    found = library.kll_doubles_sketch.deserialize(held)
    values = np.sort(np.concatenate([np.arange(*span, dtype=float) for span in PARTS]))
    assert (found.n, found.get_min_value(), found.get_max_value()) == (len(values), 0.0, 19_999.0)
    quantiles = kll_quantiles(pa.array([held]), [0.1, 0.5, 0.9])[0].as_py()
    for share, quantile in zip([0.1, 0.5, 0.9], quantiles, strict=True):
        assert abs(np.searchsorted(values, quantile) / len(values) - share) < max(3.3 / min(k, 100), 0.02)


def test_a_packed_theta_is_read_as_the_library_reads_it() -> None:
    hashes, bound = theta_held(PACKED)
    expected = library.compact_theta_sketch.deserialize(PACKED)
    assert (hashes.tolist(), bound) == (sorted(expected), expected.theta64)
    assert merged("thetamerge", [PACKED, theta((0, 30))]) == merged("thetamerge", [theta((0, 30))])


def test_what_is_no_sketch_makes_its_group_null_and_no_other() -> None:
    for kind, good in (("hllmerge", hll((0, 9))), ("thetamerge", theta((0, 9))), ("kllmerge", kll((0, 9)))):
        law = LAWS[kind]
        values = pa.array([good, b"torn", good, None], pa.binary())
        state = law.lift(values, np.array([0, 0, 1, 2]), 3)
        nothing = law.lift(pa.nulls(0, pa.binary()), np.zeros(0, np.int64), 3)
        again = law.merge([state, nothing], np.array([0, 1, 2, 0, 1, 2]), 3)
        first, second, third = law.finish(again, 3).to_pylist()
        assert first is None
        assert merged(kind, [second]) == merged(kind, [good])
        assert third is not None
        assert merged(kind, [third, good]) == merged(kind, [good]), "nothing is the empty sketch"
        with pytest.raises(DataError, match="are not sketches"):
            law.value_type(pa.array(["text"]), "x")


def test_sketches_that_cannot_be_merged_exactly_are_refused() -> None:
    small = library.hll_sketch(10, library.tgt_hll_type.HLL_8)
    small.update(1)
    assert merged("hllmerge", [bytes(small.serialize_compact())]) is None
    assert merged("hllmerge", [hll((0, 5_000), kind=library.tgt_hll_type.HLL_4)]) is None
    assert merged("hllmerge", [hll((0, 300), kind=library.tgt_hll_type.HLL_4)]) is not None, (
        "coupons are alike"
    )
    assert merged("kllmerge", [theta((0, 9))]) is None


PACKED = base64.b64decode(
    "AQQDPQEazJMeDHkgnEvJx9jL8a6Flah5wcU34FdcPGYpxVDBWw5SsAzGd1hFVpShlMEKBZ4uVB+632k6kNJjEiFQFX2VLDfq"
    "Xfz4i4bwOQvts7JTrQNmsxu3kW48A8CjZW5e5WBrxkySr4awAz4OutgXGwgOPdTWr2nLIXkdKWdUFtwb1eOGVlYu6f3XSlSH"
    "T2jZ6zb46VaTei4ftjo5CNBRCU4y2qymhZUH+kex69nob6YwSN4uesDwzf5E99qtLZGZ7UEWe/uevwRq34z1436B8+CSvkS+"
    "HSXSbtn9ANy0tAjQ2poFyNbGMlzj4A=="
)
"""What Spark's theta_sketch_agg makes of the numbers from 0 to 29: serial version 4."""

SAMPLES = {
    "hllmerge": [hll((0, 3)), hll((0, 100)), hll((0, 3_000)), hll((0, 100), updatable=True)],
    "thetamerge": [theta((0, 0)), theta((0, 1)), theta((0, 50)), PACKED],
    "kllmerge": [kll((0, 0)), kll((0, 1)), kll((0, 50)), kll((0, 3_000))],
}


@settings(max_examples=300)
@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 3), st.data())
@example("kllmerge", 3, None)
def test_torn_and_changed_sketches_are_null_or_sketches(kind: str, at: int, data: Any) -> None:
    whole = SAMPLES[kind][at]
    if data is None:
        damaged = bytearray(whole[:8] + (2**63).to_bytes(8, "little") + whole[16:])
    else:
        damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
        for _ in range(data.draw(st.integers(0, 4))):
            if damaged:
                damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    held = merged(kind, [bytes(damaged), SAMPLES[kind][2]])
    if held is not None:
        assert merged(kind, [held]) is not None
