"""Runs from outside: what check_run lets through is a run, what it does not is refused by every function."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Run
from tests.cbt.kernel.cases import distinct, plain, run_of, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)

LIMIT = 1 << 20


def bytes_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint8)


REFUSED = {
    "fewer bytes than lengths": (2, False, bytes_of(0, 0, 1)),
    "lengths, no bytes": (1, False, bytes_of(0, 1)),
    "bytes left over": (1, False, bytes_of(0, 1, 97, 97)),
    "bytes without rows": (0, False, bytes_of(1)),
    "the first shares": (1, False, bytes_of(1, 1, 97)),
    "shares more than there is": (2, False, bytes_of(0, 2, 1, 1, 97, 98)),
    "equal keys": (2, False, bytes_of(0, 1, 1, 0, 97)),
    "a prefix after its key": (2, False, bytes_of(0, 1, 2, 0, 97, 98)),
    "descending": (2, False, bytes_of(0, 0, 1, 1, 98, 97)),
    "shares more than it says": (2, False, bytes_of(0, 0, 1, 2, 97, 97, 98)),
    "two empty keys": (2, False, bytes_of(0, 0, 0, 0)),
    "a negative number of rows": (-1, False, bytes_of()),
    "rows beyond all bytes": (1 << 62, True, bytes_of(0, 0)),
    "a key over the limit": (2, True, np.concatenate((
        np.array([0, 65_535, 65_535, 1], "<u2").view(np.uint8), np.full(65_536, 97, np.uint8)
    ))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_run_is_refused(name: str) -> None:
    rows, wide, data = REFUSED[name]
    with pytest.raises(ValueError, match="run"):
        native.check_run(rows, wide, data, LIMIT)
    with pytest.raises(ValueError, match="run"):
        twin.check_run(rows, wide, data, LIMIT)


def test_a_run_that_unfolds_beyond_all_memory_is_refused_before_it_is_unfolded() -> None:
    rows = 40_000
    shared = np.full(rows, KEY_BYTES_MAX - 1, "<u2")
    rests = np.ones(rows, "<u2")
    shared[0], rests[0] = 0, KEY_BYTES_MAX
    data = np.concatenate(
        (shared.view(np.uint8), rests.view(np.uint8), np.zeros(2 * KEY_BYTES_MAX, np.uint8))
    )
    data = data[: 4 * rows + int(rests.sum())]
    with pytest.raises(ValueError, match=r"2\*\*31"):
        native.check_run(rows, True, data, 1 << 40)
    with pytest.raises(ValueError, match=r"2\*\*31"):
        native.merge_runs([Run(rows, 0, True, data)] * 2)


def everything(run: Run) -> None:
    """Whatever a kernel can do with a run: the right results if it is one, no harm if it is not."""
    with suppress(ValueError):
        native.merge_runs([run, run_of(twin, {b"", b"a", b"b" * 300}), run])
    with suppress(ValueError):
        native.partition_run(run, 0, 4)


@settings(max_examples=300)
@given(
    distinct, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4), st.booleans(), st.data()
)
@example({b"a", b"ab"}, [(1, 0)], False, None)
def test_the_kernels_agree_on_what_is_a_run(
    texts: set[bytes], changes: list[tuple[int, int]], flip: bool, data: st.DataObject | None
) -> None:
    run = run_of(twin, texts)
    raw = run.data.copy()
    for place, value in changes:
        if len(raw):
            raw[place % len(raw)] = value
    rows = run.rows if data is None else run.rows + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    wide = run.wide != flip
    outcomes: list[tuple[int, int, bool, bytes] | None] = []
    for kernel in (native, twin):
        try:
            outcomes.append(plain(kernel.check_run(rows, wide, raw, LIMIT)))
        except ValueError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]
    key_bytes = 0 if outcomes[0] is None else outcomes[0][1]
    suspect = Run(max(rows, 0), key_bytes, wide, raw)
    everything(suspect)
    if outcomes[0] is not None:
        keys = texts_of(native.decode_run(suspect))
        assert keys == sorted(set(keys)) == texts_of(twin.decode_run(suspect))
        merged, maps = native.merge_runs([suspect, run])
        assert texts_of(native.decode_run(merged)) == sorted({*keys, *texts})
        assert [rows.tolist() for rows in maps] == [r.tolist() for r in twin.merge_runs([suspect, run])[1]]
