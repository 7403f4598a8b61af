"""Tokens with which a host joins, and the signing requests that they allow."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.joining import PREFIX, NotAdmitted, Token, admit, make_token, parse_token
from elfmesh.api.identity.key_files import new_key
from elfmesh.api.identity.names import bearer
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import facts_of
from elfmesh.errors import ConfigError

NOW = 1_800_000_000.0


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def token(ca: Authority, host: str, at: str, **options: float) -> Token:
    import time

    return make_token(ca, host, at, now_s=time.time(), **options)  # type: ignore[arg-type]  # ttl_s only


@pytest.mark.parametrize("csr", [b"", b"nothing", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"])
def test_a_signing_request_that_is_none_is_refused(ca: Authority, csr: bytes) -> None:
    joining = make_token(ca, "web1", "127.0.0.1:1", now_s=NOW)
    with pytest.raises(NotAdmitted, match="cannot be read"):
        admit(ca, joining.number, joining.secret, csr, now_s=NOW)


@pytest.mark.parametrize(
    "text", ["", "elfjoin1.", "elfjoin1.!!!!", "hello", PREFIX + "e30", PREFIX + "x" * 4000, "\x00"]
)
def test_a_text_that_is_no_join_token_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a join token"):
        parse_token(text)


def test_a_token_survives_its_encoding_as_one_word(ca: Authority) -> None:
    joining = make_token(ca, "web1", "[::1]:7402", now_s=NOW)
    word = joining.encode()
    assert parse_token(f"  {word}\n") == joining
    assert json.dumps(word) == f'"{word}"', "nothing to quote"
    record = (ca.directory / "tokens" / f"{joining.number}.json").read_bytes()
    assert joining.secret not in record
    assert base64.b64encode(joining.secret) not in record


def certified(ca: Authority, joining: Token, place: Path) -> bytes:
    """What the CA answers to the key in `place`."""
    place.mkdir(exist_ok=True)
    path = place / "key.pem"
    key = new_key(path) if not path.exists() else load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, joining.host)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return admit(ca, joining.number, joining.secret, csr.public_bytes(Encoding.PEM), now_s=NOW)


def test_a_token_does_not_bring_back_what_was_revoked(ca: Authority, tmp_path: Path) -> None:
    """Who has a host's key and its token could have it certified again until the token expires."""
    joining = make_token(ca, "web1", "127.0.0.1:1", now_s=NOW, ttl_s=1e6)
    pem = certified(ca, joining, tmp_path / "host")
    assert certified(ca, joining, tmp_path / "host") == pem, "the answer was lost: the same again"
    assert len(ca.issued()) == 1
    ca.revoke(pem)
    with pytest.raises(NotAdmitted, match="revoked"):
        certified(ca, joining, tmp_path / "host")


def test_what_a_signing_request_asks_for_beside_its_key_counts_for_nothing(ca: Authority) -> None:
    joining = make_token(ca, "web1", "127.0.0.1:1", now_s=NOW, dns=("web1.example.org",))
    key = generate_private_key(SECP256R1())
    wishes = x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier("elf://shop/operator/web1"),
            x509.UniformResourceIdentifier(f"elf://shop/agent/web1/{'00' * 20}"),
            x509.DNSName("bank.example.org"),
        ]
    )
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "web1")]))
        .add_extension(wishes, critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = admit(ca, joining.number, joining.secret, csr.public_bytes(Encoding.PEM), now_s=NOW)
    parsed = x509.load_pem_x509_certificate(pem)
    names = facts_of(parsed.public_bytes(Encoding.DER)).names
    who = bearer(names, "shop")
    assert who.roles == {Role.AGENT}
    assert who.agent != bytes(20)
    assert "dns:bank.example.org" not in names
    assert not parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
