from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from elfmesh.api.explain import SHAPED, explain, law_of
from elfmesh.cbt.laws import LAWS
from elfmesh.cli.local.explain import explain_command
from elfmesh.errors import QueryError, UsageError
from elfmesh.local.embedded import answers
from elfmesh.ql import parse

LOG = "".join(
    json.dumps({"ts": f"2015-05-17T10:00:{at % 60:02}Z", "u": f"user{at % 9}", "n": at}) + "\n"
    for at in range(600)
)


def invoke(*words: object) -> Result:
    return CliRunner().invoke(explain_command, [str(word) for word in words], standalone_mode=False)


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


def test_windows_say_how_they_slide() -> None:
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


JOIN = """SELECT a.u, b.n FROM
  (SELECT u, count(*) k FROM x GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) a
  JOIN (SELECT u, sum(n) n FROM y WHERE n > 0 GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) b ON a.u = b.u"""


def test_a_join_has_both_inputs_and_stands_at_the_master() -> None:
    found = plan(JOIN)
    assert [(each["stream"], each["filter"]) for each in found["inputs"]] == [("x", None), ("y", "(n > 0)")]
    assert "inner join on a.u = b.u" in found["stages"][2]["does"]


@pytest.mark.parametrize(
    ("text", "output", "loose"),
    [
        ("SELECT u, avg(n) FROM log GROUP BY u", "Async", []),
        ("SELECT approx_count_distinct(u) FROM log", "Async", []),
        ("SELECT approx_percentile(n, 0.5) FROM log", "Run", [("agents", "OW")]),
        ("SELECT l.a, count(*) FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a", "Run", [("log", "OR")]),
        (JOIN, "Async", []),
    ],
)
def test_labels_of_determinism(text: str, output: str, loose: list[tuple[str, str]]) -> None:
    found = plan(text)["determinism"]
    paths = found["paths"]
    assert found["output"] == output
    assert [(p["from"], p["label"]) for p in paths if not p["confluent"] and not p["gate"]] == loose
    assert (paths[-1]["label"], paths[-1]["gate"]) == ("OR", "interval")


def test_where_the_results_of_other_jobs_are_joined() -> None:
    text = "SELECT l.u, max(t.n) n FROM log l JOIN LATEST shop.top t ON l.u = t.u GROUP BY l.u"
    paths = {path["from"]: path for path in plan(text)["determinism"]["paths"]}
    assert (paths["log"]["to"], paths["shop.top"]["to"]) == ("agents", "results")
    assert paths["shop.top"]["gate"] == "interval"
    assert "the master joins the newest rows" in paths["shop.top"]["why"]


def test_laws_that_depend_on_the_tree_are_those_without_exact_associativity() -> None:
    assert {kind for kind in LAWS if kind in SHAPED} == {"kll", "kllmerge", "frequent", "top"}


def test_a_sample_is_measured_by_running_it(tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(LOG)
    text = "SELECT u, sum(n) FROM log WHERE n >= 60 GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), u"
    done = invoke(text, "--sample", log, "-o", "json")
    measured = json.loads(done.stdout)["measured"]
    assert measured["records"] == 600
    assert measured["bytes_read"] == len(LOG)
    assert (measured["contributed"], measured["intervals"]) == (540, 2)
    assert measured["groups"] == sum(each.table.num_rows for each in answers(text, str(log)))
    assert 0 < measured["bytes_per_interval"] <= measured["bytes_of_largest_interval"] < len(LOG)
    assert "measured:" in invoke(text, "--sample", log).stdout


def test_without_a_sample_a_formula_is_shown_and_called_one() -> None:
    done = invoke("SELECT u, count(*), count(DISTINCT n) FROM log GROUP BY u")
    assert "as a formula; --sample measures them" in done.stdout
    assert "main: groups x (bytes of u + 8)" in done.stdout
    assert "d0: groups x (bytes of u, n)" in done.stdout


def test_an_update_is_compared_with_what_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old.elfql", tmp_path / "new.elfql"
    old.write_text("CREATE JOB a.b EVERY '1 s' AS SELECT u, count(*) AS k FROM log GROUP BY u")
    new.write_text(old.read_text() + " HAVING count(*) > 3")
    done = invoke("-f", new, "--update-of", old)
    assert "update: keep, in place (only the end of the query has changed)" in done.stdout
    new.write_text(old.read_text().replace("FROM log", "FROM log WHERE u > 'a'"))
    assert (
        json.loads(invoke("-f", new, "--update-of", old, "-o", "json").stdout)["update"]["state"] == "warm up"
    )


def test_the_examples_and_a_file_of_several_jobs_can_be_explained(tmp_path: Path) -> None:
    root = Path(__file__).parents[3] / "examples"
    for path in sorted(root.rglob("*.elfql")):
        done = invoke("-f", path)
        assert done.exception is None, (path, done.exception)
        assert "├─ agents" in done.stdout
    both = tmp_path / "both.elfql"
    both.write_text("SELECT a FROM b;\nSELECT sum(a) FROM b")
    assert len(invoke("-f", both, "-o", "json").stdout.splitlines()) == 2


def test_wrong_use_and_wrong_text() -> None:
    assert isinstance(invoke().exception, UsageError)
    assert isinstance(invoke("SELECT 1 FROM a", "-f", "x").exception, UsageError)
    error = invoke("SELECT cuont(*) FROM a").exception
    assert isinstance(error, QueryError)
    assert "^" in str(error)


def test_text_of_a_query_cannot_reach_the_terminal() -> None:
    assert "\x1b" not in invoke("SELECT count(*) FROM a WHERE b = '\x1b[2J'").stdout
