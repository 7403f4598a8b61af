"""The profile of a log: what a query gets from it."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.errors import DataError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.log_profile import SAMPLES, SNIFFED, LogProfile, profile

START = datetime.datetime(2026, 11, 22, 6, 1, tzinfo=datetime.UTC)


def profiled(tmp_path: Path, *lines: str, spec: str = "auto", **options: Any) -> LogProfile:
    path = tmp_path / "a.log"
    path.write_text("".join(line + "\n" for line in lines))
    return profile(str(path), StreamFormat(spec), **options)


def access(second: int, status: int, size: str = "512") -> str:
    time = f"22/Nov/2026:06:01:{second:02} +0000"
    return f'10.0.0.{status % 7} - - [{time}] "GET /{second} HTTP/1.1" {status} {size}'


def test_a_log_has_a_format_a_time_and_columns(tmp_path: Path) -> None:
    lines = [access(second, 200 + second % 2, "-" if second % 3 else "512") for second in range(30)]
    found = profiled(tmp_path, *lines, "no such line")
    assert (found.format, found.fitting) == ("common", (SNIFFED, SNIFFED))
    assert (found.records, found.bad, len(found.bad_samples)) == (31, 1, 1)
    assert "a.log:31" in found.bad_samples[0]
    assert (found.first, found.last) == (START, START + datetime.timedelta(seconds=29))
    assert found.lines_per_second == pytest.approx(30 / 29)
    columns = {each.name: each for each in found.columns}
    status, size, path = columns["status"], columns["bytes"], columns["path"]
    assert (status.types, status.values, status.least, status.largest) == (["BIGINT"], 30, 200, 201)
    assert (size.values, size.samples) == (10, [512])
    assert path.samples == ["/0", "/1", "/2"]
    assert len(path.samples) == SAMPLES


def test_the_first_lines_decide_and_their_share_is_shown(tmp_path: Path) -> None:
    assert profiled(tmp_path, access(0, 200), "x", access(1, 200)).fitting == (2, 3)


def test_a_time_under_another_name_is_the_event_time(tmp_path: Path) -> None:
    found = profiled(tmp_path, json.dumps({"time": "2026-11-22T06:01:00Z", "v": 1.5}))
    assert (found.first, found.last, found.lines_per_second) == (START, START, None)
    assert [(each.name, each.types) for each in found.columns] == [("time", ["STRING"]), ("v", ["DOUBLE"])]


def test_a_log_without_a_time_and_a_column_without_a_value(tmp_path: Path) -> None:
    found = profiled(tmp_path, '{"a": null}')
    assert (found.first, found.last, found.lines_per_second) == (None, None, None)
    (column,) = found.columns
    assert (column.types, column.values, column.least, column.samples) == ([], 0, None, [])


def test_only_so_many_lines(tmp_path: Path) -> None:
    found = profiled(tmp_path, *(access(second, 200) for second in range(9)), sample=4)
    assert (found.records, found.last) == (4, START + datetime.timedelta(seconds=3))


def test_a_pipe_is_read_once() -> None:
    data = (access(3, 404) + "\n").encode()
    found = profile("-", StreamFormat("common"), stdin=io.BytesIO(data))
    assert (found.fitting, found.records, found.first) == (
        None,
        1,
        START + datetime.timedelta(seconds=3),
    )


def test_a_file_in_no_known_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be told"):
        profiled(tmp_path, "a b", "c")
