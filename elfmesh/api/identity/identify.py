"""Who sends a request of the HTTP API: every request gets its `Principal`, or is refused.

Owns the middleware and the order in which it looks: a certificate, a bearer token, the user at the other end
of a unix socket, an address of this host. What the principal may do is decided elsewhere.

Invariants: who says who they are and is not believed gets 401, never less rights than asked for; a
certificate is judged again with every request of a connection: it may have expired or been revoked.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from elfmesh.api.identity.principal import LOOPBACK_READER, NotBelieved, Principal, Role
from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import error_body

UNAUTHORISED = 401
LIFETIME_S = 3600.0
PRINCIPAL = web.RequestKey("elf.principal", Principal)
"""Where a request of the HTTP API keeps who sent it."""

TOKEN_OPERATOR = Principal("token", frozenset({Role.OPERATOR}), source="token")
NETWORK_READER = Principal("network", frozenset({Role.READER}), source="insecure network")
"""Who calls from elsewhere where an agent was told to listen there without certificates."""

_UCRED = struct.Struct("3i")


class Identifier:
    """How an agent finds out who calls.

    Args:
        token: makes its bearer an operator; "" believes no token.
        of_certificate: the principal of a verified certificate (DER); raises `NotBelieved`.
        lifetime_s: how long a connection may live on the certificates it began with.
    """

    def __init__(
        self,
        token: str = "",
        *,
        of_certificate: Callable[[bytes], Principal] | None = None,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self.token, self.of_certificate, self._lifetime_s = token, of_certificate, lifetime_s
        self._open: dict[asyncio.BaseTransport, tuple[bytes, float]] = {}

    def reconsider(self) -> None:
        """Judge the certificates of open connections again; cut off those that are bad now, or too old."""
        now = time.monotonic()
        for transport, (certificate, since) in list(self._open.items()):
            if transport.is_closing():
                del self._open[transport]
                continue
            try:
                assert self.of_certificate is not None
                self.of_certificate(certificate)
            except NotBelieved:
                old = True
            else:
                old = now - since > self._lifetime_s
            if old and isinstance(transport, asyncio.WriteTransport):
                del self._open[transport]
                transport.abort()

    def principal(self, request: web.Request) -> Principal:
        """Who sends this request.

        Raises:
            NotBelieved: the certificate or the token is not good.
        """
        transport = request.transport
        secured = transport.get_extra_info("ssl_object") if transport is not None else None
        if secured is not None:
            certificate = secured.getpeercert(binary_form=True)
            if certificate is None or self.of_certificate is None:
                raise NotBelieved("there is no certificate")
            who = self.of_certificate(certificate)
            assert transport is not None
            self._open.setdefault(transport, (certificate, time.monotonic()))
            return who
        if (given := request.headers.get(hdrs.AUTHORIZATION)) is not None:
            return self._bearer(given)
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None and sock.family == socket.AF_UNIX:
            return _of_unix(sock)
        peer = transport.get_extra_info("peername") if transport is not None else None
        return LOOPBACK_READER if peer and _loopback(peer[0]) else NETWORK_READER

    def _bearer(self, given: str) -> Principal:
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer":
            raise NotBelieved(f"only bearer tokens are supported, not {scheme[:20]!r}")
        if not self.token or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            raise NotBelieved("the token does not belong to this agent")
        return TOKEN_OPERATOR


Refused = Callable[[web.Request, str], Awaitable[None]]
"""Hears of a request whose sender was not believed, and why."""


def identifying(identifier: Identifier, refused: Refused | None = None) -> Middleware:
    """The middleware that sets the caller's `Principal`: `request[PRINCIPAL]`; `refused` hears of others."""

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[PRINCIPAL] = identifier.principal(request)
        except NotBelieved as error:
            if refused is not None:
                await refused(request, str(error))
            hint = "An agent's token is api.token in its data directory; give it by --token-file."
            response = json_response(
                UNAUTHORISED, error_body(f"not believed: {error}", where=request.path, hint=hint)
            )
            response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
            response.force_close()
            return response
        return await handler(request)

    return identify


def _of_unix(sock: socket.socket) -> Principal:
    """Who is at the other end of a unix socket: the agent's own user and root operate, others look."""
    if not hasattr(socket, "SO_PEERCRED"):
        return LOOPBACK_READER
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid in (0, os.geteuid()):
        return Principal(f"uid {uid}", frozenset({Role.OPERATOR}), source="unix socket")
    return Principal(f"uid {uid}", frozenset({Role.READER}), source="unix socket")


def _loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
