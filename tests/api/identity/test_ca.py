"""`elf ca`: what certificates say, who can read keys, what stays when they are renewed."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.key_files import new_key
from elfmesh.api.identity.principal import NotBelieved, Role
from elfmesh.api.identity.trust import Files, Trust, facts_of, read_certificate, read_denied
from elfmesh.cli.entry import run
from elfmesh.errors import ConfigError, RuntimeFailure
from tests.api.identity.certs import issued


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def test_a_ca_and_what_it_issues_are_files_with_the_right_modes(tmp_path: Path) -> None:
    place = tmp_path / "pki"
    assert run(["ca", "init", str(place), "--cluster", "shop"]) == 0
    assert run(["ca", "issue", str(place), "web1", "--role", "agent", "--dns", "web1.example.org"]) == 0
    assert (place / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (place / "issued" / "web1" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert place.stat().st_mode & 0o777 == 0o700
    names = facts_of(read_certificate(str(place / "issued" / "web1" / "cert.pem"))).names
    assert names[0].startswith("elf://shop/agent/web1/")
    assert {"dns:web1.example.org", "dns:web1", "dns:localhost"} <= set(names)


def test_nothing_is_made_over_what_is_there(tmp_path: Path, ca: Authority) -> None:
    before = (ca.directory / "ca.key").read_bytes()
    with pytest.raises(RuntimeFailure, match="already"):
        create(ca.directory, "shop")
    assert (ca.directory / "ca.key").read_bytes() == before
    assert run(["ca", "issue", str(ca.directory), "web1", "--role", "agent"]) == 0
    key = (ca.directory / "issued" / "web1" / "key.pem").read_bytes()
    assert run(["ca", "issue", str(ca.directory), "web1", "--role", "agent"]) == 1
    assert (ca.directory / "issued" / "web1" / "key.pem").read_bytes() == key


def test_an_issue_that_was_ended_before_its_certificate_is_finished_by_the_next(ca: Authority) -> None:
    place = ca.directory / "issued" / "web1"
    place.mkdir(parents=True, mode=0o700)
    new_key(place / "key.pem")
    key = (place / "key.pem").read_bytes()
    assert run(["ca", "issue", str(ca.directory), "web1", "--role", "agent"]) == 0
    assert (place / "key.pem").read_bytes() == key
    assert sorted(path.name for path in place.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    Files(str(place / "cert.pem"), str(place / "key.pem"), str(place / "ca.pem"))
    assert run(["ca", "issue", str(ca.directory), "web1", "--role", "agent"]) == 1


def test_renewal_keeps_id_key_and_roles_and_changes_the_serial(ca: Authority) -> None:
    place = str(ca.directory)
    assert run(["ca", "issue", place, "web1", "--role", "agent", "--role", "reader"]) == 0
    cert = ca.directory / "issued" / "web1" / "cert.pem"
    before = facts_of(read_certificate(str(cert)))
    assert run(["ca", "renew", place, "web1", "--days", "200"]) == 0
    after = facts_of(read_certificate(str(cert)))
    assert after.names == before.names
    assert after.serial != before.serial
    assert after.not_after > before.not_after
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, cert.with_name("key.pem"))


def test_a_ca_renews_nothing_of_another_one_and_nothing_revoked(
    ca: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = create(tmp_path / "other", "shop")
    foreign = issued(other, "a", Role.AGENT)
    assert run(["ca", "renew", str(ca.directory), foreign.cert]) == 65
    assert run(["ca", "issue", str(ca.directory), "b", "--role", "agent"]) == 0
    assert run(["ca", "revoke", str(ca.directory), "b"]) == 0
    assert run(["ca", "renew", str(ca.directory), "b"]) == 65
    assert "revoked" in capsys.readouterr().err
    assert len(read_denied(str(ca.directory / "deny"))) == 1
    assert run(["ca", "list", str(ca.directory), "-o", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [row["revoked"] for row in rows] == [True]


def test_ids_are_the_cas_choice_and_differ(ca: Authority) -> None:
    ids = {Trust(issued(ca, f"a{number}", Role.AGENT), "shop").me.agent for number in range(5)}
    assert len(ids) == 5
    chosen = Trust(issued(ca, "b", Role.AGENT, agent=b"\x07" * 20), "shop")
    assert chosen.me.agent == b"\x07" * 20


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "-a", "x" * 64, "a\nb", "\u00e9"])
def test_names_that_could_be_something_else_are_not_certified(ca: Authority, name: str) -> None:
    with pytest.raises(ConfigError):
        ca.wanted(name, [(Role.AGENT, "")])
    with pytest.raises(ConfigError):
        ca.wanted("ann", [(Role.SUBMITTER, name)])


def test_a_revoked_key_is_no_good_by_an_earlier_certificate_of_it(ca: Authority) -> None:
    """Renewal keeps the key: what was copied with it before a renewal must not outlive the revocation."""
    place = str(ca.directory)
    assert run(["ca", "issue", place, "eve", "--role", "operator"]) == 0
    cert = ca.directory / "issued" / "eve" / "cert.pem"
    earlier = read_certificate(str(cert))
    assert run(["ca", "renew", place, "eve"]) == 0
    renewed = read_certificate(str(cert))
    assert run(["ca", "revoke", place, "eve"]) == 0
    files = issued(ca, "a", Role.AGENT)
    shutil.copy(ca.directory / "deny", files.deny)
    trust = Trust(files, "shop")
    for certificate in (earlier, renewed):
        with pytest.raises(NotBelieved, match="revoked"):
            trust.judge(certificate)
    assert trust.judge(read_certificate(files.cert)).name == "a", "others of the CA stay good"


@pytest.mark.parametrize("spelled", [str.upper, lambda text: "00" + text, lambda text: f"0x{text}  # eve"])
def test_a_line_that_agents_obey_the_ca_obeys(ca: Authority, spelled: Callable[[str], str]) -> None:
    assert run(["ca", "issue", str(ca.directory), "eve", "--role", "operator"]) == 0
    cert = ca.directory / "issued" / "eve" / "cert.pem"
    (ca.directory / "deny").write_text(spelled(facts_of(read_certificate(str(cert))).serial))
    assert run(["ca", "renew", str(ca.directory), "eve"]) == 65


def test_a_fingerprint_is_as_good_as_a_serial_to_the_ca(ca: Authority) -> None:
    assert run(["ca", "issue", str(ca.directory), "eve", "--role", "operator"]) == 0
    cert = ca.directory / "issued" / "eve" / "cert.pem"
    (ca.directory / "deny").write_text(facts_of(read_certificate(str(cert))).fingerprint)
    assert run(["ca", "renew", str(ca.directory), "eve"]) == 65
