"""`elf forget`: dead agents only, by name or id."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

AGENTS: list[dict[str, Any]] = [
    {"name": "web1", "id": "aa", "status": "alive"},
    {"name": "web2", "id": "bb", "status": "dead", "last_seen": None},
]


@pytest.mark.parametrize("named", ["web2", "bb"])
def test_a_dead_agent_is_forgotten(api: str, backend: FakeBackend, named: str) -> None:
    backend.lists("agents", AGENTS)
    backend.replies["forget"] = Reply(0, 200, {"forget": []})
    ran = elf("forget", named, "--api", api)
    assert (ran.exit_code, ran.stderr) == (0, f"{named} is forgotten\n")
    assert ("forget", {"agent": named}) in [(verb, body) for verb, body, *_ in backend.asked]


@pytest.mark.parametrize(
    ("named", "shown"),
    [("web1", "web1 is alive"), ("web3", "no dead agent is called web3"), ("\x1b[2J", "no dead agent")],
)
def test_others_are_refused(api: str, backend: FakeBackend, named: str, shown: str) -> None:
    backend.lists("agents", AGENTS)
    ran = elf("forget", named, "--api", api)
    assert ran.exit_code == 1
    assert shown in ran.stderr
    assert "\x1b" not in ran.stderr
    assert "forget" not in [verb for verb, *_ in backend.asked]
