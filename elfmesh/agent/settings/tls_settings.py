"""The section [tls] of agent.toml: where the certificates are, and whose names mean what."""

from __future__ import annotations

from pathlib import Path

import msgspec

from elfmesh.api.identity.names import parse_patterns
from elfmesh.errors import ConfigError
from elfmesh.units import parse_duration_us


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates: with them, everything this agent says and hears is mutual TLS 1.3.

    Attributes:
        dir: directory with cert.pem, key.pem and ca.pem, as `elf ca` writes them; and deny, if it is there.
        cert: this agent's certificate, with intermediate ones behind it; instead of the one in `dir`.
        key: its private key, mode 0600; instead of the one in `dir`.
        ca: whose certificates are believed; instead of the one in `dir`.
        deny: serials or SHA-256 fingerprints of revoked certificates, one a line.
        connection_life: how long a connection may live on the certificates it began with.
        names: names of a CA of your own to roles: "spiffe://example.org/elf/agent/{name}" = "agent",
            "dns:{name}.example.org" = "agent", "spiffe://example.org/elf/{namespace}" = "submitter". Without
            any, the names that `elf ca` writes.
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
        """Whether there are certificates."""
        return bool(self.dir or self.cert or self.key or self.ca)

    def path(self, name: str) -> str:
        """The path of "cert", "key" or "ca"; "deny" may have none."""
        explicit: str = getattr(self, name)
        if explicit or not self.dir:
            return explicit
        return str(Path(self.dir).expanduser() / (name if name == "deny" else f"{name}.pem"))

    @property
    def lifetime_s(self) -> float:
        """`connection_life` in seconds."""
        return parse_duration_us(self.connection_life) / 1e6


def check_tls(tls: TlsConfig, where: str) -> None:
    """Raise ConfigError for a section that cannot work; opens no certificate."""
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
