"""Sinks of agent.toml, as an analysis reads them."""

from __future__ import annotations

import pytest

from elfmesh.agent.sinks.config import TYPES, WebhookSink
from elfmesh.api.sink_files import KEYED, read_sinks
from elfmesh.control.coordination.statements import PROMETHEUS, WEBHOOK
from elfmesh.errors import ConfigError

TEXT = """
listen = "127.0.0.1:0"

[sinks.hook]
type = "webhook"
jobs = ["shop/*"]
state = "all"

[sinks."files"]
type = "parquet"
jobs = ["*"]
"""


def test_sinks_have_their_lines() -> None:
    hook, files = read_sinks(TEXT, "agent.toml")
    assert (hook.name, hook.type, hook.jobs, hook.revisions, hook.idempotent, hook.line) == (
        "hook", "webhook", ("shop/*",), True, False, 4,
    )  # fmt: skip
    assert (files.name, files.revisions, files.idempotent, files.line) == ("files", False, True, 9)
    (declared,) = read_sinks(TEXT.replace('state = "all"', "idempotent = true").split('[sinks."')[0], "f")
    assert declared.idempotent


def test_types_are_those_of_the_agent() -> None:
    assert {*KEYED, WEBHOOK, PROMETHEUS} == TYPES.keys() - {"plugin"}
    assert "idempotent" in WebhookSink.__struct_fields__


@pytest.mark.parametrize(
    "text",
    ["[", "sinks = 3", "[sinks.x]", "[sinks]\nx = 3", "[sinks.x]\ntype = 1\njobs = []", "x = " + "[" * 5_000],
)
def test_a_wrong_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_sinks(text, "agent.toml")


def test_a_configuration_without_sinks_has_none() -> None:
    assert read_sinks("", "agent.toml") == []
