"""What the names in a certificate mean: our own, and those of other CAs."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from elfmesh.api.identity.names import Nameless, bearer, parse_patterns
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import facts_of
from elfmesh.errors import ConfigError
from elfmesh.ids import named_agent_id

ID = "ab" * 20


def test_roles_add_up_and_the_agents_id_is_the_written_one() -> None:
    who = bearer([f"elf://shop/agent/web1/{ID}", "elf://shop/submitter/a", "elf://shop/submitter/b"], "shop")
    assert who.name == "web1"
    assert who.agent.hex() == ID
    assert who.roles == {Role.AGENT, Role.SUBMITTER}
    assert who.namespaces == {"a", "b"}
    assert who.principal().source == "certificate"
    assert bearer(["elf://shop/submitter/*"], "shop").principal().may_submit("any")


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["elf://bank/operator/ann"],
        ["elf://shop.evil/operator/ann"],
        ["elf://shop"],
        ["elf://shop/boss/ann"],
        ["elf://shop/operator/*"],
        ["elf://shop/operator/"],
        ["elf://shop/operator/a/b"],
        ["elf://shop/ca"],
        ["https://shop/operator/ann"],
        ["dns:shop"],
        ["elf://SHOP/operator/ann"],
        ["elf://shop/operator/ann\n"],
    ],
)
def test_a_certificate_with_other_names_identifies_no_caller(names: list[str]) -> None:
    with pytest.raises(Nameless):
        bearer(names, "shop")


@pytest.mark.parametrize(
    "uri", ["elf://shop/agent/a", "elf://shop/agent/a/ab", f"elf://shop/agent/a/{'AB' * 20}", f"elf://shop/agent//{ID}"]
)  # fmt: skip
def test_a_certificate_of_an_agent_without_a_full_id_identifies_no_caller(uri: str) -> None:
    with pytest.raises(Nameless):
        bearer([uri], "shop")


def test_a_certificate_for_two_agents_is_for_none() -> None:
    with pytest.raises(Nameless, match="two agents"):
        bearer([f"elf://shop/agent/a/{ID}", f"elf://shop/agent/b/{'cd' * 20}"], "shop")


def test_spiffe_ids_become_roles_by_the_configuration() -> None:
    patterns = parse_patterns(
        {
            "spiffe://example.org/elf/agent/{name}": "agent",
            "spiffe://example.org/ns/{namespace}/sa/{name}": "submitter",
            "dns:{name}.web.example.org": "agent",
        }
    )
    uri = "spiffe://example.org/elf/agent/web1"
    who = bearer([uri], "shop", patterns)
    assert (who.name, who.agent) == ("web1", named_agent_id("shop", uri))
    assert bearer([uri], "bank", patterns).agent != who.agent
    person = bearer(["spiffe://example.org/ns/shop/sa/ann"], "shop", patterns)
    assert person.name == "ann"
    assert person.namespaces == {"shop"}
    assert bearer(["dns:w7.web.example.org"], "shop", patterns).roles == {Role.AGENT}


@pytest.mark.parametrize(
    "name",
    [
        "spiffe://example.org/elf/agent/",
        "spiffe://example.org/elf/agent/a/b",
        "spiffe://example.org.evil/elf/agent/a",
        "spiffe://exampleXorg/elf/agent/a",
        f"elf://shop/operator/{ID}",
        "dns:a.example.org.evil",
        "spiffe://example.org/elf/agent/*",
    ],
)
def test_where_there_are_patterns_nothing_else_counts(name: str) -> None:
    patterns = parse_patterns({"spiffe://example.org/elf/agent/{name}": "agent"})
    with pytest.raises(Nameless):
        bearer([name], "shop", patterns)


@pytest.mark.parametrize(
    ("pattern", "role"),
    [
        ("spiffe://example.org/agent", "agent"),
        ("spiffe://example.org/{name}", "submitter"),
        ("spiffe://example.org/{name}", "boss"),
        ("spiffe://example.org/{host}", "agent"),
        ("spiffe://{name}/{name}", "reader"),
    ],
)
def test_patterns_that_would_make_all_the_same_are_refused(pattern: str, role: str) -> None:
    with pytest.raises(ConfigError, match=r"tls\.names"):
        parse_patterns({pattern: role})


@pytest.mark.parametrize("name", ["dns:*.teams.example.org", "spiffe://example.org/team/*"])
def test_a_wildcard_certificate_is_not_of_every_namespace(name: str) -> None:
    patterns = parse_patterns(
        {
            "dns:{namespace}.teams.example.org": "submitter",
            "spiffe://example.org/team/{namespace}": "submitter",
        }
    )
    with pytest.raises(Nameless):
        bearer([name], "shop", patterns)


@pytest.mark.parametrize(
    "name",
    [
        "dns:a.b.teams.example.org",
        "dns:shop.teams.example.org.",
        "dns:sh\u043ep.teams.example.org",
        "spiffe://example.org/team/a%2Fb",
        "spiffe://example.org/team/shop/",
        "spiffe://example.org/team/shop?x",
        "spiffe://example.org/team/shop\n",
        "spiffe://example.org//team/shop",
    ],
)
def test_a_placeholder_is_one_plain_part_of_a_name(name: str) -> None:
    patterns = parse_patterns(
        {
            "dns:{namespace}.teams.example.org": "submitter",
            "spiffe://example.org/team/{namespace}": "submitter",
        }
    )
    with pytest.raises(Nameless):
        bearer([name], "shop", patterns)


def certificate_of(*names: x509.GeneralName) -> bytes:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize("uri", ["dns:w7.web.example.org", "DNS:w7.web.example.org"])
def test_a_uri_that_is_spelled_as_a_dns_name_is_none(uri: str) -> None:
    """A CA that checks who owns a host's name may let its clients choose their URIs."""
    assert facts_of(certificate_of(x509.UniformResourceIdentifier(uri))).names == ()


def test_a_host_has_one_id_however_its_name_is_written() -> None:
    spelled = ("W7.web.Example.org", "w7.WEB.example.org")
    assert {facts_of(certificate_of(x509.DNSName(name))).names for name in spelled} == {
        ("dns:w7.web.example.org",)
    }
