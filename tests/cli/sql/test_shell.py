"""Statements and commands of `elf sql`, with tables that a test plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from elfmesh.cli.sql.shell import COMMANDS, SqlShell
from elfmesh.errors import DataError, QueryError
from elfmesh.ql import parse


class Tables:
    """Notes what it is to run; `SELECT boom` is a bug, `stop` is Ctrl-C."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str, str, Path | None]] = []

    def run(self, text: str, source: str, output: str, output_file: Path | None) -> None:
        if "stop" in text:
            raise KeyboardInterrupt
        if "boom" in text:
            raise ZeroDivisionError("boom")
        parse(text, source=source)
        self.ran.append((text, source, output, output_file))

    def listing(self) -> list[dict[str, Any]]:
        return [
            {"name": "access", "kind": "stream", "about": "access.log"},
            {"name": "web\x1b.x", "kind": "job", "about": ""},
            {"name": "lookup.hosts", "kind": "lookup", "about": ""},
        ]

    def columns(self, name: str) -> list[tuple[str, str]]:
        if name != "access":
            raise DataError(f"there is no table {name}")
        return [("status", "BIGINT"), ("path", "STRING")]

    def history(self, duration: str) -> str:
        return duration or "10 min"


def scripted(text: str, **options: Any) -> tuple[SqlShell, Tables]:
    tables = Tables()
    shell = SqlShell(tables, "table", **options)
    shell.script(text.splitlines(keepends=True), "x.sql")
    return shell, tables


def test_an_error_has_its_place_in_the_script_and_the_next_statement_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "SELECT a FROM log;\n\n  SELECT b,\n cuont(*) FROM log; SELECT FORM log;\nSELECT c FROM log"
    shell, tables = scripted(text)
    assert [each[0] for each in tables.ran] == ["SELECT a FROM log", "SELECT c FROM log"]
    assert shell.exit_code == QueryError.exit_code
    errors = capsys.readouterr().err
    assert "elf: x.sql:4:2: unknown function cuont\n   cuont(*) FROM log; SELECT FORM log;\n   ^" in errors
    assert "elf: x.sql:4:28: " in errors


def test_a_bug_ends_a_statement_and_not_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    shell, tables = scripted("SELECT boom;\nSELECT a FROM log;")
    assert (shell.exit_code, len(tables.ran)) == (1, 1)
    assert "elf: ZeroDivisionError: boom\n  This is a bug" in capsys.readouterr().err


def test_ctrl_c_ends_a_typed_statement_and_a_whole_script(capsys: pytest.CaptureFixture[str]) -> None:
    shell, tables = scripted("SELECT stop;\nSELECT a FROM log;", interactive=True)
    assert (shell.exit_code, len(tables.ran)) == (0, 1)
    assert capsys.readouterr().err == "interrupted\n"
    with pytest.raises(KeyboardInterrupt):
        scripted("SELECT stop;")


def test_a_closed_pipe_ends_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Tables, "run", closed)
    with pytest.raises(BrokenPipeError):
        scripted("SELECT a FROM log;")


def test_a_line_is_taken_when_it_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    tables, seen = Tables(), []

    def lines() -> Any:
        for line in ("SELECT a\n", "FROM log;\n", "SELECT b FROM log;\n", ".quit\n", "SELECT c FROM log;\n"):
            yield line
            seen.append(len(tables.ran))

    shell = SqlShell(tables, "table")
    shell.script(lines(), "x.sql")
    assert (seen, shell.ended, len(tables.ran)) == ([0, 1, 2], True, 2)


def test_modes_are_those_of_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a b.parquet"
    text = f".mode\n.mode json\nSELECT a FROM s;\n.mode parquet {path}\nSELECT a FROM s;\n.mode\n.tables\n"
    shell, tables = scripted(text)
    assert [each[2:] for each in tables.ran] == [("json", None), ("parquet", path)]
    out = capsys.readouterr().out
    assert out.startswith(f"table\nparquet {path}\nNAME ")
    assert "web\\x1b.x" in out
    assert shell.exit_code == 0


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        (".mdoe json", "there is no command .mdoe\n  Did you mean .mode?"),
        (".zzzzz", "there is no command .zzzzz\n  `.help` lists the commands."),
        (".mode jsno", ".mode: there is no format jsno\n  Did you mean json?"),
        (".mode parquet", "parquet takes a file"),
        (".mode json file", "parquet takes a file"),
        (".tables x", ".tables takes no argument"),
        (".timing maybe", ".timing takes on or off"),
        (".read", ".read takes a file"),
        (".schema nothing", "there is no table nothing"),
    ],
)
def test_wrong_commands_are_refused(line: str, reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = scripted(line)
    assert shell.exit_code in (2, 65)
    found = capsys.readouterr()
    assert (found.out, reported in found.err) == ("", True), found.err


def test_lists_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = scripted(".schema access;\n.schema\n.help\n.history '1 h'\n.mode csv\n.schema access")
    found = capsys.readouterr()
    lines = [line.split() for line in found.out.splitlines()]
    assert lines[:3] == [["COLUMN", "TYPE"], ["status", "BIGINT"], ["path", "STRING"]]
    assert lines[3:6] == [
        ["TABLE", "COLUMN", "TYPE"],
        ["access", "status", "BIGINT"],
        ["access", "path", "STRING"],
    ]
    assert found.out.endswith("column,type\nstatus,BIGINT\npath,STRING\n")
    assert all(f"\n{name} " in found.out for name in COMMANDS)
    assert found.err == "web\\x1b.x: there is no table web\x1b.x\n".replace("\x1b", "\\x1b") + (
        "streams are read from 1 h ago until now\n"
    )
    assert shell.exit_code == 0


def test_timing_is_for_statements(capsys: pytest.CaptureFixture[str]) -> None:
    scripted(".timing on\nSELECT a FROM s;\n.tables\n.timing\nSELECT a FROM s;")
    lines = capsys.readouterr().err.splitlines()
    assert [lines[0], lines[2]] == ["timing is on", "timing is off"]
    assert lines[1].endswith(" s")
    assert len(lines) == 3


def test_a_file_is_read_with_its_own_name_in_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "inner.sql"
    file.write_text("SELECT a FROM s;\nSELECT FORM s;\n.mode json\n")
    shell, tables = scripted(f".read {file}\nSELECT b FROM s;\n.read {tmp_path}/missing.sql")
    assert [each[:3] for each in tables.ran] == [
        ("SELECT a FROM s", str(file), "table"), ("SELECT b FROM s", "x.sql", "json")
    ]  # fmt: skip
    errors = capsys.readouterr().err
    assert f"elf: {file}:2:" in errors
    assert f"elf: {tmp_path}/missing.sql: No such file" in errors
    assert shell.exit_code == 65


def test_a_file_that_reads_itself_ends(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "inner.sql"
    file.write_text(f".read {file}\nSELECT a FROM s;\n")
    shell, tables = scripted(f".read {file}")
    assert "more than 16 files read each other" in capsys.readouterr().err
    assert (shell.exit_code, len(tables.ran)) == (click.UsageError.exit_code, 16)


def test_what_is_typed_is_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    tables = Tables()
    SqlShell(tables, "table", interactive=True).typed("SELECT a FROM s;\nSELECT FORM s;")
    assert len(tables.ran) == 1
    assert "elf: query:2:" in capsys.readouterr().err
