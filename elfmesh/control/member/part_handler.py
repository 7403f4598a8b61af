"""Handlers of the parts that arrive at this agent as a master or as a site.

Owns which of the two gets a part, and its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.contribution import split
from elfmesh.control.context import Context
from elfmesh.control.master.master import Master
from elfmesh.control.paths.site_parts import SiteParts
from elfmesh.control.paths.sites import Sites
from elfmesh.control.protocol.fences import Handlers
from elfmesh.control.protocol.messages_parts import Part, PartAck, PartFault, PartRequest, SitePart
from elfmesh.machine import Contact


class PartHandler:
    """See the module.

    Args:
        masters: of the jobs that this agent leads.
        sites: what this agent holds for other masters.
        voting: the jobs on whose intervals this agent votes.
    """

    def __init__(
        self, context: Context, masters: Mapping[bytes, Master], sites: SiteParts, voting: Sites
    ) -> None:
        self._context, self._masters, self._sites, self._voting = context, masters, sites, voting

    def handlers(self) -> Handlers:
        return {
            PartFault: self._on_part_fault,
            Part: self._collect,
            PartRequest: self._sites.on_part_request,
            SitePart: self._on_site_part,
        }

    def on_part(self, sender: Contact, message: Part, payload: bytes) -> bool:
        """Acknowledge a part, before its fence; return whether the master of the job is to have it.

        A part of an earlier roster epoch may complete what this master has requested of the sites.
        """
        master = self._masters.get(message.job)
        if split(payload, [entry.size for entry in message.segment.entries]) is None:
            taken = False
        elif master is None:
            taken = self._sites.take(message, payload)
            if taken:
                self._voting.collected(message, payload)
        else:
            if message.segment.epoch < master.term.roster_epoch:
                self._sites.take(message, payload)
            taken = 0 <= message.partition < len(master.term.collection.trees)
        if not taken:
            self._context.stats["control.misplaced"] += 1
            return False
        self._context.send(sender, PartAck(message.job, message.partition, message.seq, message.tree))
        return master is not None

    def _collect(self, sender: Contact, message: Part, payload: bytes) -> None:
        master = self._masters[message.job]
        master.term.trees.arrived(message.partition, message.tree or None, sender, message.segment)
        context, segment = self._context, message.segment
        about = (message.job, segment.start, segment.stop)
        context.causes.note(context.now, "received", *about, peer=sender.id, detail=segment.coverage)
        payloads = split(payload, [entry.size for entry in segment.entries])
        if payloads is not None:
            copy = master.term.trees.copy_of(message.tree or None)
            master.term.collection.collected(message.partition, segment, payloads, copy)
            master.term.part_requests.arrived(sender, segment, len(payload))

    def _on_part_fault(self, sender: Contact, message: PartFault, payload: bytes) -> None:
        collection = self._masters[message.job].term.collection
        if 0 <= message.partition < len(collection.trees):
            collection.dropped(message.partition, message)

    def _on_site_part(self, sender: Contact, message: SitePart, payload: bytes) -> None:
        term = self._masters[message.job].term
        is_own = message.segment.epoch == term.roster_epoch
        takes = term.part_requests if is_own else term.inheritance
        takes.on_site_part(sender, message, payload)
