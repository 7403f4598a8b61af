"""What a closed interval would have been worth without some members: computed by members again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.master.loss_measurement import GONE_MAX, LossMeasurement
from elfmesh.control.master.verification import NO_MEMBERS
from elfmesh.control.master.verification import SESSIONS as WITH_SESSIONS
from tests.control.clicks import BASE, SLIDE
from tests.control.harness import World
from tests.control.member.support import SESSIONS, TEXT

COUNTS = [{"a": 9, "b": 1}, {"a": 5, "c": 3}, {"d": 2}]


def closed(partitions: int = 1) -> World:
    """Three agents with other records each; interval BASE / SLIDE is closed."""
    world = World(3)
    for agent, counts in zip(world.living, COUNTS, strict=True):
        agent.feed("clicks", sorted((BASE + at, key) for key, n in counts.items() for at in range(n)))
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", f"PARTITIONS {partitions}"))
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    return world


def measure(world: World, **body: Any) -> dict[str, Any]:
    given = {"job": "shop/top", "interval": BASE // SLIDE, **body}
    for _ in range(100):
        reply = world.ask(world[1], "measure", given)
        assert reply.status == 200, reply.body
        if reply.body["state"] != "running":
            return reply.body
        given["again"] = False
        world.run(0.1)
    raise AssertionError("the measurement does not end")


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_are_made_without_each_domain(partitions: int) -> None:
    world = closed(partitions)
    losses = {
        "r1": ["agent-0"],
        "r2": ["agent-1", "agent-2"],
        "r3": [],
        "r4": ["agent-0", "agent-1", "agent-2"],
    }
    found = measure(world, losses=losses)
    assert (found["state"], found["rows"], found["errors"]) == ("measured", 4, [])
    total = Counter[str]()
    for each in COUNTS:
        total.update(each)
    for case, (lost, names) in zip(found["cases"], losses.items(), strict=True):
        gone = [int(name.removeprefix("agent-")) for name in names]
        left = Counter[str]()
        for at, each in enumerate(COUNTS):
            left.update({} if at in gone else each)
        share = left.total() / total.total()
        off = sum(abs(total[key] - left[key]) for key in total) / total.total()
        assert (case["lost"], case["agents"]) == (lost, names)
        assert case["stay"] == len(+left)
        assert {row["product"] for row in case["gone"]} == {*total} - {*+left}
        assert case["error"] == pytest.approx(off, abs=1e-4)
        assert case["records"] == pytest.approx(share, abs=1e-4)
        assert case["fidelity"] == pytest.approx(share, abs=1e-4), "the usual rates are those of one interval"


def test_a_measurement_is_kept_and_no_verification() -> None:
    world = closed()
    losses = {"r1": ["agent-0"]}
    found = measure(world, losses=losses)
    world[1].feed("clicks", [(BASE + 5, "late")])
    assert measure(world, losses=losses) == found
    assert measure(world, losses=losses, again=True)["rows"] == 5
    reply = world.ask(world[1], "verify", {"job": "shop/top", "interval": BASE // SLIDE})
    assert "cases" not in reply.body


def test_a_loss_that_cannot_be_measured_has_a_reason() -> None:
    world = closed()
    losses = {"r1": ["agent-0"]}
    assert measure(world, losses=losses, interval=7)["state"] == "unknown"
    world = World(2)
    world.apply(world[0], SESSIONS)
    body = {"job": "shop/visits", "interval": 7, "losses": losses}
    found = world.ask(world[0], "measure", body).body
    assert (found["state"], found["error"]) == ("refused", WITH_SESSIONS)


@pytest.mark.parametrize(
    "losses", [None, {}, [], {"r1": "agent-0"}, {"r1": [5]}, {f"r{at}": [] for at in range(65)}]
)
def test_hostile_requests_are_refused(losses: Any) -> None:
    world = closed()
    for interval in (BASE // SLIDE, None, True):
        body = {"job": "shop/top", "interval": interval, "losses": losses}
        assert world.ask(world[1], "measure", body).status == 400


def test_a_job_without_logs_is_refused() -> None:
    world = closed()
    best = "SELECT product, max(hits) AS hits FROM shop.top GROUP BY product"
    world.apply(world[0], f"CREATE JOB shop.best EVERY '10 s' AS {best}")
    world.run(2.0)
    body = {"job": "shop/best", "interval": BASE // SLIDE, "losses": {"r1": ["agent-0"]}}
    found = world.ask(world[1], "measure", body).body
    assert (found["state"], found["error"]) == ("refused", NO_MEMBERS)


def test_a_result_with_many_lost_rows_names_some() -> None:
    plan = read_plan("CREATE JOB shop.top EVERY '10 s' AS SELECT k, count(*) AS n FROM clicks GROUP BY k")
    measurement = LossMeasurement((("r1", ("a",)), ("r2", ())), plan, Rates())
    whole = pa.table({"k": [f"k{at}" for at in range(50)], "n": [1] * 50})
    assert measurement.next_lost({1: "a", 2: "b"}, {1: (3,), 2: (1,)}) == ()
    assert not measurement.made(whole)
    assert measurement.next_lost({1: "a", 2: "b"}, {1: (3,), 2: (1,)}) == [1]
    assert not measurement.made(whole.slice(0, 10))
    assert measurement.next_lost({1: "a", 2: "b"}, {1: (3,), 2: (1,)}) == []
    assert measurement.made(whole)
    first, second = measurement.cases
    assert (len(first["gone"]), first["stay"], first["records"]) == (GONE_MAX, 10, 0.25)
    assert (second["gone"], second["stay"], second["error"]) == ([], 50, 0.0)
