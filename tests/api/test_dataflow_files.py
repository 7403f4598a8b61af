"""Files and directories of an analysis."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.api import dataflow_files
from elfmesh.api.dataflow_files import read_files
from elfmesh.errors import DataError, RuntimeFailure, UsageError

JOB = "CREATE JOB a.b EVERY '1 s' AS SELECT u, count(*) AS n FROM log GROUP BY u"


def test_a_directory_has_texts_and_programs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.elfql").write_text(JOB)
    (tmp_path / "p.py").write_text(
        f"import elfmesh\nclass P(elfmesh.Job):\n  query = {JOB!r}\n  def on_result(self, r): ..."
    )
    (tmp_path / "not_ours.py").write_text("def (")
    found = read_files([str(tmp_path), str(tmp_path / "p.py")])
    assert [each.name for each in found.statements] == ["a/b"]
    assert [each.name for each in found.programs] == ["a/b"]
    assert [each.name for each in found.jobs().jobs] == ["a/b"], "the file creates the program's job"
    assert len(found.texts) == 2
    assert "a.b (program) outside" in {each.name for each in found.dataflow().outputs}


def test_the_text_of_a_program_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(f"import elfmesh\nclass P(elfmesh.Job):\n  query = {JOB!r}")
    assert [each.name for each in read_files([str(tmp_path)]).jobs().jobs] == ["a/b"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "f.elfql").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_files([str(tmp_path / "f.elfql")])
    with pytest.raises(RuntimeFailure):
        read_files([str(tmp_path / "none.elfql")])


def test_a_text_above_the_limit_is_refused_and_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.elfql"
    path.write_text(f"{JOB};\n{JOB.replace('a.b', 'a.c')}")
    monkeypatch.setattr(dataflow_files, "TEXT_BYTES_MAX", len(JOB) + 1)
    with pytest.raises(DataError, match="more than"):
        read_files([str(path)])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        read_files([str(tmp_path / "empty")])
