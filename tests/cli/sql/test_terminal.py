"""The prompt in a pseudo-terminal: keys, history, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.cli.sql.terminal import HISTORY, history
from tests.cli.remote import elf
from tests.cli.terminal import Terminal

ROWS = 1_000_000
READY = r"\x1b\[\?2004h.*elf>"
"""A prompt that reads keys; the one that a key ends is drawn again before."""

TAB, ENTER, CTRL_C, CTRL_D, UP = "\t", "\r", "\x03", "\x04", "\x1b[A"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")  # this terminal does not report its cursor
    return tmp_path / "state"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "x.ndjson"
    path.write_text('{"status": 200, "path": "/a"}\n{"status": 404, "path": "/b"}\n')
    return path


@pytest.fixture
def terminal(state: Path, log: Path) -> Iterator[Terminal]:
    found = Terminal("sql", str(log), "-o", "csv")
    found.wait_for(READY)
    yield found  # each test ends at a prompt: between two prompts the terminal drops Ctrl-D
    found.press(CTRL_D)
    assert found.end() == 0


def test_a_statement_ends_with_its_semicolon_and_errors_do_not_end_the_shell(terminal: Terminal) -> None:
    terminal.press(f"SELECT path{ENTER}")
    terminal.wait_for(r"\.\.\.>")
    terminal.press(f"FROM log WHERE status = 404;{ENTER}")
    terminal.wait_for(r"path\r\n/b\r\n.*" + READY)
    terminal.press(f"SELECT cuont(*) FROM log;{ENTER}")
    terminal.wait_for(r"elf: query:1:8: unknown function cuont.*Did you mean count.*" + READY)
    terminal.press(f".quit now{ENTER}")
    terminal.wait_for(r"\.quit takes no argument.*" + READY)


def test_tab_completes_columns_and_commands(terminal: Terminal) -> None:
    terminal.press(f"SELECT stat{TAB}")
    terminal.wait_for(r"us\x1b")
    terminal.press(f" FROM log LIMIT 1;{ENTER}")
    terminal.wait_for(r"status\r\n200\r\n")
    terminal.wait_for(READY)
    terminal.press(f".sch{TAB}")
    terminal.wait_for(r"ema\x1b")
    terminal.press(f" lo{TAB}")
    terminal.wait_for(r"g\x1b")
    terminal.press(ENTER)
    terminal.wait_for(r"column,type\r\nstatus,BIGINT\r\npath,STRING\r\n.*" + READY)


def test_ctrl_c_drops_what_was_typed(terminal: Terminal) -> None:
    terminal.press(f"SELECT nonsense{ENTER}")
    terminal.wait_for(r"\.\.\.>")
    terminal.press(CTRL_C)
    terminal.wait_for(READY)
    terminal.press(f".mode{ENTER}")
    terminal.wait_for(r"csv\r\n.*" + READY)


def test_ctrl_c_ends_a_statement_and_the_next_one_runs(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.ndjson"
    with path.open("w") as file:
        file.writelines(f'{{"v": {n}}}\n' for n in range(ROWS))
    slow = ", ".join(f"count(DISTINCT v + {n}) AS c{n}" for n in range(60))
    script = tmp_path / "slow.sql"
    script.write_text(f"SELECT {slow} FROM log;")
    terminal = Terminal("sql", str(path), "-o", "csv", "--threads", "2")
    terminal.wait_for(READY)
    terminal.press(f".read {script}{ENTER}")
    terminal.wait_for(" MB")  # the progress bar: the statement runs
    terminal.press(CTRL_C)
    terminal.wait_for(r"interrupted\r\n.*" + READY)
    terminal.press(f"SELECT v FROM log LIMIT 1;{ENTER}")
    terminal.wait_for(r"v\r\n0\r\n.*" + READY)
    terminal.press(CTRL_D)
    assert terminal.end() == 0


def test_the_history_is_that_of_earlier_sessions_and_only_its_users(terminal: Terminal, state: Path) -> None:
    terminal.press(f".mode tsv{ENTER}")
    terminal.wait_for(READY)
    path = state / HISTORY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert ".mode tsv" in path.read_text()
    terminal.press(f"{UP}{ENTER}")
    terminal.wait_for(READY)


def test_a_history_that_others_can_read_is_closed_to_them(state: Path) -> None:
    path = state / HISTORY
    path.parent.mkdir(parents=True)
    path.touch(0o644)
    history()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_directory_that_cannot_be_written_ends_the_history_with_the_session(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("a file, no directory")
    assert type(history()).__name__ == "InMemoryHistory"
    assert "the history ends with the session" in capsys.readouterr().err


def test_without_the_library_the_prompt_names_its_extra_and_scripts_run(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from elfmesh.cli import entry

    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert elf("sql", str(log), "-o", "csv", text="SELECT path FROM log;").stdout == "path\n/a\n/b\n"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert entry.run(["sql", str(log)]) == 1
    assert "pip install 'elfmesh[shell]'" in capsys.readouterr().err
