"""The plan of a statement as people read it: laws, windows, what is read, and what is not exact."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.api.explain import explain, law_of
from elfmesh.cbt.laws import LAWS
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.drawing import values
from elfmesh.control.coordination.statements import SHAPED, dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.ql import parse

JOIN = """SELECT a.u, b.n FROM
  (SELECT u, count(*) k FROM x GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) a
  JOIN (SELECT u, sum(n) n FROM y WHERE n > 0 GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) b ON a.u = b.u"""


def plan(text: str) -> dict[str, Any]:
    return explain(parse(text))


def kept(text: str) -> dict[str, str]:
    aggregates = plan(text)["inputs"][0]["tables"][0]["aggregates"]
    return {each["law"]: each["window"] for each in aggregates}


def test_every_aggregate_is_shown_with_its_law() -> None:
    for kind in LAWS:
        found = law_of(kind)
        assert found["invertible"] == LAWS[kind].invertible
        assert found["exact"] == (
            kind.removesuffix("merge") not in ("hll", "kll", "theta", "frequent", "top")
        )
        assert (found["error"] is None) == found["exact"]
    assert "1.65 %" in law_of("kll")["error"]
    assert "0.33 %" in law_of("kll:1000")["error"]
    assert law_of("top:50")["error"].startswith("up to 50 values")


def test_explain_shows_how_windows_slide() -> None:
    query = "SELECT sum(n), max(n) FROM log GROUP BY {}"
    assert kept(query.format("TUMBLE(ts, INTERVAL '5' SECOND)")) == {"sum": "one pane", "max": "one pane"}
    sessions = kept(query.format("SESSION(ts, INTERVAL '5' SECOND)"))
    assert set(sessions.values()) == {"joined at the root"}
    few = kept(query.format("HOP(ts, INTERVAL '10' SECOND, INTERVAL '40' SECOND)"))
    assert few == {"sum": "merge of 4 panes", "max": "merge of 4 panes"}
    many = kept(query.format("HOP(ts, INTERVAL '1' SECOND, INTERVAL '300' SECOND)"))
    assert many == {"sum": "inverse", "max": "two stacks"}


def test_what_agents_read_and_filter_is_named() -> None:
    found = plan(
        "SELECT u, count(*) FROM log ON (role = 'web') WHERE n > 2 AND u LIKE 'a''b%'"
        " GROUP BY u HAVING count(*) > 1"
    )
    (one,) = found["inputs"]
    assert (one["stream"], one["labels"], one["columns"]) == ("log", {"role": "web"}, ["n", "u"])
    assert one["filter"] == "((n > 2) AND u LIKE 'a''b%')"
    assert one["keys"] == ["u"]
    assert "having: (count(*) > 1)" in found["stages"][2]["does"]


def test_a_join_has_both_inputs_and_stands_at_the_master() -> None:
    found = plan(JOIN)
    assert [(each["stream"], each["filter"]) for each in found["inputs"]] == [("x", None), ("y", "(n > 0)")]
    assert "inner join on a.u = b.u" in found["stages"][2]["does"]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("SELECT u, avg(n) FROM log GROUP BY u", "Async"),
        ("SELECT approx_count_distinct(u) FROM log", "Async"),
        ("SELECT approx_percentile(n, 0.5) FROM log", "Run"),
        ("SELECT l.a, count(*) FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a", "Run"),
        (JOIN, "Async"),
    ],
)
def test_the_determinism_of_a_statement_is_that_of_coordination(text: str, label: str) -> None:
    found = plan(text)["determinism"]
    assert [each["label"] for each in found["outputs"]] == [label]
    assert found == values(analyse(dataflow(job_graph([parse(text)]))))


def test_a_job_inherits_the_label_of_a_job_in_the_same_file() -> None:
    window = "GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"
    sketch = parse(f"CREATE JOB a.b AS SELECT approx_percentile(n, 0.5) AS n FROM log {window}")
    reader = parse(f"CREATE JOB a.c AS SELECT max(n) AS m FROM a.b {window}")
    alone, beside = (explain(reader, each)["determinism"] for each in ((), (sketch, reader)))
    assert [each["label"] for each in alone["outputs"] if not each["provisional"]] == ["Async"]
    (output,) = [each for each in beside["outputs"] if not each["provisional"]]
    assert (output["name"], output["label"], output["inherits"]) == ("a.c", "Run", ["a.b"])
    assert {each["name"].split()[0] for each in beside["components"]} == {"a.c"}


def test_laws_that_depend_on_the_tree_are_those_without_exact_associativity() -> None:
    assert {kind for kind in LAWS if kind in SHAPED} == {"kll", "kllmerge", "frequent", "top"}


def test_explain_shows_what_is_counted_and_what_is_kept_for_a_match() -> None:
    counted = explain(
        parse("CREATE JOB a.b EVERY '1 s' AS SELECT k, sum(v) AS n FROM s GROUP BY ROWS(9, 3), k")
    )
    assert counted["window"]["how"].startswith("a pane is as wide as EVERY; the root counts records")
    assert counted["inputs"][0]["keys"] == ["k", "event time(ts)", "v"]
    lines = counted["stages"][2]["does"]
    assert any(line.startswith("windows of 9 records of k, every 3 records") for line in lines)
    joined = explain(
        parse("CREATE JOB a.b EVERY '1 s' AS SELECT s.k AS k FROM s LEFT JOIN t ON s.k = t.k WITHIN '5 s'")
    )
    assert (
        joined["window"]["how"]
        == "each window is one pane; the root keeps the records that later ones may be joined to"
    )
    assert "left join on s.k = t.k, less than 5 s apart" in joined["stages"][2]["does"]
    for found in (counted, joined):
        assert found["determinism"]["outputs"][0]["label"] == "Async"


def test_explain_shows_what_seals_partitions() -> None:
    text = (
        "CREATE JOB ads.ends EVERY '1 s' AS SELECT k, count(*) AS n FROM log "
        "GROUP BY SEALED(k WHEN e = 'end' PRODUCERS p BY host RECORDS total AFTER '24 h')"
    )
    found = explain(parse(text))
    assert found["inputs"][0]["sealed"] == {
        "keys": ["k"],
        "when": "(e = 'end')",
        "producers": "TRY_CAST(p AS BIGINT)",
        "by": "host",
        "records": "TRY_CAST(total AS BIGINT)",
        "after": "1 d",
    }
    assert found["window"]["how"] == "a pane is as wide as EVERY; the root keeps open partitions"
    assert any("punctuations: (e = 'end')" in line for line in found["stages"][0]["does"])
    ends = [line for line in found["stages"][2]["does"] if "a partition ends when" in line]
    assert len(ends) == 1
    assert "FINAL_PARTIAL" in ends[0]
    for how, shown in (("ONE", "one producer has"), ("ALL", "all members have")):
        stages = explain(parse(text.replace("p BY host RECORDS total", how)))["stages"]
        assert any(shown in line for line in stages[2]["does"])


@pytest.mark.parametrize(
    ("clause", "stage", "step"),
    [
        (
            "STANDBY ALL LAG '2 s'",
            0,
            "ship the open windows to a standby, which lacks at most the newest 2 s",
        ),
        ("REPLICAS 2 ACROSS region", 0, "store each contribution also on 2 peers, in other regions first"),
        ("REPLICAS 1", 0, "store each contribution also on 1 peer, in other racks first"),
        ("PATHS 1 ACROSS rack", 1, "merge inside each rack, whose gateway sends one part to the master"),
        ("PATHS 3", 1, "merge inside each region or rack, whose gateway sends one part to each site"),
        (
            "PATHS 3, 2 ACROSS region COST 6",
            1,
            "merge inside each region, whose 2 gateways send one part to each site,"
            " at no more than 6 times the cost of PATHS 1",
        ),
        ("PATHS 1", 1, "merge inside each region or rack, whose gateway sends one part to the master"),
    ],
)
def test_clauses_that_place_work_are_steps_of_their_stage(clause: str, stage: int, step: str) -> None:
    query = "SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
    plain, clear = (
        explain(parse(f"CREATE JOB a.b {each} AS {query}"))["stages"][stage]["does"] for each in ("", clause)
    )
    assert step in clear
    assert step not in plain


def test_explain_shows_what_resample_adds_and_how_far_it_looks_back() -> None:
    select = "SELECT u, ts AS at, n FROM log RESAMPLE at EVERY '1 s' PARTITION BY u"
    assert "a row of each u at every 1 s of at" in plan(select)["stages"][-1]["does"]
    back = plan(f"CREATE JOB a.b EVERY '1 min' AS {select} FILL (n NEXT) MAX GAP '5 s'")
    assert "a row of each u at every 1 s of at, which look back 5 s" in back["stages"][-1]["does"]


def test_a_statement_without_from_reads_nothing() -> None:
    found = plan("SELECT 1 AS one")
    assert (found["inputs"], found["stages"][0]["does"]) == ([], [])
    assert found["stages"][2]["does"] == ["one row, without a record", "select one", "publish one"]
    assert [each["label"] for each in found["determinism"]["outputs"]] == ["Async"]
