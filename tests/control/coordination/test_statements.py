"""The dataflow of jobs from their plans: the table of paths, and the faults of the first explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.drawing import lines
from elfmesh.control.coordination.repair import remedies
from elfmesh.control.coordination.statements import CONDITIONS, UNTIL_AT, dataflow
from elfmesh.control.jobs.graph import JobSink, job_graph
from elfmesh.ql import parse_many
from tests.hostile.cost import calls

ROOT = Path(__file__).parents[3]
WINDOW = "GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"


def analysed(*texts: str) -> Analysis:
    return analyse(dataflow(job_graph(parse_many(";\n".join(texts), source="f.elfql"))))


def gates(text: str, part: str) -> list[set[str]]:
    """The gates of the order-sensitive paths of the component of a query whose name ends with `part`."""
    return [
        set(gate)
        for each in analysed(text).graph.components
        if each.name.endswith(part)
        for path in each.paths
        for gate in path.annotation.gates
    ]


def paths(text: str) -> dict[str, str]:
    found = analysed(text)
    return {
        f"{each.name.removeprefix('query 1 ')}: {path}": str(path.annotation)
        for each in found.graph.components
        for path in each.paths
    }


LOOKUP = "SELECT l.a, count(*) FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a"
TABLE = "CREATE JOB a.b TABLE t (u STRING, a STRING) EVERY '1 s' AS " + LOOKUP.replace("(*)", "(*) AS n")
FUNCTION = (
    "WITH FUNCTION f(a STRING) RETURNS STRING LANGUAGE PYTHON AS $${}$$ "
    "SELECT f(u), count(*) FROM log GROUP BY f(u)"
)


@pytest.mark.parametrize(
    ("text", "path", "annotation"),
    [
        ("SELECT u, count(*) FROM log WHERE n > 2 GROUP BY u", "rows: log -> row", "CR"),
        (LOOKUP, "rows: log -> row", "OR (unknown)"),
        (FUNCTION.format("def f(a):\n  return a"), "rows: log -> row", "CR"),
        (FUNCTION.format("def f(a):\n  return str(hash(a))"), "rows: log -> row", "OR (unknown)"),
        *(
            (f"SELECT {each} FROM log", "rows final: row -> state", "CW")
            for each in (
                "count(*)", "sum(n)", "avg(n)", "stddev(n)", "min(n)", "max(n)", "first(n)", "last(n)",
                "count(DISTINCT n)", "collect_list(n)", "collect_set(n)", "approx_count_distinct(n)",
                "max_by(u, n)", "covar_pop(n, m)",
            )
        ),
        *(
            (f"SELECT {each} FROM log", "rows final: row -> state", "OW (unknown)")
            for each in ("approx_percentile(n, 0.5)", "approx_top_k(u, 3)")
        ),
        ("SELECT u, count(*) FROM log GROUP BY u", "rows final: seal -> final", "OR (interval, u)"),
        (
            "SELECT u, count(*) FROM log GROUP BY u",
            "rows tentative: deadline -> tentative", "OR (interval, u)",
        ),
        (
            "SELECT u, count(*) FROM log GROUP BY SESSION(ts, INTERVAL '5' SECOND), u",
            "rows final: seal -> final", "OR (interval, u)",
        ),
        (
            "CREATE JOB a.b EVERY '1 s' AS SELECT u, v, count(*) AS n FROM log "
            "GROUP BY SEALED(u WHEN e PRODUCERS ONE AFTER '1 h'), v",
            "a.b rows final: seal -> final", "OR (u, v)",
        ),
        (
            "SELECT u, count(*) n FROM log GROUP BY u ORDER BY n LIMIT 3",
            "rows final: seal -> final", "OR (interval, u), (interval)",
        ),
        (
            "SELECT u, count(*) n FROM log GROUP BY u ORDER BY n OFFSET 3",
            "rows final: seal -> final", "OR (interval, u), (interval)",
        ),
        ("SELECT u FROM log", "root: final 1 -> final", "CR"),
        ("SELECT DISTINCT u FROM log", "root: final 1 -> final", "CR"),
        (
            "SELECT l.u, max(t.n) n FROM log l JOIN LATEST shop.top t ON l.u = t.u GROUP BY l.u",
            "part 2: shop.top -> row", "OR (interval)",
        ),
    ],
)  # fmt: skip
def test_annotations_follow_from_the_plan(text: str, path: str, annotation: str) -> None:
    found = paths(text)
    keys = {key.replace("part 3", "part 2"): value for key, value in found.items()}
    assert keys.get(path) == annotation, found


# -- five faults of the first `elf explain`


def test_a_table_of_the_text_is_async_and_a_file_is_not() -> None:
    assert analysed(TABLE).shown("a.b") == "Async"
    found = analysed(LOOKUP)
    assert found.shown("query 1") == "Run"
    assert remedies(found, "query 1") == [
        "TABLE t (...) in the text, filled by `elf publish`: Async, no latency"
    ]


def test_a_python_function_is_examined() -> None:
    assert analysed(FUNCTION.format("def f(a):\n  return a")).shown("query 1") == "Async"
    found = analysed(FUNCTION.format("def f(a):\n  return str(hash(a))"))
    assert found.shown("query 1") == "Run"
    assert any("the function f calls hash" in line for line in lines(found))


def test_limit_has_a_gate_of_its_own() -> None:
    found = gates("SELECT u, count(*) n FROM log GROUP BY u ORDER BY n LIMIT 3", "rows final")
    assert found == [{"u", "interval"}, {"interval"}]


def test_the_label_of_a_job_that_is_read_is_inherited() -> None:
    reader = "CREATE JOB a.c AS SELECT max(n) AS m FROM a.b GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    sketch = f"CREATE JOB a.b AS SELECT approx_percentile(n, 0.5) AS n FROM log {WINDOW}"
    exact = f"CREATE JOB a.b AS SELECT sum(n) AS n FROM log {WINDOW}"
    assert analysed(sketch, reader).shown("a.c") == "Run"
    assert analysed(exact, reader).shown("a.c") == "Async"
    alone = analysed(reader)
    assert alone.shown("a.c") == "Async"
    assert alone.graph.notes == ("job a.b is not among the texts: it counts as Async",)


def test_skipped_stragglers_are_a_second_case() -> None:
    text = "CREATE JOB a.b ON STRAGGLER {} AS SELECT count(*) AS n FROM log " + WINDOW
    assert analysed(text.format("SKIP")).shown("a.b") == "Async | Run"
    waiting = analysed(text.format("WAIT"))
    assert waiting.shown("a.b") == "Async"
    assert waiting.outputs["a.b"].conditions == set(CONDITIONS)
    reader = "CREATE JOB a.c AS SELECT max(n) AS m FROM a.b GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    assert analysed(text.format("SKIP"), reader).shown("a.c") == "Async | Run"


# -- outputs


def test_tentative_rows_are_run_until_the_final_record() -> None:
    found = analysed("CREATE JOB a.b ON STRAGGLER CORRECT AS SELECT count(*) AS n FROM log " + WINDOW)
    assert (found.shown("a.b"), found.shown("a.b tentative")) == ("Async", "Run")
    shown = list(lines(found))
    assert "  a.b tentative   Run   until the final record replaces it" in shown
    assert shown[-1] == "1 output: 1 Async"
    waiting = analysed("CREATE JOB a.b ON STRAGGLER WAIT AS SELECT count(*) AS n FROM log " + WINDOW)
    assert list(waiting.outputs) == ["a.b"]


@pytest.mark.parametrize(
    "option", ["REPLICAS 2", "STANDBY ALL", "PATHS 1 ACROSS rack", "PATHS 3 ACROSS rack"]
)
def test_copies_of_bytes_and_sites_leave_the_label_of_final_rows(option: str) -> None:
    found = analysed(f"CREATE JOB a.b {option} AS SELECT count(*) AS n FROM log " + WINDOW)
    assert found.shown("a.b") == "Async"
    assert "a.b root" not in found.replicated


@pytest.mark.parametrize(("sites", "label"), [(1, "Run"), (2, "Inst"), (3, "Inst")])
def test_tentative_rows_of_several_sites_differ_between_readers_and_final_rows_do_not(
    sites: int, label: str
) -> None:
    text = f"CREATE JOB a.b PATHS {sites} ACROSS rack AS SELECT count(*) AS n FROM log " + WINDOW
    reader = "CREATE JOB a.c EVERY '1 m' AS SELECT sum(n) AS n FROM a.b"
    found = analysed(text, reader)
    assert found.shown("a.b tentative") == label
    assert (found.shown("a.b"), found.shown("a.c")) == ("Async", "Async")
    assert found.replicated == (frozenset({"a.b rows tentative"}) if sites > 1 else frozenset())


def test_sites_do_not_hide_a_label_of_the_rows() -> None:
    text = "CREATE JOB a.b PATHS 3 ACROSS rack AS " + LOOKUP.replace("(*)", "(*) AS n")
    found = analysed(text.replace("GROUP BY", "GROUP BY TUMBLE(ts, INTERVAL '5' SECOND),"))
    assert (found.shown("a.b"), found.shown("a.b tentative")) == ("Run", "Inst")


def test_a_query_of_the_newest_record_differs_between_readers_and_one_at_a_time_does_not() -> None:
    found = analysed("SELECT sum(n) AS n FROM a.b")
    assert (found.shown("query 1"), found.shown("query 1 newest")) == ("Async", "Inst")
    assert set(found.graph.provisional) >= {"query 1 newest"}
    shown = list(lines(found))
    assert f"  query 1 newest   Inst   {UNTIL_AT}" in shown
    assert shown[-1] == "1 output: 1 Async"
    assert "query 1 newest" not in analysed("SELECT sum(n) AS n FROM log").outputs
    assert "a.c newest" not in analysed("CREATE JOB a.c EVERY '1 m' AS SELECT sum(n) AS n FROM a.b").outputs


def test_jobs_that_read_each_other_are_async_because_of_the_delay() -> None:
    text = "CREATE JOB a.{0} AS SELECT max(l.n) AS n FROM log l JOIN LATEST a.{1} t ON l.u = t.n " + WINDOW
    assert analysed(text.format("x", "y"), text.format("y", "x")).shown("a.x") == "Async"


def test_places_are_lines_of_the_file() -> None:
    text = "SELECT u, count(*) n\nFROM log GROUP BY u\nORDER BY n\nLIMIT 3"
    final = next(each for each in analysed(text).why("query 1") if str(each.path) == "seal -> final")
    assert final.path.at.file == "f.elfql"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.elfql")), ids=lambda path: path.name)
def test_no_example_is_above_async(path: Path) -> None:
    found = analyse(dataflow(job_graph(parse_many(path.read_text(), source=path.name))))
    final = [each.name for each in found.graph.outputs if not each.provisional]
    assert {found.shown(name) for name in final} == {"Async"}


SEALED = (
    "CREATE JOB ads.ends EVERY '1 s' AS SELECT u, v, {} AS n FROM log "
    "GROUP BY SEALED(u WHEN {} PRODUCERS ONE AFTER '1 h'), v"
)


def test_an_ordered_topic_has_no_tentative_rows() -> None:
    assert set(analysed("CREATE TOPIC a.b DELIVERY ORDERED").outputs) == {"a.b"}
    assert "a.b tentative" in analysed("CREATE TOPIC a.b DELIVERY SEQUENCED EVERY '1 s'").outputs


def test_partitions_that_end_by_seals_are_async_and_have_no_tentative_rows() -> None:
    found = analysed(SEALED.format("count(*)", "e"))
    assert [each.name for each in found.graph.outputs] == ["ads.ends"]
    assert found.shown("ads.ends") == "Async"
    sketch = analysed(SEALED.format("approx_percentile(x, 0.5)", "e"))
    assert sketch.shown("ads.ends") == "Run", "the shape of the tree decides, whatever seals there are"
    reader = "CREATE JOB ads.rows EVERY '1 s' AS SELECT u, sum(n) AS n FROM ads.ends GROUP BY u"
    assert analysed(SEALED.format("count(*)", "e"), reader).shown("ads.rows") == "Async"


def test_the_steps_of_many_jobs_grow_with_their_number() -> None:
    def steps(count: int) -> int:
        texts = [f"CREATE JOB a.j{at} AS SELECT count(*) AS n FROM s{at} {WINDOW}" for at in range(count)]
        return analysed(*texts).steps

    assert steps(40) == 10 * steps(4)


def test_a_job_shows_its_own_paths_and_the_jobs_from_which_it_inherits() -> None:
    sketch = f"CREATE JOB a.b AS SELECT approx_percentile(n, 0.5) AS n FROM log {WINDOW}"
    reader = "CREATE JOB a.c AS SELECT max(n) AS m FROM a.b GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    found = analysed(sketch, reader)
    assert {found.graph.by_name[each.output[0]].group for each in found.own("a.c")} == {"a.c"}
    assert {found.graph.by_name[each.output[0]].group for each in found.why("a.c")} == {"a.b", "a.c"}
    assert found.inherited("a.c") == ["a.b"]
    assert "  inherits the label of a.b" in list(lines(found))


FIGURE_6 = {
    "THRESH": "SELECT id FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), id HAVING count(*) >= 1000",
    "POOR": "SELECT id FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), id HAVING count(*) < 100",
    "WINDOW": "SELECT id FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), id HAVING count(*) < 1000",
    "CAMPAIGN": "SELECT campaign, id FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), campaign, id "
    "HAVING count(*) < 100",
}


@pytest.mark.parametrize("query", FIGURE_6)
def test_the_queries_of_the_paper_need_no_annotations(query: str) -> None:
    """Paper, VII and Figure 6: the path of the clicks is CW, and the gate of the read is that of VI-B."""
    found = paths(FIGURE_6[query])
    gate = "campaign, id, interval" if query == "CAMPAIGN" else "id, interval"
    assert found["rows final: row -> state"] == "CW"
    assert found["rows final: seal -> final"] == f"OR ({gate})"
    assert analysed(FIGURE_6[query]).shown("query 1") == "Async"


# -- sinks


@pytest.mark.parametrize(
    ("kind", "revisions", "idempotent", "labels"),
    [
        ("parquet", False, True, {"a.b > s": "Async"}),
        ("parquet", True, True, {"a.b > s": "Async", "a.b > s open rows": "Run"}),
        ("webhook", False, True, {"a.b > s": "Async"}),
        ("webhook", False, False, {"a.b > s": "Run"}),
        ("webhook", True, True, {"a.b > s": "Run"}),
        ("prometheus", False, True, {"a.b > s": "Inst"}),
    ],
)
def test_a_sink_is_an_output_of_its_own(
    kind: str, revisions: bool, idempotent: bool, labels: dict[str, str]
) -> None:
    sink = JobSink("s", kind, ("a/*",), revisions, idempotent)
    found = analyse(dataflow(job_graph(parse_many(f"{TABLE}; {LOOKUP}"), [sink])))
    assert {name: found.shown(name) for name in found.outputs if ">" in name} == labels
    provisional = {name for name in found.graph.provisional if ">" in name}
    assert provisional == {name for name in labels if name.endswith("open rows")}


def test_a_sink_inherits_the_label_of_its_job() -> None:
    text = "CREATE JOB a.b EVERY '1 s' AS " + LOOKUP.replace("(*)", "(*) AS n")
    found = analyse(dataflow(job_graph(parse_many(text), [JobSink("s", "parquet", ("a.b",))])))
    assert found.shown("a.b > s") == "Run"
    assert found.inherited("a.b > s") == ["a.b"]


def test_early_rows_of_a_sealed_job_wait_for_the_seals_of_their_key() -> None:
    text = (
        "CREATE JOB s.ends EVERY '1 s' EARLY '250 ms' AS SELECT k, count(*) AS n FROM clicks "
        "GROUP BY SEALED(k WHEN e = 'end' PRODUCERS ONE RECORDS total AFTER '1 h') HAVING count(*) < 100"
    )
    analysis = analysed(text)
    assert str(analysis.label("s.ends early")) == str(analysis.label("s.ends")) == "Async"
    found = [path for each in analysis.graph.components for path in each.paths if path.target == "early"]
    assert [str(path.annotation) for path in found] == ["OR (k)", "CR"]
    assert found[-1].why == "early: period + hop, expected 0.251 s; waits for the producers of that key"


def test_early_rows_are_a_confluent_output_of_their_own() -> None:
    text = f"SELECT a, count(*) AS n FROM log {WINDOW}, a HAVING count(*) > 3"
    analysis = analysed(f"CREATE JOB s.hot EARLY '1 s' ON STRAGGLER SKIP AS {text}")
    assert str(analysis.label("s.hot early")) == "Async"
    assert [each.name for each in analysis.graph.outputs if each.provisional] == []
    assert "s.hot early" not in analysed(f"CREATE JOB s.hot AS {text}").outputs


CALLS_MAX = 3_000
"""Functions of Python and C for each job: a thousand jobs take half a second."""


def test_an_analysis_costs_the_same_for_each_of_many_jobs() -> None:
    texts = [
        f"CREATE JOB a.j{at} EVERY '1 s' ON STRAGGLER SKIP AS SELECT u, count(*) AS n "
        f"FROM {f'a.j{at - 1}' if at % 10 else 'log'} GROUP BY u ORDER BY n DESC LIMIT 10"
        for at in range(80)
    ]
    parsed = parse_many(";\n".join(texts))
    small = calls(lambda: analyse(dataflow(job_graph(parsed[:20]))))
    large = calls(lambda: analyse(dataflow(job_graph(parsed))))
    assert large < 4.4 * small
    assert large < CALLS_MAX * len(parsed)
