"""What `elf run` says beside its rows: what was not there, what could not be used, what to write."""

from __future__ import annotations

import bz2
import json
import lzma
from pathlib import Path

import pytest

from elfmesh.cli.entry import run as elf

ACCESS = 'h - - [22/Nov/2026:06:01:00 +0000] "GET /a HTTP/1.1" 200 12\n'


def test_run_reports_that_the_logs_are_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").touch()
    assert elf(["run", "SELECT count(*) AS n FROM log", str(tmp_path / "a.log")]) == 0
    notified = capsys.readouterr()
    assert notified.out == "n\n-\n0\n"
    assert "the logs are empty" in notified.err


@pytest.mark.parametrize("query", ["SELECT count(*) AS n FROM log", "SELECT host FROM log"])
def test_no_row_is_shown_where_no_record_could_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    (tmp_path / "a.log").write_text("no such line\n")
    assert elf(["run", "--format", "common", query, str(tmp_path / "a.log")]) == 65
    notified = capsys.readouterr()
    assert notified.out == ""
    assert f"{tmp_path}/a.log:1: not a line of the common log format" in notified.err
    assert "no record could be used" in notified.err


def test_rows_behind_blocks_without_rows_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text("no such line\n" * 3 + ACCESS)
    (tmp_path / "b.log").write_text("no such line\n")
    logs = [str(tmp_path / name) for name in ("b.log", "a.log")]
    assert elf(["run", "--format", "common", "SELECT host FROM log", *logs]) == 0
    notified = capsys.readouterr()
    assert notified.out == "host\n----\nh\n"
    assert [f"a.log:{line}:" in notified.err for line in (1, 2, 3)] == [True, True, False]  # and b.log's


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"ts": "2026-11-22T06:01:00Z"}\n{"ts": "yesterday"}\n'),
        ("a.log", ACCESS + ACCESS.replace("Nov", "Foo")),
    ],
)
def test_a_time_that_cannot_be_read_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    for query in ("SELECT ts FROM log", "SELECT max(ts) AS t FROM log"):
        assert elf(["run", query, str(tmp_path / name)]) == 0
        assert "1 record without a time that can be read" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_last_line_without_an_end_counts_with_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: int
) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}\n{"a": 2}')
    assert elf(["run", "-o", "json", f"SELECT a FROM log LIMIT {limit}", str(tmp_path / "a.json")]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["contributed"] == 2


@pytest.mark.parametrize(
    ("name", "content", "what", "command"),
    [
        ("a.bz2", bz2.compress(ACCESS.encode()), "compressed with bzip2", "bunzip2 -c "),
        ("a.xz", lzma.compress(ACCESS.encode()), "compressed with xz", "xz -dc "),
        ("b.xz", b"\xfd7zXZ\0a=b c=d\n", "compressed with xz", "xz -dc "),
        ("a.log", ACCESS.encode("utf-16"), "UTF-16", "iconv -f UTF-16 -t UTF-8 "),
        ("b.log", ACCESS.encode("utf-16-be"), "UTF-16", "iconv -f UTF-16BE -t UTF-8 "),
        ("a.json", b'[{"a": 1}, {"a": 2}]\n', "one JSON array", "jq -c '.[]' "),
        ("b.json", b'[\n  {"a": 1},\n  {"a": 2}\n]\n', "one JSON array", "jq -c '.[]' "),
        ("c.json", b' [{"a": 1},\r\n{"a": 2}]', "one JSON array", "jq -c '.[]' "),
    ],
)
def test_what_has_to_be_converted_first_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, what: str, command: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert elf(["run", "SELECT count(*) FROM log", str(path)]) == 65
    notified = capsys.readouterr().err
    assert f"the file is {what}" in notified
    assert f"{command}{path} | elf run" in notified


def test_a_bracket_in_one_line_makes_no_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1}]\n{"a": 2}\n')
    assert elf(["run", "-o", "csv", "SELECT a FROM log", str(tmp_path / "a.json")]) == 0
    assert capsys.readouterr().out == "a\n2\n"


@pytest.mark.parametrize("format", ["auto", "csv"])
def test_a_csv_file_without_a_header_gets_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n4,5,6\n")
    assert elf(["run", "--format", format, "SELECT a FROM log", str(tmp_path / "a.csv")]) == 65
    assert "--format csv:a,b,c" in capsys.readouterr().err


def test_a_file_behind_from_is_named_behind_the_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(ACCESS)
    for name in ("'a.log'", "read_csv('a.csv')", "a.log"):
        assert elf(["run", f"SELECT * FROM {name}", str(tmp_path / "a.log")]) == 65
        assert "elf run '... FROM log' a.log" in capsys.readouterr().err
