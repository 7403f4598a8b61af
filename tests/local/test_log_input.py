"""What is read of logs: as much as was asked for, each as the format that it has, and nothing it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.errors import DataError, QueryError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.log_input import LogInput
from elfmesh.ql import parse


def reading(text: str, *paths: Path, format: str = "auto", sample: int | None = None) -> LogInput:
    return LogInput(
        parse(text), {"log": (list(map(str, paths)), StreamFormat(format))}, JobRows(), sample=sample
    )


@pytest.fixture
def json_log(tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    path.write_text('{"k": 1, "x": "a"}\n{"k": 2}\n{"k": 3}\n')
    return path


def test_a_sample_ends_in_the_middle_of_a_log_and_opens_no_other(json_log: Path) -> None:
    logs = reading("SELECT k FROM log", json_log, Path("/nowhere"), sample=2)
    assert [each.parsed.batch.to_pylist() for each in logs._parsed()] == [[{"k": 1}, {"k": 2}]]
    assert logs.stats.records == 2


def test_every_log_is_read_as_what_it_is_and_a_star_means_what_the_first_has(
    json_log: Path, tmp_path: Path
) -> None:
    other = tmp_path / "b.log"
    other.write_text("k=4 x=b\n")
    logs = reading("SELECT * FROM log", json_log, other)
    blocks = list(logs._parsed())
    assert [each.parsed.lines for each in blocks] == [3, 1]
    assert logs.stats.formats == {str(json_log): "json", str(other): "logfmt"}
    assert not logs.statement.star
    assert {"k", "x"} <= set(logs.statement.columns)


def test_a_column_that_a_log_turns_out_not_to_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,size\na,1\n")
    with pytest.raises(QueryError, match="nosuch"):
        list(reading("SELECT nosuch FROM log", path, format="csv")._parsed())


def test_a_log_of_no_known_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_text("~~ what ~~\n" * 3)
    with pytest.raises(DataError, match="cannot be told") as caught:
        list(reading("SELECT k FROM log", path)._parsed())
    assert caught.value.where == str(path)


def test_a_log_that_may_be_of_two_formats_is_refused_with_both(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('www.x.org 203.0.113.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5\n')
    with pytest.raises(DataError, match="cannot be told") as caught:
        list(reading("SELECT host FROM log", path)._parsed())
    assert caught.value.hint == "Name it: --format vhost_common or --format common."


def test_a_constant_that_nothing_equals_is_refused_by_the_format_and_doubted_in_json(
    json_log: Path, tmp_path: Path
) -> None:
    access = tmp_path / "access.log"
    access.write_text('h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5\n')
    for format in ("common", "auto"):
        with pytest.raises(QueryError, match="'5xx' is not"):
            list(reading("SELECT host FROM log WHERE status = '5xx'", access, format=format)._parsed())
    logs = reading("SELECT x FROM log WHERE k = 'one'", json_log)
    assert len(list(logs._parsed())) == 1
    (notified,) = logs.stats.doubts
    assert notified.startswith(f"k = 'one': in {json_log} (such as 1) k is BIGINT")
