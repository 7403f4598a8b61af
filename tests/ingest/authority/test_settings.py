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


@pytest.mark.parametrize(
    ("placement", "where"),
    [
        ("keep_in = ['zone=a']", "placement.keep_in: 'zone=a' is not a label of a failure domain"),
        ("keep_in = ['region']", "placement.keep_in: 'region' is not a label of a failure domain"),
        ("keep_in = ['region=us']\nresults = 'any'", "placement.keep_in: excludes this agent itself"),
        ("keep_in = ['region=eu']", "placement.results: is required with keep_in"),
        ("keep = []", "placement: unknown key 'keep'"),
    ],
)
def test_a_rule_about_places_that_cannot_be_meant_is_refused(placement: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tomllib.loads(f"labels.region = 'eu'\n[placement]\n{placement}"), "agent.toml")
    assert f"agent.toml: {where}" in str(caught.value)


def test_a_rule_about_places_is_one_clause() -> None:
    text = "labels.rack = 'r1'\n[placement]\nkeep_in = ['region=eu', 'rack=r1']\nresults = 'any'"
    assert config_of(tomllib.loads(text), "agent.toml").placement.rule == (("rack=r1", "region=eu"),)
    assert config_of({}, "agent.toml").placement.rule == ()
