"""The section [tls] of agent.toml: paths of certificates, and roles of foreign names."""

from __future__ import annotations

from pathlib import Path

import msgspec

from elfmesh.api.identity.names import parse_patterns
from elfmesh.errors import ConfigError
from elfmesh.units import parse_duration_us


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates. If they are configured, all connections of this agent use mutual TLS 1.3.

    Attributes:
        dir: directory with cert.pem, key.pem and ca.pem as `elf ca` writes them, and optionally deny.
        cert: this agent's certificate followed by intermediate certificates; instead of the one in `dir`.
        key: its private key, mode 0600; instead of the one in `dir`.
        ca: certificates of the trusted authorities; instead of the one in `dir`.
        deny: file with serials or SHA-256 fingerprints of revoked certificates, one per line.
        connection_life: how long a connection may exist after its certificates were verified.
        names: roles of the names of your own CA: "spiffe://example.org/elf/agent/{name}" = "agent",
            "dns:{name}.example.org" = "agent", "spiffe://example.org/elf/{namespace}" = "submitter". Without
            any, the names that `elf ca` writes count.
    """

    dir: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    deny: str = ""
    connection_life: str = "1 h"
    names: dict[str, str] = {}

    @property
    def given(self) -> bool:
        return bool(self.dir or self.cert or self.key or self.ca)

    def path(self, name: str) -> str:
        """Return the path of "cert", "key", "ca" or "deny"; "" if there is none."""
        explicit: str = getattr(self, name)
        if explicit or not self.dir:
            return explicit
        return str(Path(self.dir).expanduser() / (name if name == "deny" else f"{name}.pem"))

    @property
    def lifetime_s(self) -> float:
        return parse_duration_us(self.connection_life) / 1e6


def check_tls(tls: TlsConfig, where: str) -> None:
    """Raise ConfigError if the section is inconsistent. Does not read certificates."""
    try:
        lifetime_us = parse_duration_us(tls.connection_life)
    except ConfigError as error:
        raise ConfigError(error.message, where=f"{where}.connection_life", hint=error.hint) from None
    if lifetime_us <= 0:
        raise ConfigError("must be greater than 0", where=f"{where}.connection_life")
    parse_patterns(tls.names, where=f"{where}.names")
    if not tls.given and (tls.deny or tls.names):
        raise ConfigError("specifies no certificates", where=where, hint="dir, or cert, key and ca.")
    for name in ("cert", "key", "ca"):
        if tls.given and not tls.path(name):
            raise ConfigError(f"{name!r} is missing", where=where, hint="Name dir, or cert, key and ca.")
