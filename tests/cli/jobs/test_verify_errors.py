"""What cannot be verified, and what helps."""

from __future__ import annotations

import pytest

from elfmesh.cli.jobs.verify import verify_command
from elfmesh.control.master.verification import SESSIONS
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import RuntimeFailure
from tests.cli.remote import api, backend, job
from tests.control.fakes import FakeBackend, served

__all__ = ["api", "backend", "job"]


@pytest.mark.parametrize(
    ("state", "error", "helps"),
    [
        ("refused", SESSIONS, "`elf run` over all the raw logs"),
        ("refused", "too many intervals wait for their verification", "Ask again in a moment"),
        ("unknown", "interval 7 has no final record", "`elf results shop/top` lists"),
    ],
)
def test_the_error_of_an_interval_that_cannot_be_verified_has_the_remedy(
    state: str, error: str, helps: str
) -> None:
    backend = FakeBackend()
    found = {"job": "shop/top", "interval": 7, "state": state, "error": error}
    backend.replies["verify"] = Reply(0, 200, found)
    with served(backend) as api, pytest.raises(RuntimeFailure, match=error) as reported:
        verify_command.main(["shop/top", "--interval", "7", "--api", api], standalone_mode=False)
    assert helps in reported.value.hint
