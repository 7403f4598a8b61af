"""Checks that the certificate of a peer belongs to the agent that the peer claims to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elfmesh.agent.net.connection import IdentityRefused
from elfmesh.api.identity.principal import NotBelieved
from elfmesh.machine import Contact

if TYPE_CHECKING:
    from elfmesh.api.identity.trust import Trust


def check_bearer(trust: Trust, certificate: bytes, peer: Contact) -> None:
    """Raise IdentityRefused unless the certificate is valid and belongs to `peer`."""
    try:
        who = trust.judge(certificate)
    except NotBelieved as error:
        raise IdentityRefused(str(error)) from None
    if not who.agent:
        raise IdentityRefused(f"{who.name} is not an agent")
    if who.agent != peer.id:
        raise IdentityRefused(f"{who.name} is agent {who.agent.hex()}, not {peer.id.hex()}")
