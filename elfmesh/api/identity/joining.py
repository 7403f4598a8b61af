"""Join tokens, with each of which one host gets a certificate for a key that it creates itself.

The module owns the content and the state of tokens, and the decision to sign; `enrolment` contains the
listener and the client. A token contains a host name, the CA's fingerprint, the listener's address and a
secret. The CA keeps the hash of the secret and the agent id that it has chosen.

Invariants: the CA reads what a token permits from its own record, never from the token. Before the CA signs a
key, it records on disk that the token is used for this key. A repeated request with the same key (because the
answer was lost) gets the same certificate, unless that is revoked. A token thus leads to one certificate,
however long it is valid.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from elfmesh.api.identity.bearer import write_private
from elfmesh.api.identity.ca import CERT_DAYS, Authority
from elfmesh.api.identity.key_files import key_digest
from elfmesh.api.identity.names import TOKEN_PREFIX, check_name
from elfmesh.api.identity.principal import Role
from elfmesh.errors import ConfigError, RemoteError
from elfmesh.ids import ID_BYTES

PREFIX = TOKEN_PREFIX
TOKEN_CHARACTERS_MAX = 2048
CSR_BYTES_MAX = 16 << 10
TTL_S = 3600.0
_NUMBER = re.compile(r"[0-9a-f]{32}")


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a token.

    Attributes:
        number: number of the CA's record.
        secret: 32 random bytes.
        host: name that is certified.
        cluster: cluster of the CA.
        ca: SHA-256 of the CA's certificate in hexadecimal.
        at: "HOST:PORT" of the CA's listener.
    """

    number: str
    secret: bytes
    host: str
    cluster: str
    ca: str
    at: str

    def encode(self) -> str:
        return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


class _Record(msgspec.Struct, frozen=True):
    """The CA's record of a token."""

    secret_sha256: str
    host: str
    agent: str
    expires: float
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


class NotAdmitted(RemoteError):
    """Raised for an invalid token. The message contains only what the sender knows."""


def parse_token(text: str) -> Token:
    """Parse a token. Raises ConfigError if the text is not a token."""
    word = text.strip()
    try:
        if not word.startswith(PREFIX) or len(word) > TOKEN_CHARACTERS_MAX:
            raise ValueError("a token begins with " + PREFIX)
        data = word.removeprefix(PREFIX)
        token = msgspec.json.decode(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)), type=Token)
        check_name(token.host, "host")
    except (ValueError, msgspec.MsgspecError, ConfigError) as error:
        raise ConfigError(f"this is not a join token: {error}", hint="`elf ca token` makes one.") from None
    return token


def make_token(
    authority: Authority,
    host: str,
    at: str,
    *,
    now_s: float,
    ttl_s: float = TTL_S,
    dns: tuple[str, ...] = (),
    ips: tuple[str, ...] = (),
) -> Token:
    """Create a token for a host, durably. Raises ConfigError if the name of the host is invalid."""
    authority.wanted(host, [(Role.AGENT, "")], dns=dns, ips=ips)
    secret, number = secrets.token_bytes(32), secrets.token_hex(16)
    record = _Record(
        secret_sha256=hashlib.sha256(secret).hexdigest(),
        host=host,
        agent=secrets.token_hex(ID_BYTES),
        expires=now_s + ttl_s,
        dns=dns,
        ips=ips,
    )
    place = _place(authority)
    place.mkdir(mode=0o700, exist_ok=True)
    write_private(place / f"{number}.json", msgspec.json.encode(record))
    return Token(number, secret, host, authority.cluster, authority.fingerprint, at)


def admit(
    authority: Authority,
    number: str,
    secret: bytes,
    request: bytes,
    *,
    now_s: float,
    days: float = CERT_DAYS,
) -> bytes:
    """Return the certificate (PEM) for a token and a signing request.

    Args:
        authority: the CA.
        number: number of the token.
        secret: secret of the token.
        request: certificate signing request, PEM, whose common name is the token's host.
        now_s: seconds since the epoch.
        days: validity of the certificate.

    Raises:
        NotAdmitted: the token is unknown, expired, for another host, or already used for another key, or the
            certificate for which it was used is revoked.
    """
    record = _record(authority, number, secret)
    if now_s >= record.expires:
        raise NotAdmitted("the token has expired")
    public = _requested(request, record.host)
    key = key_digest(public)
    if _spend(_place(authority) / f"{number}.spent", key) != key:
        raise NotAdmitted("the token was already used for another key")
    made = _place(authority) / f"{number}.pem"
    if made.exists():
        pem = made.read_bytes()
        if authority.is_denied(x509.load_pem_x509_certificate(pem)):
            raise NotAdmitted("the token was already used, and its certificate is revoked")
        return pem
    wanted = authority.wanted(
        record.host, [(Role.AGENT, "")], dns=record.dns, ips=record.ips, agent=bytes.fromhex(record.agent)
    )
    pem = authority.sign(wanted, public, days)
    write_private(made, pem)
    return pem


def _record(authority: Authority, number: str, secret: bytes) -> _Record:
    unknown = NotAdmitted("the token is not of this CA")
    if not _NUMBER.fullmatch(number):
        raise unknown
    try:
        record = msgspec.json.decode((_place(authority) / f"{number}.json").read_bytes(), type=_Record)
    except (OSError, msgspec.MsgspecError):
        raise unknown from None
    if not hmac.compare_digest(hashlib.sha256(secret).hexdigest(), record.secret_sha256):
        raise unknown
    return record


def _requested(request: bytes, host: str) -> ec.EllipticCurvePublicKey:
    try:
        parsed = x509.load_pem_x509_csr(request[:CSR_BYTES_MAX])
        good = parsed.is_signature_valid
        public = parsed.public_key()
        names = [name.value for name in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except (ValueError, TypeError) as error:
        raise NotAdmitted(f"the signing request cannot be read: {error}") from None
    if not good or not isinstance(public, ec.EllipticCurvePublicKey):
        raise NotAdmitted("the signing request is not signed by an elliptic key")
    if names != [host]:
        raise NotAdmitted("the token is for another host")
    return public


def _spend(path: Path, key: str) -> str:
    """Record for which key a token is used, unless this is recorded already. Returns the recorded key."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(number, "w") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return key


def _place(authority: Authority) -> Path:
    return authority.directory / "tokens"
