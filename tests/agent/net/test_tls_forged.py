"""Certificates made by hand, shown to the overlay and to the API of a real agent."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.principal import Role
from tests.agent.net.test_api_server import config, serving
from tests.agent.net.test_tls import Peer, agent
from tests.agent.transports import fleet, until
from tests.api.identity.certs import issued

Key = ec.EllipticCurvePrivateKey
URIS = ("elf://shop/operator/eve", f"elf://shop/agent/eve/{'ab' * 20}")
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def made(
    issuer: x509.Name,
    by: Key,
    of: Key,
    *,
    subject: str = "eve",
    begins: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + DAY,
    usages: tuple[ObjectIdentifier, ...] = BOTH,
    is_ca: bool = False,
    identifier: x509.AuthorityKeyIdentifier | None = None,
) -> bytes:
    """A certificate, PEM, that says it is for an operator and an agent of the cluster."""
    build = x509.CertificateBuilder().issuer_name(issuer).public_key(of.public_key())
    build = build.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
    build = build.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in URIS])
    reported: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=is_ca, path_length=None), True),
        (x509.ExtendedKeyUsage(usages), False),
        (names, False),
        (x509.SubjectKeyIdentifier.from_public_key(of.public_key()), False),
        (identifier or x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False),
        (x509.KeyUsage(not is_ca, False, False, False, False, is_ca, is_ca, False, False), True),
    ]
    for extension, critical in reported:
        build = build.add_extension(extension, critical=critical)
    return build.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def key_of(path: Path) -> Key:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, Key)
    return key


def of_this_ca(ca: Authority, key: Key, **reported: object) -> bytes:
    return made(ca.certificate.subject, key_of(ca.directory / "ca.key"), key, **reported)  # type: ignore[arg-type]  # passed on


def not_yet_valid(ca: Authority, key: Key) -> bytes:
    return of_this_ca(ca, key, begins=NOW + DAY, ends=NOW + 2 * DAY)


def expired(ca: Authority, key: Key) -> bytes:
    return of_this_ca(ca, key, begins=NOW - 2 * DAY, ends=NOW - DAY)


def for_code_only(ca: Authority, key: Key) -> bytes:
    return of_this_ca(ca, key, usages=(ExtendedKeyUsageOID.CODE_SIGNING,))


def for_servers_only(ca: Authority, key: Key) -> bytes:
    return of_this_ca(ca, key, usages=(ExtendedKeyUsageOID.SERVER_AUTH,))


def of_a_ca_that_is_called_the_same(ca: Authority, key: Key) -> bytes:
    other = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(
        key_of(ca.directory / "ca.key").public_key()
    )
    return made(ca.certificate.subject, other, key, identifier=identifier)


def by_itself(ca: Authority, key: Key) -> bytes:
    return made(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "eve")]), key, key)


def by_an_agent(ca: Authority, key: Key) -> bytes:
    """Signed by the key of an agent's own certificate, which is sent behind it."""
    files = issued(ca, "web9", Role.AGENT)
    pem = Path(files.cert).read_bytes()
    subject = x509.load_pem_x509_certificate(pem).subject
    return made(subject, key_of(Path(files.key)), key) + pem


def by_an_intermediate_that_may_not_be(ca: Authority, key: Key) -> bytes:
    """The root says that there is no CA below it."""
    between = ec.generate_private_key(ec.SECP256R1())
    pem = of_this_ca(ca, between, subject="between", is_ca=True)
    return made(x509.load_pem_x509_certificate(pem).subject, between, key) + pem


FORGED = [
    not_yet_valid,
    expired,
    for_code_only,
    for_servers_only,
    of_a_ca_that_is_called_the_same,
    by_itself,
    by_an_agent,
    by_an_intermediate_that_may_not_be,
]


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def shown(ca: Authority, place: Path, forge: Callable[[Authority, Key], bytes]) -> ssl.SSLContext:
    """What a client shows who believes whatever answers."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (place / "eve.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (place / "eve.pem").write_bytes(forge(ca, key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(place / "eve.pem", place / "eve.key")
    return context


async def asked(host: str, port: int, context: ssl.SSLContext) -> bytes:
    """What comes back; in TLS 1.3 the connection is there before the certificate was judged."""
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(b"GET /v1/agents HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        reported = await reader.read()
        writer.close()
    except (ssl.SSLError, ConnectionError):
        return b""
    return reported


async def test_what_is_forged_here_would_be_believed_of_the_right_ca(ca: Authority, tmp_path: Path) -> None:
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        host, _, port = server.address.partition(":")
        assert b" 200 " in await asked(host, int(port), shown(ca, tmp_path, of_this_ca))
        assert backend.asked == ["agents"]


@pytest.mark.parametrize("forge", FORGED)
async def test_the_api_believes_none_of_them(
    ca: Authority, tmp_path: Path, forge: Callable[[Authority, Key], bytes]
) -> None:
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        host, _, port = server.address.partition(":")
        assert b"HTTP" not in await asked(host, int(port), shown(ca, tmp_path, forge))
        assert backend.asked == []


@pytest.mark.parametrize("forge", FORGED)
async def test_the_overlay_believes_none_of_them(
    ca: Authority, tmp_path: Path, forge: Callable[[Authority, Key], bytes]
) -> None:
    peer: Peer = agent(ca, "b")
    async with fleet(peer):
        await asked(peer.contact.host, peer.contact.port, shown(ca, tmp_path, forge))
        await until(lambda: peer.count("refused_tls") == 1)
        assert peer.count("connections") == 0
