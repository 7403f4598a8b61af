"""A configuration that is read again changes what can be changed, and names the rest."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.agent.service.reload import Reload, ReloadResult, flat
from elfmesh.agent.settings.config import AgentConfig, config_of
from elfmesh.errors import ConfigError


def config(**raw: Any) -> AgentConfig:
    return config_of(raw, "agent.toml")


def test_what_can_change_does_and_the_rest_is_named_without_its_value() -> None:
    before = config(limits={"memory": "100 MB"}, labels={"role": "web"})
    after = config(limits={"memory": "150 MB"}, labels={"role": "db", "rack": "secret"}, cluster="other")
    applied: list[int] = []
    reload = Reload(
        before, lambda: after, {"limits.memory": lambda new: applied.append(new.limits.memory_bytes)}
    )
    outcome = reload.again()
    assert outcome == ReloadResult(("limits.memory",), ("cluster", "labels.rack", "labels.role"))
    assert applied == [150_000_000]
    assert str(outcome) == "changed: limits.memory; needs a restart: cluster, labels.rack, labels.role"
    assert "secret" not in str(outcome)


def test_a_change_is_applied_once_and_a_restart_is_asked_for_until_it_comes() -> None:
    applied: list[int] = []
    after = config(limits={"memory": "150 MB"}, cluster="other")
    reload = Reload(config(), lambda: after, {"limits.memory": lambda new: applied.append(1)})
    assert reload.again().applied == ("limits.memory",)
    assert reload.again() == ReloadResult((), ("cluster",))
    assert applied == [1]


def test_the_same_again_is_nothing() -> None:
    assert str(Reload(config(), config, {}).again()) == "nothing has changed"


def test_a_wrong_configuration_changes_nothing_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def wrong() -> AgentConfig:
        raise ConfigError("unknown key 'limit'", where="agent.toml")

    applied: list[int] = []
    outcome = Reload(config(), wrong, {"limits.memory": lambda new: applied.append(1)}).again()
    assert outcome.problem == "agent.toml: unknown key 'limit'"
    assert applied == []
    assert "nothing was changed: agent.toml: unknown key 'limit'" in caplog.records[-1].getMessage()


def test_settings_are_named_as_in_the_file() -> None:
    names = flat(config(streams={"access": {"path": "/x"}}))
    assert names["streams.access.path"] == "/x"
    assert names["limits.memory"] == "200 MB"
