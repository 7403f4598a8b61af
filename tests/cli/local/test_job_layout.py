"""`elf plan JOB`: groups and gateways, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.entry import run
from elfmesh.cli.local.job_layout import layout_lines
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_plan import JobLayout
from tests.api.test_expected_layout import AGENTS
from tests.api.test_expected_layout import TEXT as NEW
from tests.cli.remote import APPLIED, elf
from tests.control.fakes import FakeBackend, served


def site(name: str, domain: str) -> dict[str, str]:
    return {"agent": name, "id": name.encode().hex(), "domain": domain}


LAYOUT: dict[str, Any] = {
    "job": "shop/top",
    "paths": 1,
    "across": "region",
    "layout": {
        "label": "region",
        "sites": [site("web3", "eu/r1")],
        "groups": [
            {"group": "", "agents": 2, "gateways": [site("web9", "")]},
            {"group": "eu", "agents": 5, "gateways": [site("web3", "eu/r1")]},
        ],
    },
    "notes": ["2 agents state no region and form a group of their own"],
    "messages": 1,
    "messages_of_one": 1,
}
ONE_TREE = {"job": "shop/top", "paths": 0, "across": "", "layout": None, "notes": ["it has one tree"]}


def test_a_layout_is_printed_with_its_groups_and_notes() -> None:
    assert list(layout_lines(read_reply(JobLayout, LAYOUT))) == [
        "shop/top  PATHS 1 ACROSS region  7 agents: (no label) 2, eu 5",
        "site 0  web3 eu/r1 (master)",
        "group (no label)  gateway web9",
        "group eu  gateway web3",
        "messages between regions for each interval and partition: 1 (PATHS 1: 1)",
        "note: 2 agents state no region and form a group of their own",
    ]
    measured = {"by_votes_seconds": 0.1, "by_master_seconds": 0.2049, "measured": 7, "of": 9}
    line = list(layout_lines(read_reply(JobLayout, LAYOUT | {"expected": measured})))[5]
    assert line == (
        "expected from the last seal to the farthest site: 0.100 s by votes, 0.205 s by the master"
        " (7 of 9 latencies measured)"
    )
    assert list(layout_lines(read_reply(JobLayout, ONE_TREE))) == ["shop/top", "note: it has one tree"]


def test_the_cost_of_the_paths_and_their_bound_are_printed() -> None:
    cost = {"paths": 6, "live": 5, "idle": [], "bound": 2.5, "ratio": 2.04, "is_kept": True}
    cost["idle"] = [{"group": "eu", "copy": 1, "gateway": "web4", "site": "web3"}]
    found = LAYOUT | {"paths": 2, "copies": 2, "cost": cost}
    groups = found["layout"]["groups"]
    two = groups[1] | {"gateways": [*groups[1]["gateways"], site("web4", "eu/r2")]}
    lines = list(layout_lines(read_reply(JobLayout, found | {"layout": found["layout"] | {"groups": [two]}})))
    assert lines[0] == "shop/top  PATHS 2, 2 ACROSS region COST 2.5  5 agents: eu 5"
    assert "group eu  gateways web3, web4" in lines
    assert "cost 2.0 x PATHS 1, with 5 of 6 paths" in lines
    unmeasured = found | {"cost": cost | {"ratio": None, "bound": None}}
    assert not [line for line in layout_lines(read_reply(JobLayout, unmeasured)) if "x PATHS 1" in line]


STANDBYS: dict[str, Any] = {
    "budget": "KEEPS 0.95",
    "across": "rack",
    "members": [{"agent": "web1", "standby": "web4"}, {"agent": "web2", "standby": None}],
    "of": 9,
    "kept": {"r1": 0.9, "r2": 0.7},
    "without": {"r1": 0.6, "r2": 0.7},
    "reachable": 0.9,
    "bytes_per_second": 27_400,
}


def test_standbys_are_printed_with_what_they_keep_and_what_no_choice_can_keep() -> None:
    lines = list(layout_lines(read_reply(JobLayout, ONE_TREE | {"standbys": STANDBYS})))
    assert lines[1:] == [
        "STANDBY KEEPS 0.95 ACROSS rack  2 of 9 members, 27 KB/s",
        "kept of what was read, whichever of 2 failure domains is lost: 0.600 -> 0.700",
        "  web1 -> web4  web2 -> none yet",
        "  without r1: 0.900",
        "  without r2: 0.700",
        "note: no choice of standbys keeps 0.95; this one keeps 0.900",
        "note: it has one tree",
    ]


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_layout_of_a_job_comes_from_its_master(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend()
    backend.replies["plan"] = Reply(0, 200, LAYOUT)
    with served(backend) as api:
        assert run(["plan", "shop/top", "-o", output, "--api", api]) == 0
    shown = capsys.readouterr().out
    if output == "json":
        assert json.loads(shown) == LAYOUT
    else:
        assert "group eu  gateway web3" in shown


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_layout_of_new_jobs_follows_from_a_file_and_the_agents_that_answer(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jobs.elfql"
    file.write_text(f"{NEW.format(paths=' PATHS 1')};\n{NEW.format(paths='').replace('shop.top', 'shop.b')}")
    backend = FakeBackend()
    backend.replies["agents"] = Reply(0, 200, {"agents": AGENTS, "asked": {"answered": 9, "expected": 9}})
    with served(backend) as api:
        assert run(["plan", "-f", str(file), "-o", output, "--api", api]) == 0
        assert run(["plan", "shop/top", "-f", str(file), "--api", api]) == 2
    shown = capsys.readouterr().out
    if output == "json":
        assert [each["job"] for each in json.loads(shown)] == ["shop/top", "shop/b"]
    else:
        assert "shop/top  PATHS 1 ACROSS region  9 agents: ap 3, eu 3, us 3" in shown
        assert "(PATHS 1: 2)" in shown


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        (AGENTS, ""),
        ([each for each in AGENTS if each["labels"]["region"] != "ap"], "shares region"),
        (AGENTS[:2], "2 of 3 sites, because no other agent is present"),
    ],
)
def test_apply_warns_about_sites_in_one_place_and_refuses_them_if_it_is_strict(
    agents: list[dict[str, Any]], problem: str, tmp_path: Path
) -> None:
    """PATHS 3 over three regions, two regions, and two agents."""
    file = tmp_path / "job.elfql"
    backend = FakeBackend()
    backend.replies["apply"] = Reply(0, 200, APPLIED)
    backend.lists("streams", [{"stream": "clicks"}])
    backend.lists("agents", agents)
    with served(backend) as api:
        file.write_text(NEW.format(paths=" PATHS 3 ACROSS region"))
        ran = elf("apply", "-f", str(file), "--api", api)
        assert ran.exit_code == 0
        assert (problem in ran.stderr) if problem else ran.stderr == ""
        backend.asked.clear()
        strict = elf("apply", "-f", str(file), "--api", api, "--strict")
        assert strict.exit_code == (65 if problem else 0)
        assert problem in strict.stderr
        assert ("apply" in [verb for verb, _ in backend.asked]) == (not problem)
        file.write_text(NEW.format(paths=""))
        assert elf("apply", "-f", str(file), "--api", api, "--strict").exit_code == 0
