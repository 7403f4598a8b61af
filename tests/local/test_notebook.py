"""The cell magic `%%elf`: over files, variables and a fleet, in IPython's own shell where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import elfmesh
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError, UsageError
from elfmesh.local.notebook import evaluate
from tests.control.fakes import FakeBackend, served, table

QUERY = "SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY k"


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "my log.ndjson"
    path.write_text('{"k": "a"}\n{"k": "<b>"}\n{"k": "a"}\n')
    return str(path)


def test_a_cell_reads_files_and_its_result_is_html(log: str) -> None:
    found = evaluate({}, f"'{log}' --format json", QUERY)
    assert found.to_arrow().to_pylist() == [{"k": "<b>", "n": 1}, {"k": "a", "n": 2}]
    assert "<td>&lt;b&gt;</td><td>1</td>" in found._repr_html_()
    twice = evaluate({}, f"'{log}' '{log}'", QUERY)
    assert [row["n"] for row in twice.to_arrow().to_pylist()] == [2, 4]


def test_a_cell_reads_a_variable_and_stores_its_result() -> None:
    variables: dict[str, Any] = {"frame": pa.table({"k": ["x", "x"]})}
    assert evaluate(variables, "frame --into answer", QUERY) is None
    assert variables["answer"].to_arrow().to_pylist() == [{"k": "x", "n": 2}]


def test_a_cell_asks_a_fleet() -> None:
    backend = FakeBackend()
    backend.publish(0, table(("apple", 3), ("beer", 4)))
    log_range = {"earliest": 0, "latest": 0, "expired": None, "incarnation": "a1"}
    backend.replies["offsets"] = Reply(0, 200, log_range)
    with served(backend) as address:
        with pytest.raises(ElfError):
            evaluate({}, f"--api {address}", "SELECT sum(hits) AS hits FROM shop.other")
        found = evaluate({}, f"--api {address}", "SELECT sum(hits) AS hits FROM shop.top")
    assert found.to_arrow().to_pylist() == [{"hits": 7}]
    assert "<td>7</td>" in found._repr_html_()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "there is no log to read"),
        ("'open", "the line cannot be read: No closing quotation"),
        ("a.log --colour red", "unrecognized arguments: --colour red"),
        ("a.log --api 127.0.0.1:1", "--api excludes logs and --format"),
        ("a.log --into 9x", "'9x' is not a name of a variable"),
    ],
)
def test_a_wrong_line_is_refused(line: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate({}, line, QUERY)
    assert caught.value.message == error


def test_ipython_shows_results_and_errors_without_a_traceback(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = shells.InteractiveShell()
    shell.run_line_magic("load_ext", "elfmesh")
    result = shell.run_cell(f"%%elf '{log}'\n{QUERY}")
    assert result.success
    assert isinstance(result.result, elfmesh.RunResults)
    data, _ = shell.display_formatter.format(result.result)
    assert "<td>2</td>" in data["text/html"]
    capsys.readouterr()
    failed = shell.run_cell(f"%%elf '{log}'\nSELECT nothing(k) FROM log")
    assert failed.success
    assert failed.result is None
    shown = capsys.readouterr().err
    assert "unknown function nothing" in shown
    assert "Traceback" not in shown
