"""A certificate authority in a directory: one root, certificates for agents and users, a deny list.

The module owns the directory: `ca.key` (mode 0600), `ca.pem`, `issued/NAME/` with the newest certificate of a
name, `issued.jsonl` with all issued certificates, `deny` with the revoked ones, `tokens/` (`joining`). Keys
are elliptic curve keys (P-256), which cost the hosts little processor time.

Invariants: the root and every certificate contain the cluster. An agent keeps its id on renewal, and only the
CA chooses the id.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from elfmesh.api.identity.bearer import read_private, write_private
from elfmesh.api.identity.key_files import key_digest, new_key, write_public
from elfmesh.api.identity.names import SCHEME, Nameless, agent_uri, bearer, check_name, role_uri
from elfmesh.api.identity.principal import EVERY_NAMESPACE, Role
from elfmesh.api.identity.trust import facts_of, read_denied
from elfmesh.errors import ConfigError, DataError
from elfmesh.ids import ID_BYTES

CA_DAYS, CERT_DAYS = 3650, 90
CLOCKS_APART = datetime.timedelta(minutes=5)
"""A certificate is valid from this long before its creation, because clocks differ."""

PublicKey = ec.EllipticCurvePublicKey
LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """Content of a certificate to be issued.

    Attributes:
        name: name of an agent or a person.
        uris: URIs of `names`, one for each role.
        dns: host names of an agent's API.
        ips: addresses of an agent's API.
        server: whether the holder accepts connections.
    """

    name: str
    uris: tuple[str, ...]
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    server: bool = False


class Authority:
    """The certificate authority in a directory; `create` creates one.

    Raises:
        ConfigError: the directory contains no CA, or its files cannot be used.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        key = read_private(self.directory / "ca.key", what="the CA's key")
        try:
            self.certificate = x509.load_pem_x509_certificate((self.directory / "ca.pem").read_bytes())
            private = serialization.load_pem_private_key(key, password=None)
        except OSError as error:
            raise ConfigError(str(error.strerror), where=str(self.directory / "ca.pem")) from None
        except (ValueError, TypeError) as error:
            raise ConfigError(f"contains no CA: {error}", where=str(directory)) from None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ConfigError("is not an elliptic curve key", where=str(self.directory / "ca.key"))
        self._key = private
        names = facts_of(self.certificate.public_bytes(serialization.Encoding.DER)).names
        own = [name for name in names if name.startswith(SCHEME) and name.endswith("/ca")]
        if len(own) != 1:
            raise ConfigError("does not name a cluster", where=str(self.directory / "ca.pem"))
        self.cluster = own[0].removeprefix(SCHEME).removesuffix("/ca")

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the root certificate in hexadecimal."""
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    def wanted(
        self,
        name: str,
        roles: Sequence[tuple[Role, str]],
        *,
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        agent: bytes | None = None,
    ) -> CertificateRequest:
        """Return the content of a certificate.

        Args:
            name: name of an agent or a person.
            roles: roles, each with the namespace of a submitter, or "".
            dns: host names of an agent besides its name and localhost.
            ips: addresses of an agent besides loopback.
            agent: id of an agent; None: 160 random bits.

        Raises:
            ConfigError: a name cannot be certified.
        """
        check_name(name, "name")
        uris = []
        for role, namespace in roles:
            if role is Role.AGENT:
                uris.append(agent_uri(self.cluster, name, agent or secrets.token_bytes(ID_BYTES)))
            elif role is Role.SUBMITTER:
                if namespace != EVERY_NAMESPACE:
                    check_name(namespace, "namespace")
                uris.append(role_uri(self.cluster, role, namespace))
            else:
                uris.append(role_uri(self.cluster, role, name))
        server = any(role is Role.AGENT for role, _ in roles)
        if not server and (dns or ips):
            raise ConfigError("--dns and --ip are for agents", hint="A user has no address.")
        own = (name, "localhost") if server else ()
        return CertificateRequest(
            name,
            tuple(dict.fromkeys(uris)),
            tuple(dict.fromkeys((*own, *dns))),
            tuple(dict.fromkeys((*(LOOPBACK if server else ()), *map(_address, ips)))),
            server,
        )

    def sign(self, wanted: CertificateRequest, public: PublicKey, days: float = CERT_DAYS) -> bytes:
        """Issue a certificate (PEM) for a key. It is in `issued` and in the list on return."""
        now = datetime.datetime.now(datetime.UTC)
        until = min(now + datetime.timedelta(days=days), self.certificate.not_valid_after_utc)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        usages += [ExtendedKeyUsageOID.SERVER_AUTH] if wanted.server else []
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in wanted.uris]
        names += [x509.DNSName(name) for name in wanted.dns]
        names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in wanted.ips]
        certificate = (
            _builder(wanted.name, self.certificate.subject, public, now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        self._keep(wanted, certificate, pem)
        return pem

    def renewed(self, pem: bytes) -> tuple[CertificateRequest, PublicKey]:
        """Return the content and the key of a certificate, for issuing it again.

        Raises:
            DataError: the certificate was not issued by this CA, or is revoked.
        """
        try:
            old = x509.load_pem_x509_certificate(pem)
            old.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            raise DataError("is not a certificate of this CA") from None
        facts = facts_of(old.public_bytes(serialization.Encoding.DER))
        if self.is_denied(old):
            raise DataError("is revoked", hint="`elf ca issue` makes another one.")
        alternative = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = [uri for uri in facts.names if uri.startswith(SCHEME)]
        try:
            who = bearer(uris, self.cluster)
        except Nameless as error:
            raise DataError(str(error)) from None
        public = old.public_key()
        if not isinstance(public, PublicKey):
            raise DataError("has no elliptic curve key")
        name = str(old.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        wanted = CertificateRequest(
            check_name(name, "name"),
            tuple(uris),
            tuple(alternative.get_values_for_type(x509.DNSName)),
            tuple(str(ip) for ip in alternative.get_values_for_type(x509.IPAddress)),
            Role.AGENT in who.roles,
        )
        return wanted, public

    def issued(self) -> list[dict[str, Any]]:
        path = self.directory / "issued.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def denied(self) -> frozenset[str]:
        """Return the revoked serials and fingerprints. Raises ConfigError if they are unreadable."""
        path = self.directory / "deny"
        return read_denied(str(path)) if path.exists() else frozenset()

    def is_denied(self, certificate: x509.Certificate) -> bool:
        known = {f"{certificate.serial_number:x}", certificate.fingerprint(hashes.SHA256()).hex()}
        return bool(known & self.denied())

    def revoke(self, pem: bytes) -> list[str]:
        """Add the serials of a certificate and of all other certificates of its key to the deny list.

        A thief of a key can also use the certificates from before a renewal. The list is on disk on return.

        Raises:
            DataError: the certificate cannot be parsed.
            ConfigError: the deny list cannot be read.
        """
        try:
            parsed = x509.load_pem_x509_certificate(pem)
        except ValueError:
            raise DataError("is not a certificate") from None
        key, uris = key_digest(parsed.public_key()), _uris(parsed)
        found = {f"{parsed.serial_number:x}": None}
        for row in self.issued():  # lists of earlier releases do not contain keys
            if row.get("key") == key or ("key" not in row and row["uris"] == uris):
                found[str(row["serial"])] = None
        path, known = self.directory / "deny", self.denied()
        name = parsed.subject.rfc4514_string().encode("ascii", "replace").decode()
        more = "".join(f"{serial}  # {name}\n" for serial in found if serial not in known)
        if more:
            before = path.read_text() if path.exists() else ""
            gap = "\n" if before and not before.endswith("\n") else ""
            write_private(path, f"{before}{gap}{more}".encode())
            path.chmod(0o644)
        return list(found)

    def _keep(self, wanted: CertificateRequest, certificate: x509.Certificate, pem: bytes) -> None:
        place = self.directory / "issued" / wanted.name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = {
            "serial": f"{certificate.serial_number:x}",
            "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(),
            "key": key_digest(certificate.public_key()),
            "name": wanted.name,
            "uris": wanted.uris,
            "not_after": certificate.not_valid_after_utc.isoformat(),
        }
        number = os.open(
            self.directory / "issued.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(number, "ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        write_public(place / "cert.pem", pem)
        write_public(place / "ca.pem", self.pem)


def create(directory: str | Path, cluster: str, days: float = CA_DAYS) -> Authority:
    """Create a CA for a cluster.

    Raises:
        ConfigError: the name of the cluster is invalid.
        RuntimeFailure: the directory already contains a CA.
    """
    check_name(cluster, "cluster")
    place = Path(directory)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = new_key(place / "ca.key")
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"elf CA of {cluster}"[:64])])
    certificate = (
        _builder(f"elf CA of {cluster}", subject, key.public_key(), now, now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{SCHEME}{cluster}/ca")]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    write_public(place / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(place)


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _builder(
    name: str, issuer: x509.Name, public: PublicKey, now: datetime.datetime, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now - CLOCKS_APART, until - CLOCKS_APART))
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ConfigError(f"{text!r} is not an IP address", where="--ip") from None
