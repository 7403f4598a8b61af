"""Each finding about a fleet, from the answers of its agents."""

from __future__ import annotations

import datetime
import socket
from typing import Any

import pytest

from elfmesh.cli.host.doctor_fleet import in_the_fleet

NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
ROW: dict[str, Any] = {"name": "web1", "status": "alive", "skew_seconds": 0.1, "version": "1"}


def statuses(
    rows: list[dict[str, Any]], health: dict[str, Any] | None = None, silent: int = 0
) -> dict[str, str]:
    asked = {"answered": len(rows) - silent, "expected": len(rows)}
    given = health or {"agent": "web1", "status": "ok"}
    return {each.check: each.status for each in in_the_fleet(given, {"agents": rows, "asked": asked}, NOW)}


def test_a_fleet_that_is_well() -> None:
    found = statuses([ROW, ROW | {"name": "web2", "security": {"expires": "2027-11-27T00:00:00Z"}}])
    assert set(found.values()) == {"ok"}
    assert found.keys() == {"agent", "clocks", "peers", "connections", "versions", "certificates"}


@pytest.mark.parametrize(
    ("fact", "check", "status"),
    [
        ({"skew_seconds": -1.5}, "clocks", "warn"),
        ({"version": "2"}, "versions", "warn"),
        ({"status": "dead"}, "peers", "fail"),
        ({"security": {"expires": "2026-12-01T00:00:00Z"}}, "certificate of web2", "warn"),
        ({"security": {"expires": "2026-11-01T00:00:00Z"}}, "certificate of web2", "fail"),
        ({"security": {"problem": "torn"}}, "certificate of web2", "fail"),
        ({"security": {"expires": "soon"}}, "certificate of web2", "fail"),
    ],
)
def test_each_problem(fact: dict[str, Any], check: str, status: str) -> None:
    found = statuses([ROW, ROW | {"name": "web2"} | fact])
    assert {name: each for name, each in found.items() if each != "ok"} == {check: status}


def test_agents_that_do_not_answer_or_accept() -> None:
    assert statuses([ROW, ROW], silent=1)["peers"] == "fail"
    with socket.create_server(("127.0.0.1", 0)) as server:
        row = ROW | {"address": f"127.0.0.1:{server.getsockname()[1]}"}
        assert statuses([row])["connections"] == "ok"
    assert statuses([row])["connections"] == "fail"


@pytest.mark.parametrize(("status", "shown"), [("waiting", "fail"), ("degraded", "warn"), ("ok", "ok")])
def test_the_health_of_the_agent(status: str, shown: str) -> None:
    health = {"agent": "web1", "status": status, "sinks": {"lake": "no room"}}
    assert statuses([ROW], health)["agent"] == shown
    asked = {"answered": 1, "expected": 1}
    (first, *_) = in_the_fleet(health, {"agents": [ROW], "asked": asked}, NOW)
    assert ("lake: no room" in first.found) is (shown != "ok")


def test_one_agent_has_no_clock_to_compare_with() -> None:
    assert statuses([ROW | {"skew_seconds": None}])["clocks"] == "ok"
