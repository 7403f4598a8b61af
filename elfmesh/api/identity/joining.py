"""Join tokens: a host makes its own key and gets a certificate for it, once.

Owns the token (what it says, who made it, whether it is spent) and the decision to sign; the listener and
the client that carry it are in `enrolment`. A token names a host, the CA's fingerprint and the listener's
address, and holds a secret; the CA keeps the secret's hash, and the agent's id that it has chosen.

Invariants: what a token is for is read from the CA's own record, never from the token; it is spent on disk,
for one key, before that key is signed. Who asks again with the same key (the answer was lost) gets the same
certificate again, unless it is revoked: a token makes one, however long it is good.
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
from elfmesh.api.identity.ca import CERT_DAYS, Authority, key_digest
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
    """What a token says to who holds it.

    Attributes:
        number: of the CA's record.
        secret: 32 random bytes.
        host: the name that is certified.
        cluster: of the CA.
        ca: SHA-256 of the CA's certificate, hexadecimal.
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
    """What the CA keeps of a token."""

    secret_sha256: str
    host: str
    agent: str
    expires: float
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


class NotAdmitted(RemoteError):
    """A token is not good; the message says why, and nothing that its bearer does not know."""


def parse_token(text: str) -> Token:
    """Read a token.

    Raises:
        ConfigError: it is none.
    """
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
    """A token for a host, on disk before this returns.

    Raises:
        ConfigError: no name for a host.
    """
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
    """The certificate (PEM) for a token and a signing request.

    Args:
        authority: the CA.
        number: the token's.
        secret: the token's.
        request: a certificate signing request, PEM, whose common name is the token's host.
        now_s: seconds since the epoch.
        days: how long the certificate is good.

    Raises:
        NotAdmitted: the token is unknown, expired, of another host, or spent for another key, or what it was
            spent for is revoked.
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
    """Write down, once and for all, for which key a token was spent; the key that is written there."""
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
