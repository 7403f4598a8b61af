from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.control.jobs.pages import decode_page
from elfmesh.storage.results.log import ResultsLog
from tests.storage.results.records import record, rows


def indices(
    log: ResultsLog, start: int | None = None, stop: int | None = None, limit: int = 10**6
) -> list[int]:
    found: list[int] = []
    following = start
    while True:
        page, after, *_ = log.read(following, stop, limit - len(found))
        if not page:
            return found
        found += [each.index for each, _ in decode_page(page)]
        following = after
        if len(found) >= limit:
            return found


def test_records_come_back_in_order_also_after_reopening(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a")
    written = [-5, 0, 3, 4, 9]
    for index in written:
        log.append(record(index), rows(index))
    for each in (log, ResultsLog(tmp_path, "a"), ResultsLog(tmp_path, None)):
        assert indices(each) == written
        assert (each.earliest, each.latest) == (-5, 9)
        assert indices(each, 1, 9) == [3, 4]
        assert indices(each, 1, limit=1) == [3]
        page, following, *_ = each.read(3, None, 1)
        assert following == 4
        assert decode_page(page) == [(record(3), rows(3))]


def test_an_index_that_is_not_above_the_last_changes_nothing(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a")
    log.append(record(5), rows(1))
    log.append(record(5), rows(2))
    log.append(record(4), rows(3))
    assert decode_page(log.read(None, None, 9)[0]) == [(record(5), rows(1))]


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 12), cut=st.floats(0, 1), noise=st.binary(max_size=40))
def test_a_torn_tail_costs_only_the_record_that_was_being_written(
    count: int, cut: float, noise: bytes
) -> None:
    with TemporaryDirectory() as place:
        directory = Path(place)
        log = ResultsLog(directory, "a")
        ends = []
        (segment,) = [directory / "+0000000000000000000.seg"]
        for index in range(count):
            log.append(record(index), rows("v" * index))
            ends.append(segment.stat().st_size)
        data = segment.read_bytes()
        kept = int(cut * len(data))
        segment.write_bytes(data[:kept] + (noise if kept < len(data) else b""))
        whole = [index for index, end in enumerate(ends) if end <= kept]
        again = ResultsLog(directory, "a")
        assert indices(again) == whole
        again.append(record(100), rows(1))
        assert indices(ResultsLog(directory, "a")) == [*whole, 100]


def test_retention_drops_the_oldest_and_reports_it(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a", intervals_max=20)
    for index in range(100):
        log.append(record(index), rows(index))
    kept = indices(log)
    assert kept == list(range(kept[0], 100))
    assert 15 <= len(kept) <= 20
    assert log.describe(1).expired == kept[0] - 1
    assert ResultsLog(tmp_path, "a").describe(1).expired == kept[0] - 1


def test_retention_by_bytes_keeps_the_newest(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a", bytes_max=50_000, segment_bytes=10_000)
    for index in range(60):
        log.append(record(index), rows("v" * 3000))
    size = sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    assert size <= 65_000
    assert log.latest == 59


def test_pages_are_bounded_and_read_on_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.storage.results.log.LOG_PAGE_BYTES_MAX", 5000)
    log = ResultsLog(tmp_path, "a", segment_records=7)
    for index in range(40):
        log.append(record(index), rows("v" * 1000))
    assert len(log.read(None, None, 1000)[0]) <= 5000
    assert indices(log) == list(range(40))
    log.append(record(40), rows("v" * 100_000))
    assert indices(log, 40) == [40]


def test_the_schema_grows_with_what_the_results_hold(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a")
    assert log.describe(1).schema == b""
    log.append(record(0), rows(None))
    log.append(record(1), rows(3, pa.int64()))
    log.append(record(2), rows(2.5, pa.float64()))
    log.append(record(3), b"")
    schema = pa.ipc.read_schema(pa.py_buffer(ResultsLog(tmp_path, "a").describe(1).schema))
    assert schema == pa.schema([("x", pa.float64())])


def test_a_log_of_an_earlier_release_knows_its_first_record_until_something_is_gone(tmp_path: Path) -> None:
    log = ResultsLog(tmp_path, "a")
    for index in range(3, 9):
        log.append(record(index), rows(index))
    for expired, first in ((None, 3), (2, None)):
        reported = msgspec.msgpack.decode((tmp_path / "meta").read_bytes())
        for name in ("first", "job", "begins", "seq", "crc"):
            reported.pop(name, None)
        (tmp_path / "meta.copy").unlink()
        (tmp_path / "meta").write_bytes(msgspec.msgpack.encode(reported | {"expired": expired}))
        assert ResultsLog(tmp_path, None).first == first
