"""One story from the steps of many agents: its order, its errors, and the agents without a step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from elfmesh.control.causes import Step
from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.master.tally import RECENT
from elfmesh.control.protocol.messages import pack, unpack
from elfmesh.control.protocol.messages_register import Accepted
from elfmesh.control.protocol.replies import IntervalState, KeptSteps, ReportedStep
from elfmesh.control.requests.story import AGAIN_MAX, collapsed, in_order, own_steps
from elfmesh.control.requests.story import story as story_of
from elfmesh.errors import ProtocolError
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.contexts import new_context
from tests.control.harness import World

JOB = b"j" * 20
IDS = {name: name.encode().hex() * 20 for name in "abcd"}


def reported(
    agent: str, step: str, at_us: int, cause: str = "", kind: str = "sealed", **more: Any
) -> ReportedStep:
    fields: dict[str, Any] = {"peer": "", "detail": "", "times": 1} | more
    return ReportedStep(IDS[agent], agent, step, cause, at_us, kind, **fields)


def about(index: int = 7, newest: int = 7, missing: tuple[str, ...] = ()) -> IntervalState:
    fields = {
        "job": "shop/top",
        "interval": {"index": index, "start": "", "end": ""},
        "end_us": 1_000_000,
        "newest": newest,
        "state": "FINAL",
        "completeness": 1.0,
        "missing": list(missing),
        "agents": [{"agent": name, "id": IDS[name]} for name in "abc"],
        "id": JOB.hex(),
        "partitions": 1,
    }
    return msgspec.convert(fields, IntervalState)


def story(*given: Any) -> tuple[int, dict[str, Any]]:
    status, body = story_of(*given)
    return status, msgspec.to_builtins(body)


def rows(*steps: ReportedStep, **kept_from: int | None) -> list[dict[str, Any]]:
    kept = [{"agent": IDS[name], "kept_from": first} for name, first in kept_from.items()]
    return [*kept, *(msgspec.to_builtins(step) for step in steps)]


# -- the order -------------------------------------------------------------------------------------------


def test_steps_are_ordered_by_time() -> None:
    steps = [reported("a", "1", 30), reported("b", "2", 10), reported("c", "3", 20)]
    assert [step.step for step in in_order(steps)] == ["2", "3", "1"]


def test_an_effect_stands_behind_its_cause_also_if_its_clock_is_behind() -> None:
    steps = [
        reported("a", "sent", 1_000),
        reported("b", "got", 10, "sent"),
        reported("b", "merged", 20, "got"),
    ]
    assert [step.step for step in in_order(steps)] == ["sent", "got", "merged"]


def test_the_steps_of_one_agent_keep_their_order_also_if_its_clock_was_set_back() -> None:
    assert [step.step for step in in_order([reported("a", "1", 50), reported("a", "2", 10)])] == ["1", "2"]


def test_an_effect_of_a_repetition_stands_behind_the_first() -> None:
    steps = [reported("b", "got", 10, "sent-2"), reported("a", "sent", 500, again=["sent-2"])]
    assert [step.step for step in in_order(steps)] == ["sent", "got"]
    status, found = story(about(), rows(*steps))
    assert (status, found["steps"][1]["cause"]) == (200, "sent")


def test_a_circle_of_causes_stands_at_the_end() -> None:
    steps = [reported("a", "1", 10, "2"), reported("b", "2", 20, "1"), reported("c", "3", 30)]
    assert [step.step for step in in_order(steps)] == ["3", "1", "2"]


def test_a_cause_that_no_agent_reports_delays_nothing() -> None:
    assert [step.step for step in in_order([reported("a", "1", 10, "gone")])] == ["1"]


# -- what is told ----------------------------------------------------------------------------------------


def test_times_are_relative_to_the_end_of_the_interval_and_peers_have_names() -> None:
    step = reported("a", "1", 1_250_000, kind="sent", peer=IDS["b"][:16], detail="1 agent")
    _, found = story(about(), rows(step, b=3))
    (shown,) = found["steps"]
    assert (shown["seconds"], shown["agent"], shown["kind"], shown["peer"]) == (0.25, "a", "sent", "b")
    assert set(shown) == {"seconds", "agent", "kind", "peer", "detail", "times", "step", "cause"}


def test_agents_without_a_step_are_named_with_the_reason() -> None:
    _, found = story(about(missing=("d", "a")), rows(reported("a", "1", 0), a=3, b=9))
    assert found["without"] == [
        {"agent": "b", "reason": "keeps no steps of so old an interval"},
        {"agent": "c", "reason": "does not answer"},
        {"agent": "d", "reason": "does not answer"},
    ]
    _, found = story(about(), rows(reported("a", "1", 0), a=3, b=3, c=None))
    assert [each["reason"] for each in found["without"]] == ["has no step", "has no step"]


@pytest.mark.parametrize(
    ("index", "error"),
    [(3, "interval 3 is too old: no agent keeps steps of it"), (9, "no agent has a step of interval 9")],
)
def test_without_any_step_the_error_has_the_reason(index: int, error: str) -> None:
    status, body = story(about(index), rows(a=6, b=5, c=None))
    assert status == 404
    assert error in body["error"]
    assert ("oldest interval of which an agent keeps steps is 5" in body["hint"]) == (index == 3)


def test_repetitions_are_collapsed() -> None:
    steps = [
        Step(b"%d" % number, b"", float(number), "sent", JOB, 7, 8, b"peer", b"\x01")
        for number in range(AGAIN_MAX + 9)
    ]
    other = Step(b"x", b"", 0.0, "sent", JOB, 7, 8, b"peer", b"\x03")
    (first, again), (last, none) = collapsed([*steps, other])
    assert (first, last, none) == (steps[0], other, [])
    assert again == [step.name for step in steps[1:]]


# -- questions and messages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "no hex", "interval": 1, "partitions": 1},
        {"id": "00", "interval": "1", "partitions": 1},
        {"id": "00", "interval": 1, "partitions": 1 << 40},
    ],
)
def test_a_malformed_question_is_answered_with_nothing(body: dict[str, Any]) -> None:
    assert own_steps(new_context(1), body) == []


def test_an_agent_reports_its_steps_of_all_trees_of_the_job() -> None:
    context = new_context(1)
    context.note("sealed", JOB, 7, 8)
    kept, step = own_steps(context, {"id": JOB.hex(), "interval": 7, "partitions": 2})
    assert isinstance(kept, KeptSteps)
    assert isinstance(step, ReportedStep)
    assert (kept.kept_from, step.kind, step.name) == (7, "sealed", "agent-1")
    assert own_steps(context, {"id": JOB.hex(), "interval": 8, "partitions": 2}) == [kept]


def test_a_cause_is_absent_from_a_message_that_has_none_and_ignored_by_an_earlier_release() -> None:
    plain = Accepted(JOB, Ballot(1, b"a" * 20), 3)
    assert b"cause" not in pack(plain)
    caused = msgspec.structs.replace(plain, cause=b"c" * 16)
    assert unpack(pack(caused)) == caused
    fields = msgspec.msgpack.decode(pack(caused))
    del fields["cause"]
    assert unpack(msgspec.msgpack.encode(fields)) == plain
    with pytest.raises(ProtocolError):
        unpack(msgspec.msgpack.encode(fields | {"cause": b"c" * 65}))


def test_the_master_reports_which_interval_is_the_newest_closed_one() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    early = world.ask(world[0], "interval", {"job": "shop/top"})
    assert (early.status, early.body["error"]) == (409, "no interval of this job is closed yet")
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    found = world.ask(world[0], "interval", {"job": "shop/top"}).body
    assert (found["interval"]["index"], found["newest"], found["state"]) == (1001, 1001, "FINAL")
    assert sorted(agent["agent"] for agent in found["agents"]) == ["agent-0", "agent-1", "agent-2"]
    wrong = world.ask(world[0], "interval", {"job": "shop/top", "interval": "x"})
    assert wrong.status == 400


def test_an_old_interval_is_not_open_because_the_master_has_only_the_newest_records() -> None:
    world = World(3)
    fill(world, intervals=RECENT + 2)
    world.apply(world[0])
    for each in range(2, RECENT + 3):
        world.seal_all(BASE + each * SLIDE)
        world.run(1.0)
    newest = world.ask(world[0], "interval", {"job": "shop/top"}).body["newest"]
    states = {
        index: world.ask(world[0], "interval", {"job": "shop/top", "interval": index}).body["state"]
        for index in (newest - RECENT, newest - RECENT + 1, newest, newest + 1)
    }
    assert list(states.values()) == ["CLOSED", "FINAL", "FINAL", None]
