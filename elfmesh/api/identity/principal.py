"""Principals and their roles.

The module owns the meaning of roles. It knows no certificates and no sockets: a listener authenticates the
caller (by a certificate, by a token, or as an anonymous caller on loopback), and the authorising layer asks
the `Principal`.

An operator may do what readers and submitters of all namespaces may do. A submitter may read. An agent may
speak on the overlay, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from elfmesh.errors import RemoteError


class Role(StrEnum):
    """Role that a certificate or a token gives its holder."""

    READER = "reader"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    AGENT = "agent"


EVERY_NAMESPACE = "*"


class NotBelieved(RemoteError):
    """Raised if the credentials of a caller are invalid. The message contains the reason."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user, program or agent, or an anonymous caller.

    Attributes:
        name: name for the audit log and for display, such as a certificate's subject; never trusted as text.
        roles: roles of the caller.
        namespaces: namespaces in which a submitter may submit; `EVERY_NAMESPACE` means all.
        source: how the caller was authenticated: "certificate", "token", "loopback", ...
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str] = frozenset()
    source: str = "loopback"

    def may_read(self) -> bool:
        """Whether the caller may read jobs, results and agents. Raw lines are not included."""
        return bool(self.roles & {Role.READER, Role.SUBMITTER, Role.OPERATOR})

    def may_submit(self, namespace: str) -> bool:
        """Whether the caller may apply, change, pause and delete jobs of a namespace, and see their lines."""
        if Role.OPERATOR in self.roles:
            return True
        return Role.SUBMITTER in self.roles and bool(self.namespaces & {namespace, EVERY_NAMESPACE})

    def may_operate(self) -> bool:
        """Whether the caller may make agents leave, see all raw lines, and change all namespaces."""
        return Role.OPERATOR in self.roles

    def may_join(self) -> bool:
        return Role.AGENT in self.roles


LOOPBACK_READER = Principal("loopback", frozenset({Role.READER}))
"""Principal of an anonymous caller on loopback, which may read and change nothing."""
