"""Requests for results that a site answers from its copy of the log, so that readers of its region are near.

Owns the long polls at this site. A site answers only what it is sure of: it has the records, or the client
waits for one. The site sends all other requests on to the master.

Invariants: a site serves records that the register has chosen, which are the same at every agent, and to
clients that want them the complete records on which it votes, as tentative ones. A client
names the numbering of intervals that it reads (`incarnation`, or `near` if it follows the job into the next
one), so that a site that lags behind a new one cannot answer for it.

Paper: Hwang et al. I (a user reads the replica that answers first). Deviation: the
site of the user's region, and the master if that is gone or silent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from elfmesh.control.closing.shown import ShownLines, SiteLines
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.replicas.job_replica import JobReplica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.requests.verbs import HUNG_UP
from elfmesh.control.upstream.downstream_feed import DownstreamFeed

SERVICES_MAX = 256
"""Jobs whose readers a site remembers; the one that was asked about least recently goes first."""


def reads_at_site(verb: str, body: Mapping[str, Any]) -> bool:
    """Whether a site may answer a request: for records of a numbering that the client knows.

    A client that reads tentative records, too, must state whose numbers it has (`site`).
    """
    finals = body.get("state") not in ("all", "early") or (body.get("state") == "all" and "site" in body)
    return verb in ("results", "feed") and _numbering(body) != "" and finals


def _numbering(body: Mapping[str, Any]) -> str:
    return str(body.get("incarnation") or body.get("near") or "")


class SiteReads:
    """The readers of one agent's sites.

    Args:
        replicas: of the jobs that other agents lead.

    Attributes:
        lines: returns the tentative records of a job that this agent votes on; None: it does not vote.
    """

    def __init__(self, context: Context, replicas: Mapping[bytes, JobReplica]) -> None:
        self._context, self._replicas = context, replicas
        self._services: dict[bytes, tuple[LogCopy, ResultService]] = {}
        self.lines: Callable[[bytes], ShownLines | None] = lambda job: None

    def answers(self, ask: Ask, body: dict[str, Any]) -> bool:
        """Answer a request now or when there is a record; return False if the master has to."""
        if ask.verb == HUNG_UP:
            known = self._services.get(ask.job)
            return (known is not None and known[1].hung_up(ask) is not None) or "spare" in body
        replica = self._replicas.get(ask.job)
        if replica is None or not reads_at_site(ask.verb, body) or not self._is_site(replica):
            return False
        if _numbering(body) != replica.terms.manifest.incarnation or not _is_certain(replica.copy, body):
            return False
        if body.get("state") == "all" and self.lines(ask.job) is None:
            return False  # the master shows what it waits for
        self._service(replica).ask(ask, body)
        return True

    def shown(self, job: bytes) -> None:
        """The site has a new tentative record, or begins or ends to vote."""
        if (known := self._services.get(job)) is not None:
            known[1].shown()

    def _is_site(self, replica: JobReplica) -> bool:
        """Whether this agent gets each record when it is chosen. It does if it votes, too.

        Only the master knows where the results of a bounded job end.
        """
        terms, me = replica.terms, self._context.me.id
        layout = terms.layout or None
        named = layout is not None and any(each.id == me for each in layout.sites)
        votes = any(each.id == me for each in terms.acceptors)
        return named and votes and read_plan(terms.manifest.text).until_us is None

    def _service(self, replica: JobReplica) -> ResultService:
        copy, job = replica.copy, replica.copy.job
        known = self._services.pop(job, None)
        if known is None or known[0] is not copy:
            plan = read_plan(replica.terms.manifest.text)
            feed = DownstreamFeed(self._context, plan, replica)
            lines = SiteLines(lambda: self.lines(job))
            known = copy, ResultService(self._context, replica, copy, lines, feed)
            copy.appended = partial(_appended, known[1])
        self._services[job] = known
        while len(self._services) > SERVICES_MAX:
            del self._services[next(iter(self._services))]
        return known[1]


def _appended(service: ResultService, index: int) -> None:
    """The log of a site is a prefix of the job's, and has another record."""
    service.feed.reached(index + 1)
    service.published(index)


def _is_certain(copy: LogCopy, body: dict[str, Any]) -> bool:
    """Whether a copy has what a client asks for, or the client waits for the next record."""
    begin = "from_us" if body.get("from") is None else "from"
    try:
        start, stop = (None if body.get(name) is None else int(body[name]) for name in (begin, "to"))
        waits = float(body.get("wait") or 0) > 0
    except (TypeError, ValueError):
        return False
    if start is None:
        return False
    return waits or (copy.latest is not None and copy.latest >= max(start, start if stop is None else stop))
