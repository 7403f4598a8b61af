"""Programs beside jobs: results, multicasts, inserts, routes, and loops over them."""

from __future__ import annotations

import pytest

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


TOPIC = "CREATE TOPIC ads.clicks DELIVERY "
SEAL = "(campaign WHEN e = 'end' PRODUCERS ONE AFTER '1 h')"
FOLLOWER = """
import elfmesh
class Server(elfmesh.Job):
    name = "ads/server"
    @elfmesh.path("timer", "post:ads.clicks", "CR")
    async def on_timer(self): ...
class Board(elfmesh.Job):
    name = "ads/board"
    topics = ("ads.clicks",)
    @elfmesh.path("post:ads.clicks", "outside", "{}", idempotent=True{})
    async def on_post(self, topic, batch): ...
"""


@pytest.mark.parametrize(
    ("delivery", "label", "by", "found"),
    [
        ("SEQUENCED EVERY '1 s'", "OW", "", "Async"),
        ("ORDERED", "OW", "", "Run"),
        ("UNORDERED", "OW", "", "Diverge"),
        ("UNORDERED", "CW", "", "Async"),
        (f"SEALED {SEAL}", "OW", ", by=('campaign',)", "Async"),
        (f"SEALED {SEAL}", "OW", ", by=('id',)", "Diverge"),
        (f"SEALED {SEAL}", "OR", "", "Inst"),
    ],
)
def test_a_vertex_has_the_label_that_the_delivery_of_its_topic_gives(
    delivery: str, label: str, by: str, found: str
) -> None:
    graph = dataflow(job_graph([parse(TOPIC + delivery)]))
    text = FOLLOWER.format(label, by)
    analysis = analyse(with_programs(graph, read_programs(text.encode(), "f.py")))
    assert analysis.shown("ads.board (program) outside") == found
    port = ("ads.server (program)", "post:ads.clicks")
    assert ("ads.clicks rows", "clicks") in [e.consumer for e in analysis.graph.streams if e.producer == port]


def test_a_topic_outside_the_texts_is_not_known() -> None:
    programs = read_programs(FOLLOWER.format("OW", "").encode(), "f.py")
    found = analyse(with_programs(dataflow(job_graph([])), programs))
    assert found.shown("ads.board (program) outside") == "Diverge"


def test_auto_becomes_what_the_class_needs() -> None:
    for label, delivery in (("CW", "UNORDERED"), ("OW", "SEQUENCED EVERY '100 ms'")):
        text = FOLLOWER.format(label, "").replace('name = "ads/board"', f'query = "{TOPIC}AUTO"')
        statement = read_programs(text.encode(), "f.py")[1].statement
        assert statement is not None
        assert statement.text == TOPIC + delivery


def test_a_callback_without_a_path_may_depend_on_the_order_of_each_topic() -> None:
    text = """
import elfmesh
class P(elfmesh.Job):
    name = "a/p"
    topics = ("ads.clicks", "ads.views")
    async def on_post(self, topic, batch):
        await self.post("ads.other", 1)
"""
    (program,) = read_programs(text.encode(), "f.py")
    assert [str(each) for each in program.paths] == [
        "post:ads.clicks -> post:ads.other",
        "post:ads.views -> post:ads.other",
    ]
