"""`elf sql` as a process: scripts, `-c`, exit codes, and the same rows as `elf run`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.e2e.zygote import elf
from tests.patience import PATIENCE_S

COUNT = "SELECT status, count(*) AS n FROM log GROUP BY status ORDER BY status"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "x.ndjson"
    path.write_text("".join(f'{{"ts": {n}, "status": {200 + 200 * (n % 2)}}}\n' for n in range(5)))
    return path


@pytest.mark.parametrize("output", ["table", "json", "csv", "jsonl", "tsv", "markdown", "vertical"])
def test_a_statement_gives_the_bytes_of_a_run(log: Path, output: str) -> None:
    ran = elf("run", COUNT, log, "-o", output)
    for done in (
        elf("sql", log, "-o", output, "-c", COUNT),
        elf("sql", log, "-c", f".mode {output}\n{COUNT};"),
        elf("sql", log, "-o", output, stdin=f"{COUNT};\n"),
        elf("sql", "--stream", f"log={log}", "-o", output, stdin=COUNT),
    ):
        assert (done.returncode, done.stdout, done.stderr) == (0, ran.stdout, ""), done.stderr


def test_a_script_goes_on_after_an_error_and_exits_with_its_code(log: Path) -> None:
    done = elf("sql", log, "-o", "csv", stdin=f"{COUNT};\nSELECT nothing(\nFROM log;\n.mode jsno\n{COUNT};\n")
    assert done.returncode == 65
    assert done.stdout == "status,n\n200,3\n400,2\n" * 2
    assert "elf: stdin:2:" in done.stderr
    assert "Did you mean json?" in done.stderr


def test_a_later_statement_reads_the_results_of_a_job(log: Path) -> None:
    job = "CREATE JOB web.hits EVERY '2 s' AS SELECT status, count(*) AS n FROM log GROUP BY status"
    text = f"{job};\n.tables\n.schema web.hits\nSELECT sum(n) AS n FROM web.hits;"
    done = elf("sql", log, "-o", "csv", "-c", text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(
        f"name,kind,about\nlog,stream,{log}\nweb.hits,job,results of this session\n"
        "column,type\nstatus,BIGINT\nn,BIGINT\nn\n5\n"
    )


def test_columns_and_lookups_are_listed(log: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("ip,owner\n1.2.3.4,a\n")
    done = elf("sql", log, "--lookup", f"hosts={hosts},format=csv", "-o", "csv", "-c", ".tables\n.schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "name,kind,about", f"log,stream,{log}", "lookup.hosts,lookup,",
        "table,column,type", "log,ts,TIMESTAMP", "log,status,BIGINT",
    ]  # fmt: skip


def test_parquet_has_the_rows_of_the_last_statement(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    done = elf("sql", log, "-c", f".mode parquet {path}\nSELECT status FROM log; {COUNT}")
    assert (done.returncode, done.stdout) == (0, "")
    assert pq.read_table(path).to_pylist() == [{"status": 200, "n": 3}, {"status": 400, "n": 2}]


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        (("missing.log",), 1, "missing.log: no such file"),
        (("-",), 2, "is a pipe, which only one statement can read"),
        (("x.ndjson", "--api", "127.0.0.1:1"), 2, "LOG files and --api exclude each other"),
        (("x.ndjson", "--stream", "a=x.ndjson"), 2, "--stream and LOG exclude each other"),
        (("x.ndjson", "--format", "nonsense"), 2, "--format"),
        (("x.ndjson", "-o", "parquet"), 2, "parquet is written to a file"),
        (("--history", "soon"), 2, "--history: 'soon' is not a duration"),
    ],
)
def test_wrong_arguments(
    log: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, reported: str
) -> None:
    monkeypatch.chdir(log.parent)
    done = subprocess.run(
        [sys.executable, "-m", "elfmesh.cli", "sql", *arguments, "-c", COUNT],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert reported in done.stderr


def test_files_come_before_an_api_of_the_environment(log: Path) -> None:
    done = elf("sql", log, "-o", "json", "-c", COUNT, ELF_API="127.0.0.1:1")
    assert json.loads(done.stdout)["rows"] == [{"status": 200, "n": 3}, {"status": 400, "n": 2}]


def test_bytes_that_are_no_text_are_an_error_of_their_line(log: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "elfmesh.cli", "sql", str(log), "-o", "csv"],
        input=f"\ufeff{COUNT};\n".encode() + b"SELECT \xff FROM log;\n", capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 65
    assert done.stdout == b"status,n\n200,3\n400,2\n"
    assert b"stdin: line 2 is not UTF-8: byte 8" in done.stderr


def test_ctrl_c_ends_a_script(log: Path) -> None:
    command = [sys.executable, "-m", "elfmesh.cli", "sql", str(log), "-o", "csv"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{COUNT};\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() == b"status,n\n", "a statement runs when its line is there"
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors.strip()) == (130, b"")


def test_a_reader_that_is_gone_ends_the_script(log: Path) -> None:
    script = f"{COUNT};\n" * 2000
    command = f"{sys.executable} -m elfmesh.cli sql {log} -o csv; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"], input=script, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("status,n\n", "141\n")
