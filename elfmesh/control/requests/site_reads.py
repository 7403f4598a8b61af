"""Requests for results that a site answers from its copy of the log, so that readers of its region are near.

Owns the long polls at this site. A site answers only what it is sure of: it has the records, or the client
waits for one. The site sends all other requests on to the master.

Invariants: a site serves records that the register has chosen, which are the same at every agent. A client
names the numbering of intervals that it reads (`incarnation`, or `near` if it follows the job into the next
one), so that a site that lags behind a new one cannot answer for it.

Paper: Hwang et al. I (a user reads the replica that answers first). Deviation: the
site of the user's region, and the master if that is gone or silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elfmesh.control.closing.shown import NoLines
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.replicas.job_replica import JobReplica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.upstream.downstream_feed import DownstreamFeed

SERVICES_MAX = 256
"""Jobs whose readers a site remembers; the one that was asked about least recently goes first."""


def reads_at_site(verb: str, body: Mapping[str, Any]) -> bool:
    """Whether a site may answer a request: final records of a numbering that the client knows."""
    return verb == "results" and _numbering(body) != "" and body.get("state") not in ("all", "early")


def _numbering(body: Mapping[str, Any]) -> str:
    return str(body.get("incarnation") or body.get("near") or "")


class SiteReads:
    """The readers of one agent's sites.

    Args:
        replicas: of the jobs that other agents lead.
    """

    def __init__(self, context: Context, replicas: Mapping[bytes, JobReplica]) -> None:
        self._context, self._replicas = context, replicas
        self._services: dict[bytes, tuple[LogCopy, ResultService]] = {}

    def answers(self, ask: Ask, body: dict[str, Any]) -> bool:
        """Answer a request now or when there is a record; return False if the master has to."""
        replica = self._replicas.get(ask.job)
        if replica is None or not reads_at_site(ask.verb, body) or not self._is_site(replica):
            return False
        if _numbering(body) != replica.terms.manifest.incarnation or not _is_certain(replica.copy, body):
            return False
        self._service(replica).ask(ask, body)
        return True

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
            known = copy, ResultService(self._context, replica, copy, NoLines(), feed)
            copy.appended = known[1].published
        self._services[job] = known
        while len(self._services) > SERVICES_MAX:
            del self._services[next(iter(self._services))]
        return known[1]


def _is_certain(copy: LogCopy, body: dict[str, Any]) -> bool:
    """Whether a copy has what a client asks for, or the client waits for the next record."""
    try:
        start, stop = (None if body.get(name) is None else int(body[name]) for name in ("from", "to"))
        waits = float(body.get("wait") or 0) > 0
    except (TypeError, ValueError):
        return False
    if start is None:
        return False
    return waits or (copy.latest is not None and copy.latest >= max(start, start if stop is None else stop))
