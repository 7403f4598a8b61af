"""`elf plan --network`: places and idle streams, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from elfmesh.cli.entry import run
from tests.control.planning.test_network_text import EXAMPLE


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["plan", "--network", str(EXAMPLE), *words]) == 0
    return capsys.readouterr().out


def test_the_servers_of_each_stage_are_printed_with_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys).splitlines()
    places = dict(line.split("  ", 1) for line in lines[:5])
    assert places["eu-logs"] == "eu2 (fixed)"
    for stage in ("union", "join"):
        assert len({server[:2] for server in places[stage].split(", ")}) == 2, "in two domains"
    assert lines[5].startswith("cost ")
    assert not any(line.startswith("idle") for line in lines)


def test_streams_are_idle_where_all_of_them_cost_too_much(capsys: pytest.CaptureFixture[str]) -> None:
    values = json.loads(shown(capsys, "--replicas", "3", "--cost", "3", "-o", "json"))
    assert values["within"]
    assert values["idle"]
    assert values["cost"] <= 3 * values["cost_of_one"] < values["cost_of_all"]
    text = shown(capsys, "--replicas", "3", "--cost", "3")
    assert "idle  " in text


def test_a_limit_that_cannot_be_kept_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert "note: no more streams can be idle" in shown(capsys, "--cost", "0")


@pytest.mark.parametrize("words", [["--cost", "nan"], ["--replicas", "0"], ["--topology", "x.json"]])
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    assert run(["plan", "--network", str(EXAMPLE), *words]) == 2
