"""Whose certificates are believed: files that are read again, and deny lists that never pardon."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.principal import NotBelieved, Role
from elfmesh.api.identity.trust import Files, Trust, facts_of, read_certificate, read_denied
from elfmesh.errors import ConfigError
from tests.api.identity.certs import issued


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def test_what_is_no_agents_certificate_starts_no_agent(ca: Authority) -> None:
    with pytest.raises(ConfigError, match="not the certificate of an agent"):
        Trust(issued(ca, "ann", Role.OPERATOR), "shop")
    with pytest.raises(ConfigError, match="has no name in cluster 'bank'"):
        Trust(issued(ca, "a", Role.AGENT), "bank")
    with pytest.raises(ConfigError, match="expired"):
        Trust(issued(ca, "old", Role.AGENT, days=-1), "shop")


def test_a_key_of_another_certificate_is_refused(ca: Authority) -> None:
    a, b = issued(ca, "a", Role.AGENT), issued(ca, "b", Role.AGENT)
    shutil.copy(a.key, b.key)
    with pytest.raises(ConfigError, match="no certificate with the key"):
        Trust(b, "shop")


@pytest.mark.parametrize("text", ["zz", "12 34", "serial: 12", "0x", "'"])
def test_a_deny_list_that_cannot_be_read_is_an_error_and_no_pardon(tmp_path: Path, text: str) -> None:
    (tmp_path / "deny").write_text(f"# ok\nab:cd\n{text}\n")
    if text == "0x":
        assert read_denied(str(tmp_path / "deny")) == {"abcd"}
        return
    with pytest.raises(ConfigError, match=r"deny:3"):
        read_denied(str(tmp_path / "deny"))


def test_a_deny_list_that_disappears_stays_in_force(ca: Authority) -> None:
    files = issued(ca, "a", Role.AGENT)
    enemy = facts_of(read_certificate(issued(ca, "b", Role.AGENT).cert))
    Path(files.deny).write_text(enemy.fingerprint)
    trust = Trust(files, "shop")
    Path(files.deny).unlink()
    assert not trust.reload()
    assert "deny" in trust.problem
    der = read_certificate(str(ca.directory / "for" / "b" / "cert.pem"))
    with pytest.raises(NotBelieved, match="revoked"):
        trust.judge(der)


def test_a_deny_list_may_come_later_and_then_stays(ca: Authority) -> None:
    files = replace(issued(ca, "a", Role.AGENT), deny_may_come=True)
    der = read_certificate(issued(ca, "b", Role.AGENT).cert)
    Path(files.deny).unlink()
    trust = Trust(files, "shop")
    assert trust.judge(der).name == "b"
    Path(files.deny).write_text(facts_of(der).serial)
    assert trust.reload()
    with pytest.raises(NotBelieved, match="revoked"):
        trust.judge(der)
    Path(files.deny).unlink()
    assert not trust.reload()
    with pytest.raises(NotBelieved, match="revoked"):
        trust.judge(der)


def test_files_that_are_no_certificates_are_named(tmp_path: Path, ca: Authority) -> None:
    files = issued(ca, "a", Role.AGENT)
    Path(files.ca).write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        Trust(files, "shop")
    with pytest.raises(ConfigError, match="cannot be read"):
        Trust(Files(files.cert, files.key, str(tmp_path / "gone")), "shop")


def test_a_revocation_counts_though_the_other_new_files_are_no_good(ca: Authority) -> None:
    files = issued(ca, "a", Role.AGENT)
    eve = read_certificate(issued(ca, "eve", Role.AGENT).cert)
    trust = Trust(files, "shop")
    Path(files.cert).write_text("half a certif")
    Path(files.deny).write_text(facts_of(eve).serial)
    assert not trust.reload()
    with pytest.raises(NotBelieved, match="revoked"):
        trust.judge(eve)
