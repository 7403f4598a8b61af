"""What `[sinks.NAME]` may say; a wrong word is named with its place and what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from elfmesh.agent.settings.config import config_of
from elfmesh.agent.sinks.config import EXTRAS
from elfmesh.cli.host.validate import validate_command
from elfmesh.errors import ConfigError

FILES = {"type": "parquet", "jobs": ["shop/*"], "path": "/var/results"}
HOOK = {"type": "webhook", "jobs": ["*"], "url": "https://example.com/x"}
DATABASE = {"type": "postgres", "jobs": ["shop.top"], "conninfo": "dbname=x"}
TOPIC = {"type": "kafka", "jobs": ["*"], "servers": ["a:9092"], "topic": "out"}
WRONG = [
    (TOPIC | {"servers": []}, "servers"),
    (TOPIC | {"servers": ["a"]}, "HOST:PORT"),
    (TOPIC | {"topic": "a b"}, "not a valid topic"),
    (TOPIC | {"options": {"transactional.id": "x"}}, "by the agent itself"),
    ({}, "'type' is missing"),
    ({"type": "parqet"}, "One of parquet"),
    (3, "a table is required, not a whole number"),
    (FILES | {"pth": 1}, "Did you mean path"),
    (FILES | {"path": "results"}, "not an absolute path"),
    (FILES | {"jobs": []}, "jobs"),
    (FILES | {"jobs": ["shop"]}, "NAMESPACE/NAME"),
    (FILES | {"jobs": ["../x/y"]}, "not a job name or pattern"),
    (FILES | {"state": "some"}, "state"),
    (DATABASE | {"schema": 'x"; DROP'}, "not a schema"),
    (HOOK | {"url": "ftp://x"}, "not an http"),
    (HOOK | {"url": "http://x:99999/"}, "not an http"),
    (HOOK | {"url": "http://x/\r\nHost: y"}, "not an http"),
    (HOOK | {"url": "http://u:p@x/"}, "would appear in logs"),
    (HOOK | {"headers": {"A\r\nB": "x"}}, "cannot be sent"),
    (HOOK | {"headers": {"A": "x\r\nB: y"}}, "cannot be sent"),
    (HOOK | {"headers": {"host": "x"}}, "by the sink itself"),
    (HOOK | {"allow": ["10.1.1.1/8"]}, "allow"),
    (HOOK | {"timeout": "soon"}, "timeout"),
    (HOOK | {"timeout": "1 us"}, "too little"),
    (HOOK | {"body_max": "1 B"}, "too little"),
    ({"type": "prometheus", "jobs": ["*"], "series_max": 0}, "series_max"),
    ({"type": "prometheus", "jobs": ["*"], "state": "all"}, "unknown key 'state'"),
]


@pytest.mark.parametrize(("raw", "reported"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_named(raw: Any, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of({"sinks": {"a": raw}}, "agent.toml")
    assert reported in str(caught.value)
    assert str(caught.value).startswith("agent.toml: sinks.a")


@pytest.mark.parametrize("name", ["a b", "../a", "", "a.b", "x" * 64])
def test_a_sinks_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(ConfigError, match="not a sink's name"):
        config_of({"sinks": {name: FILES}}, "agent.toml")


def test_early_rows_are_for_sinks_that_send_messages_and_exclude_tentative_results() -> None:
    for sent in (HOOK, TOPIC):
        config_of({"sinks": {"a": sent | {"early": True}}}, "agent.toml")
        with pytest.raises(ConfigError, match="exclude each other"):
            config_of({"sinks": {"a": sent | {"early": True, "state": "all"}}}, "agent.toml")
    with pytest.raises(ConfigError, match="early"):
        config_of({"sinks": {"a": FILES | {"early": True}}}, "agent.toml")


@pytest.mark.parametrize("kind", EXTRAS)
def test_a_missing_extra_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"type": "prometheus", "jobs": ["*"]}
    raw = {"postgres": DATABASE, "prometheus": shown, "kafka": TOPIC}[kind]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"elfmesh\\[{kind}\\]"):
        config_of({"sinks": {"a": raw}}, "agent.toml")


def test_validate_reports_every_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        '[sinks.a]\ntype = "parquet"\njobs = ["shop"]\npath = "x"\n'
        '[sinks.b]\ntype = "webhook"\njobs = ["*"]\nurl = "https://x/"\ntimeout = "soon"\nbody_max = "much"\n'
    )
    done = CliRunner().invoke(validate_command, [str(path)], standalone_mode=False)
    assert done.return_value == 78
    for place in (":3:", ":9:", ":10:"):
        assert f"{path}{place}" in done.stderr
