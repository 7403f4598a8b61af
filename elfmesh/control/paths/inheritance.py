"""What a new master gets from the sites of its predecessor, to close at once what was complete there.

Owns the part requests of one term, and which parts count. The members contribute everything open again in any
case, because a predecessor may have announced numbers that no successor knows; until they have, the parts of
the sites stand in for them.

Invariant: a part counts only if it is of the roster epoch of the very terms that this term continues, and if
these terms name all its members. Then its numbers mean the same agents here (`roster.has_number`). The parts
of one site are a replica buffer: an interval is closed by the parts of one site, or by those of this term,
never by both (D-7). The first complete one counts.

Paper: Hwang et al. IV-B (the first copy of a tuple counts). Deviation: a
contribution is identified by its member and interval instead of by its content.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.contribution import split
from elfmesh.control.closing.collection import Collection
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.paths.layout import copies_of
from elfmesh.control.protocol.messages_parts import PartRequest, SitePart
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of

AGAIN_S = (0.25, 1.0)
"""When a site that has not answered gets the request again, because one of both messages may be lost."""


class Inheritance:
    """The parts of one term that its predecessor's sites hold.

    Args:
        terms: with which the term begins.
        inherits: the roster epoch of these terms under the master before; 0: the term continues none.
        collection: gets the parts.
        leads: whether the term goes on.

    Attributes:
        asked_at: when all sites were asked for all parts; None: there is nothing to inherit.
    """

    def __init__(
        self,
        context: Context,
        terms: Terms,
        inherits: int,
        collection: Collection,
        leads: Callable[[], bool],
    ) -> None:
        self._context, self._terms, self._inherits = context, terms, inherits
        self._collection, self._leads = collection, leads
        layout = terms.layout or None
        sites = () if layout is None or not inherits else layout.sites
        self._copies = copies_of(terms.manifest.job_id, len(collection.trees), layout)
        self._sites = {site.id: (number, site) for number, site in enumerate(sites)}
        self._known = sum(1 << entry.number for entry in terms.members)
        self._silent = dict.fromkeys(self._sites)
        self.asked_at: float | None = None

    def begin(self) -> None:
        """Request the parts, also from this agent, which may be a site itself."""
        self.asked_at = self._context.now if self._sites else None
        self._ask()
        for pause in AGAIN_S if self._silent else ():
            self._context.after(pause, self._ask)

    def _ask(self) -> None:
        if not self._leads():
            return
        terms = self._terms
        about = terms.manifest.job_id, terms.manifest.incarnation, terms.epoch, self._inherits, terms.closed
        for number, site in self._sites.values():
            if site.id in self._silent and not (number and self._context.is_gone(site.id)):
                self._context.send(site, PartRequest(*about))

    def on_site_part(self, sender: Contact, message: SitePart, payload: bytes) -> None:
        segment = message.segment
        payloads = split(payload, [entry.size for entry in segment.entries])
        if sender.id not in self._sites or not 0 <= message.partition < len(self._collection.trees):
            self._context.stats["control.misplaced"] += 1
        elif payloads is None or any(len(entry.counts) > COUNTS_MAX for entry in segment.entries):
            self._context.stats["control.malformed"] += 1
        elif not self._counts(segment.epoch, bits_of(segment.coverage)):
            self._context.stats["control.fenced"] += 1
        else:
            self._silent.pop(sender.id, None)
            self._context.stats["control.inherited"] += 1
            number, _ = self._sites[sender.id]
            copy = self._copies.get(message.tree or b"", 0)
            self._collection.inherited(message.partition, number, segment, payloads, copy)

    @safeguard("inherits-known-numbers")
    def _counts(self, roster_epoch: int, members: int) -> bool:
        """Whether the numbers of a part mean the same agents in this term."""
        return roster_epoch == self._inherits and not members & ~self._known
