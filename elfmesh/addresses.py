"""Addresses as people write them: host and port, and whether only this host can reach them."""

from __future__ import annotations

import ipaddress

from elfmesh.errors import ConfigError


def parse_address(text: str, *, where: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port".

    Raises:
        ConfigError: no host, or no port in 0..65535.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise ConfigError(f"{text!r} is not an address", where=where, hint="Write HOST:PORT.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this host only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
