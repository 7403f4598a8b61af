"""`elf blazes`: formats, options, exit codes, and hostile files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.cli.entry import run
from elfmesh.control.protocol.events import Reply
from tests.control.coordination.papers import AD_NETWORK, WORD_COUNT
from tests.control.fakes import FakeBackend, served


@pytest.fixture
def ads(tmp_path: Path) -> str:
    file = tmp_path / "ads.yaml"
    file.write_text(AD_NETWORK)
    return str(file)


@pytest.fixture
def words(tmp_path: Path) -> str:
    file = tmp_path / "words.yaml"
    file.write_text(WORD_COUNT)
    return str(file)


def test_all_variants_are_shown(ads: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blazes", ads]) == 0
    shown = capsys.readouterr().out.splitlines()
    labels = {line: shown[at + 1] for at, line in enumerate(shown) if line.startswith("variant")}
    assert labels == {
        "variant POOR": "response   Diverge",
        "variant THRESH": "response   Async",
        "variant WINDOW": "response   Diverge",
        "variant CAMPAIGN": "response   Diverge",
    }


@pytest.mark.parametrize("rules", ["sound", "paper"])
def test_a_seal_and_a_variant(ads: str, rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["blazes", ads, "--rules", rules, "--variant", "Report=CAMPAIGN", "--seal", "click=campaign"]
    assert run([*given, "--require", "Async"]) == 0
    assert capsys.readouterr().out.startswith("response   Async\n")


def test_a_label_above_the_required_one_is_exit_code_1(words: str) -> None:
    assert run(["blazes", words]) == 0
    assert run(["blazes", words, "--require", "Run"]) == 0
    assert run(["blazes", words, "--require", "Async"]) == 1


def test_why_prints_the_derivation(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blazes", words, "--why", "db"]) == 0
    first, *steps = capsys.readouterr().out.splitlines()
    assert first == "db   Run"
    assert [step.split("rule ")[1][0] for step in steps] == ["p", "2", "p"]
    assert run(["blazes", words, "--why", "none"]) == 2


def test_json_names_the_variant(ads: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blazes", ads, "-o", "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["variant"] for each in found] == ["POOR", "THRESH", "WINDOW", "CAMPAIGN"]
    assert run(["blazes", words, "-o", "json"]) == 0
    assert "variant" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("output", "begins"), [("dot", "digraph"), ("svg", "<svg")])
def test_pictures(words: str, ads: str, output: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blazes", words, "-o", output]) == 0
    assert capsys.readouterr().out.startswith(begins)
    assert run(["blazes", ads, "-o", output]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: {annotation: {from: a, to: b, label: XX}}", "f.yaml:1: unknown label 'XX'"),
        ("A: {annotation: {from: a, label: CR}}", "f.yaml:1: a path without `to`"),
        ("A:\n  annotation: {from: a, to: b, label: CR, subscript: [x]}", "f.yaml:2: a confluent path"),
        ("\x00\x01\x02", "f.yaml:1: not YAML"),
        (
            "A: {annotation: {from: a, to: b, label: CR}}\nstreams:\n- {name: s, from: B.b}",
            "f.yaml:3: stream s",
        ),
    ],
)
def test_a_hostile_file_is_one_line_and_exit_code_65(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert run(["blazes", str(file)]) == 65
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "option", [["--seal", "tweets"], ["--seal", "x=k"], ["--variant", "A"], ["--require", "X"]]
)
def test_wrong_options(option: list[str], words: str) -> None:
    assert run(["blazes", words, *option]) == 2


JOB = "CREATE JOB a.b AS SELECT {} AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"


def test_texts_and_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "b.elfql").write_text(JOB.format("approx_percentile(x, 0.5)"))
    (folder / "c.elfql").write_text(
        "CREATE JOB a.c AS SELECT max(n) AS m FROM a.b GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    )
    assert run(["blazes", str(folder), "--require", "Async"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("a.b   Run")
    assert "  repair   exact aggregates: percentile" in shown
    assert shown[-1] == "2 outputs: 2 Run"
    assert run(["blazes", str(folder / "b.elfql"), "--require", "Run"]) == 0


def test_tentative_rows_do_not_count_for_the_required_label(tmp_path: Path) -> None:
    file = tmp_path / "b.elfql"
    file.write_text(JOB.format("count(*)"))
    assert run(["blazes", str(file), "--require", "Async"]) == 0
    file.write_text(JOB.format("count(*)").replace(" AS SELECT", " ON STRAGGLER SKIP AS SELECT"))
    assert run(["blazes", str(file), "--require", "Async"]) == 1, "the second case counts"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT n FROM a.b", "  query 1 newest   Inst   without `--at TIME`, "),
        (
            "CREATE JOB a.b PATHS 2 ACROSS rack AS SELECT count(*) AS n FROM log "
            "GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)",
            "  a.b tentative   Inst   until the final record replaces it",
        ),
    ],
)
def test_outputs_that_differ_between_readers_for_a_while_are_shown_with_their_end(
    text: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "q.elfql"
    file.write_text(text)
    assert run(["blazes", str(file), "--require", "Async"]) == 0
    assert any(each.startswith(line) for each in capsys.readouterr().out.splitlines())


def test_what_is_no_dataflow(tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "b.elfql"
    file.write_text("SELECT FROM")
    assert run(["blazes", str(file)]) == 65
    assert f"{file}:1:" in capsys.readouterr().err
    assert run(["blazes", str(file), words]) == 2
    file.write_bytes(b"\xff")
    assert run(["blazes", str(file)]) == 65
    assert run(["blazes", str(tmp_path / "none.elfql")]) == 1
    file.unlink()
    Path(words).unlink()
    assert run(["blazes", str(tmp_path)]) == 2
    file.write_text(f"{JOB.format('count(*)')};\n{JOB.format('sum(x)')}")
    assert run(["blazes", str(file)]) == 65
    assert "the job a/b is created twice" in capsys.readouterr().err
    assert run(["blazes", str(file), "--variant", "a=b"]) == 2


def test_a_label_worse_than_the_baseline_is_exit_code_1(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["blazes", words, "--seal", "tweets=batch", "-o", "json"]) == 0
    old = tmp_path / "old.json"
    old.write_text(capsys.readouterr().out)
    assert run(["blazes", words, "--seal", "tweets=batch", "--baseline", str(old)]) == 0
    assert run(["blazes", words, "--baseline", str(old), "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert f"worse than {old}: db was Async and is Run" in shown.err
    assert json.loads(shown.out.splitlines()[-1])["outputs"]
    old.write_text("[]")
    assert run(["blazes", words, "--baseline", str(old)]) == 65


def test_files_or_a_fleet(words: str) -> None:
    assert run(["blazes"]) == 2
    assert run(["blazes", words, "--fleet"]) == 2
    assert run(["blazes", "--fleet", "--api", "127.0.0.1:1"]) == 69


def test_the_labels_of_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend()
    backend.lists("list", [{"job": "shop/top", "creator": "local"}])
    backend.lists("agents", [{"name": "a", "programs": [{"program": "shop/coupons"}]}])
    text = "CREATE JOB shop.top EVERY '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n FROM log GROUP BY k"
    backend.replies["describe"] = Reply(0, 200, {"text": text})
    with served(backend) as api:
        assert run(["blazes", "--fleet", "--api", api, "--require", "Run"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("shop.top   Async | Run")
        assert "program shop.coupons is left out" in shown
        assert run(["blazes", "--fleet", "--api", api, "--require", "Async"]) == 1


def test_explore_prints_two_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, log = tmp_path / "f.elfql", tmp_path / "s.ndjson"
    text.write_text(
        "CREATE JOB a.b EVERY '10 s' AS SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY k LIMIT 1; "
        "SELECT k, sum(v) AS s FROM log GROUP BY k"
    )
    log.write_text("".join(f'{{"ts":"2026-01-01T00:00:01Z","k":"{at}","v":{at}.1}}\n' for at in range(8)))
    assert run(["blazes", str(text), "--explore", "--sample", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "a.b: tentative rows differ between two of 8 schedules" in shown
    assert "query 2: equal rows in 8 schedules" in shown
    assert run(["blazes", str(text), "--explore"]) == 2
    assert run(["blazes", str(text), "--sample", str(log)]) == 2
