"""[tls] of agent.toml: which files it means, and which sections cannot work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.settings.tls_settings import TlsConfig, check_tls
from elfmesh.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ({"dir": "/d"}, ["/d/cert.pem", "/d/key.pem", "/d/ca.pem", "/d/deny"]),
        ({"dir": "/d", "key": "/k", "deny": "/x"}, ["/d/cert.pem", "/k", "/d/ca.pem", "/x"]),
        ({"cert": "c", "key": "k", "ca": "a"}, ["c", "k", "a", ""]),
        ({}, ["", "", "", ""]),
    ],
)
def test_files(settings: dict[str, Any], paths: list[str]) -> None:
    tls = TlsConfig(**settings)
    assert [tls.path(name) for name in ("cert", "key", "ca", "deny")] == paths
    assert tls.given is bool(settings)


def test_the_directory_may_be_that_of_a_user() -> None:
    assert TlsConfig(dir="~/elf").path("ca") == str(Path("~/elf/ca.pem").expanduser())


@pytest.mark.parametrize(
    ("settings", "where", "message"),
    [
        ({"dir": "/d", "connection_life": "soon"}, "tls.connection_life", "duration"),
        ({"dir": "/d", "connection_life": "0 s"}, "tls.connection_life", "must be greater than 0"),
        ({"deny": "/x"}, "tls", "specifies no certificates"),
        ({"names": {"dns:{name}.example.org": "agent"}}, "tls", "specifies no certificates"),
        ({"cert": "c", "key": "k"}, "tls", "'ca' is missing"),
        ({"ca": "a"}, "tls", "'cert' is missing"),
        ({"dir": "/d", "names": {"dns:x": "emperor"}}, "tls.names", "emperor"),
    ],
)
def test_what_cannot_work_is_named(settings: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_tls(TlsConfig(**settings), "tls")
    assert caught.value.where.startswith(where)


@pytest.mark.parametrize("settings", [{}, {"dir": "/d"}, {"dir": "/d", "connection_life": "10 min"}])
def test_what_can_work_is_taken(settings: dict[str, Any]) -> None:
    check_tls(TlsConfig(**settings), "tls")
    assert TlsConfig(**settings).lifetime_s == (600 if "connection_life" in settings else 3600)
