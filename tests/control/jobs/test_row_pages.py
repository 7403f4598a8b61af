"""Rows as pages: their bytes, their files, and what a results log does with them."""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.api.line_parts import whole
from elfmesh.control.jobs.kept_partials import packed_partials, partials_of
from elfmesh.control.jobs.pages import HEAD, decode_page, encode_frame, names_pages
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.control.jobs.row_pages import (
    RowLimits,
    RowPage,
    columns_of,
    digest_of,
    joined,
    packed,
    table_of,
)
from elfmesh.control.protocol.events import Append, KeepPage, ReadLog
from elfmesh.errors import DataError, ProtocolError
from elfmesh.ql.values.plain_ipc import ipc_schema, ipc_to_table, table_to_ipc
from elfmesh.storage.results.logs import ResultsLogs

JOB = b"j" * 20
SMALL = RowLimits(inline=1000, page=1000)


def rows(count: int, seed: int = 0, width: int = 12) -> pa.Table:
    words = [f"{seed}-{at:0{width}}" for at in range(count)]
    return pa.table({"w": words, "n": pa.array(range(count), pa.int64())})


def record(index: int) -> ResultRecord:
    return ResultRecord(job="shop/words", index=index, epoch=1)


def cut(table: pa.Table, limits: RowLimits = SMALL) -> tuple[bytes, tuple[bytes, ...]]:
    return packed(table, b"", 0, limits)


def pages_of(data: bytes) -> tuple[RowPage, ...]:
    table = table_of(data)
    assert table is not None
    return table.pages


class TestBytes:
    @given(st.integers(0, 400), st.integers(1, 60), st.integers(100, 5000))
    def test_pages_that_are_joined_are_the_rows(self, count: int, width: int, size: int) -> None:
        table = rows(count, width=width)
        data, pages = packed(table, b"", 0, RowLimits(inline=size, page=size))
        if not pages:
            assert ipc_to_table(data).equals(table)
            assert len(data) <= size or not count
            return
        assert ipc_to_table(joined(pages)).equals(table)
        assert [page.rows for page in pages_of(data)] == [len(ipc_to_table(page)) for page in pages]
        for named, page in zip(pages_of(data), pages, strict=True):
            named.check(page)
        assert packed(table, b"", 0, RowLimits(inline=size, page=size))[0] == data, (
            "the same rows, the same table"
        )

    def test_rows_up_to_the_limit_travel_with_their_record(self) -> None:
        table = rows(20)
        size = len(table_to_ipc(table))
        assert packed(table, b"", 0, RowLimits(inline=size, page=100))[1] == ()
        assert packed(table, b"", 1, RowLimits(inline=size, page=100))[1] != ()
        assert packed(table, b"", 0, RowLimits(inline=size - 1, page=100))[1] != ()

    def test_the_table_is_never_taken_for_rows(self) -> None:
        data, pages = cut(rows(500))
        assert len(pages) > 3
        with pytest.raises(ProtocolError):
            ipc_to_table(data)
        with pytest.raises(ProtocolError):
            ipc_schema(data)
        assert ipc_schema(columns_of(data)[0]) == rows(1).schema

    def test_releases_that_know_no_pages_refuse_the_record(self) -> None:
        """They ask for a header that is no longer than what follows."""
        frame = encode_frame(record(1), cut(rows(500))[0])
        length, _, header = HEAD.unpack_from(frame)
        assert header + 4 > length
        assert names_pages(frame)
        assert decode_page(frame)[0][1] == cut(rows(500))[0]
        plain = encode_frame(record(1), table_to_ipc(rows(2)))
        assert not names_pages(plain)

    @pytest.mark.parametrize("at", [0, 13, 14])
    def test_a_damaged_table_is_refused(self, at: int) -> None:
        data = bytearray(cut(rows(500))[0])
        data[at] ^= 0xFF
        body = bytearray(encode_frame(record(1), cut(rows(500))[0]))
        body[-len(data) :] = data
        body[4:8] = zlib.crc32(body[8:]).to_bytes(4)
        with pytest.raises(ProtocolError):
            decode_page(bytes(body))

    def test_another_page_is_refused(self) -> None:
        data, pages = cut(rows(500))
        with pytest.raises(ProtocolError):
            pages_of(data)[0].check(pages[1])
        with pytest.raises(ProtocolError, match="different columns"):
            joined([pages[0], cut(rows(500).rename_columns(["x", "n"]))[1][0]])

    def test_partial_aggregates_are_pages_too(self) -> None:
        tail = packed_partials(rows(3000, 7))
        data, pages = packed(rows(500), tail, 0, SMALL)
        table = table_of(data)
        assert table is not None
        behind = b"".join(pages[len(table.pages) :])
        assert behind == tail
        assert ipc_to_table(partials_of(joined(pages[: len(table.pages)]) + behind)).equals(rows(3000, 7))
        assert ipc_schema(columns_of(data)[1]) == rows(1).schema

    def test_a_row_that_is_larger_than_a_frame_is_refused(self) -> None:
        with pytest.raises(DataError, match="a row has"):
            cut(pa.table({"w": ["x" * (16 << 20)]}))

    def test_a_result_near_its_limit_is_logged_and_above_it_refused(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        limits = RowLimits(most=1000)
        limits.admit(800, "the result")
        assert not caplog.records
        limits.admit(801, "the result")
        assert "has 801 bytes" in caplog.text
        with pytest.raises(DataError, match=r"limits\.memory"):
            limits.admit(1001, "the result")


def keep(logs: ResultsLogs, index: int, data: bytes, *pages: bytes, append: bool = True) -> None:
    for page in pages:
        logs.keep_page(KeepPage(JOB, "a", index, page))
    if append:
        logs.append(Append(JOB, "a", record(index), data))


def files(root: Path) -> list[Path]:
    return sorted(root.glob("*/pages/*"))


class TestFiles:
    def test_pages_are_there_before_their_record_and_after_a_restart(self, tmp_path: Path) -> None:
        data, pages = cut(rows(300))
        logs = ResultsLogs(tmp_path)
        keep(logs, 7, data, *pages, append=False)
        (info,) = ResultsLogs(tmp_path).found()
        assert (info.incarnation, info.latest) == ("a", None)
        assert sorted(info.pages) == sorted((7, digest_of(page)) for page in pages)
        again = ResultsLogs(tmp_path)
        again.append(Append(JOB, "a", record(7), data))
        assert ResultsLogs(tmp_path).found()[0].pages == ()
        for page in pages:
            read = again.read(ReadLog(1, JOB, 7, None, 0, "a", digest_of(page)))
            assert (read.page, read.error) == (page, "")

    def test_a_page_that_is_rotten_or_not_there_is_an_error_with_its_path_in_the_log(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        data, pages = cut(rows(300))
        keep(ResultsLogs(tmp_path), 7, data, *pages)
        path = next(path for path in files(tmp_path) if digest_of(pages[1]).hex() in path.name)
        logs = ResultsLogs(tmp_path)
        for damaged in (pages[1][:-1], b"", bytes(len(pages[1])), pages[0]):
            path.write_bytes(damaged)
            with caplog.at_level(logging.ERROR):
                read = logs.read(ReadLog(1, JOB, 7, None, 0, "a", digest_of(pages[1])))
            assert (read.page, bool(read.error)) == (b"", True)
            assert str(path) in caplog.text
        path.unlink()
        assert logs.read(ReadLog(1, JOB, 7, None, 0, "a", digest_of(pages[1]))).error
        logs.keep_page(KeepPage(JOB, "a", 7, pages[1]))
        assert logs.read(ReadLog(1, JOB, 7, None, 0, "a", digest_of(pages[1]))).page == pages[1]

    def test_a_rotten_page_before_its_record_is_not_there_after_a_restart(self, tmp_path: Path) -> None:
        data, pages = cut(rows(300))
        keep(ResultsLogs(tmp_path), 7, data, *pages, append=False)
        path = files(tmp_path)[0]
        path.write_bytes(path.read_bytes()[:-1] + b"\xee")
        assert len(ResultsLogs(tmp_path).found()[0].pages) == len(pages) - 1

    def test_pages_of_records_that_were_not_chosen_go(self, tmp_path: Path) -> None:
        logs = ResultsLogs(tmp_path)
        other, lost = cut(rows(300, 1))
        keep(logs, 7, other, *lost, append=False)
        data, pages = cut(rows(300, 2))
        keep(logs, 7, data, *pages)
        assert {path.stem.split("-")[-1] for path in files(tmp_path)} == {
            digest_of(page).hex() for page in pages
        }
        keep(logs, 6, other, *lost, append=False)  # late, and its process is killed
        ResultsLogs(tmp_path).found()
        assert len(files(tmp_path)) == len(pages)

    def test_what_a_kill_leaves_of_a_page_goes(self, tmp_path: Path) -> None:
        data, pages = cut(rows(300))
        keep(ResultsLogs(tmp_path), 7, data, *pages)
        torn = files(tmp_path)[0].with_suffix(".new")
        torn.write_bytes(b"torn")
        ResultsLogs(tmp_path).found()
        assert not torn.exists()
        assert len(files(tmp_path)) == len(pages)

    def test_retention_counts_pages_and_drops_them_with_their_records(self, tmp_path: Path) -> None:
        logs = ResultsLogs(tmp_path, intervals_max=4)
        for index in range(40):
            made, own = cut(rows(300, index))
            keep(logs, index, made, *own)
        read = logs.read(ReadLog(1, JOB, None, None, 100))
        assert read.earliest is not None
        assert read.earliest > 30
        assert len(files(tmp_path)) == sum(len(pages_of(rows)) for _, rows in decode_page(read.page))

    def test_another_incarnation_begins_without_pages(self, tmp_path: Path) -> None:
        data, pages = cut(rows(300))
        logs = ResultsLogs(tmp_path)
        keep(logs, 7, data, *pages)
        logs.keep_page(KeepPage(JOB, "b", 7, pages[0]))
        assert len(files(tmp_path)) == 1
        (info,) = ResultsLogs(tmp_path).found()
        assert (info.incarnation, info.latest, len(info.pages)) == ("b", None, 1)
        logs.drop(JOB)
        assert not files(tmp_path)

    def test_readers_know_the_columns_of_rows_that_are_pages(self, tmp_path: Path) -> None:
        data, pages = cut(rows(300))
        logs = ResultsLogs(tmp_path)
        keep(logs, 7, data, *pages)
        read = logs.read(ReadLog(1, JOB, None, None, 10))
        assert pa.ipc.read_schema(pa.py_buffer(read.schema)) == rows(1).schema


def test_lines_of_a_record_are_put_together_only_if_all_are_there() -> None:
    lines = [to_json(record(1), rows(2, part), (part, 3)) for part in (1, 2, 3)]
    assert [(each["part"], each["parts"]) for each in lines] == [(1, 3), (2, 3), (3, 3)]
    alone = to_json(record(2), rows(1))
    assert "part" not in alone
    (one, two) = whole([dict(each, rows=[*each["rows"]]) for each in [*lines, alone]])
    assert one["rows"] == [row for each in lines for row in each["rows"]]
    assert two == alone
    assert "parts" not in one
    for wrong in ([lines[0], lines[2]], lines[1:], lines[:2]):
        assert [*whole([dict(each, rows=[*each["rows"]]) for each in wrong])] == []
    again = [lines[0], lines[1], *lines]  # the connection broke between two
    assert len([*whole([dict(each, rows=[*each["rows"]]) for each in again])]) == 1
