"""Restricts the addresses to which a sink may connect: public ones, and configured networks.

The check applies to the addresses that are connected to, finally when the socket is created. Therefore a name
that changes its address and another spelling of a host do not bypass it.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from elfmesh.errors import LocalError

_SHARED_ADDRESSES = tuple(
    map(
        ipaddress.ip_network,
        # NAT64, 6to4, v4-compatible and v4-translated addresses stand for IPv4 addresses, which no check
        # would see. The others are for special uses that not every version of Python knows.
        (
            *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "::ffff:0:0:0/96", "fec0::/10"),
            *("3fff::/20", "5f00::/16", "192.0.0.0/24", "192.88.99.0/24"),
        ),
    )
)


class Forbidden(OSError, LocalError):
    """Raised for an address that is neither public nor allowed. Connectors handle only OSErrors."""

    def __init__(self, host: str) -> None:
        text = f"{host} is not public: add its network to `allow` if requests may go there"
        LocalError.__init__(self, text)
        OSError.__init__(self, errno.EACCES, text)


class CheckedResolver(AbstractResolver):
    """Resolves names to addresses that are public or in `allow`."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allow = [ipaddress.ip_network(network) for network in allow]
        self._resolver: ThreadedResolver | None = None

    def may(self, host: str) -> bool:
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        allowed = any(address in network for network in self._allow)
        special = address.is_multicast or any(address in network for network in _SHARED_ADDRESSES)
        return allowed or (address.is_global and not special)

    def open_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """Create a socket for an address. Raises Forbidden if the address is not allowed."""
        family, kind, protocol, _, address = info
        if not self.may(str(address[0])):
            raise Forbidden(str(address[0]))
        return socket.socket(family, kind, protocol)

    async def check(self, url: str) -> None:
        """Check a numeric address, which is never resolved. Raises Forbidden."""
        host = urlsplit(url).hostname or ""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        if not self.may(host):
            raise Forbidden(host)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name. Raises Forbidden if there are none."""
        if self._resolver is None:
            self._resolver = ThreadedResolver()
        found = await self._resolver.resolve(host, port, family)
        good = [each for each in found if self.may(each["host"])]
        if found and not good:
            raise Forbidden(found[0]["host"])
        return good

    async def close(self) -> None: ...
