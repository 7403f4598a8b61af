"""`elf leave`: what it asks for, and what it prints of an agent that goes on."""

from __future__ import annotations

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]


def test_an_agent_that_has_left_is_named_with_its_jobs(api: str, backend: FakeBackend) -> None:
    backend.replies["leave"] = Reply(0, 200, {"agent": "web1", "state": "left", "jobs": 2})
    ran = elf("leave", "--now", "--api", api)
    assert (ran.exit_code, ran.stdout) == (0, "web1 has left 2 jobs and stops\n")
    assert backend.asked[-1] == ("leave", {"wait": 60.0, "now": True})


def test_jobs_that_an_agent_waits_for_are_printed_with_the_reason(api: str, backend: FakeBackend) -> None:
    waits = [{"job": "a/b", "paused": True}, {"job": "a/c", "paused": False, "problem": "no \x1b"}]
    answer = {"agent": "web1", "state": "leaving", "jobs": 2, "waits_for": waits}
    backend.replies["leave"] = Reply(0, 200, answer)
    ran = elf("leave", "--wait", "1 s", "--api", api)
    assert ran.exit_code == 1
    assert "web1 is still leaving a/b (paused), a/c (no \\x1b)" in ran.stderr
    assert "It stops after its last interval" in ran.stderr
