"""[functions] of agent.toml: whose Python runs here, and settings that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.jobs.signing import show_key
from elfmesh.errors import ConfigError
from elfmesh.ingest.functions import confinement
from elfmesh.ingest.functions.settings import FunctionsConfig, check_functions, check_host

KEY = show_key(b"k" * 32)
SIGNED: dict[str, Any] = {"python": "signed", "keys": (KEY,)}


@pytest.mark.parametrize(
    ("settings", "where", "message"),
    [
        ({"python": "signed"}, "f.signatures", "1 of 0 keys must sign, which is impossible"),
        ({**SIGNED, "signatures": 2}, "f.signatures", "2 of 1 keys must sign"),
        ({**SIGNED, "keys": (KEY, KEY), "signatures": 2}, "f.signatures", "2 of 1 keys"),  # one key twice
        ({"keys": ("ed25519:x",)}, "f.keys", "is not a public key"),
        ({"time": "soon"}, "f.time", "soon"),
        ({"time": "9 ms"}, "f.time", "is less than 10 ms"),
        ({"memory": "15 MB"}, "f.memory", "is less than 16 MB"),
        ({"memory": "much"}, "f.memory", "much"),
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_functions(FunctionsConfig(**settings), "f")
    assert caught.value.where == where
    assert message in caught.value.message


@pytest.mark.parametrize("settings", [{}, SIGNED, {"time": "10 ms", "memory": "16 MB"}])
def test_settings_that_can_be_are_taken(settings: dict[str, Any]) -> None:
    check_functions(FunctionsConfig(**settings), "f")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [({}, False), (SIGNED, True), ({**SIGNED, "dangerously_without_sandbox": True}, False)],
)
def test_a_host_that_cannot_hold_functions_in_is_refused(
    settings: dict[str, Any], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "absent", lambda: "no Landlock")
    if not refused:
        check_host(FunctionsConfig(**settings), "f")
        return
    with pytest.raises(ConfigError, match="would be unavailable on this host: no Landlock") as caught:
        check_host(FunctionsConfig(**settings), "f")
    assert "dangerously_without_sandbox" in caught.value.hint
