"""Commands that change a running job, and what they say of its state."""

from __future__ import annotations

import pytest

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import APPLIED, api, backend, elf, job
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend", "job"]


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_commands_that_change_a_job_print_their_outcome(api: str, backend: FakeBackend, verb: str) -> None:
    backend.replies[verb] = Reply(0, 200, {**APPLIED, "state": verb})
    ran = elf(verb, "shop/top", "--api", api)
    assert ran.stdout == f"shop/top: {verb} (8 of 8 agents)\n"
