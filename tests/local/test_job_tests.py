from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfmesh.cli.local.run import run_command
from elfmesh.cli.local.test import test_command as command  # pytest would take the name for a test

LOG = "".join(
    json.dumps({"ts": f"2015-05-17T10:00:{at:02}Z", "u": f"u{at % 3}", "n": at}) + "\n" for at in range(20)
)
QUERY = "SELECT u, sum(n) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), u ORDER BY u;\n"
ROWS = [
    {"u": "u0", "n": 18}, {"u": "u1", "n": 12}, {"u": "u2", "n": 15},
    {"u": "u0", "n": 45}, {"u": "u1", "n": 58}, {"u": "u2", "n": 42},
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "log.ndjson").write_text(LOG)
    return tmp_path


def write(place: Path, text: str, expect: object, name: str = "expect.json") -> Path:
    job = place / "job.elfql"
    job.write_text(text)
    (place / name).write_text(expect if isinstance(expect, str) else json.dumps(expect))
    return job


def run(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)


def case(query: str = QUERY, expect: str = "expect.json") -> str:
    return f"--@test input=log.ndjson expect={expect} format=json\n{query}"


SAME = [
    ROWS,
    "\n".join(json.dumps(dict(reversed(row.items()))) for row in ROWS).replace("18}", "18.0}"),
    [{"rows": ROWS[:3]}, {"interval": {"end": "2015-05-17T10:00:20Z"}, "rows": ROWS[3:], "state": "FINAL"}],
    [{"counts": {"contributed": 10}, "rows": ROWS[:3]}, {"rows": ROWS[3:]}],
]


@pytest.mark.parametrize("expect", SAME, ids=["rows", "lines", "intervals", "counts"])
def test_what_is_equal_passes_whatever_way_it_is_written(place: Path, expect: object) -> None:
    done = run(write(place, case(), expect))
    assert (done.return_value, "1 passed, 0 failed" in done.stderr) == (0, True), done.output


@pytest.mark.parametrize("early", ["EARLY '100 ms'", ""])
@pytest.mark.parametrize("least", [1, 4])
def test_a_case_of_a_job_with_early_rows_has_the_rows_of_its_final_records(
    place: Path, early: str, least: int
) -> None:
    query = (
        f"CREATE JOB a.b {early} AS SELECT u, count(*) AS n FROM log "
        f"GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), u HAVING count(*) >= {least};\n"
    )
    counts = [("u0", 4), ("u1", 3), ("u2", 3), ("u0", 3), ("u1", 4), ("u2", 3)]
    rows = [{"u": u, "n": n} for u, n in counts if n >= least]
    done = run(write(place, case(query), rows))
    assert (done.return_value, "1 passed, 0 failed" in done.stderr) == (0, True), done.output
    wrong = run(write(place, case(query), [*rows, rows[0]]))
    assert wrong.return_value == 1


SEALS = "".join(
    json.dumps({"ts": f"2015-05-17T10:00:{at:02}Z", "u": u} | more) + "\n"
    for at, (u, more) in enumerate(
        [("a", {}), ("b", {}), ("a", {}), ("a", {"done": True, "total": 2}), ("b", {})]
    )
)


@pytest.mark.parametrize("early", ["EARLY '100 ms'", ""])
def test_a_case_of_sealed_partitions_has_complete_ones_and_those_that_the_input_ends(
    place: Path, early: str
) -> None:
    (place / "log.ndjson").write_text(SEALS)
    query = (
        f"CREATE JOB a.b EVERY '1 s' {early} AS SELECT u, count(*) AS n FROM log "
        "GROUP BY SEALED(u WHEN done PRODUCERS ONE RECORDS total AFTER '1 h');\n"
    )
    done = run(write(place, case(query), [{"u": "a", "n": 2}, {"u": "b", "n": 2}]))
    assert (done.return_value, "1 passed, 0 failed" in done.stderr) == (0, True), done.output


@pytest.mark.parametrize(
    ("items", "header"),
    [("u", "window_start,window_end,u"), ("window.start, u", "start,u"), ("window_end AS e, u", "e,u")],
)
def test_csv_has_the_window_once(place: Path, items: str, header: str) -> None:
    query = f"SELECT {items}, count(*) AS n FROM log GROUP BY window(ts, '10 seconds'), u"
    words = [query, "-o", "csv", "--format", "json", str(place / "log.ndjson")]
    printed = CliRunner().invoke(run_command, words, standalone_mode=False)
    assert printed.stdout.splitlines()[0] == f"{header},n"


@pytest.mark.parametrize(
    ("items", "header"),
    [("u", "u"), ("session_window.start, u", "start,u"), ("window_end, u", "window_end,u")],
)
@pytest.mark.parametrize("form", ["csv", "table"])
def test_rows_of_sessions_have_no_bounds_but_their_own(
    place: Path, items: str, header: str, form: str
) -> None:
    query = f"SELECT {items}, count(*) AS n FROM log GROUP BY session_window(ts, '10 seconds'), u"
    words = [query, "-o", form, "--format", "json", str(place / "log.ndjson")]
    printed = CliRunner().invoke(run_command, words, standalone_mode=False)
    assert printed.stdout.splitlines()[0].replace(",", " ").split() == [*header.split(","), "n"]


@pytest.mark.parametrize("job", ["", "CREATE JOB shop.top AS "])
def test_what_elf_run_prints_is_what_is_expected(place: Path, job: str) -> None:
    text = case(job + QUERY)
    words = ["-f", write(place, text, ""), "-o", "json", "--format", "json", place / "log.ndjson"]
    printed = CliRunner().invoke(run_command, [str(word) for word in words], standalone_mode=False)
    assert json.loads(printed.stdout.splitlines()[0])["job"] == ("shop/top" if job else "run")
    done = run(write(place, text, printed.stdout))
    assert (done.return_value, "1 passed, 0 failed" in done.stderr) == (0, True), done.output


OTHER = [
    (ROWS[:5], '+{"u": "u2", "n": 42}'),
    ([*ROWS[:5], {"u": "u2", "n": "42"}], '-{"u": "u2", "n": "42"}'),
    ([*ROWS[:5], {"u": "u2", "n": 42, "more": None}], '"more": null'),
    ([ROWS[1], ROWS[0], *ROWS[2:]], '-{"u": "u0", "n": 18}'),
    ([{"rows": ROWS[:3]}], '"start": "2015-05-17T10:00:10Z"'),
    ([{"rows": ROWS[:3]}, {"state": "TENTATIVE", "rows": ROWS[3:]}], '-{"state": "TENTATIVE"}'),
    ([{"rows": ROWS[:3]}, {"nonsense": 1, "rows": ROWS[3:]}], '-{"nonsense": 1}'),
    ([], '+{"u": "u0", "n": 18}'),
    ("[", "neither JSON nor JSON lines"),
    ([1], "something other than rows"),
]


@pytest.mark.parametrize(("expect", "shown"), OTHER, ids=lambda value: str(value)[:30])
def test_what_differs_fails_and_is_shown(place: Path, expect: object, shown: str) -> None:
    done = run(write(place, case(), expect))
    assert done.return_value == 1
    assert "FAIL" in done.stdout
    assert shown in done.stdout


def test_csv_is_compared_as_it_is_printed(place: Path) -> None:
    text = "window_start,window_end,u,n\n" + "".join(
        f"2015-05-17T10:00:{start:02}Z,2015-05-17T10:00:{start + 10}Z,{row['u']},{row['n']}\n"
        for start, row in zip([0] * 3 + [10] * 3, ROWS, strict=True)
    )
    assert run(write(place, case(expect="x.csv"), text, "x.csv")).return_value == 0
    assert run(write(place, case(expect="x.csv"), text.replace("42", "43"), "x.csv")).return_value == 1


def test_directories_are_searched_and_each_case_is_about_the_statement_behind_it(place: Path) -> None:
    second = "--@test input=log.ndjson expect=count.json\nSELECT count(*) AS k FROM log"
    (place / "count.json").write_text('{"k": 20}')
    write(place, case() + second, ROWS)
    (place / "more").mkdir()
    (place / "more" / "none.elfql").write_text("SELECT 1 AS a FROM b")
    done = CliRunner().invoke(command, ["-o", "json", str(place)], standalone_mode=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["line"], each["passed"]) for each in found] == [(1, True), (3, True)]


def test_a_job_that_reads_another_runs_behind_it(place: Path) -> None:
    first = "CREATE JOB a.one AS " + QUERY
    second = "CREATE JOB a.two EVERY '20 s' AS SELECT sum(n) AS n FROM a.one;"
    assert run(write(place, first + case(second), [{"n": 190}])).return_value == 0


def test_several_streams_and_lookups_are_named(place: Path) -> None:
    (place / "names.csv").write_text("id,name\nu0,Zoe\n")
    query = "SELECT l.name AS name, count(*) AS k FROM a JOIN lookup.people l ON a.u = l.id GROUP BY l.name"
    text = "--@test input.a=log.ndjson,format=json lookup.people=names.csv,format=csv expect=expect.json\n"
    assert run(write(place, text + query, [{"name": "Zoe", "k": 7}])).return_value == 0


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("--@test input=log.ndjson", "job.elfql:1:1: a case needs"),
        ("  --@test input=log.ndjson expct=x", "job.elfql:1:3: 'expct=x' is not a setting"),
        ("--@test input=log.ndjson input=b expect=x", "given twice"),
        ("--@test input='log.ndjson expect=x", "No closing quotation"),
        ("--@test input=missing.ndjson expect=expect.json", "missing.ndjson"),
        ("--@test input=log.ndjson expect=missing.json", "missing.json"),
        ("--@test input=log.ndjson expect=expect.json format=nonsense", "nonsense"),
    ],
)
def test_a_case_that_cannot_run_fails_and_reports_why(place: Path, line: str, reported: str) -> None:
    done = run(write(place, f"{line}\n{QUERY}", ROWS))
    assert done.return_value == 1
    assert reported in done.stdout


def test_a_wrong_statement_fails_its_cases(place: Path) -> None:
    done = run(write(place, case("SELECT cuont(*) FROM log"), ROWS))
    assert done.return_value == 1
    assert "unknown function" in done.stdout


FUNCTION = """WITH FUNCTION f(n BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$
def f(n): return 100 // (n - {zero})
$$ SELECT sum(f(n)) AS s, count(*) AS c FROM log;
"""


def test_partitions_that_end_by_punctuations_are_tested_like_windows(place: Path) -> None:
    lines = [(1, "a", ""), (2, "b", ""), (3, "a", ""), (4, "a", "end"), (6, "b", "")]
    (place / "log.ndjson").write_text(
        "".join(json.dumps({"ts": at, "u": u, "e": e, "total": 2}) + "\n" for at, u, e in lines)
    )
    query = (
        "CREATE JOB a.b EVERY '1 s' AS SELECT u, count(*) AS n FROM log "
        "GROUP BY SEALED(u WHEN e = 'end' PRODUCERS ONE RECORDS total AFTER '1 h'), u;\n"
    )
    expect = [
        *({"rows": []} for _ in range(3)),
        {"rows": [{"u": "a", "n": 2}], "state": "FINAL"},
        {"rows": []},
        {"rows": [{"u": "b", "n": 2}], "state": "FINAL_PARTIAL", "completeness": 0.0},
    ]
    done = run(write(place, case(query), expect))
    assert (done.return_value, "1 passed, 0 failed" in done.stderr) == (0, True), done.output


def test_a_case_whose_input_breaks_an_assumption_fails(place: Path) -> None:
    job = "CREATE JOB a.b EVERY '10 s' ASSUME ({}) AS SELECT u, sum(n) AS n FROM log GROUP BY u ORDER BY u;\n"
    assert run(write(place, case(job.format("n >= 0")), ROWS)).return_value == 0
    failed = run(write(place, case(job.format("n >= 2")), ROWS))
    assert failed.return_value == 1
    assert "violations of ASSUME by the input: 2" in failed.output
