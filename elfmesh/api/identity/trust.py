"""Decides which certificates are valid, with the files of `[tls]`, which are reloaded while the agent runs.

The module owns the TLS contexts of new connections, the check of a certificate at any time, and the deny
list. TLS has verified the issuer and the validity period of a certificate; this module decides whether its
holder belongs to this cluster and is still trusted.

Invariants: files that cannot be used change nothing; the previous ones stay in use, and the reason is
reported. A certificate that has expired or is revoked is refused from then on, also on open connections.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from elfmesh.api.identity.names import Bearer, Nameless, NamePattern, bearer
from elfmesh.api.identity.principal import NotBelieved
from elfmesh.api.identity.tls import client_context, server_context
from elfmesh.errors import ConfigError

KNOWN_MAX = 4096
"""Number of parsed certificates that are kept; beyond it, the cache is cleared."""
_DNS = "dns:"
_DENIED = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Facts:
    """Content of a certificate.

    Attributes:
        names: URIs, and DNS names prefixed with "dns:".
        serial: hexadecimal, without leading zeros.
        fingerprint: SHA-256 in hexadecimal.
        not_before: start of validity, seconds since the epoch.
        not_after: end of validity, seconds since the epoch.
    """

    names: tuple[str, ...]
    serial: str
    fingerprint: str
    not_before: float
    not_after: float


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of certificate, key, CA and deny list; "" for none.

    With `deny_may_come`, the deny list may be missing until it exists for the first time.
    """

    cert: str
    key: str
    ca: str
    deny: str = ""
    deny_may_come: bool = False

    def stamps(self) -> tuple[object, ...]:
        """Return a value that changes when a file changes: modification time, size and inode of each file."""
        found: list[object] = []
        for path in (self.cert, self.key, self.ca, self.deny):
            try:
                status = Path(path).stat() if path else None
            except OSError as error:
                found.append(error.errno)
            else:
                found.append(status and (status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)


class Trust:
    """The trusted certificates of an agent.

    Args:
        files: paths of the certificates.
        cluster: cluster to which other certificates must belong.
        patterns: names of other CAs, see `names.parse_patterns`.
        now_s: wall clock.

    Attributes:
        me: holder of this agent's own certificate.
        facts: content of this agent's own certificate.
        server: context of incoming connections.
        client: context of connections to agents; their ids are checked instead of host names.
        problem: why the newest files are not in use, or "".

    Raises:
        ConfigError: a file cannot be used.
    """

    def __init__(
        self,
        files: Files,
        cluster: str,
        patterns: Sequence[NamePattern] = (),
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._files, self._cluster, self._patterns, self._now_s = files, cluster, patterns, now_s
        self._known: dict[bytes, tuple[Facts, Bearer]] = {}
        self.problem = ""
        self._listed = False
        self._stamps = files.stamps()
        self._load()

    def reload(self) -> bool:
        """Reload files that have changed. Returns whether new files are in use."""
        stamps = self._files.stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self._load()
        except ConfigError as error:
            self.problem = str(error)
            # certificates on a readable deny list are refused in any case
            with contextlib.suppress(ConfigError):
                self._denied |= self._read_denied()
            return False
        self.problem = ""
        return True

    def judge(self, certificate: bytes) -> Bearer:
        """Return the holder of a certificate (DER), checked at the current time.

        Raises:
            NotBelieved: the certificate is revoked, expired, not yet valid, or of another cluster.
        """
        found = self._known.get(certificate)
        if found is None:
            try:
                facts = facts_of(certificate)
                found = facts, bearer(facts.names, self._cluster, self._patterns)
            except Nameless as error:
                raise NotBelieved(str(error)) from None
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[certificate] = found
        facts, who = found
        if self._denied & {facts.serial, facts.fingerprint}:
            raise NotBelieved(f"the certificate of {who.name} is revoked")
        if not facts.not_before <= self._now_s() <= facts.not_after:
            raise NotBelieved(f"the certificate of {who.name} has expired or is not valid yet")
        return who

    def _load(self) -> None:
        files = self._files
        server = server_context(files.cert, files.key, files.ca)
        client = client_context(files.cert, files.key, files.ca, check_hostname=False)
        denied = self._read_denied()
        facts = facts_of(read_certificate(files.cert))
        try:
            me = bearer(facts.names, self._cluster, self._patterns)
        except Nameless as error:
            raise ConfigError(str(error), where=files.cert) from None
        if not me.agent:
            raise ConfigError(
                f"is not the certificate of an agent, but of {me.name}",
                where=files.cert,
                hint="`elf ca issue DIR NAME --role agent` makes one.",
            )
        if facts.not_after <= self._now_s():
            raise ConfigError("has expired", where=files.cert, hint="`elf ca renew` makes a new one.")
        self.server, self.client, self._denied, self.me, self.facts = server, client, denied, me, facts

    def _read_denied(self) -> frozenset[str]:
        """Read the deny list. Once it has existed, it must exist."""
        path = self._files.deny
        if not path or not (self._listed or not self._files.deny_may_come or Path(path).exists()):
            return frozenset()
        found = read_denied(path)
        self._listed = True
        return found


def facts_of(certificate: bytes) -> Facts:
    """Return the content of a certificate (DER). Raises Nameless if it cannot be parsed."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        try:
            alternative = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            names: tuple[str, ...] = ()
        else:
            hosts = alternative.get_values_for_type(x509.DNSName)
            uris = alternative.get_values_for_type(x509.UniformResourceIdentifier)
            names = (*(uri for uri in uris if not _is_dns(uri)), *(f"{_DNS}{host.lower()}" for host in hosts))
    except ValueError as error:
        raise Nameless(f"its certificate cannot be read: {error}") from None
    return Facts(
        names=names,
        serial=f"{parsed.serial_number:x}",
        fingerprint=hashlib.sha256(certificate).hexdigest(),
        not_before=parsed.not_valid_before_utc.timestamp(),
        not_after=parsed.not_valid_after_utc.timestamp(),
    )


def _is_dns(uri: str) -> bool:
    return uri.lower().startswith(_DNS)


def read_certificate(path: str) -> bytes:
    """Return the first certificate of a PEM file as DER. Raises ConfigError if there is none."""
    try:
        text = Path(path).read_text(encoding="ascii")
        end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE-----") : end])
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=path) from None
    except ValueError:
        raise ConfigError("contains no certificate", where=path) from None


def read_denied(path: str) -> frozenset[str]:
    """Read the serials and SHA-256 fingerprints of a deny list.

    Each line contains one in hexadecimal; `#` starts a comment.

    Raises:
        ConfigError: the file cannot be read, or a line is neither. An agent without its deny list must not
            trust more keys.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=path) from None
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip().lower().replace(":", "").removeprefix("0x")
        if not entry:
            continue
        if not _DENIED.fullmatch(entry):
            raise ConfigError(f"{entry[:80]!r} is not a serial or a fingerprint", where=f"{path}:{number}")
        found.add(entry if len(entry) == 64 else entry.lstrip("0") or "0")
    return frozenset(found)
