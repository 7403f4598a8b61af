"""Where the acceptors of one register are, and which of them answer a proposer.

Owns their addresses, and how long a request to each has been open. Decides nothing about a round: no decision
depends on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elfmesh.control.context import Context
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

MAJORITY_S = 5.0
"""Time after which missing answers of voters are reported; a dead master is replaced sooner."""

_ANSWERED = float("inf")


class AcceptorContacts:
    """Acceptors by id. An answer of one that was never asked counts too."""

    def __init__(self, context: Context, acceptors: Iterable[Contact]) -> None:
        self._context = context
        self._known = {contact.id: contact for contact in acceptors}
        self._silent: dict[bytes, float] = {}  # by acceptor that has ever answered: time of an open request

    def get(self, agent: bytes) -> Contact | None:
        return self._known.get(agent)

    def add(self, acceptors: Iterable[Contact]) -> None:
        """Add acceptors whose address a value states; an address that is known stays."""
        for contact in acceptors:
            self._known.setdefault(contact.id, contact)

    def put(self, contact: Contact) -> None:
        self._known[contact.id] = contact

    def met(self, contact: Contact) -> None:
        """Handle that an agent has shown its address; only acceptors are stored."""
        if contact.id in self._known:
            self._known[contact.id] = contact

    def asked(self, agent: bytes) -> None:
        """Handle a request to an acceptor that has answered all earlier ones."""
        if self._silent.get(agent) == _ANSWERED:
            self._silent[agent] = self._context.now

    def answered(self, agent: bytes) -> None:
        self._silent[agent] = _ANSWERED

    def answers(self, agent: bytes) -> bool:
        """Return whether an acceptor has answered or still has time to."""
        return self._context.now - self._silent.get(agent, float("-inf")) < MAJORITY_S

    def find(self, agent: bytes, moved: Callable[[bytes], None]) -> None:
        """Look up a silent acceptor; `moved` is called if it has another address."""

        def found(done: LookupDone | None) -> None:
            contact = done.contacts[0] if done and done.contacts else None
            if contact and contact.id == agent and contact != self._known.get(agent):
                self._known[agent] = contact
                moved(agent)

        self._context.lookup(agent, found)
