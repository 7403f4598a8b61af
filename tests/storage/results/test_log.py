from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.records import ResultRecord, table_to_ipc
from elfmesh.control.master.successors import serve_fetch
from elfmesh.control.protocol.events import Append, ReadLog
from elfmesh.control.protocol.messages_succession import Fetch
from elfmesh.control.replicas.job_replica import LogCopy
from elfmesh.errors import ProtocolError
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.logs import ResultsLogs
from tests.control.harness import World

JOB = b"\x07" * 20


def record(index: int) -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, counts={"contributed": index})


def rows(value: object, kind: pa.DataType | None = None) -> bytes:
    return table_to_ipc(pa.table({"x": pa.array([value], kind)}))


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


def test_retention_drops_the_oldest_and_says_so(tmp_path: Path) -> None:
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


def test_another_incarnation_begins_an_empty_log(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path / "results")
    logs.append(Append(JOB, "a", record(7), rows(1)))
    logs.append(Append(JOB, "b", record(1), rows(2)))
    read = logs.read(ReadLog(3, JOB, None, None, 10))
    assert [each.index for each, _ in decode_page(read.page)] == [1]
    assert (read.token, read.earliest, read.latest, read.next) == (3, 1, 1, 2)
    ((job, incarnation, latest),) = [
        (each.job, each.incarnation, each.latest) for each in ResultsLogs(tmp_path / "results").found()
    ]
    assert (job, incarnation, latest) == (JOB, "b", 1)


def test_the_log_of_another_incarnation_is_an_empty_one(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    logs.append(Append(JOB, "a", record(7), rows(1)))
    read = logs.read(ReadLog(1, JOB, None, None, 10, "b"))
    assert (read.page, read.earliest, read.latest, read.schema, read.error) == (b"", None, None, b"", "")
    assert logs.read(ReadLog(1, JOB, None, None, 10, "a")).latest == 7


def test_who_lacks_records_of_a_job_gets_none_of_an_earlier_incarnation() -> None:
    context = World(1)[0].control.context
    serve_fetch(context, context.me, Fetch(JOB, "b", 3, 1))
    (read,) = (each for each in context.out if isinstance(each, ReadLog))
    assert (read.job, read.incarnation, read.start) == (JOB, "b", 4)


def test_the_first_record_that_a_job_had_is_known_when_it_is_gone(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path / "master", intervals_max=20)
    for index in range(5, 100):
        logs.append(Append(JOB, "a", record(index), rows(index)))
    read = logs.read(ReadLog(1, JOB, None, None, 99))
    assert (read.first, read.earliest and read.earliest > 70) == (5, True)
    assert [info.first for info in ResultsLogs(tmp_path / "master", intervals_max=20).found()] == [5]

    context = World(1)[0].control.context
    copy = LogCopy(context, JOB, "a", None, lambda: ())
    copy.append(read.page, read.first)
    copied = ResultsLogs(tmp_path / "copy")
    copied.append(*(each for each in context.out if isinstance(each, Append)))
    again = ResultsLogs(tmp_path / "copy").read(ReadLog(1, JOB, None, None, 99))
    assert (again.first, again.earliest, again.expired) == (5, read.earliest, None)


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


def test_a_log_that_is_set_aside_is_read_by_its_name_and_goes_with_the_job(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    for name in ("a", "b"):
        logs.append(Append(JOB, name, record(7), rows(1)))
        logs.drop(JOB, retire=True)
    logs.append(Append(JOB, "c", record(9), rows(2)))

    def latest(logs: ResultsLogs, name: str) -> int | None:
        return logs.read(ReadLog(1, JOB, None, None, 10, name)).latest

    for each in (logs, ResultsLogs(tmp_path)):
        assert [latest(each, name) for name in ("a", "b", "c", "")] == [None, 7, 9, 9]
        assert [info.incarnation for info in each.found()] == ["c"]
    logs.drop(JOB)
    assert [latest(logs, name) for name in ("b", "c", "")] == [None, None, None]
    assert list(tmp_path.iterdir()) == []


def test_a_dropped_log_is_an_empty_one(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    logs.append(Append(JOB, "a", record(7), rows(1)))
    logs.drop(JOB)
    logs.drop(JOB)
    read = logs.read(ReadLog(1, JOB, None, None, 10))
    assert (read.page, read.earliest, read.error) == (b"", None, "")
    assert logs.found() == ()


def test_a_page_with_any_byte_changed_is_refused() -> None:
    page = encode_page([(record(1), b"rows"), (record(2), b"")])
    assert [each.index for each, _ in decode_page(page)] == [1, 2]
    for place in range(len(page)):
        broken = page[:place] + bytes([page[place] ^ 0xFF]) + page[place + 1 :]
        with pytest.raises(ProtocolError):
            decode_page(broken)


@given(st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_are_no_page(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_page(data)
