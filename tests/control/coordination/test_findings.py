"""Each code of `elf lint` has a text that triggers it and one that does not; comments allow findings."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import read_annotations
from elfmesh.control.coordination.declared import read_programs
from elfmesh.control.coordination.document import Document
from elfmesh.control.coordination.findings import (
    CODES,
    RULES,
    Linted,
    LintFinding,
    allowing,
    findings,
    with_comments,
)
from elfmesh.control.coordination.program_flows import with_programs
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import JobSink, job_graph
from elfmesh.errors import QueryError
from elfmesh.ql import parse_many
from elfmesh.ql.expressions.assumption import AssumedBound
from elfmesh.ql.plan.early import EarlyRefused
from elfmesh.ql.text.parsing import parse_each


def of_texts(text: str) -> list[LintFinding]:
    parsed = list(parse_each(text, source="f.elfql"))
    jobs = job_graph([each for each in parsed if not isinstance(each, QueryError)])
    refused = [each for each in parsed if isinstance(each, EarlyRefused)]
    return findings(Linted(analyse(dataflow(jobs)), jobs, refused=refused))


def of_sample(proof: str) -> list[LintFinding]:
    (graph,) = read_annotations(Document("f.json", count("CW") | ASSUMED)).graphs({}).values()
    return findings(Linted(analyse(graph), contradicted=dict.fromkeys(graph.dependencies, proof)))


def of_assumed(contradicted: str, exceeded: str) -> list[LintFinding]:
    jobs = job_graph(parse_many(JOB.format("x", "ASSUME (u -> v, n >= 0)", "log"), source="f.elfql"))
    graph = dataflow(jobs)
    proofs = dict.fromkeys(graph.dependencies, contradicted)
    return findings(
        Linted(analyse(graph), jobs, contradicted=proofs, exceeded={AssumedBound("n", 0): exceeded})
    )


def of_topic(label: str) -> list[LintFinding]:
    return of_program(READER.format(label))


def of_function(*, refuted: bool) -> list[LintFinding]:
    jobs = job_graph(parse_many(FUNCTION.format("def f(a):\n  return a"), source="f.elfql"))
    (task,) = jobs.jobs
    assert task.statement is not None
    proofs = dict.fromkeys(task.statement.functions, "('x') gave 1, and again 2") if refuted else {}
    return findings(Linted(analyse(dataflow(jobs, proofs)), jobs, refuted=proofs))


def of_sink(**settings: object) -> list[LintFinding]:
    sink = JobSink("hook", "webhook", ("a/*",), source="agent.toml", line=3, **settings)  # type: ignore[arg-type]  # by name
    jobs = job_graph(parse_many(JOB.format("x", "", "log")), [sink])
    return findings(Linted(analyse(dataflow(jobs)), jobs))


def of_values(values: object) -> list[LintFinding]:
    (graph,) = read_annotations(Document("f.json", values)).graphs({}).values()
    return findings(Linted(analyse(graph)))


def of_program(text: str) -> list[LintFinding]:
    programs = read_programs(text.encode(), "f.py")
    jobs = job_graph([each.statement for each in programs if each.statement])
    return findings(Linted(analyse(with_programs(dataflow(jobs), programs)), jobs, programs))


def codes(found: list[LintFinding]) -> set[str]:
    return {each.code for each in found}


JOB = "CREATE JOB a.{0} EVERY '1 s' {1} AS SELECT u, count(*) AS n FROM {2} GROUP BY u"
LOOKUP = "SELECT l.a, count(*) FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a"
TABLE = "CREATE JOB a.b TABLE t (u STRING, a STRING) EVERY '1 s' AS " + LOOKUP.replace("(*)", "(*) AS n")
FUNCTION = (
    "WITH FUNCTION f(a STRING) RETURNS STRING LANGUAGE PYTHON AS $${}$$ "
    "SELECT f(u), count(*) FROM log GROUP BY f(u)"
)
PROGRAM = """
import elfmesh
class P(elfmesh.Job):
    name = "a/p"
    {}
    async def on_result(self, result):
        await self.multicast(result.rows)
"""


ASSUMED = {"dependencies": ["word -> counts"]}
EARLY = "CREATE JOB a.x EVERY '1 s' EARLY '1 s' AS SELECT u FROM log GROUP BY u HAVING count(*) {}"
COUNTED = "CREATE JOB a.x EVERY '1 s' {} AS SELECT u, count(*) AS n FROM log GROUP BY ROWS(5), u"
READER = """
import elfmesh
class Board(elfmesh.Job):
    query = "CREATE TOPIC ads.clicks DELIVERY SEQUENCED EVERY '1 s'"
    @elfmesh.path("post:ads.clicks", "outside", "{}", idempotent=True)
    async def on_post(self, topic, batch): ...
"""


def count(label: str, *, rep: bool = False, **more: object) -> dict[str, object]:
    path = {"from": "words", "to": "counts", "label": label, "lineage": {"word": "word"}, **more}
    return {"Count": {"annotation": path, "Rep": rep}}


def streams(**more: object) -> dict[str, object]:
    return {"streams": [{"name": "words", **more}]}


RING = {
    "A": {"annotation": {"from": "a", "to": "b", "label": "CR"}},
    "B": {"annotation": {"from": "b", "to": "a", "label": "CR"}},
}
OUT = {"name": "b", "from": "A.b", "to": "B.b"}


CASES = (
    ("B001", of_values(count("OW")), of_values(count("CW"))),
    (
        "B002",
        of_values(count("OR", rep=True)),
        of_values(count("OR")),
    ),
    (
        "B003",
        of_values(count("OW", rep=True)),
        of_values(count("OW")),
    ),
    (
        "B004",
        of_program(PROGRAM.format("timer = ''")),
        of_program(PROGRAM.format("@elfmesh.path('results', 'multicast', 'CW', idempotent=True)")),
    ),
    ("B005", of_function(refuted=True), of_function(refuted=False)),
    (
        "B006",
        of_texts(FUNCTION.format("def f(a):\n  return str(hash(a))")),
        of_texts(FUNCTION.format("def f(a):\n  return a")),
    ),
    (
        "B007",
        of_values(count("OW", subscript=["word"]) | streams(seal=["user"])),
        of_values(count("OW", subscript=["word"]) | streams(seal=["word"])),
    ),
    (
        "B008",
        of_texts(JOB.format("x", "ON STRAGGLER SKIP", "log") + ";" + JOB.format("y", "", "a.x")),
        of_texts(JOB.format("x", "", "log") + ";" + JOB.format("y", "ON STRAGGLER SKIP", "a.x")),
    ),
    ("B009", allowing("-- elf: allow B010", "f")[1], allowing("-- elf: allow B010 because it", "f")[1]),
    ("B010", of_texts(LOOKUP), of_texts(TABLE)),
    (
        "B011",
        of_texts("SELECT approx_percentile(n, 0.5) FROM log"),
        of_texts("SELECT percentile(n, 0.5), approx_count_distinct(n) FROM log"),
    ),
    (
        "B012",
        of_values(RING | {"streams": [OUT, {"name": "a", "from": "B.a", "to": "A.a"}]}),
        of_values(RING | {"streams": [OUT, {"name": "a", "from": "B.a", "to": "A.a", "delayed": True}]}),
    ),
    (
        "B013",
        of_texts(EARLY.format("> 1").replace("EARLY '1 s'", "")),
        of_texts(EARLY.format("< 3").replace("EARLY '1 s'", "")),
    ),
    ("B014", of_texts(EARLY.format("< 3")), of_texts(EARLY.format("> 3"))),
    ("B015", of_sink(revisions=True), of_sink(revisions=False)),
    ("B016", of_sample("word = a has the counts 1 and 2"), of_sample("")),
    ("B016", of_assumed("u = a has the v 1 and 2", ""), of_assumed("", "")),
    ("B016", of_assumed("", "a record has the n -1"), of_assumed("", "")),
    (
        "B017",
        of_values(count("CW") | streams(once=False)),
        of_values(count("CW", idempotent=True) | streams(once=False)),
    ),
    ("B018", of_topic("CW"), of_topic("OW")),
    ("B019", of_texts(COUNTED.format("ON STRAGGLER SKIP")), of_texts(COUNTED.format("ON STRAGGLER WAIT"))),
    ("B019", of_texts(COUNTED.format("HORIZON '9 s'")), of_texts(COUNTED.format(""))),
)


@pytest.mark.parametrize(("code", "wrong", "right"), CASES)
def test_each_code_is_triggered_by_one_text_and_not_by_another(
    code: str, wrong: list[LintFinding], right: list[LintFinding]
) -> None:
    assert code in codes(wrong)
    assert code not in codes(right)
    for each in wrong:
        assert each.message
        assert each.remedy
        assert "\n" not in each.message


def test_all_codes_are_tested() -> None:
    assert {code for code, _, _ in CASES} == CODES.keys()
    assert len(RULES) == len(set(RULES))


def test_an_assumption_of_a_job_that_a_sample_contradicts_is_found_where_it_is() -> None:
    assert [(str(each.at), each.message) for each in of_assumed("u = a has the v 1 and 2", "n is -1")] == [
        ("f.elfql:1:36", "the dependency u -> v does not hold: u = a has the v 1 and 2"),
        ("f.elfql:1:44", "the assumption n >= 0 does not hold: n is -1"),
    ]


def test_places_have_line_and_column() -> None:
    text = "\n\nSELECT l.a,\n  approx_percentile(log.n, 0.5)\n"
    text += "FROM log JOIN lookup.t l\n  ON log.u = l.u GROUP BY l.a"
    assert {each.code: str(each.at) for each in of_texts(text)} == {
        "B001": "f.elfql:3:1",
        "B010": "f.elfql:6:10",
        "B011": "f.elfql:4:3",
    }


def test_the_second_case_of_a_label_counts() -> None:
    (found,) = of_texts(JOB.format("x", "ON STRAGGLER SKIP", "log"))
    assert (found.code, found.message.partition(":")[0]) == ("B001", "a.x is Async | Run")
    assert "STRAGGLER" in found.remedy


def test_a_tentative_output_is_no_finding() -> None:
    assert of_texts(JOB.format("x", "ON STRAGGLER CORRECT", "log")) == []


def test_a_function_that_failed_its_trial_makes_the_label_run() -> None:
    assert {each.code: str(each.at) for each in of_function(refuted=True)} == {
        "B001": "f.elfql:1:1",
        "B005": "f.elfql:2:54",
    }


def test_an_ordered_function_is_run_and_no_error() -> None:
    text = FUNCTION.replace("PYTHON", "PYTHON ORDERED READ BY (u)").format("def f(a):\n  return str(hash(a))")
    assert codes(of_texts(text)) == {"B001"}


def test_a_webhook_without_stored_keys_may_count_twice() -> None:
    assert {(each.code, str(each.at)) for each in of_sink(idempotent=False)} == {
        ("B001", "agent.toml:3"),
        ("B017", "agent.toml:3"),
    }
    assert of_sink(idempotent=True) == []


def test_a_seal_that_does_not_fit_names_what_would() -> None:
    found = of_values(count("OW", subscript=["word"]) | streams(seal=["user"]))
    (seal,) = [each for each in found if each.code == "B007"]
    assert "(user)" in seal.message
    assert "(word)" in seal.message
    assert seal.remedy == "seal on one of word, or declare the dependency word -> user"
    fits = count("OW", subscript=["word"]) | streams(seal=["user"]) | {"dependencies": ["word -> user"]}
    assert of_values(fits) == []


def test_an_early_that_is_impossible_is_found_where_it_is_and_hides_no_other_job() -> None:
    text = EARLY.format("< 3") + ";\n" + JOB.format("y", "ON STRAGGLER SKIP", "log")
    found = {each.code: each for each in of_texts(text)}
    assert {code: str(each.at) for code, each in found.items()} == {
        "B014": "f.elfql:1:79",
        "B001": "f.elfql:2:1",
    }
    assert "further record may make this condition false" in found["B014"].message


def test_the_cost_of_a_topic_that_is_too_strong_is_named() -> None:
    (found,) = [each for each in of_topic("CW") if each.code == "B018"]
    assert "EVERY + barrier, about 1.04 s" in found.message
    assert str(found.at).startswith("f.py")


# -- comments


def test_a_comment_allows_the_line_behind_it_with_a_reason() -> None:
    text = "-- elf: allow B001, B010 because the file never changes\n-- what it is for\n" + LOOKUP
    found = with_comments(of_texts(text), {"f.elfql": text})
    assert {each.code: each.allowed for each in found} == {
        "B001": "the file never changes",
        "B010": "the file never changes",
    }
    below = "-- elf: allow B010 because it is not behind this line\n\nSELECT 1 FROM log;\n" + LOOKUP
    assert not any(each.allowed for each in with_comments(of_texts(below), {"f.elfql": below}))


@pytest.mark.parametrize(
    "comment", ["allow", "allow B010", "allow because x", "allow B999 because x", "allow B010 becouse x"]
)
def test_a_comment_without_a_reason_is_a_finding(comment: str) -> None:
    text = f"# elf: {comment}\nx"
    allowed, (found,) = allowing(text, "f.py")
    assert allowed == {}
    assert (found.code, str(found.at)) == ("B009", "f.py:1:3")
