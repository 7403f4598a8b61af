"""The native kernel against its numpy twin: runs and their merge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Keys, Run
from tests.cbt.kernel.cases import BOUNDARY_SIZES, distinct, keys_of, plain, run_of, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)


bits = st.sampled_from([0, 1, 4, 8, 16])


@given(distinct, st.sampled_from([0, 1, 4]))
def test_front_coded_parts_are_those_of_the_twin(texts: set[bytes], bits: int) -> None:
    keys = keys_of(list(texts))
    order, cuts = native.sort_keys(keys, bits)
    coded = native.front_code(keys, order, cuts)
    assert [plain(run) for run in coded] == [plain(run) for run in twin.front_code(keys, order, cuts)]
    ordered = [texts_of(keys)[row] for row in order.tolist()]
    assert [text for run in coded for text in texts_of(native.decode_run(run))] == ordered


@given(st.lists(distinct, min_size=1, max_size=9))
def test_merge_is_that_of_the_twin_and_maps_lead_to_equal_keys(parts: list[set[bytes]]) -> None:
    runs = [run_of(twin, part) for part in parts]
    merged, maps = native.merge_runs(runs)
    expected, expected_maps = twin.merge_runs(runs)
    assert plain(merged) == plain(expected)
    assert [rows.tolist() for rows in maps] == [rows.tolist() for rows in expected_maps]
    whole = texts_of(native.decode_run(merged))
    assert whole == sorted(set().union(*parts))
    for rows, part in zip(maps, parts, strict=True):
        assert [whole[row] for row in rows.tolist()] == sorted(part)


@given(distinct, st.integers(0, 62), st.sampled_from([0, 1, 4]))
def test_partition_is_that_of_the_twin(texts: set[bytes], skip: int, bits: int) -> None:
    run = run_of(twin, texts)
    if skip + bits > 64:
        with pytest.raises(ValueError, match="bits"):
            native.partition_run(run, skip, bits)
        return
    parts, rows = native.partition_run(run, skip, bits)
    expected, expected_rows = twin.partition_run(run, skip, bits)
    assert [plain(part) for part in parts] == [plain(part) for part in expected]
    assert rows.tolist() == expected_rows.tolist()


@given(distinct)
def test_what_was_coded_is_a_run_and_unfolds(texts: set[bytes]) -> None:
    run = run_of(native, texts)
    assert plain(native.check_run(run.rows, run.wide, run.data, run.key_bytes)) == plain(run)
    assert texts_of(native.decode_run(run)) == sorted(texts) == texts_of(twin.decode_run(run))
    if run.key_bytes:
        with pytest.raises(ValueError, match="more bytes"):
            native.check_run(run.rows, run.wide, run.data, run.key_bytes - 1)


def test_keys_of_every_boundary_size() -> None:
    texts = {b"x" * size for size in BOUNDARY_SIZES} | {
        b"x" * (size - 1) + b"y" for size in BOUNDARY_SIZES[1:]
    }
    keys = keys_of(list(texts))
    order, cuts = native.sort_keys(keys, 0)
    assert order.tolist() == twin.sort_keys(keys, 0)[0].tolist()
    (run,) = native.front_code(keys, order, cuts)
    assert plain(run) == plain(run_of(twin, texts))
    assert texts_of(native.decode_run(run)) == sorted(texts)
    assert plain(native.check_run(run.rows, run.wide, run.data, 2**31)) == plain(run)
    halves = [run_of(twin, set(sorted(texts)[start::2])) for start in (0, 1)]
    assert plain(native.merge_runs(halves)[0]) == plain(run)
    assert [plain(part) for part in native.partition_run(run, 3, 4)[0]] == [
        plain(part) for part in twin.partition_run(run, 3, 4)[0]
    ]


def test_a_narrow_and_a_wide_run_make_what_their_keys_need() -> None:
    wide, narrow = run_of(twin, {b"a" * 300}), run_of(twin, {b"a" * 200})
    assert wide.wide
    assert not native.merge_runs([wide, narrow])[0].wide  # 200 shared, 100 more
    left, right = (run_of(twin, {b"a" * 250 + middle * 50}) for middle in (b"b", b"c"))
    pair = [run_of(twin, {b"a" * 200, b"a" * 250 + tail * 100}) for tail in (b"b", b"c")]
    assert left.wide
    assert right.wide
    assert not pair[0].wide
    same = [run_of(twin, {b"a" * 200, b"a" * 400 + tail}) for tail in (b"b", b"c")]
    assert not same[0].wide
    merged = native.merge_runs(same)[0]  # two narrow runs whose keys share 400 bytes
    assert merged.wide
    assert plain(merged) == plain(twin.merge_runs(same)[0])


@given(
    st.lists(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 26), st.booleans())), min_size=2, max_size=5)
)
def test_zeros_at_the_ends_of_keys_do_not_mislead_a_merge(parts: list[set[tuple[int, int, bool]]]) -> None:
    """The merge compares keys as if zeros followed their ends; these differ by zeros, and after zeros."""
    keys = [{b"a" * a + bytes(zeros) + b"b" * b for a, zeros, b in part} for part in parts]
    merged, maps = native.merge_runs([run_of(twin, part) for part in keys])
    assert plain(merged) == plain(run_of(twin, set().union(*keys)))
    whole = texts_of(native.decode_run(merged))
    for rows, part in zip(maps, keys, strict=True):
        assert [whole[row] for row in rows.tolist()] == sorted(part)


def test_4096_runs_merge_and_4097_do_not() -> None:
    runs = [run_of(twin, {b"%d" % (7 * part % 5000), b"common"}) for part in range(4096)]
    merged, maps = native.merge_runs(runs)
    expected, expected_maps = twin.merge_runs(runs)
    assert plain(merged) == plain(expected)
    assert [rows.tolist() for rows in maps] == [rows.tolist() for rows in expected_maps]
    with pytest.raises(ValueError, match="4097"):
        native.merge_runs([*runs, runs[0]])
    with pytest.raises(ValueError, match="0 runs"):
        native.merge_runs([])


@pytest.mark.parametrize(("order", "cuts"), [([1, 0], [0, 2]), ([0, 0], [0, 2])])
def test_parts_that_do_not_ascend_are_refused(order: list[int], cuts: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        native.front_code(keys_of([b"a", b"b"]), np.array(order), np.array(cuts))


@pytest.mark.parametrize(
    ("offsets", "size"),
    [
        ([0, 5], 4),
        ([3, 2], 4),
        ([-1, 2], 4),
        ([0, -2147483648, 3], 4),
        ([], 0),
        ([0, KEY_BYTES_MAX + 1], 70_000),
    ],
)
def test_keys_that_lie_about_their_bytes_are_refused(offsets: list[int], size: int) -> None:
    keys = Keys(np.array(offsets, np.int32), np.zeros(size, np.uint8))
    with pytest.raises(ValueError, match=r"offset|65535|__len__"):
        native.hash_keys(keys)


def test_arrays_of_another_type_are_refused() -> None:
    keys = keys_of([b"a"])
    with pytest.raises(TypeError, match="int64"):
        native.hash_keys(Keys(keys.offsets.astype(np.int64), keys.data))
    with pytest.raises(TypeError, match="uint8"):
        native.decode_run(Run(0, 0, False, np.zeros(2, np.int8)))


def test_strided_and_unaligned_arrays_are_read_as_they_are() -> None:
    texts = [b"b", b"a", b"c"]
    strided = keys_of(texts)
    doubled = np.repeat(strided.data, 2)[::2]
    raw = b"." + strided.offsets.tobytes()
    unaligned = np.frombuffer(raw, np.int32, 4, 1)
    assert not unaligned.flags.aligned
    assert native.sort_keys(Keys(unaligned, doubled), 0)[0].tolist() == [1, 0, 2]
