"""`elf forget`: dead agents only, by name or id."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.api.client.client import Client
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import UsageError
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

AGENTS: list[dict[str, Any]] = [
    {"name": "web1", "id": "aa", "status": "alive"},
    {"name": "web2", "id": "bb", "status": "dead", "last_seen": None},
    {"name": "web4", "id": "cc", "status": "dead", "last_seen": None},
    {"name": "web4", "id": "dd", "status": "alive"},
]


@pytest.mark.parametrize(("named", "agent"), [("web2", "bb"), ("bb", "bb"), ("web4", "cc")])
def test_a_dead_agent_is_forgotten_by_its_id(api: str, backend: FakeBackend, named: str, agent: str) -> None:
    backend.lists("agents", AGENTS)
    backend.replies["forget"] = Reply(0, 200, {"forget": []})
    ran = elf("forget", named, "--api", api)
    assert (ran.exit_code, ran.stderr) == (0, f"{named} is forgotten\n")
    assert [body for verb, body in backend.asked if verb == "forget"] == [{"agent": agent}]


def test_a_request_without_an_agent_is_refused(api: str, backend: FakeBackend) -> None:
    with pytest.raises(UsageError, match="the parameter agent is missing"):
        Client(api).ask("forget")
    assert backend.asked == []


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
