"""`elf plan JOB`: groups and gateways, as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elfmesh.cli.entry import run
from elfmesh.cli.local.job_layout import layout_lines
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_plan import JobLayout
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
}
ONE_TREE = {"job": "shop/top", "paths": 0, "across": "", "layout": None, "notes": ["it has one tree"]}


def test_a_layout_is_printed_with_its_groups_and_notes() -> None:
    assert list(layout_lines(read_reply(JobLayout, LAYOUT))) == [
        "shop/top  PATHS 1 ACROSS region  7 agents: (no label) 2, eu 5",
        "site 0  web3 eu/r1 (master)",
        "group (no label)  gateway web9",
        "group eu  gateway web3",
        "note: 2 agents state no region and form a group of their own",
    ]
    assert list(layout_lines(read_reply(JobLayout, ONE_TREE))) == ["shop/top", "note: it has one tree"]


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
