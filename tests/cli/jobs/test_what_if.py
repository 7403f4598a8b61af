"""`elf what-if`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elfmesh.control.protocol.events import Reply
from tests.api.test_what_if import AGENTS, EVEN, TOP, job
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]


@pytest.fixture
def fleet(backend: FakeBackend) -> FakeBackend:
    backend.lists("agents", AGENTS)
    backend.replies["describe"] = Reply(0, 200, job("shop/top", TOP, EVEN))
    return backend


def test_a_lost_rack(api: str, fleet: FakeBackend) -> None:
    ran = elf("what-if", "--lose", "rack=r1", "--api", api)
    assert ran.exit_code == 0
    assert "rack=r1: 2 of 6 agents (web1, web2); masters of 1 job" in ran.stderr + ran.stdout
    (row,) = [line for line in ran.stdout.splitlines() if line.startswith("shop/top")]
    assert row.split("  ") != []
    assert all(
        text in row for text in ("0.67", "4 of 6", "2 of 3", "after a change of masters, at most 8.5 s late")
    )


def test_the_budget_of_standbys_and_what_they_ship(api: str, fleet: FakeBackend) -> None:
    described = job("shop/top", TOP.replace("EVERY", "STANDBY '1 MB/s' EVERY"), EVEN)
    described["roster"]["agents"][0] |= {"standby": "web4", "standby_bytes_per_second": 27_400}
    fleet.replies["describe"] = Reply(0, 200, described)
    ran = elf("what-if", "--lose", "rack=r1", "--api", api)
    assert "shop/top: STANDBY '1 MB/s': 1 of 6 members ship 27 KB/s" in ran.stderr + ran.stdout
    ran = elf("what-if", "--lose", "rack=r1", "-o", "json", "--api", api)
    (row,) = json.loads(ran.stdout)["jobs"]
    found = row["standby"], row["standbys"], row["standby_bytes_per_second"]
    assert found == ("'1 MB/s'", 1, 27_400)


def test_each_rack_as_json(api: str, fleet: FakeBackend) -> None:
    ran = elf("what-if", "--each", "rack", "-o", "json", "--api", api)
    cases = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [case["lost"] for case in cases] == ["rack=r1", "rack=r2", "rack=r3"]
    assert [case["jobs"][0]["next_result"] for case in cases] == [
        "after a change of masters", "on time", "on time",
    ]  # fmt: skip


def test_a_job_without_a_result_is_exit_code_1(api: str, fleet: FakeBackend) -> None:
    ran = elf("what-if", "--lose", "agent=web1", "--lose", "agent=web3", "--api", api)
    assert ran.exit_code == 1
    assert "1 job would have no result: shop/top" in ran.stderr
    ran = elf("what-if", "--lose", "zone=a", "--api", api)
    assert "nothing remains" in ran.stderr + ran.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--lose", "rack=r9"], 65, "no agent has rack=r9"),
        (["--lose", "rack"], 2, "write LABEL=VALUE"),
        (["--each", "row"], 65, "no agent has the label 'row'"),
        (["--each", "rack", "--lose", "rack=r1"], 2, "what is lost?"),
        ([], 2, "what is lost?"),
        (["--each", "rack", "--interval", "7"], 2, "--interval needs --each and --job"),
        (["--lose", "rack=r1", "--job", "shop/top", "--interval", "7"], 2, "--interval needs --each"),
    ],
)
def test_bad_options(options: list[str], code: int, message: str, api: str, fleet: FakeBackend) -> None:
    ran = elf("what-if", *options, "--api", api)
    assert ran.exit_code == code
    assert message in ran.stderr


def test_a_job_without_a_master_has_a_row(api: str, fleet: FakeBackend) -> None:
    fleet.lists("agents", [AGENTS[0] | {"jobs": ["shop/led", "shop/gone"]}, *AGENTS[1:]])
    fleet.replies["describe"] = Reply(0, 503, {"error": "no majority of the agents that vote on it answers"})
    ran = elf("what-if", "--lose", "rack=r1", "--api", api)
    assert ran.exit_code == 1
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert ["shop/top", "no", "master", "none", "already"] in rows
    assert "shop/top: no majority of the agents" in ran.stderr
    assert "3 jobs would have no result: shop/gone, shop/led, shop/top" in ran.stderr


def case(lost: str, stay: int | None, gone: list[str], error: float | None) -> dict[str, Any]:
    rows = [{"product": name} for name in gone]
    return {
        "lost": lost,
        "agents": [],
        "fidelity": 0.7,
        "records": 0.7,
        "stay": stay,
        "gone": rows,
        "error": error,
    }


def test_a_measured_interval(api: str, fleet: FakeBackend) -> None:
    cases = [case("r1", 5, [], 0.288), case("r2", 1, list("abcd"), 0.5), case("r3", None, [], None)]
    found = {"job": "shop/top", "interval": 7, "state": "measured", "errors": [], "rows": 5, "cases": cases}
    fleet.replies["measure"] = Reply(0, 200, found)
    asked = ("what-if", "--each", "rack", "--job", "shop/top", "--interval", "7", "--api", api)
    ran = elf(*asked)
    assert ran.exit_code == 0, ran.output
    head, *lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert head == "RACK FIDELITY OF THE TOP 5 STAY VALUES OFF BY"
    assert lines == ["r1 0.70 5 28.8 %", "r2 0.70 1 without a; b; c, ... 50.0 %", "r3 0.70"]
    verb, body = fleet.asked[-1]
    assert (verb, body["interval"], body["again"]) == ("measure", 7, True)
    assert body["losses"]["r1"] == ["web1", "web2"]
    assert json.loads(elf(*asked, "-o", "json").stdout) == found


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"state": "refused", "error": "its sessions begin in earlier intervals"}, "its sessions begin"),
        ({"state": "incomplete", "errors": [{"agent": "web2", "error": "no log"}]}, "web2: no log"),
    ],
)
def test_an_interval_that_cannot_be_measured(
    answer: dict[str, Any], message: str, api: str, fleet: FakeBackend
) -> None:
    fleet.replies["measure"] = Reply(0, 200, {"job": "shop/top", "interval": 7, **answer})
    ran = elf("what-if", "--each", "rack", "--job", "shop/top", "--interval", "7", "--api", api)
    assert (ran.exit_code, message in ran.stderr) == (1, True)
