"""The dataflow of the jobs of a fleet, from the texts that an agent answers with."""

from __future__ import annotations

from typing import Any

from elfmesh.api.fleet_dataflow import attached_programs, fleet_dataflow, fleet_texts
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.declared import read_programs
from elfmesh.errors import Unreachable

TOP = "CREATE JOB shop.top EVERY '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n FROM log GROUP BY k"
BEST = "CREATE JOB shop.best EVERY '1 s' AS SELECT k, max(n) AS n FROM shop.top GROUP BY k"


class Agent:
    """Answers for three jobs; the text of one cannot be had."""

    def get(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "jobs"
        return [{"job": f"shop/{name}", "creator": "local"} for name in ("top", "best", "lost")]

    def ask(self, verb: str, job: str, creator: str) -> dict[str, Any]:
        assert (verb, creator) == ("describe", "local")
        if job == "shop/lost":
            raise Unreachable("no master")
        return {"text": TOP if job == "shop/top" else BEST}


def test_jobs_that_read_jobs_inherit_their_labels() -> None:
    graph = fleet_dataflow(fleet_texts(Agent()))  # type: ignore[arg-type]  # only what it uses
    found = analyse(graph)
    assert {name: found.shown(name) for name in found.outputs if "tentative" not in name} == {
        "shop.top": "Async | Run",
        "shop.best": "Async | Run",
    }
    assert graph.notes == ("job shop.lost is left out: no agent answers with its text",)


PROGRAM = """
import elfmesh
class Board(elfmesh.Job):
    name = "ads/board"
    topics = ("ads.clicks",)
    @elfmesh.path("post:ads.clicks", "outside", "OW", idempotent=True)
    async def on_post(self, topic, batch): ...
"""


def test_programs_follow_the_topics_of_a_fleet_and_others_are_named() -> None:
    texts = {"ads/clicks": "CREATE TOPIC ads.clicks DELIVERY ORDERED", "shop/top": TOP}
    programs = read_programs(PROGRAM.encode(), "board.py")
    graph = fleet_dataflow(texts, programs, attached=["ads/board", "shop/coupons"])
    assert analyse(graph).shown("ads.board (program) outside") == "Run"
    assert [each.split(":")[0] for each in graph.notes] == ["program shop.coupons is left out"]


def test_the_programs_of_a_fleet_are_those_beside_its_agents() -> None:
    class Fleet:
        def get(self, kind: str) -> list[dict[str, Any]]:
            assert kind == "agents"
            beside = [{"program": "shop/coupons"}, {"program": "ads/board"}]
            return [{"programs": beside}, {"programs": beside[:1]}, {}]

    assert attached_programs(Fleet()) == ["ads/board", "shop/coupons"]  # type: ignore[arg-type]  # as above


def test_a_text_that_this_release_cannot_read_is_a_note() -> None:
    graph = fleet_dataflow({"shop/top": TOP, "shop/new": "CREATE JOB shop.new FOR EVER AS SELECT 1"})
    assert [each.split(":")[0] for each in graph.notes] == ["job shop.new is left out"]
    assert "shop.top" in {each.name for each in graph.outputs}
