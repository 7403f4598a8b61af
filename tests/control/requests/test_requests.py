"""A client's request at the agent it asked: to whom it goes, when again, and that it is answered once."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.answers import (
    AGAIN,
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    decode_body,
    error_body,
)
from elfmesh.control.protocol.events import Left, Reply
from elfmesh.control.protocol.messages import Answered, Ask, AskAll, Submit
from elfmesh.control.requests.precondition import LOOK, REFUSED
from elfmesh.control.requests.requests import (
    ASK_AGAIN_MAX_S,
    ASK_AGAIN_S,
    LEAVE_WAIT_S,
    LOADING_S,
    OPEN_MAX,
    REQUEST_S,
)
from elfmesh.control.requests.verbs import HUNG_UP
from elfmesh.machine import Send
from elfmesh.ql.values.row_json import encode_json
from tests.control.member.support import TEXT
from tests.control.register.support import A
from tests.control.requests.clients import CLIENT, Clients

HOME, OTHER = ids.job_placements("shop/top", "local")


def test_a_question_about_a_job_goes_to_its_placement_and_the_answer_to_the_client() -> None:
    rig = Clients()
    ask = rig.about(job="shop.top")
    assert (ask.verb, ask.job, ask.origin) == ("describe", HOME, rig.context.me)
    rig.answer(ask, OK, {"state": "running"})
    assert rig.replies() == [(CLIENT, OK, {"state": "running"})]
    rig.answer(ask, OK, {"state": "again"})
    assert rig.replies() == []
    assert rig.wait(100.0) == []


def test_the_data_of_an_answer_goes_to_the_client() -> None:
    rig = Clients()
    rig.answer(rig.about("results"), OK, {"next": 5}, b"rows")
    assert [each for each in rig.context.out if isinstance(each, Reply)] == [
        Reply(CLIENT, OK, {"next": 5}, b"rows")
    ]


def test_a_question_is_asked_again_after_growing_pauses_under_the_same_token_and_then_given_up() -> None:
    rig = Clients()
    token = rig.about().token
    at, pause = 0.0, ASK_AGAIN_S
    while at + pause < REQUEST_S:
        assert rig.wait(at + pause - 0.01) == []
        at += pause
        (again,) = rig.wait(at)
        assert isinstance(again, Ask)
        assert again.token == token
        pause = min(2 * pause, ASK_AGAIN_MAX_S)
    rig.wait(REQUEST_S - 0.01)
    assert rig.replies() == []
    rig.wait(REQUEST_S)
    ((client, status, body),) = rig.replies()
    assert (client, status, body["code"]) == (CLIENT, UNAVAILABLE, 69)
    assert rig.wait(100.0) == []


@pytest.mark.parametrize(
    ("wait", "over_s"), [(None, 0.0), (0, 0.0), (20, 20.0), ("20", 20.0), (-5, 0.0), (1000, 30.0)]
)
def test_a_question_that_may_wait_is_kept_open_for_so_much_longer(wait: object, over_s: float) -> None:
    rig = Clients()
    rig.about("results", wait=wait)
    rig.wait(REQUEST_S + over_s - 0.01)
    assert rig.replies() == []
    rig.wait(REQUEST_S + over_s)
    assert len(rig.replies()) == 1


@pytest.mark.parametrize("wait", ["soon", "nan", float("nan"), [1], {"s": 1}])
def test_a_wait_that_is_no_time_is_refused(wait: object) -> None:
    rig = Clients()
    assert rig.ask("results", job="shop/top", wait=wait) == []
    ((_, status, body),) = rig.replies()
    assert (status, body["error"]) == (BAD_REQUEST, "wait must be a number of seconds")
    assert rig.context.deadline is None


def test_a_job_that_its_placement_does_not_know_is_sought_at_the_other_one() -> None:
    rig = Clients()
    rig.answer(rig.about(creator="local"), NOT_FOUND, {"error": "there is no such job"})
    (ask,) = rig.routed()
    assert isinstance(ask, Ask)
    assert ask.job == OTHER
    rig.answer(ask, NOT_FOUND, {"error": "there is no such job"})
    assert rig.replies() == [(CLIENT, NOT_FOUND, {"error": "there is no such job: shop/top"})]


def test_a_deletion_that_was_carried_out_before_is_answered_unless_the_job_lives_elsewhere() -> None:
    for status, body, answered in (
        (NOT_FOUND, {"error": "there is no such job"}, {"state": "deleted", "earlier": True}),
        (OK, {"state": "deleted"}, {"state": "deleted"}),
    ):
        rig = Clients()
        rig.answer(rig.about("delete"), OK, {"state": "deleted", "earlier": True})
        rig.answer(rig.routed()[0], status, body)
        assert rig.replies() == [(CLIENT, OK, answered)]


def test_a_question_to_a_job_without_a_master_is_asked_again_and_refused_with_the_last_reason() -> None:
    rig = Clients()
    ask = rig.about("describe")
    rig.answer(ask, UNAVAILABLE, error_body("the job has no master now", code=69))
    assert rig.replies() == []
    (again,) = rig.wait(ASK_AGAIN_S)
    assert isinstance(again, Ask)
    assert again.token == ask.token
    rig.wait(100.0)
    ((_, status, body),) = rig.replies()
    assert (status, body["error"]) == (UNAVAILABLE, "the job has no master now")


def test_an_acknowledged_change_is_kept_open_while_agents_load_what_evaluates_jobs() -> None:
    rig = Clients()
    rig.about("undo")
    rig.wait(REQUEST_S + LOADING_S - 0.01)
    assert rig.replies() == []
    rig.wait(REQUEST_S + LOADING_S)
    assert len(rig.replies()) == 1


def test_a_change_without_a_tag_looks_first_and_then_asks_under_another_token() -> None:
    rig = Clients()
    look = rig.about("pause")
    assert decode_body(look.body)["seen"] == LOOK
    tag = "0" * 40 + "-i-1"
    rig.answer(look, AGAIN, {"seen": tag})
    (ask,) = rig.routed()
    assert isinstance(ask, Ask)
    assert ask.token != look.token
    assert decode_body(ask.body)["seen"] == tag
    rig.answer(look, OK, {"state": "of the look"})
    assert rig.replies() == []
    rig.answer(ask, CONFLICT, {"outcome": REFUSED, "seen": "other"})
    (third,) = rig.routed()
    assert isinstance(third, Ask)
    assert decode_body(third.body)["seen"] == "other", "it looks as long as another change comes between"
    rig.answer(third, OK, {"state": "paused"})
    assert rig.replies() == [(CLIENT, OK, {"state": "paused"})]


def test_a_question_that_changes_nothing_has_no_tag() -> None:
    assert "seen" not in decode_body(Clients().about().body)


def test_a_tag_that_cannot_be_read_is_refused() -> None:
    rig = Clients()
    assert rig.ask("pause", job="shop/top", seen="rubbish") == []
    ((_, status, body),) = rig.replies()
    assert (status, body["code"]) == (BAD_REQUEST, 2)


def test_a_damaged_answer_is_reported_as_one() -> None:
    rig = Clients()
    rig.requests.on_answered(Answered(rig.about().token, OK, 4), b"rubbish")
    ((_, status, body),) = rig.replies()
    assert (status, body["error"]) == (UNAVAILABLE, "the answer came damaged")
    assert rig.context.stats["control.malformed"] == 1


def test_a_client_that_hangs_up_has_its_long_question_dropped() -> None:
    rig = Clients()
    ask = rig.about("results", wait=20)
    rig.requests.gone(CLIENT + 1)
    assert rig.routed() == []
    rig.requests.gone(CLIENT)
    (dropped,) = rig.routed()
    assert isinstance(dropped, Ask)
    assert (dropped.verb, dropped.token, dropped.job) == (HUNG_UP, ask.token, HOME)
    assert (rig.wait(100.0), rig.replies()) == ([], [])


def test_a_client_that_hangs_up_has_its_change_asked_for_until_it_is_done() -> None:
    rig = Clients()
    ask = rig.about("pause")
    rig.requests.gone(CLIENT)
    assert rig.wait(ASK_AGAIN_S) == [ask]


def test_a_change_that_no_master_can_make_now_is_refused_at_once() -> None:
    rig = Clients()
    rig.answer(rig.about("pause"), UNAVAILABLE, {"error": "the job has no master now"})
    assert [status for _, status, _ in rig.replies()] == [UNAVAILABLE]


def test_too_many_requests_at_once_are_refused() -> None:
    rig = Clients()
    for client in range(OPEN_MAX):
        rig.ask("describe", client, job="shop/top")
    assert rig.ask("describe", OPEN_MAX, job="shop/top") == []
    ((client, status, _),) = rig.replies()
    assert (client, status) == (OPEN_MAX, UNAVAILABLE)


def test_a_list_is_asked_of_all_agents() -> None:
    rig = Clients()
    (ask,) = rig.ask("list")
    assert isinstance(ask, AskAll)
    assert rig.wait(ASK_AGAIN_MAX_S - 0.01) == []
    assert rig.wait(ASK_AGAIN_MAX_S) == [ask]
    rig.answer(ask, OK, {"asked": {"answered": 1, "expected": 1}}, encode_json({"items": []}))
    ((_, status, body),) = rig.replies()
    assert (status, body["jobs"]) == (OK, [])


def test_the_asked_agent_answers_a_request_for_its_health_itself() -> None:
    rig = Clients()
    assert rig.ask("health") == []
    ((_, status, body),) = rig.replies()
    assert (status, body["agent"], body["status"]) == (OK, "agent-1", "ok")


def test_a_master_of_an_earlier_version_learns_whether_a_client_still_waits() -> None:
    rig = Clients()
    open_token = rig.about().token
    for of, token, status, answered in (
        (rig.context.me.id, open_token, OK, {"waits": True}),
        (rig.context.me.id, open_token + 1, OK, {"waits": False}),
        (A.id, open_token, NOT_FOUND, {}),
    ):
        rig.requests.on_waits(Ask("waits", HOME, encode_json({"of": of.hex(), "token": token}), A, 9))
        (sent,) = [each for each in rig.context.out if isinstance(each, Send)]
        rig.context.out.clear()
        assert isinstance(sent.message, Answered)
        assert (sent.to, sent.message.token, sent.message.status) == (A, 9, status)
        assert decode_body(sent.payload) == answered
    rig.requests.on_waits(Ask("waits", HOME, b"rubbish", A, 9))
    assert rig.context.out == []


@pytest.mark.parametrize(
    ("verb", "body", "text"),
    [
        ("fly", {}, "no verb 'fly'"),
        ("describe", {}, "is not the name of a job"),
        ("describe", {"job": "a/b/c"}, "is not the name of a job"),
        ("apply", {}, "apply needs the text of a job"),
        ("apply", {"text": 7}, "apply needs the text of a job"),
        ("apply", {"text": TEXT, "creator": 7}, "apply needs the text of a job"),
        ("apply", {"text": "SELECT 1"}, ""),
        ("apply", {"text": TEXT, "signed": "rubbish"}, ""),
        ("apply", {"text": TEXT, "job": "shop/other"}, "this is the text of shop/top, not of shop/other"),
        ("apply", {"text": TEXT, "seen": "rubbish"}, ""),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_at_once(verb: str, body: dict[str, Any], text: str) -> None:
    rig = Clients()
    assert rig.ask(verb, **body) == []
    ((client, status, found),) = rig.replies()
    assert (client, status) == (CLIENT, BAD_REQUEST)
    assert text in found["error"]


def test_a_text_is_submitted_to_the_placement_of_its_job_under_a_new_incarnation() -> None:
    rig = Clients()
    (first,) = rig.ask("apply", text=TEXT)
    (second,) = rig.ask("apply", text=TEXT, job="shop/top", creator="ann", dry_run=True)
    assert isinstance(first, Submit)
    assert isinstance(second, Submit)
    assert (first.manifest.job_id, first.manifest.created, first.seen) == (HOME, 5, LOOK)
    assert (first.update, first.dry_run, second.update, second.dry_run) == (False, False, True, True)
    assert second.manifest.creator == "ann"
    assert first.manifest.incarnation != second.manifest.incarnation


def test_a_canary_is_another_job_and_no_update() -> None:
    (submit,) = Clients().ask("apply", text=TEXT, job="shop/top", canary={"zone": "a"})
    assert isinstance(submit, Submit)
    assert (submit.manifest.qualified, submit.update) == ("shop/top-canary", False)
    assert submit.manifest.narrowed == (("zone", "a"),)


def test_a_submission_is_repeated_with_the_same_incarnation() -> None:
    rig = Clients()
    (first,) = rig.ask("apply", text=TEXT)
    assert rig.wait(ASK_AGAIN_S) == [first]


def test_an_agent_without_jobs_leaves_at_once() -> None:
    rig = Clients()
    rig.ask("leave")
    assert [each for each in rig.context.out if isinstance(each, Left)] == [Left()]
    assert rig.replies() == [(CLIENT, OK, {"agent": "agent-1", "state": "left", "jobs": 0})]


@pytest.mark.parametrize(
    ("wait", "over_s"),
    [(None, LEAVE_WAIT_S), (5, 5.0), (0, 0.0), (-1, 0.0), (1e9, LEAVE_WAIT_S), ("x", LEAVE_WAIT_S)],
)
def test_a_request_to_leave_reports_after_a_while_what_the_agent_waits_for(
    wait: object, over_s: float
) -> None:
    rig = Clients()
    rig.host.departed = lambda idle: False
    rig.host.votes_on = lambda: ["shop/top"]
    rig.ask("leave", wait=wait)
    rig.wait(over_s - 0.01)
    assert rig.replies() == []
    rig.wait(over_s)
    ((_, status, body),) = rig.replies()
    assert (status, body["state"]) == (OK, "leaving")
    assert body["waits_for"] == [{"job": "shop/top", "paused": False}]
    rig.host.departed = lambda idle: True
    rig.wait(over_s + 1.0)
    assert [each for each in rig.context.out if isinstance(each, Left)] == [Left()]
    assert rig.replies() == [], "it is answered once"


def test_a_request_to_leave_that_waits_for_no_number_is_answered_at_once() -> None:
    rig = Clients()
    rig.host.departed = lambda idle: False
    rig.ask("leave", wait=float("nan"))
    rig.wait(0.0)
    assert [body["state"] for _, _, body in rig.replies()] == ["leaving"]
