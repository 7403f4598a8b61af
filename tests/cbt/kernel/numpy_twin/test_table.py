"""The hot table in C against the one in Python, and what it withstands."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Keys
from tests.cbt.kernel.cases import BOUNDARY_SIZES, any_keys, keys_of, plain, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)


@given(st.lists(st.one_of(any_keys, st.none()), max_size=6), st.integers(-5, 2**70))
def test_ids_and_keys_are_those_of_the_twin(batches: list[list[bytes] | None], seed: int) -> None:
    ours, theirs = native.table(seed), twin.table(seed & 0xFFFF)
    for batch in batches:
        if batch is None:
            ours.clear()
            theirs.clear()
            continue
        keys = keys_of(batch, b"?")
        assert ours.upsert(keys).tolist() == theirs.upsert(keys).tolist()
    assert (ours.rows, ours.key_bytes) == (theirs.rows, theirs.key_bytes)
    assert texts_of(ours.keys()) == texts_of(theirs.keys())
    order, cuts = ours.order(4)
    expected = theirs.order(4)
    assert (order.tolist(), cuts.tolist()) == (expected[0].tolist(), expected[1].tolist())
    runs = ours.runs(order, cuts)
    assert [plain(run) for run in runs] == [plain(run) for run in theirs.runs(order, cuts)]


def numbered(count: int, start: int = 0) -> Keys:
    return keys_of([b"key-%d" % number for number in range(start, start + count)])


def test_a_table_grows_through_many_sizes_and_knows_every_key_again() -> None:
    table = native.table(3)
    for start in range(0, 60_000, 7_001):
        assert table.upsert(numbered(7_001, start)).tolist() == list(range(start, start + 7_001))
    assert table.upsert(numbered(63_009)).tolist() == list(range(63_009))
    assert table.key_bytes <= table.nbytes < 6 * table.key_bytes


def test_keys_of_every_boundary_size() -> None:
    texts = [letter * size for size in BOUNDARY_SIZES for letter in (b"x", b"y")]
    texts = [text for place, text in enumerate(texts) if text or place == 0]
    table = native.table(0)
    assert table.upsert(keys_of(texts)).tolist() == list(range(len(texts)))
    assert table.upsert(keys_of(texts[::-1])).tolist() == list(range(len(texts)))[::-1]
    assert texts_of(table.keys()) == texts


def test_a_key_that_is_too_long_adds_nothing() -> None:
    table = native.table(0)
    table.upsert(keys_of([b"old"]))
    with pytest.raises(ValueError, match="65535"):
        table.upsert(keys_of([b"new", b"x" * (KEY_BYTES_MAX + 1)]))
    assert texts_of(table.keys()) == [b"old"]
    assert table.upsert(keys_of([b"new"])).tolist() == [1]


def test_a_batch_beyond_the_limit_adds_nothing_and_the_table_lives_on() -> None:
    table = native.HotTable(0, key_bytes_max=50_000)
    before = numbered(2_000)
    table.upsert(before)
    with pytest.raises(ValueError, match="limit"):
        table.upsert(numbered(8_000, 1_000))
    assert table.rows == 2_000
    assert table.upsert(before).tolist() == list(range(2_000))
    assert table.upsert(numbered(10, 9_990)).tolist() == list(range(2_000, 2_010))


def test_clear_keeps_the_memory() -> None:
    table = native.table(0)
    table.upsert(numbered(50_000))
    held, key_bytes = table.nbytes, table.key_bytes
    table.clear()
    assert (table.rows, table.key_bytes, table.nbytes) == (0, 0, held)
    table.upsert(numbered(50_000, 7))
    assert table.nbytes - held == max(0, table.key_bytes - key_bytes), "only what was never written before"


def test_small_tables_are_small() -> None:
    table = native.table(0)
    table.upsert(keys_of([b"one", b"two"] * 30_000))
    assert table.nbytes < 8_192


def test_keys_of_one_placement_do_not_crowd_the_index() -> None:
    everyone = numbered(400_000)
    texts = texts_of(everyone)
    crowd = np.flatnonzero(native.hash_keys(everyone) >> np.uint64(58) == 0)
    keys = keys_of([texts[row] for row in crowd.tolist()])
    assert len(keys) > 5_000
    table = native.table(0)
    table.upsert(keys)
    assert table.probes < 4 * len(keys)


def test_keys_chosen_against_one_seed_do_not_collide_under_another() -> None:
    """Ablation: a victim whose seed is known is crowded: the test would notice an index without a key."""
    victim, chosen = native.HotTable(1), []
    for text in texts_of(numbered(4_000)):
        probes = victim.probes
        victim.upsert(keys_of([text]))
        # The longest searches lie in one dense stretch of the index.
        chosen.append((victim.probes - probes, text))
    worst = keys_of([text for _, text in sorted(chosen, reverse=True)[:150]])

    def searches(seed: int) -> int:
        table = native.HotTable(seed)
        for text in texts_of(numbered(2_500)):
            table.upsert(keys_of([text]))
        before: int = table.probes
        table.upsert(worst)
        return int(table.probes) - before

    others = sorted(searches(seed) for seed in range(2, 9))
    assert searches(1) > 2 * others[3]


def test_patterned_keys_spread_as_random_ones() -> None:
    """Counters, padded counters, bit flips, long common prefixes and suffixes: few probes per key."""
    count = 30_000
    families = {
        "counter": [number.to_bytes(8, "little") for number in range(count)],
        "high": [number.to_bytes(8, "big") for number in range(count)],
        "prefix": [b"/a/long/common/prefix/of/paths/%d" % number for number in range(count)],
        "suffix": [b"%d/a/long/common/suffix/of/paths" % number for number in range(count)],
        "zeros": [bytes(size) for size in range(2_000)],
        "multiples": [(number << 32).to_bytes(16, "little") for number in range(count)],
        "middle": [bytes(20) + number.to_bytes(4, "little") + bytes(20) for number in range(count)],
    }
    for name, texts in families.items():
        table = native.table(5)
        table.upsert(keys_of(texts))
        assert table.probes < 3 * len(texts), name


def test_a_second_thread_in_one_table_is_refused_and_nothing_breaks() -> None:
    table = native.table(0)
    keys = numbered(1_500_000)
    refused = 0
    rows: set[int] = set()
    for _ in range(5):
        table.clear()
        worker = threading.Thread(target=table.upsert, args=(keys,))
        worker.start()
        while worker.is_alive():
            try:
                rows.add(table.rows)
            except RuntimeError:
                refused += 1
        worker.join()
        assert table.rows == len(keys)
        if refused:
            break
    assert refused
    assert rows <= {0, len(keys)}
