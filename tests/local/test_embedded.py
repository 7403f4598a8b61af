from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfmesh.cli.entry import run as elf
from elfmesh.cli.local.run import run_command
from elfmesh.errors import DataError, QueryError, RuntimeFailure
from elfmesh.local.embedded import answers
from elfmesh.local.log_input import BLOCK_BYTES
from tests.agent import app_log
from tests.agent.app_log import PER_WINDOW
from tests.patience import PATIENCE_S


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return app_log.write(tmp_path)


def invoke(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = elf(["run", *map(str, arguments)])
    out, err = capfd.readouterr()
    return code, out, err


def by_click(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(run_command, list(map(str, arguments)), input=stdin, catch_exceptions=True)


def test_results_come_per_interval_with_their_counts(log: Path) -> None:
    first, second = answers(PER_WINDOW, [str(log)], format="json")
    assert first.table.to_pylist() == [{"k": "a", "s": 6}, {"k": "b", "s": 4}]
    assert second.table.to_pylist() == [{"k": "a", "s": 14}, {"k": "b", "s": 21}]
    assert (second.record.index, second.record.start_us, second.record.end_us) == (
        1,
        300_000_000,
        600_000_000,
    )
    assert second.record.counts["contributed"] == 5


def test_no_interval_is_closed_before_the_end_of_the_input(log: Path) -> None:
    lines = log.read_text().splitlines()
    log.write_text("\n".join(reversed(lines)))
    ordered = answers(PER_WINDOW, str(log))
    assert [one.table.to_pylist() for one in ordered] == [
        [{"k": "a", "s": 6}, {"k": "b", "s": 4}],
        [{"k": "a", "s": 14}, {"k": "b", "s": 21}],
    ]
    assert sum(one.record.counts["late_dropped"] for one in ordered) == 0


def test_a_plain_projection_keeps_the_order_of_the_file(log: Path) -> None:
    (result,) = answers("SELECT v, w.x, upper(k) u FROM log WHERE v <> 3", str(log))
    assert result.table["v"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert result.table.slice(4, 1).to_pylist() == [{"v": 5, "x": 2.5, "u": "B"}]
    assert result.record.counts["filtered"] == 1


def test_a_limit_stops_reading(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_text('{"a":1}\n' * 1_000_000)
    (result,) = answers("SELECT a FROM log LIMIT 3", str(path))
    assert result.table.num_rows == 3
    assert result.record.counts["contributed"] < 1_000_000


def test_star_means_the_fields_of_the_log(log: Path) -> None:
    (result,) = answers("SELECT * FROM log LIMIT 1", str(log))
    assert result.table.column_names == ["ts", "k", "v", "w"]
    assert result.table["w"].to_pylist() == ['{"x":0.0}']


def test_several_files_are_one_log_and_know_where_a_record_came_from(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gz"
    other.write_bytes(gzip.compress(b'{"v":1}\n'))
    (result,) = answers(
        "SELECT _source, count(*) n FROM log GROUP BY _source ORDER BY n", [str(log), str(other)]
    )
    assert result.table.to_pylist() == [{"_source": str(other), "n": 1}, {"_source": str(log), "n": 10}]


def test_an_empty_file_gives_no_rows_but_a_global_aggregate_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert answers(PER_WINDOW, str(empty)) == []
    assert answers("SELECT k, count(*) FROM log GROUP BY k", str(empty))[0].table.num_rows == 0
    assert answers("SELECT k FROM log", str(empty))[0].table.num_rows == 0
    (row,) = answers("SELECT count(*) n, sum(v) s FROM log", str(empty))[0].table.to_pylist()
    assert row == {"n": 0, "s": None}


def test_unknown_columns_are_refused_where_the_format_declares_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("name,size\na,1\n")
    with pytest.raises(QueryError, match=r"no column nam.*\n.*Did you mean name"):
        answers("SELECT nam FROM log", str(path), format="csv")
    with pytest.raises(QueryError, match="no column nam"):
        answers("SELECT count(*) FROM log GROUP BY nam", str(path))
    with pytest.raises(QueryError, match=r"no column pth.*\n.*Did you mean path"):
        answers("SELECT pth FROM log", str(path), format="combined")


def test_conflicting_types_are_an_error_not_another_answer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("some prose without any structure\n")
    with pytest.raises(DataError, match="format of the log cannot be told"):
        answers("SELECT count(*) FROM log", str(path))
    with pytest.raises(RuntimeFailure, match="no such file"):
        answers("SELECT count(*) FROM log", str(tmp_path / "none"))


def test_an_error_that_quotes_a_log_escapes_what_a_terminal_would_obey(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1b[2Jno format\x9b\n")
    code, _, err = invoke(capfd, "SELECT a FROM log", path)
    assert code == 65
    assert "\\x1b[2Jno format" in err
    assert "\n  Specify it: --format" in err
    assert "\x1b" not in err


def test_sample_reads_only_the_first_records(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = invoke(capfd, "SELECT count(*) n FROM log", log, "--sample", "4", "-o", "csv")
    assert out == "n\n4\n"


def test_bad_lines_are_counted_and_shown_on_stderr(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with log.open("ab") as file:
        file.write(b"\x1b[31mgarbage\n\n\xff\n")
    code, out, err = invoke(capfd, "SELECT count(*) n FROM log", log, "-o", "csv")
    assert (code, out) == (0, "n\n10\n")
    assert err.startswith("elf: 12 records, 2 parse errors, 0 filtered, 1 line with malformed UTF-8")
    assert "\\x1b[31mgarbage" in err
    _, _, err = invoke(capfd, "SELECT count(*) n FROM log", log, "-q")
    assert err == ""
    _, _, err = invoke(capfd, "SELECT count(*) n FROM log", log, "-v")
    assert f"{log}: json" in err


def test_a_job_file_may_hold_several_jobs(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.elfql"
    jobs.write_text(
        "-- two jobs\nCREATE JOB shop.a EVERY '5 minutes' AS SELECT count(*) n FROM log;\n"
        f"CREATE JOB b AS {PER_WINDOW};\n"
    )
    code, out, _ = invoke(capfd, "-f", jobs, log, "-o", "json")
    assert code == 0
    assert [json.loads(line)["job"] for line in out.splitlines()] == [
        "shop/a",
        "shop/a",
        "default/b",
        "default/b",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SELECT FROM"], 65, "query:1:"),
        (["SELECT nofunction(v) FROM log", "LOG"], 65, "query:1:8"),
        (["SELECT v FROM log", "missing.log"], 1, "missing.log: no such file"),
        (["-f", "missing.elfql", "LOG"], 1, "missing.elfql: No such file"),
        ([], 2, "no query"),
        (["SELECT v FROM log", "LOG", "--format", "jsn"], 2, "Did you mean json?"),
        (["SELECT v FROM log", "LOG", "-o", "yaml"], 2, "yaml"),
        (["SELECT v FROM log", "LOG", "--sample", "0"], 2, "sample"),
        (["SELECT v FROM log", "LOG", "--format", "regex:("], 2, "pattern"),
    ],
)
def test_errors_name_what_is_wrong_and_have_their_exit_code(
    log: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    got, out, err = invoke(capfd, *[str(log) if a == "LOG" else a for a in arguments])
    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_without_permission_is_named(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log.chmod(0)
    code, _, err = invoke(capfd, "SELECT v FROM log", log)
    assert code == 1
    assert f"{log}: permission denied" in err


def test_a_torn_gzip_file_gives_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torn.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n' * 1000)[:-12])
    code, out, err = invoke(capfd, "SELECT count(*) FROM log", path)
    assert (code, out) == (65, "")
    assert "torn.gz: the gzip file is cut off" in err


def test_standard_input_is_the_log_when_none_is_named(log: Path) -> None:
    result = by_click("SELECT count(*) n FROM log", "-o", "csv", stdin=gzip.compress(log.read_bytes()))
    assert (result.exit_code, result.output) == (0, "n\n10\n")


def script(*arguments: str | Path, closed: bool = False) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "elfmesh.cli.local.run", *map(str, arguments)]
    before = partial(os.close, 0) if closed else None
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S, preexec_fn=before)


def test_the_module_runs_as_a_script_and_reports_when_stdin_is_closed(log: Path) -> None:
    assert script("SELECT count(*) n FROM log", log, "-o", "csv").stdout == b"n\n10\n"
    closed = script("SELECT 1 FROM log", closed=True)
    assert closed.returncode == 1
    assert b"standard input is closed" in closed.stderr


def test_a_reader_that_goes_away_ends_the_run_quietly(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}\n' * 100_000)
    command = f"{sys.executable} -m elfmesh.cli.local.run 'SELECT a FROM log' {path} -o csv | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, check=False, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == (b"a\n", b"")


def test_a_hundred_megabyte_line_and_nuls_cost_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b'{"a":1}\n')
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + bytes(5000) + b'\n{"a":2}\r\n\r\n{"a":3}')
    (result,) = answers("SELECT sum(a) s FROM log", str(path), format="json")
    assert result.table.to_pylist() == [{"s": 6}]
    assert result.record.counts["parse_error"] == 2


def test_a_json_field_that_no_record_has_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    log = tmp_path / "clicks.ndjson"
    log.write_text('{"ts":"2026-01-01T00:00:00Z","product":"a","user":{"name":"x"}}\n' * 3)
    for query in (
        "SELECT prodct, user.name AS n FROM l",
        "SELECT prodct, count(*) AS n FROM l GROUP BY prodct",
    ):
        done = CliRunner().invoke(run_command, [query, str(log), "-o", "csv"])
        assert done.exit_code == 0
        assert "no record has a value in prodct: it is null everywhere. Did you mean product?" in done.stderr
        assert "user.name" not in done.stderr
    quiet = CliRunner().invoke(run_command, ["SELECT product FROM l", str(log), "-o", "csv"])
    assert quiet.stderr == ""


def test_texts_that_are_no_lists_are_named_where_they_are_taken_apart(tmp_path: Path) -> None:
    log = tmp_path / "clicks.ndjson"
    lines = [{"s": "x,y", "m": {"a": 1}, "l": [1, 2]}, {"l": "no list"}, {"l": None}]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    view = "SELECT count(*) AS n FROM l LATERAL VIEW "
    for query, expected in (
        ("SELECT explode(s) AS e FROM l", ("explode at line 1, column 8 gave nothing", "'x,y'", "split(")),
        (view + "explode(m) t AS e", ("no text there is a JSON array", "Name the keys and the values")),
        (view + "posexplode(l) t AS p, k, v", ("no text there is a JSON object, as '[1,2]'", "str_to_map")),
    ):
        done = CliRunner().invoke(run_command, [query, str(log), "-o", "csv"])
        assert done.exit_code == 0
        assert all(part in done.stderr for part in expected), done.stderr
    listed = CliRunner().invoke(run_command, [view + "explode(l) t AS e", str(log), "-o", "csv"])
    assert (listed.stdout, listed.stderr) == ("n\n2\n", "")


def start(out: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "elfmesh.agent", "run", "--format", "json", "-o", "csv"]
    with out.open("wb") as file:
        return subprocess.Popen([*command, *map(str, words)], stdout=file, stderr=subprocess.PIPE)


def test_a_named_pipe_is_read_whole_by_the_reader_that_opens_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start(tmp_path / "out", "SELECT count(*) AS n FROM log", pipe)
    with pipe.open("wb") as file:
        time.sleep(0.3)  # a reader that only looked in has gone by now
        file.write(b'{"k":"a"}\n' * 500_000)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, (tmp_path / "out").read_text(), err) == (0, "n\n500000\n", b"")


def test_a_limit_or_an_interrupt_does_not_wait_for_the_writer_of_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = 2 * BLOCK_BYTES // 10 + 100  # two blocks, and a rest that the pipe itself holds
    process = start(tmp_path / "out", f"SELECT k FROM log LIMIT {lines - 200}", pipe)
    with pipe.open("wb") as file:
        file.write(b'{"k":"a"}\n' * lines)
        file.flush()
        process.communicate(timeout=PATIENCE_S)
    assert len((tmp_path / "out").read_text().split()) == lines - 199
    process = start(tmp_path / "none", "SELECT count(*) AS n FROM log", pipe)
    with pipe.open("wb") as file:
        file.write(b'{"k":"a"}\n' * lines)
        file.flush()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT 1 + 1 AS a, 'x' AS b, a * 2 AS c", [{"a": 2, "b": "x", "c": 4}]),
        ("SELECT count(*) AS n, sum(3) AS s", [{"n": 1, "s": 3}]),
        ("SELECT 1 AS a WHERE false", []),
        ("SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a DESC", [{"a": 2}, {"a": 1}]),
        ("SELECT e LATERAL VIEW explode(array(1, 2)) t AS e", [{"e": 1}, {"e": 2}]),
        ("WITH t AS (SELECT 1 AS x) SELECT x, (SELECT max(x) FROM t) AS m FROM t", [{"x": 1, "m": 1}]),
    ],
)
def test_a_query_without_from_has_one_row(text: str, rows: list[dict[str, object]]) -> None:
    (found,) = answers(text, [])
    assert found.table.to_pylist() == rows
    assert (found.record.state, sum(found.record.counts.values())) == ("FINAL", 0)


def test_a_query_without_from_reads_no_standard_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "elfmesh.cli", "run", "SELECT 1 + 1 AS two", "-o", "csv"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.wait(PATIENCE_S) == 0, "its standard input is open"
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == ("two\n2\n", "")


def test_log_files_that_no_statement_reads_are_refused(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = invoke(capfd, "SELECT count(*) AS n", log)
    assert (code, out) == (65, "")
    assert "does not say FROM which stream it reads" in err
    code, out, _ = invoke(capfd, "SELECT 1 AS one; SELECT count(*) > 1 AS many FROM log", log, "-o", "csv")
    assert (code, out) == (0, "one\n1\n\nmany\ntrue\n")
