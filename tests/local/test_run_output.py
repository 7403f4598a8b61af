"""How `elf run` writes its answer: JSON lines, CSV and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.app_log import PER_WINDOW
from tests.local.test_embedded import invoke, log

__all__ = ["log"]


def test_json_is_one_line_an_interval(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = invoke(capfd, PER_WINDOW, log, "-o", "json")
    first = json.loads(out.splitlines()[0])
    assert (code, err, len(out.splitlines())) == (0, "", 2)
    assert first == {
        "job": "run",
        "interval": {"index": 0, "start": "1970-01-01T00:00:00Z", "end": "1970-01-01T00:05:00Z"},
        "state": "FINAL",
        "rev": 1,
        "completeness": 1.0,
        "fidelity": 1.0,
        "agents": {"in": 1, "expected": 1, "missing": []},
        "version": 1,
        "counts": {"contributed": 5, "filtered": 0, "parse_error": 0, "late_dropped": 0},
        "rows": [{"k": "a", "s": 6}, {"k": "b", "s": 4}],
    }


def test_a_streamed_projection_is_the_same_json_object(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = invoke(capfd, "SELECT v FROM log WHERE v < 2", log, "-o", "json")
    (line,) = out.splitlines()
    streamed = json.loads(line)
    assert streamed["rows"] == [{"v": 0}, {"v": 1}]
    assert streamed["counts"] == {"contributed": 2, "filtered": 8, "parse_error": 0, "late_dropped": 0}
    _, out, _ = invoke(capfd, "SELECT v FROM log WHERE v < 2 ORDER BY v", log, "-o", "json")
    assert json.loads(out) == streamed
    _, out, _ = invoke(capfd, "SELECT v FROM log WHERE v < 0", log, "-o", "json")
    assert json.loads(out)["rows"] == []


@pytest.mark.parametrize("log_format", ["auto", "csv"])
def test_the_header_of_a_csv_file_is_no_row(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], log_format: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    _, out, _ = invoke(capfd, "SELECT * FROM log", path, "--format", log_format, "-o", "csv")
    assert out == "a,b\n1,x\n2,y\n"


def test_csv_stays_exact(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_text('{"a":"=1+1","b":null}\n{"a":"x,\\"y\\"","b":2.5}\n')
    _, out, _ = invoke(capfd, "SELECT a, b FROM log", path, "-o", "csv")
    assert out == 'a,b\n=1+1,\n"x,""y""",2.5\n'


def test_a_table_names_the_window_and_escapes_what_a_terminal_would_obey(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text('{"ts":0,"a":"\\u001b[2Jx"}\n{"ts":0,"a":null}\n')
    _, out, _ = invoke(capfd, "SELECT a, count(*) n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), a", path)
    assert out.splitlines() == [
        "window_start          window_end            a         n",
        "--------------------  --------------------  --------  -",
        "1970-01-01T00:00:00Z  1970-01-01T01:00:00Z  NULL      1",
        "1970-01-01T00:00:00Z  1970-01-01T01:00:00Z  \\x1b[2Jx  1",
    ]
    assert "\x1b" not in out
