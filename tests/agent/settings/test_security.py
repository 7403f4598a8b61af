"""Without certificates an agent refuses messages of other hosts, unless its configuration accepts them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from elfmesh.agent.settings.config import config_of
from elfmesh.agent.settings.security import Security, check_join
from elfmesh.errors import ConfigError

TLS = {"tls": {"dir": "/etc/elf"}}


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"join": ["127.0.0.1:7400"]}, ""),
        ({"join": ["[::1]:7400", "localhost:7400"]}, ""),
        ({"join": ["127.0.0.1:7400", "10.0.0.5:7400"]}, "10.0.0.5:7400 is another host"),
        ({"join": ["10.0.0.5:7400"], "dangerously_insecure_network": True}, ""),
        ({"join": ["10.0.0.5:7400"], **TLS}, ""),
    ],
)
def test_another_host_is_joined_with_certificates_only(settings: dict[str, Any], refused: str) -> None:
    config = config_of(settings, "agent.toml")
    if not refused:
        check_join(config)
        return
    with pytest.raises(ConfigError, match=refused) as caught:
        check_join(config, "agent.toml")
    assert caught.value.where == "agent.toml: join"
    assert "--token" in caught.value.hint


def test_people_read_how_strangers_are_kept_out(caplog: pytest.LogCaptureFixture) -> None:
    security = Security(config_of({}, "agent.toml"))
    assert (security.agent, security.describe()) == (b"", {"mode": "loopback only"})
    assert not caplog.records
    caplog.set_level(logging.WARNING)
    insecure = Security(config_of({"dangerously_insecure_network": True}, "agent.toml"))
    (record,) = caplog.records
    assert insecure.describe() == {"mode": record.getMessage()}


def test_certificates_that_are_not_there_are_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        Security(config_of(TLS, "agent.toml"))
