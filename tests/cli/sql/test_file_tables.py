"""Log files as tables of the shell. `test_command.py` runs statements over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.sql.file_tables import FileTables
from elfmesh.errors import DataError, UsageError

GIVEN: dict[str, Any] = {
    "log_format": "auto", "multiline": "", "timezone": "UTC", "year": None, "ts": "", "ts_format": "",
    "patterns": (), "memory": "16 MB",
    "streams": (), "lookups": (), "python": False, "threads": 1, "begin": None, "end": None,
}  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_text('{"v": 1, "w": {"x": "y"}}\n')
    return [str(tmp_path / f"{name}.log") for name in ("a", "b")]


def test_any_name_is_the_files(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tables = FileTables(paths, GIVEN)
    assert tables.listing() == [{"name": "log", "kind": "stream", "about": ", ".join(paths)}]
    assert [name for name, _ in tables.columns("log")] == ["v", "w"]
    tables.run("SELECT count(*) AS n FROM anything", "query", "csv", None)
    assert capsys.readouterr().out == "n\n2\n"


def test_named_streams_are_tables_of_their_own(paths: list[str]) -> None:
    tables = FileTables([], GIVEN | {"streams": (f"a={paths[0]}", f"b={paths[1]}")})
    assert [each["name"] for each in tables.listing()] == ["a", "b"]
    assert tables.columns("b")[0] == ("v", "BIGINT")
    with pytest.raises(DataError, match="there is no table log") as found:
        tables.columns("log")
    assert "`.tables` lists them" in found.value.hint


def test_a_lookup_is_read_again_when_it_has_changed(
    paths: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.csv"
    names.write_text("x,name\ny,one\n")
    tables = FileTables(paths[:1], GIVEN | {"lookups": (f"names={names},format=csv",)})
    text = "SELECT n.name FROM log JOIN lookup.names n ON log.w.x = n.x"
    tables.run(text, "query", "csv", None)
    names.write_text("x,name\ny,another\n")
    tables.run(text, "query", "csv", None)
    assert capsys.readouterr().out == "name\none\nname\nanother\n"


def test_files_have_no_history(paths: list[str]) -> None:
    with pytest.raises(UsageError, match="these are files"):
        FileTables(paths, GIVEN).history("1 h")


def test_a_select_without_from_reads_no_file(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    FileTables(paths, GIVEN).run("select 1 AS one", "query", "csv", None)
    assert capsys.readouterr().out == "one\n1\n"
