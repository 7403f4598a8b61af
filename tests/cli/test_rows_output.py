"""Each output format of each command that prints rows; tables on a terminal, and pipes that end early."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elfmesh.cli.common import ROWS_OUTPUT
from tests.api.client.test_live import Backend, api
from tests.cli.remote import elf
from tests.control.fakes import table

__all__ = ["api"]

QUERY = "SELECT product, hits FROM shop.top ORDER BY hits DESC"


@pytest.fixture
def backend() -> Backend:
    fake = Backend()
    fake.lists("list", [{"job": "shop/top"}])
    for index in range(5):
        fake.publish(index, table(("apple", index), ("\x1b[2Jbad", 1)))
    return fake


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "a.ndjson"
    rows = ({"product": f"p{number}", "hits": number, "ts": number} for number in range(12))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def commands(api: str, log: str) -> dict[str, list[str]]:
    return {
        "run": ["run", "SELECT product, hits FROM x", log],
        "query": ["query", QUERY, "--api", api],
        "results": ["results", "shop/top", "--api", api],
        "get": ["get", "jobs", "--api", api],
    }


@pytest.mark.parametrize("name", ["run", "query", "results", "get"])
def test_each_format_of_each_command(api: str, log: str, name: str, tmp_path: Path) -> None:
    command = commands(api, log)[name]
    found = {}
    for kind in ROWS_OUTPUT[:-1]:
        ran = elf(*command, "-o", kind)
        assert (ran.exit_code, ran.stdout != "") == (0, True), (kind, ran.stderr)
        found[kind] = ran.stdout
    rows = [json.loads(line) for line in found["jsonl"].splitlines()]
    delimited = [list(csv.reader(io.StringIO(found["csv"])))]
    delimited.append(list(csv.reader(io.StringIO(found["tsv"]), delimiter="\t")))
    assert [len(lines) - 1 for lines in delimited] == [len(rows)] * 2
    assert found["markdown"].count("\n") == len(rows) + 2
    assert found["vertical"].count("-[ ") == len(rows)
    path = tmp_path / "found.parquet"
    ran = elf(*command, "-o", "parquet", "--output", str(path))
    assert (ran.exit_code, ran.stdout) == (0, ""), ran.stderr
    table = pq.read_table(path)
    assert (table.num_rows, table.column_names) == (len(rows), delimited[0][0])


def test_parquet_has_the_types_of_the_result(api: str, log: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert elf("results", "shop/top", "--api", api, "-o", "parquet", "--output", str(path)).exit_code == 0
    kinds = {field.name: str(field.type) for field in pq.read_schema(path)}
    assert kinds["interval_start"] == "timestamp[us, tz=UTC]"
    assert (kinds["product"], kinds["hits"], kinds["rev"]) == ("string", "int64", "int32")
    text = "SELECT count(*) AS n FROM x GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"
    assert elf("run", text, log, "-o", "parquet", "--output", str(path)).exit_code == 0
    first = pq.read_table(path).to_pylist()[0]
    assert (first["window_start"].isoformat(), first["n"]) == ("1970-01-01T00:00:00+00:00", 5)


@pytest.mark.parametrize(
    ("options", "intervals"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--last", "2"), [3, 4]),
        (("--from", "3"), [3, 4]),
        (("--limit", "2"), [0, 1]),
        (("--from", "1", "--limit", "2"), [1, 2]),
        (("--from", "99"), []),
    ],
)
def test_the_intervals_of_a_file_are_those_that_are_printed(
    api: str, tmp_path: Path, options: tuple[str, ...], intervals: list[int]
) -> None:
    path = tmp_path / "a"
    command = ["results", "shop/top", *options, "--api", api]
    ran = elf(*command, "-o", "parquet", "--output", str(path))
    assert ran.exit_code == 0, ran.stderr
    indices = pq.read_table(path).column("interval_index").to_pylist() if intervals else []
    assert sorted({*indices}) == intervals
    printed = [
        json.loads(line)["interval"]["index"] for line in elf(*command, "-o", "json").stdout.splitlines()
    ]
    assert printed == intervals
    if not intervals:
        assert pq.read_table(path).num_rows == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("-o", "parquet"), "parquet is written to a file: -o parquet --output FILE"),
        (("-o", "csv", "--output", "f.csv"), "'f.csv' is not one of"),
        (("-o", "parquet", "--output", "a", "--output", "b"), "'b' is not one of"),
        (("--output", "xml"), "'xml' is not one of"),
    ],
)
@pytest.mark.parametrize("name", ["run", "query", "results", "get"])
def test_wrong_formats(api: str, log: str, name: str, options: tuple[str, ...], error: str) -> None:
    ran = elf(*commands(api, log)[name], *options)
    assert ran.exit_code == 2
    assert error in ran.stderr


def test_what_has_no_end_has_no_file(api: str, log: str, tmp_path: Path) -> None:
    file = ["-o", "parquet", "--output", str(tmp_path / "a")]
    jobs = tmp_path / "jobs"
    jobs.write_text("SELECT product FROM x; SELECT hits FROM x")
    found = commands(api, log)
    for command in (
        [*found["results"], "--follow"],
        [*found["results"], "--early"],
        [*found["get"], "--watch"],
        [*found["run"], "--live"],
        ["run", "-f", str(jobs), log],
    ):
        assert elf(*command, *file).exit_code == 2, command
    assert not (tmp_path / "a").exists()


def test_a_format_comes_from_the_environment_too(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELF_OUTPUT", "jsonl")
    assert elf("run", "SELECT hits FROM x", log).stdout.startswith('{"hits":0}\n{')
    assert elf("run", "SELECT hits FROM x", log, "--output", "csv").stdout.startswith("hits\n0\n")


def on_terminal(command: list[str], columns: int) -> list[str]:
    """The lines that a command prints on a terminal of so many columns."""
    master, slave = pty.openpty()
    whole = [sys.executable, "-m", "elfmesh.cli", *command]
    variables = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(whole, stdout=slave, env=variables) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            text += part
        assert process.wait() == 0
    os.close(master)
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize("name", ["run", "query", "results", "get"])
def test_numbers_are_on_the_right_and_wide_rows_are_cut(
    api: str, backend: Backend, log: str, name: str
) -> None:
    backend.publish(5, pa.table({"product": ["fig"], "hits": [1000.25]}))
    backend.lists("list", [{"job": "shop/top", "version": 7}, {"job": "shop/other", "version": 12}])
    command = commands(api, log)[name]
    plain = elf(*command).stdout.splitlines()
    wide = on_terminal(command, 200)
    cut = [line for line in on_terminal(command, 12) if not line.startswith("interval")]
    assert max(map(len, cut)) == 12
    assert any(line.endswith("…") for line in cut)
    assert not any("…" in line for line in (*plain, *wide))
    ends = {
        "run": ("p9          9", "p11        11"),
        "query": ("fig      1000.25",),
        "results": ("apple          4", r"\x1b[2Jbad     1", "fig      1000.25"),
        "get": ("shop/top          7", "shop/other       12"),
    }[name]
    for end in ends:
        assert any(line.startswith(end) for line in plain), (end, plain)


@pytest.mark.parametrize("name", ["run", "query", "results", "get"])
@pytest.mark.parametrize("kind", ["table", "csv", "jsonl", "vertical"])
def test_a_reader_that_ends_early_is_no_error(
    api: str, backend: Backend, log: str, name: str, kind: str
) -> None:
    command = [sys.executable, "-m", "elfmesh.cli", *commands(api, log)[name], "-o", kind]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.stderr, done.returncode) == ("", 141)
