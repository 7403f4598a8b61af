"""A request to apply a job is read at the agent of the client."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.requests.submission import Submission, read_submission
from tests.control.member.support import TEXT


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        ({}, 2, "apply needs the text of a job"),
        ({"text": TEXT, "creator": 3}, 2, "apply needs the text of a job"),
        ({"text": "SELECT"}, 65, "the query selects nothing"),
        ({"text": TEXT, "signed": "no envelope"}, 65, "this is not a signature file"),
        ({"text": TEXT, "first": "x"}, 65, "interval"),
        ({"text": TEXT, "job": "shop/other"}, 65, "this is the text of shop/top, not of shop/other"),
    ],
)
def test_a_request_that_describes_no_job_is_answered_with_the_fault(
    body: dict[str, Any], code: int, error: str
) -> None:
    found = read_submission(body, 7)
    assert isinstance(found, dict)
    assert error in found["error"], found
    assert found["code"] == code, found


def test_a_job_has_the_time_and_the_creator_of_its_request() -> None:
    found = read_submission({"text": TEXT, "creator": "ann", "dry_run": True}, 7)
    assert isinstance(found, Submission)
    assert (found.manifest.qualified, found.manifest.creator) == ("shop/top", "ann")
    assert (found.manifest.created, found.dry_run, found.update) == (7, True, False)


def test_a_canary_is_another_job_and_no_update() -> None:
    found = read_submission({"text": TEXT, "job": "shop/top", "canary": {"zone": "a"}}, 7)
    assert isinstance(found, Submission)
    assert (found.manifest.narrowed, found.update) == ((("zone", "a"),), False)
    plain = read_submission({"text": TEXT, "job": "shop/top"}, 7)
    assert isinstance(plain, Submission)
    assert plain.update
