"""The search among all agents for a job that its placements do not know."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import CONFLICT, ENDED, NOT_FOUND, OK, UNAVAILABLE, decode_body, error_body
from elfmesh.control.protocol.messages import Ask, AskAll, Submit
from elfmesh.control.protocol.replies import JobRow
from elfmesh.control.requests.describe import row_of
from elfmesh.control.requests.job_search import SEARCH_AGAIN_S, SEARCH_S
from elfmesh.control.requests.verbs import KNOWN, OVER
from elfmesh.machine import Message
from elfmesh.ql.values.row_json import encode_json
from tests.control.register.support import MANIFEST, run
from tests.control.requests.clients import CLIENT, Clients

HOME, _ = ids.job_placements("shop/top", "local")


def owner(job: bytes, creator: str) -> JobRow:
    """The row of a job of this creator."""
    manifest = replace(MANIFEST, job_id=job, creator=creator)
    result: dict[str, Any] = {"result": None, "completeness": None, "missing": [], "held_for_seconds": None}
    return row_of(manifest, None, state="running", agents=1, latest=None, master="agent-1", epoch=1, **result)


def sought(rig: Clients) -> AskAll:
    """The question to all agents about a job that both placements of its name do not know."""
    rig.answer(rig.about(), NOT_FOUND, {})
    rig.answer(rig.routed()[0], NOT_FOUND, {"error": "there is no such job"})
    (whose,) = rig.routed()
    assert isinstance(whose, AskAll)
    return whose


def test_a_job_of_an_unknown_creator_is_found_by_its_name_among_all() -> None:
    rig = Clients()
    rig.answer(rig.about(), NOT_FOUND, {})
    rig.answer(rig.routed()[0], NOT_FOUND, {"error": "there is no such job"})
    (whose,) = rig.routed()
    assert isinstance(whose, AskAll)
    assert (whose.verb, decode_body(whose.body)) == ("whose", {"job": "shop/top", KNOWN: True})
    rig.answer(whose, OK, {}, encode_json({"items": [owner(b"o" * 20, "ann")]}))
    (ask,) = rig.routed()
    assert isinstance(ask, Ask)
    assert ask.job == b"o" * 20
    rig.answer(ask, OK, {"creator": "ann"})
    assert rig.replies() == [(CLIENT, OK, {"creator": "ann"})]


@pytest.mark.parametrize(
    ("at_home", "at_other", "question"),
    [
        ("i1", "", {KNOWN: True, OVER: ["i1"]}),
        ("i1", "i2", {KNOWN: True, OVER: ["i1", "i2"]}),
        (True, "", {KNOWN: False}),
        (True, "i2", {KNOWN: False, OVER: ["i2"]}),
    ],
)
def test_agents_that_missed_the_end_of_a_job_leave_it_out(
    at_home: object, at_other: object, question: dict[str, Any]
) -> None:
    """The job may live at its other placement, with a master that is dead."""
    rig = Clients()
    rig.answer(rig.about(), NOT_FOUND, {ENDED: at_home})
    rig.answer(rig.routed()[0], NOT_FOUND, {"error": "there is no such job"} | {ENDED: at_other})
    (whose,) = rig.routed()
    assert isinstance(whose, AskAll)
    assert decode_body(whose.body) == {"job": "shop/top"} | question


@pytest.mark.parametrize("wrong", ["", "no hex", "6f" * 19, "6f" * 21])
def test_a_row_without_an_id_is_left_out(wrong: str) -> None:
    """A peer can send any text as the id of a job."""
    rig = Clients()
    whose = sought(rig)
    rows = [replace(owner(b"o" * 20, "eve"), id=wrong), owner(b"o" * 20, "ann")]
    rig.answer(whose, OK, {}, encode_json({"items": rows}))
    (ask,) = rig.routed()
    assert isinstance(ask, Ask)
    assert ask.job == b"o" * 20
    assert rig.context.stats["control.malformed"] == 1


@pytest.mark.parametrize(("creators", "status"), [([], NOT_FOUND), (["bob", "ann"], CONFLICT)])
def test_a_name_that_no_creator_or_several_have_is_refused(creators: list[str], status: int) -> None:
    rig = Clients()
    rig.answer(rig.about(), NOT_FOUND, {})
    rig.answer(rig.routed()[0], NOT_FOUND, {"error": "there is no such job"})
    owners = [owner(bytes([number]) * 20, each) for number, each in enumerate(creators)]
    rig.answer(rig.routed()[0], OK, {}, encode_json({"items": owners}))
    ((_, found, body),) = rig.replies()
    assert found == status
    assert not creators or "creator=ann, bob" in body["hint"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (UNAVAILABLE, error_body("this part of the overlay is not ready", code=69)),
        (OK, {"asked": {"answered": 3, "expected": 4}}),
    ],
)
def test_a_job_is_unknown_only_if_all_agents_have_answered(status: int, body: dict[str, Any]) -> None:
    rig = Clients()
    rig.answer(sought(rig), status, body)
    ((_, found, _),) = rig.replies()
    assert found == UNAVAILABLE


@pytest.mark.parametrize("asked", [7, [3, 4], {"answered": "3", "expected": 4.5}, {"answered": None}])
def test_counts_that_are_no_numbers_do_not_stop_the_agent(asked: Any) -> None:
    rig = Clients()
    rig.answer(sought(rig), OK, {"asked": asked})
    assert [status for _, status, _ in rig.replies()] == [NOT_FOUND]


def test_a_job_that_an_agent_knows_is_asked_again_until_its_master_answers_or_time_is_up() -> None:
    known = encode_json({"items": [owner(HOME, "local")]})
    for last, data, late in ((OK, known, False), (NOT_FOUND, b"", False), (NOT_FOUND, known, True)):
        rig = Clients()
        whose: Message = sought(rig)
        for _ in range(2):
            rig.answer(whose, OK, {}, known + b"\n" + known)
            rig.answer(rig.routed()[0], NOT_FOUND, {})
            assert rig.replies() == []
            (whose,) = rig.wait(rig.context.now + SEARCH_AGAIN_S)
        if late:
            run(rig.context, SEARCH_S)
            rig.routed()
        rig.answer(whose, OK, {}, data)
        for ask in rig.routed():
            rig.answer(ask, last, {})
        assert [status for _, status, _ in rig.replies()] == [last]


def update(rig: Clients) -> Submit:
    """The submission of an update whose job the agent closest to its id does not know."""
    text = "CREATE JOB shop.top EVERY '1 s' AS SELECT count(*) AS n FROM clicks"
    (message,) = rig.ask("apply", text=text, update=True)
    assert isinstance(message, Submit)
    rig.answer(message, NOT_FOUND, {"error": "there is no such job: shop/top"})
    return message


def test_an_update_of_a_job_that_an_agent_knows_is_submitted_again() -> None:
    rig = Clients()
    manifest = update(rig).manifest
    (whose,) = rig.routed()
    rig.answer(whose, OK, {}, encode_json({"items": [owner(manifest.job_id, manifest.creator)]}))
    (again,) = rig.routed()
    assert isinstance(again, Submit)
    rig.answer(again, OK, {"state": "updated"})
    assert [status for _, status, _ in rig.replies()] == [OK]


def test_an_update_of_another_creators_job_finds_no_job() -> None:
    rig = Clients()
    update(rig)
    (whose,) = rig.routed()
    rig.answer(whose, OK, {}, encode_json({"items": [owner(b"o" * 20, "ann")]}))
    assert rig.replies() == [(CLIENT, NOT_FOUND, {"error": "there is no such job: shop/top"})]
