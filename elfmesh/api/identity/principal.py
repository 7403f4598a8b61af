"""A caller, and what it may do.

Owns the roles and their meaning, no certificate and no socket: a listener finds out who calls (by a
certificate, by a token, or as an anonymous caller on loopback), and the layer that authorises asks the
`Principal`.

Roles do not contain each other by accident: an operator may do what submitters of every namespace and readers
may; a submitter reads; an agent speaks on the overlay and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from elfmesh.errors import RemoteError


class Role(StrEnum):
    """What a certificate or a token makes of its bearer."""

    READER = "reader"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    AGENT = "agent"


EVERY_NAMESPACE = "*"


class NotBelieved(RemoteError):
    """A caller's claim of its identity is false; the message says why."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller.

    Attributes:
        name: for the audit log and for people, such as a certificate's subject; never trusted as text.
        roles: what they were given.
        namespaces: where a submitter may submit; `EVERY_NAMESPACE` is all of them.
        source: how we know: "certificate", "token" or "loopback".
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str] = frozenset()
    source: str = "loopback"

    def may_read(self) -> bool:
        """Jobs, results, agents; never raw lines."""
        return bool(self.roles & {Role.READER, Role.SUBMITTER, Role.OPERATOR})

    def may_submit(self, namespace: str) -> bool:
        """Apply, change, pause and delete jobs of a namespace, and see raw lines that they read."""
        if Role.OPERATOR in self.roles:
            return True
        return Role.SUBMITTER in self.roles and bool(self.namespaces & {namespace, EVERY_NAMESPACE})

    def may_operate(self) -> bool:
        """Let agents go, see every stream's raw lines, change what concerns all namespaces."""
        return Role.OPERATOR in self.roles

    def may_join(self) -> bool:
        return Role.AGENT in self.roles


LOOPBACK_READER = Principal("loopback", frozenset({Role.READER}))
"""Who calls over loopback without saying who they are: may look, and change nothing."""
