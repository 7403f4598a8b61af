from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.sources.time_index import SAMPLES, Stretch, TimeIndex, WantedTimes, extremes
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows
from tests.ingest.sources.stretches import stretches, times_of

ABOUT = b"json, ts"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index"


def index_of(path: Path, *extents: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(path, ABOUT)
    for each in stretches(*extents):
        index.add(each)
    return index


def over(index: TimeIndex, offset: int, since: int | None, until: int | None = None) -> int:
    """The offset behind what is passed over."""
    found = index.over(offset, WantedTimes("ts", since, until))
    return index.end_of(found) if found else offset


def test_a_reader_passes_over_what_is_before_its_range(path: Path) -> None:
    index = index_of(path, (0, 9), (10, 19), (20, 29), (30, 39))
    assert over(index, 100, since=20) == 200
    assert over(index, 100, since=19) == 100
    assert over(index, 150, since=30) == 300
    assert over(index, 100, since=99) == index.end == 400


def test_the_greatest_time_counts_and_not_the_last_one(path: Path) -> None:
    index = index_of(path, (0, 9), (3, 50), (20, 29))
    assert over(index, 100, since=40) == 100
    assert over(index, 200, since=40) == 300


def test_the_first_stretch_is_always_read(path: Path) -> None:
    index = index_of(path, (0, 9), (10, 19))
    assert over(index, 0, since=99) == 0
    assert over(index, 99, since=99) == 99


def test_a_reader_with_an_end_passes_over_what_is_behind_it(path: Path) -> None:
    index = index_of(path, (0, 9), (10, 19), (20, 29), (15, 30), (20, 40))
    assert over(index, 100, since=12, until=20) == 100
    assert over(index, 200, since=12, until=20) == 300
    assert over(index, 400, since=12, until=20) == 500
    assert over(index, 400, since=None, until=20) == 500
    assert over(index, 400, since=12) == 400


def test_one_time_in_the_far_future_does_not_spoil_the_rest(path: Path) -> None:
    index = index_of(path, (0, 9), (10, 10**15), (20, 29))
    assert over(index, 200, since=40) == 300


def test_a_stretch_without_times_is_in_no_range_and_one_with_unknown_times_in_each(path: Path) -> None:
    index = index_of(path, (0, 9), (INT64_MAX, INT64_MIN), (INT64_MIN, INT64_MAX))
    for since, until in ((5, None), (None, 5), (5, 6)):
        assert over(index, 100, since, until) == 200


def test_an_index_is_read_again(path: Path) -> None:
    extents = [(10 * each, 10 * each + 9) for each in range(100)]
    before = index_of(path, *extents)
    after = TimeIndex(path, ABOUT)
    assert after.end == before.end == 10_000
    assert after.last_mark == before.last_mark
    assert over(after, 100, since=500) == 5000
    after.add(Stretch(10_100, bytes(8), 0, 5))
    assert TimeIndex(path, ABOUT).end == 10_100


def test_some_marks_are_compared_and_always_the_last(path: Path) -> None:
    index = index_of(path, *[(0, 9)] * 1000)
    found = list(index.marks(range(1, 1000)))
    assert SAMPLES <= len(found) <= 2 * SAMPLES
    assert found[0] == (100_000, index.last_mark)
    assert len(list(index.marks(range(1, 4)))) == 3


@pytest.mark.parametrize("size", [0, 1, 19, 20, 21, 55, 56, 57, 91])
def test_a_torn_index_is_used_up_to_the_tear(path: Path, size: int, caplog: pytest.LogCaptureFixture) -> None:
    index_of(path, (0, 9), (10, 19))
    assert path.stat().st_size == 92
    path.write_bytes(path.read_bytes()[:size])
    with caplog.at_level(logging.WARNING, "elf.worker"):
        torn = TimeIndex(path, ABOUT)
    assert torn.end == (100 if size >= 56 else 0)
    assert len(caplog.records) == (size not in (0, 56))
    torn.add(Stretch(torn.end + 100, bytes(8), 10, 19))
    assert TimeIndex(path, ABOUT).end == torn.end


@given(at=st.integers(0, 91), bit=st.integers(0, 7))
def test_no_changed_bit_makes_an_entry(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    path = tmp_path_factory.mktemp("index") / "index"
    index_of(path, (0, 9), (10, 19))
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)
    assert TimeIndex(path, ABOUT).end == (100 if at >= 56 else 0)


def test_an_index_about_something_else_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index_of(path, (0, 9), (10, 19))
    with caplog.at_level(logging.WARNING, "elf.worker"):
        other = TimeIndex(path, b"json, at")
    assert other.end == 0
    assert len(caplog.records) == 1
    other.add(Stretch(70, bytes(8), 1, 2))
    assert TimeIndex(path, b"json, at").end == 70


def test_an_index_that_cannot_be_stored_works_until_the_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "elf.worker"):
        index = index_of(tmp_path / "none" / "index", (0, 9), (10, 19), (20, 29))
    assert over(index, 100, since=20) == 200
    assert len(caplog.records) == 1


def test_extremes_of_rows() -> None:
    assert extremes(times_of(30, None, 10, 20)) == (10, 30)
    assert extremes(times_of(None)) == (INT64_MAX, INT64_MIN)
    assert extremes(BlockRows({}, 0).times("ts")) == (INT64_MAX, INT64_MIN)
