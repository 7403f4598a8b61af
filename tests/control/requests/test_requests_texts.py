"""Texts that clients apply, requests that cannot be read, and requests to leave."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.answers import (
    BAD_REQUEST,
    OK,
)
from elfmesh.control.protocol.events import Left
from elfmesh.control.protocol.messages import Submit
from elfmesh.control.requests.precondition import LOOK
from elfmesh.control.requests.requests import (
    ASK_AGAIN_S,
    LEAVE_WAIT_S,
)
from tests.control.member.support import TEXT
from tests.control.requests.clients import CLIENT, Clients

HOME = ids.job_placements("shop/top", "local")[0]


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
