"""What agent.toml says of who may use what: checks with their places."""

from __future__ import annotations

import tomllib

import pytest

from elfmesh.agent.settings.config import config_of
from elfmesh.control.jobs import signing
from elfmesh.errors import ConfigError
from elfmesh.ingest.authority.settings import NamespaceConfig, sink_may_carry
from tests.ingest.authority.signed import (
    PUBLIC,
)


def test_results_go_only_to_sinks_that_the_namespace_is_granted() -> None:
    namespaces = {"shop": NamespaceConfig(sinks=("hook",)), "*": NamespaceConfig(sinks=())}
    assert sink_may_carry(namespaces, "hook", "shop/top")
    assert not sink_may_carry(namespaces, "other", "shop/top")
    assert not sink_may_carry(namespaces, "hook", "bank/top")
    assert sink_may_carry({}, "other", "bank/top")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[manifests]\nrequire = 'signed'", "manifests.signatures: 1 of 0 keys must sign"),
        (
            "[manifests]\nrequire = 'signed'\nkeys = ['ed25519:x']",
            "manifests.keys: 'ed25519:x' is not a public key",
        ),
        (
            "[namespaces.shop]\nkeys = ['{key}']",
            "namespaces.shop.keys: keys are given, but no manifest needs a signature",
        ),
        ("[namespaces.shop]\nstream = ['a']", "namespaces.shop: unknown key 'stream'"),
        ("[namespaces.shop]\njobs = 0", "namespaces.shop.jobs: "),
        ("[namespaces.shop]\ndeny_columns = ['*']", "namespaces.shop.deny_columns: '*' is a pattern"),
        ("[fields]\nhide = ['a']", "fields: unknown key 'hide'"),
        ("[audit]\nfile_max = '1 kB'", "audit.file_max: is less than 100 kB"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused_with_their_place(text: str, where: str) -> None:
    raw = tomllib.loads(text.format(key=signing.show_key(PUBLIC[0])))
    with pytest.raises(ConfigError) as caught:
        config_of(raw, "agent.toml")
    assert f"agent.toml: {where}" in str(caught.value)
