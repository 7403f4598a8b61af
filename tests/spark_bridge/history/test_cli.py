"""`elf spark run` prints what `elf run` prints; what is wrong is said before Spark is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli import entry

QUERY = "SELECT k, count(*) AS n, sum(x) AS s FROM log GROUP BY k ORDER BY n DESC"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.ndjson"
    path.write_text("".join(json.dumps({"k": "ab"[at % 3 == 0], "x": at / 10}) + "\n" for at in range(10)))
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        (["run"], 2, "give either a query or -f FILE"),
        (["run", "SELECT nope(x) FROM log", "--stream", "log=LOG,format=json"], 65, "query:1:8: unknown"),
        (["run", QUERY, "--stream", "log"], 2, "'log' is not NAME=PATH"),
        (["run", QUERY, "--stream", "log=LOG", "--stream", "log=LOG"], 2, "log is given twice"),
        (["run", QUERY, "--stream", "log=udp://127.0.0.1:9"], 2, "has no path"),
    ],
)
def test_errors_are_reported_without_spark(
    arguments: list[str], code: int, reported: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [argument.replace("LOG", str(log)) for argument in arguments]
    assert entry.run(["spark", *given]) == code
    assert reported in capsys.readouterr().err


JOINED = "SELECT level, code + 1 AS c, c * 2 AS d FROM a JOIN b ON word = name ORDER BY code"


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two streams whose formats declare their columns."""
    (tmp_path / "a.log").write_text("warn disk\ninfo net\nwarn net\n")
    (tmp_path / "b.log").write_text("disk 7\nnet 9\nother 1\n")
    formats = {"a": r"(?P<level>\w+) (?P<word>\w+)", "b": r"(?P<name>\w+) (?P<code>\d+)"}
    return [
        each for name, shape in formats.items()
        for each in ("--stream", f"{name}={tmp_path / name}.log,format=regex:{shape}")
    ]  # fmt: skip


def test_a_name_of_a_join_is_clear_by_the_formats(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["run", JOINED, *two, "-o", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "level,c,d",
        "warn,8.0,16.0",
        "info,10.0,20.0",
        "warn,10.0,20.0",
    ]
    assert entry.run(["run", JOINED.replace("word", "_raw"), *two]) == 65
    assert "query:1:58: _raw may be a column of several inputs" in capsys.readouterr().err
    assert entry.run(["spark", "run", JOINED.replace("word", "_raw"), *two]) == 65
    assert "query:1:58: _raw may be a column of several inputs" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_a_name_of_a_join_is_clear_on_spark(
    spark: Any, two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["run", JOINED, *two, "-o", "json"]) == 0
    wanted = capsys.readouterr().out
    assert entry.run(["spark", "run", JOINED, *two, "-o", "json"]) == 0
    assert capsys.readouterr().out == wanted


@pytest.mark.spark
@pytest.mark.slow
def test_it_prints_what_elf_run_prints(spark: Any, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["run", QUERY, str(log), "-o", "json"]) == 0
    wanted = capsys.readouterr().out
    assert entry.run(["spark", "run", QUERY, "--stream", f"log={log}", "-o", "json"]) == 0
    assert capsys.readouterr().out == wanted
    assert '"rows":[{"k":"a","n":6,"s":2.7},{"k":"b","n":4,"s":1.8}]' in wanted
    assert entry.run(["spark", "run", "SELECT k FROM log", "--stream", "log=/nowhere"]) == 1
    assert "/nowhere" in capsys.readouterr().err
    assert entry.run(["spark", "run", QUERY, "--stream", "other=" + str(log), "--stream", "more=x"]) == 2
