"""`elf lint`: formats, levels and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.cli.entry import run
from tests.control.coordination.papers import WORD_COUNT

LOOKUP = "SELECT l.a, count(*) FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a"


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "f.elfql").write_text(LOOKUP)
    (tmp_path / "other.py").write_text("raise SystemExit('run')")
    (tmp_path / "p.py").write_text("raise SystemExit('run')\nimport elfmesh\n")
    return str(tmp_path)


def test_findings_are_exit_code_1_at_their_level(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", text]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert f"{text}/f.elfql:1:54: warning B010:" in "\n".join(shown)
    assert shown[-1] == "2 warnings"
    assert run(["lint", text, "--level", "error"]) == 0


def test_an_allowed_finding_is_no_failure(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(text, "f.elfql").write_text(f"-- elf: allow B001, B010 because it never changes\n{LOOKUP}")
    assert run(["lint", text, "--level", "info"]) == 0
    assert capsys.readouterr().out == "no findings, 2 allowed\n"
    Path(text, "f.elfql").write_text(f"-- elf: allow B001, B010\n{LOOKUP}")
    assert run(["lint", text]) == 1
    assert "B009" in capsys.readouterr().out


def test_a_sample_contradicts_a_dependency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, log = tmp_path / "f.json", tmp_path / "log"
    path = {"from": "clicks", "to": "n", "label": "CW", "lineage": {"id": "id"}}
    file.write_text(json.dumps({"A": {"annotation": path}, "dependencies": ["id <-> campaign"]}))
    log.write_text('{"id": 1, "campaign": "a"}\n{"id": 1, "campaign": "a"}\n{"id": 2, "campaign": "b"}\n')
    assert run(["lint", str(file), "--sample", str(log)]) == 0
    with log.open("a") as more:
        more.write('{"id": 3, "campaign": "b"}\n')
    assert run(["lint", str(file), "--sample", str(log), "-o", "sarif"]) == 1
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"][0]["results"]
    assert found["ruleId"] == "B016"
    assert "campaign = b has the id 2 and 3" in found["message"]["text"]
    assert run(["lint", str(file)]) == 0, "without a sample, dependencies are believed"


def test_an_early_that_is_impossible_is_a_finding_and_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.elfql"
    job = "CREATE JOB a.x EVERY '1 s' EARLY '1 s' AS SELECT u FROM log GROUP BY u HAVING count(*) < 3"
    file.write_text(job)
    assert run(["lint", str(file)]) == 1
    assert f"{file}:1:79: error B014: EARLY is impossible here" in capsys.readouterr().out
    file.write_text(f"-- elf: allow B014 because the query is being written\n{job}")
    assert run(["lint", str(file)]) == 0
    assert run(["blazes", str(file)]) == 65


def test_json_sarif_and_github(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", text, "-o", "json"]) == 1
    assert [json.loads(line)["code"] for line in capsys.readouterr().out.splitlines()] == ["B001", "B010"]
    assert run(["lint", text, "-o", "sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    assert (log["version"], len(log["runs"][0]["results"])) == ("2.1.0", 2)
    assert run(["lint", text, "-o", "github"]) == 1
    assert capsys.readouterr().out.startswith("::warning file=")


def test_annotation_files_and_texts_together(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "words.yaml"
    file.write_text(WORD_COUNT)
    assert run(["lint", str(file), text]) == 1
    assert "db is Run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [("f.elfql", "SELEKT", 65), ("f.py", "def (", 65), ("f.yaml", "[", 65), ("none.elfql", None, 1)],
)
def test_wrong_files_have_the_exit_codes_of_every_command(
    name: str, content: str | None, code: int, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    assert run(["lint", str(tmp_path / name)]) == code


def test_an_empty_directory_is_wrong_usage(tmp_path: Path) -> None:
    assert run(["lint", str(tmp_path)]) == 2


FUNCTION = """WITH FUNCTION f(x STRING) RETURNS BIGINT LANGUAGE PYTHON {} AS $$
SEEN = {{}}
def f(x):
    return SEEN.setdefault("n", [0]).__iadd__([1]).__len__()
$$
SELECT f(k), count(*) FROM log GROUP BY f(k)"""


def test_python_tries_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.elfql"
    file.write_text(FUNCTION.format(""))
    assert run(["lint", str(file), "--level", "info"]) == 0
    assert run(["lint", str(file), "--python"]) == 1
    shown = capsys.readouterr().out
    assert "error B005: the function f failed its trial: (None) gave 2, and again 258" in shown
    assert run(["blazes", str(file), "--python", "--require", "Async"]) == 1
    assert "query 1   Run" in capsys.readouterr().out
    file.write_text(FUNCTION.format("ORDERED READ"))
    assert run(["lint", str(file), "--python", "--level", "error"]) == 0
    assert "B001" in capsys.readouterr().out


def test_a_sample_contradicts_what_a_job_assumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, log = tmp_path / "f.elfql", tmp_path / "log"
    query = "SELECT u, sum(n) AS n FROM log GROUP BY u"
    file.write_text(f"CREATE JOB a.x EVERY '1 s'\n  ASSUME (u -> v, n >= 0) AS {query}")
    log.write_text('{"u": "a", "v": "x", "n": 1}\n{"u": "a", "v": "x", "n": 0}\n')
    assert run(["lint", str(file), "--sample", str(log)]) == 0
    capsys.readouterr()
    log.write_text('{"u": "a", "v": "x", "n": -1.5}\n{"u": "a", "v": "y", "n": 0}\n')
    assert run(["lint", str(file), "--sample", str(log), "-o", "json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["code"], each["at"]["line"], each["at"]["column"]) for each in found] == [
        ("B016", 2, 11),
        ("B016", 2, 19),
    ]
    assert "u = a has the v x and y" in found[0]["message"]
    assert "a record has the n -1.5" in found[1]["message"]
    assert run(["lint", str(file)]) == 0, "without a sample, assumptions are believed"
