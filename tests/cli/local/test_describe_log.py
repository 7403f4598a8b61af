"""`elf describe log`: the three outputs, and wrong arguments."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.remote import elf


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "a.log"
    rows = [{"ts": f"2026-11-22T06:01:0{second}Z", "k": "\x1b[2J" + "x" * 60} for second in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no\n")
    return str(path)


def test_a_table_for_people(log: str) -> None:
    ran = elf("describe", "log", log, log)
    assert (ran.exit_code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == log
    assert lines[1] == "format: json (recognised; 3 of the first 4 lines are of this format)"
    assert lines[2] == "lines: 4, 1 bad (25.00%)"
    assert "time: 2026-11-22T06:01:00Z .. 2026-11-22T06:01:02Z, 1.5 lines per second" in lines
    assert "\x1b" not in ran.stdout
    assert "xxx…" in ran.stdout
    assert ran.stdout.count("COLUMN") == 2


def test_json_and_csv_for_programs(log: str) -> None:
    found = json.loads(elf("describe", "log", log, "-o", "json").stdout)
    assert (found["format"], found["lines"], found["bad"]) == ("json", 4, 1)
    assert found["fitting"] == {"lines": 3, "of": 4}
    assert (found["first"], found["last"]) == ("2026-11-22T06:01:00Z", "2026-11-22T06:01:02Z")
    assert [each["column"] for each in found["columns"]] == ["ts", "k"]
    rows = list(csv.DictReader(io.StringIO(elf("describe", "log", log, "-o", "csv").stdout)))
    assert [row["type"] for row in rows] == ["TIMESTAMP", "STRING"]


def test_a_format_that_is_given_and_a_log_without_a_time(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_text("a\n")
    lines = elf("describe", "log", str(path), "--format", "raw").stdout.splitlines()
    assert lines[1] == "format: raw (given; 1 of the first 1 lines are of this format)"
    assert lines[3].startswith("time: none; a window needs an event time")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("log", "/nosuch"), 1, "/nosuch: no such file"),
        (("log",), 2, "Missing argument 'NAME...'"),
        (("job", "a/b", "c/d"), 2, "one job at a time"),
        (("agent", "web1", "--sample", "3"), 2, "--ts and --ts-format are for log files, not for agents"),
        (("stream", "a", "--format", "json"), 2, "--ts and --ts-format are for log files, not for streams"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], code: int, error: str) -> None:
    ran = elf("describe", *arguments)
    assert ran.exit_code == code
    assert error in ran.stderr
