"""`elf run --live` and `--follow`: options, output and the interrupt."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elfmesh.cli.local.live import interrupt_ends
from tests.cli.remote import elf
from tests.patience import PATIENCE_S

QUERY = "SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"
ROWS = [json.dumps({"ts": 1_700_000_000 + second}) + "\n" for second in (0, 1, 6, 2, 11)]


def test_a_window_is_on_the_pipe_while_the_input_is_open() -> None:
    command = [sys.executable, "-m", "elfmesh.cli", "run", "--live", "-o", "json", QUERY, "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for row in ROWS[:3]:
            process.stdin.write(row)
        process.stdin.flush()
        first = json.loads(process.stdout.readline())
        assert (first["state"], first["rev"], first["rows"]) == ("TENTATIVE", 1, [{"n": 2}])
        process.stdin.write(ROWS[3])
        process.stdin.flush()
        again = json.loads(process.stdout.readline())
        assert (again["state"], again["rev"], again["rows"]) == ("TENTATIVE", 2, [{"n": 3}])
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert [json.loads(line)["state"] for line in rest.splitlines()] == ["FINAL", "FINAL"]
    assert "4 records, 0 parse errors, 0 filtered, 1 late" in errors


def test_a_table_has_a_window_again_only_if_a_record_changed_it() -> None:
    ran = elf("run", "--live", QUERY, "-", text="".join(ROWS))
    assert ran.exit_code == 0
    counts = [line.split()[-1] for line in ran.stdout.splitlines()[2:]]
    assert counts == ["3", "1", "1"]


def test_without_live_nothing_is_printed_twice() -> None:
    ran = elf("run", "-o", "json", QUERY, "-", text="".join(ROWS))
    assert [json.loads(line)["state"] for line in ran.stdout.splitlines()] == ["FINAL"] * 3
    assert "late" not in ran.stderr


@pytest.mark.parametrize(
    ("paths", "error"),
    [(["-"], "--follow: - is not a file"), (["log.gz"], "is compressed, and does not grow")],
)
def test_what_cannot_be_followed(tmp_path: Path, paths: list[str], error: str) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(ROWS[0].encode()))
    given = [path if path == "-" else str(tmp_path / path) for path in paths]
    ran = elf("run", "--follow", QUERY, *given, text="")
    assert ran.exit_code == 2
    assert error in ran.stderr


def test_several_jobs_cannot_follow(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(ROWS[0])
    ran = elf("run", "--follow", f"{QUERY}; {QUERY}", str(tmp_path / "log"))
    assert (ran.exit_code, "--follow runs one job" in ran.stderr) == (2, True)


def test_the_first_interrupt_ends_the_input_and_the_second_one_the_command() -> None:
    before, stop = signal.getsignal(signal.SIGINT), threading.Event()
    with interrupt_ends(stop):
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_prints_the_open_window_of_a_followed_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(ROWS))
    command = [sys.executable, "-m", "elfmesh.cli", "run", "--follow", "-o", "json", QUERY, str(log)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["state"] == "TENTATIVE"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    final = [json.loads(line) for line in rest.splitlines() if '"FINAL"' in line]
    assert [each["rows"] for each in final] == [[{"n": 3}], [{"n": 1}], [{"n": 1}]]
