"""The jobs for which this agent is a site that votes (`paths.site`).

Owns which jobs these are. It changes when this agent accepts another value of a job's register.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.paths.site import Site
from elfmesh.control.paths.site_parts import SiteParts
from elfmesh.control.protocol.events import Finalised
from elfmesh.control.protocol.messages_parts import Part
from elfmesh.control.register.votes import Votes


class Sites:
    """See the module.

    Args:
        parts: the parts that this agent holds.
        terms: returns the terms of a job that another agent leads; None: this agent has none, or leads it.
    """

    def __init__(
        self, context: Context, votes: Votes, parts: SiteParts, terms: Callable[[bytes], Terms | None]
    ) -> None:
        self._context, self._votes, self._parts, self._terms = context, votes, parts, terms
        self._sites: dict[bytes, Site] = {}
        self.shown: Callable[[bytes], None] = lambda job: None
        """Called when the tentative records of a job at this agent are others."""

    def of(self, job: bytes) -> Site | None:
        """Return the state of a job with a grant; it begins with the parts that are held."""
        granted, terms, site = self._votes.grant(job), self._terms(job), self._sites.get(job)
        named = terms is not None and granted is not None and terms.version == granted[0].roster
        if granted is None or terms is None or not named or terms.epoch != granted[0].epoch:
            self._end(job, self._sites.pop(job, None))
            return None
        if site is None or not site.is_of(terms, granted[0]):
            about = self._context, terms, granted[0], granted[1].value.closed
            before, site = site, Site(*about, self._votes, lambda: self.shown(job))
            self._sites[job] = site
            for part, payload in self._parts.of(job):
                site.collect(part.partition, part.segment, payload, part.tree)
            self._end(job, before)
        return site

    def _end(self, job: bytes, site: Site | None) -> None:
        if site is not None:
            site.stop()
            self.shown(job)

    def accepted(self, job: bytes) -> None:
        """This agent may have accepted another value."""
        if (site := self.of(job)) is not None:
            site.advance()

    def collected(self, message: Part, payload: bytes) -> None:
        """A part has arrived."""
        if (site := self.of(message.job)) is not None:
            site.collect(message.partition, message.segment, payload, message.tree or None)
            site.advance()

    def lines(self, job: bytes) -> ShownLines | None:
        """Return the complete records that this agent votes on, as tentative ones; None: it does not vote."""
        site = self.of(job)
        return None if site is None else site.lines

    def closed(self, job: bytes, index: int) -> None:
        """Votes have closed everything up to an interval."""
        if (site := self._sites.get(job)) is not None:
            site.on_closed(index)

    def leaves_out(self, job: bytes, record: ResultRecord) -> bool:
        """Return whether this agent holds something that a record leaves out."""
        site = self.of(job)
        return site is not None and site.leaves_out(record)

    def finalised(self, event: Finalised) -> None:
        if (site := self._sites.get(event.job)) is not None:
            site.finalised(event)
