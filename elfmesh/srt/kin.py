"""What an agent knows of its children in a tree, and of its own search for a parent.

Owns two records, no behaviour; `membership` keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.machine import Contact
from elfmesh.srt.messages import Join


@dataclass(slots=True)
class Child:
    """A child.

    Attributes:
        contact: who it is.
        session: one life of it.
        token: of its join; a leave with a lower one is older.
        order: highest sequence number that set its frontier.
        load: its children, counted ahead of its own reports.
        size: members in its subtree.
        since: when it joined.
    """

    contact: Contact
    session: int
    token: int
    order: int
    load: int
    size: int
    since: float


@dataclass(slots=True)
class Seek:
    """The search for a parent: either a JOIN to `target` is out, or a look-up (target None)."""

    token: int
    due: float
    target: Contact | None = None
    join: Join | None = None
    tries: int = 0
    hops: int = 0
    climb: int = 0
