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
