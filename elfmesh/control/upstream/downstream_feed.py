"""Downstream feed: a job's results for the masters of the jobs that read it.

Owns the known readers. The result service reads the log.

Invariant: a reader is known as long as it sends requests. It stores its own position, so that the next master
of either job continues with the same request.

Paper: ELF 2.4 (coordination of jobs: a request is routed to the other job's master).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import CurrentTerms, Terms
from elfmesh.machine import Contact

READER_S = 30.0
"""Time for which a job counts as a reader after a request; some requests may get lost."""

Sites = tuple[bytes, tuple[Contact, ...]]
"""The id of a job, and the agents beside its master that have its log."""


def sites_to_json(terms: Terms) -> dict[str, Any]:
    """Return the sites that vote on a job, for an agent that reads it."""
    voters = {each.id for each in terms.acceptors}
    sites = [each for each in (terms.layout.sites[1:] if terms.layout else ()) if each.id in voters]
    agents = [[each.id.hex(), each.host, each.port, each.rack, each.region] for each in sites]
    return {"sites": {"job": terms.manifest.job_id.hex(), "agents": agents}} if agents else {}


def sites_of_json(body: Mapping[str, Any]) -> Sites:
    """Return the sites of an answer; none if it is of an earlier release.

    Raises:
        TypeError, ValueError, KeyError: they cannot be read.
    """
    found = body.get("sites") or {"job": "", "agents": []}
    agents = (
        Contact(bytes.fromhex(agent), str(host), int(port), 0, str(rack), str(region))
        for agent, host, port, rack, region in found["agents"]
    )
    return bytes.fromhex(found["job"]), tuple(agents)


READERS_MAX = 1024
"""Readers that the master of one job remembers."""


class DownstreamFeed:
    """Downstream feed of one job.

    Args:
        plan: plan of the job.
        term: its `terms` are the present ones.
    """

    def __init__(self, context: Context, plan: JobPlan, term: CurrentTerms) -> None:
        self._context, self._plan, self._term = context, plan, term
        self._asked: dict[str, float] = {}
        self.until = FIRST
        """First interval that may not be in the log yet."""

    @property
    def readers(self) -> list[str]:
        since = self._context.now - READER_S
        return sorted(name for name, at in self._asked.items() if at > since)

    def reached(self, closed: int) -> None:
        self.until = max(closed, self.until)

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        """Convert a reader's request into one about the log.

        Raises:
            ValueError: the body is no request of a reader.
        """
        reader, from_us = body.get("reader"), body.get("from_us")
        if reader is not None:
            if not isinstance(reader, str):
                raise ValueError("reader is the name of a job")
            now = self._context.now
            self._asked = {name: at for name, at in self._asked.items() if at > now - READER_S}
            if reader in self._asked or len(self._asked) < READERS_MAX:
                self._asked[reader] = now
        start = None if from_us is None else self._plan.first_after(int(from_us))
        return {**body, "from": start}

    def facts(self) -> dict[str, Any]:
        """Return the part of an answer that does not depend on the request."""
        return {
            "incarnation": self._term.terms.manifest.incarnation,
            "slide_us": self._plan.slide_us,
            "size_us": self._plan.size_us,
            "columns": list(self._plan.columns),
            "reads": list(self._plan.jobs),
            "paused": self._term.terms.paused,
            **sites_to_json(self._term.terms),
        }

    def stretch(self, following: int, until: int | None, expired: int | None) -> dict[str, Any]:
        """Return the range that a page which ends before `following` covers: begin of the log and end.

        `until` is the value of `self.until` when the log was read; None if the log continues after the page.
        """
        until = following if until is None else max(following, until)
        return {"begin_us": self.begin_us(expired), "until_us": until * self._plan.slide_us}

    def begin_us(self, expired: int | None) -> int | None:
        """Return from when on the log has all records, None if it has them from the beginning."""
        begin = max(self._term.terms.start, FIRST if expired is None else expired + 1)
        return None if begin <= FIRST else begin * self._plan.slide_us
