"""Programs beside jobs: results, multicasts, inserts, routes, and loops over them."""

from __future__ import annotations

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.declared import read_programs
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.program_flows import with_programs
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.ql import parse

JOB = "CREATE JOB a.{} EVERY '1 s' AS SELECT u, count(*) AS n FROM {} GROUP BY u"
TEXT = """
import elfmesh
class P(elfmesh.Job):
    name = "a/p"
    @elfmesh.path("results", "multicast", "CW", idempotent={0})
    async def on_result(self, result): ...
    @elfmesh.path("multicast", "insert:coupons", "CW", idempotent={0})
    async def on_multicast(self, message): ...
"""


def analysed(text: str, *jobs: tuple[str, str]) -> Analysis:
    graph = dataflow(job_graph([parse(JOB.format(*each)) for each in jobs]))
    return analyse(with_programs(graph, read_programs(text.encode(), "f.py")))


def test_a_loop_of_idempotent_callbacks_is_async() -> None:
    found = analysed(TEXT.format(True), ("p", "coupons"))
    assert {name: found.shown(name) for name in found.outputs if "tentative" not in name} == {
        "a.p": "Async",
        "a.p (program) multicast": "Async",
        "a.p (program) insert:coupons": "Async",
    }
    assert [each.name for each in found.graph.streams if each.delayed] == ["a.p (program) results"]


def test_a_multicast_is_repeated_and_replicated() -> None:
    """Without idempotence a repeated message changes the state of one vertex and not of another."""
    found = analysed(TEXT.format(False), ("p", "clicks"), ("q", "coupons"))
    assert found.shown("a.p (program) insert:coupons") == "Diverge"
    assert found.shown("a.q") == "Diverge"
    assert found.shown("a.p") == "Async"
    assert not [each for each in found.graph.streams if each.delayed]


def test_a_route_leads_to_the_program_that_it_names() -> None:
    text = """
import elfmesh
class P(elfmesh.Job):
    name = "a/p"
    @elfmesh.path("timer", "route:a/q", "OW")
    async def on_timer(self): ...
class Q(elfmesh.Job):
    name = "a/q"
    @elfmesh.path("route", "answer", "CR")
    async def on_route(self, message): ...
class R(Q):
    name = "a/r"
"""
    found = analysed(text)
    assert {name: found.shown(name) for name in found.outputs} == {
        "a.p (program) route:a/q": "Diverge",
        "a.q (program) answer": "Diverge",
        "a.r (program) answer": "Async",
    }


def test_without_programs_the_dataflow_stays_as_it_is() -> None:
    graph = dataflow(job_graph([parse(JOB.format("p", "log"))]))
    assert with_programs(graph, []) is graph
