"""Whose certificates are believed: the files of `[tls]`, looked at again while the agent runs.

Owns the contexts of new connections, the judgement of a certificate whenever it is asked for, and the deny
list. TLS has verified that a certificate is of the CA and in its time; here it is decided whether its bearer
belongs to this cluster, and whether that is still so.

Invariants: files that cannot be used change nothing: what was read last stays, and the reason is told; a
certificate that has expired or is denied is refused from then on, on connections that are open as well.
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

from elfmesh.api.identity.names import Bearer, Nameless, Pattern, bearer
from elfmesh.api.identity.principal import NotBelieved
from elfmesh.api.identity.tls import client_context, server_context
from elfmesh.errors import ConfigError

KNOWN_MAX = 4096
"""Certificates that were read once; beyond it all are read again."""
_DNS = "dns:"
_DENIED = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says.

    Attributes:
        names: its URIs, and its DNS names with "dns:" before them.
        serial: hexadecimal, without leading zeros.
        fingerprint: SHA-256, hexadecimal.
        not_before: seconds since the epoch.
        not_after: seconds since the epoch; after it, the certificate is worth nothing.
    """

    names: tuple[str, ...]
    serial: str
    fingerprint: str
    not_before: float
    not_after: float


@dataclass(frozen=True, slots=True)
class Files:
    """Paths, "" for none: certificate, key, CA, deny list.

    `deny_may_come`: nothing is denied until the list is there for the first time.
    """

    cert: str
    key: str
    ca: str
    deny: str = ""
    deny_may_come: bool = False

    def stamps(self) -> tuple[object, ...]:
        """Changes when a file does: time of change, size and number of each."""
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
    """Who is believed.

    Args:
        files: where the certificates are.
        cluster: that others must belong to.
        patterns: names of other CAs, see `names.parse_patterns`.
        now_s: wall clock.

    Attributes:
        me: who this agent's own certificate is for.
        facts: of this agent's own certificate.
        server: what new connections are answered with.
        client: what agents are called with; their ids are checked instead of host names.
        problem: why the newest files are not in use, or "".

    Raises:
        ConfigError: a file cannot be used.
    """

    def __init__(
        self,
        files: Files,
        cluster: str,
        patterns: Sequence[Pattern] = (),
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
        """Look at the files again; whether something has changed and is in use now."""
        stamps = self._files.stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self._load()
        except ConfigError as error:
            self.problem = str(error)
            with contextlib.suppress(ConfigError):  # who is on a list that can be read is not believed
                self._denied |= self._read_denied()
            return False
        self.problem = ""
        return True

    def judge(self, certificate: bytes) -> Bearer:
        """Who a certificate (DER) is for, as things stand now.

        Raises:
            NotBelieved: it is denied, out of its time, or of another cluster.
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
        """What the deny list says now; once it was there, it has to be."""
        path = self._files.deny
        if not path or not (self._listed or not self._files.deny_may_come or Path(path).exists()):
            return frozenset()
        found = read_denied(path)
        self._listed = True
        return found


def facts_of(certificate: bytes) -> Facts:
    """What a certificate (DER) says.

    Raises:
        Nameless: it cannot be read.
    """
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
    """The first certificate of a PEM file, as DER.

    Raises:
        ConfigError: there is none.
    """
    try:
        text = Path(path).read_text(encoding="ascii")
        end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE-----") : end])
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=path) from None
    except ValueError:
        raise ConfigError("holds no certificate", where=path) from None


def read_denied(path: str) -> frozenset[str]:
    """The serials and SHA-256 fingerprints of a deny list: hexadecimal, one a line, `#` begins a remark.

    Raises:
        ConfigError: it cannot be read, or a line is neither. An agent that cannot read it must not trust more
            keys.
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
