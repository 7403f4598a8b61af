"""The dataflow of the jobs of a fleet, from the texts that an agent answers with."""

from __future__ import annotations

from typing import Any

from elfmesh.api.fleet_dataflow import fleet_dataflow, fleet_texts
from elfmesh.control.coordination.analysis import analyse
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


def test_a_text_that_this_release_cannot_read_is_a_note() -> None:
    graph = fleet_dataflow({"shop/top": TOP, "shop/new": "CREATE JOB shop.new FOR EVER AS SELECT 1"})
    assert [each.split(":")[0] for each in graph.notes] == ["job shop.new is left out"]
    assert "shop.top" in {each.name for each in graph.outputs}
