"""Records of an agent's children in a tree, and of its search for a parent.

Owns data without behaviour; `membership` maintains them.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.machine import Contact
from elfmesh.srt.messages import Join
from elfmesh.srt.residency import ANYWHERE, Rule


@dataclass(slots=True)
class Child:
    """State of a child.

    Attributes:
        contact: its contact.
        session: identifies one boot of it.
        token: token of its join; a leave with a lower token is older.
        order: highest sequence number that set its frontier.
        load: number of its children, including those that were redirected to it since its last report.
        size: members in its subtree.
        since: when it joined.
        keep_in: rule of its contributions.
    """

    contact: Contact
    session: int
    token: int
    order: int
    load: int
    size: int
    since: float
    keep_in: Rule = ANYWHERE


@dataclass(slots=True)
class Seek:
    """Search for a parent: waits for the answer to a JOIN to `target`, or for a look-up (None)."""

    token: int
    due: float
    target: Contact | None = None
    join: Join | None = None
    tries: int = 0
    hops: int = 0
    climb: int = 0
