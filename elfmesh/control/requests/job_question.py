"""A client's request about one job on its way: to the master, or to the sites that may answer it.

Owns where each repetition of one request goes. `requests` owns its time limit and its answer.

A request for results goes to the near site. If no answer has come when it is repeated, it goes to the other
sites too, because the near one may be dead, or cut off from the others. Each of these gives the near site a
round trip to answer first (`spare`), and drops the request when the client has an answer, so that rows of
regions are seldom sent twice.

Paper: Hwang et al. I (a user reads the replica that answers first). Deviation: the others answer a round trip
later than they can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.paths.layout import ReadSites
from elfmesh.control.protocol.events import ClientRequest
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.requests.site_reads import reads_at_site
from elfmesh.control.requests.verbs import HUNG_UP, changes_job
from elfmesh.machine import Contact
from elfmesh.ql.values.row_json import encode_json
from elfmesh.safeguards import safeguard

SPARE_S = 0.2
"""Time that another site gives the near one to answer first, if the round trip to it is not known."""

MASTER_TRIPS = 1.5
"""Round trips that the master gives the near site, which may have a record from it a leg later."""


class JobQuestion:
    """One request of a client about one job.

    Args:
        sites: returns the sites of which this agent requests results of a job.
        event: the request.
        job: the job's id.
        wait: for how long sites may wait with their answer, in seconds.
    """

    def __init__(
        self,
        context: Context,
        sites: Callable[[bytes], ReadSites],
        event: ClientRequest,
        job: bytes,
        wait: float,
    ) -> None:
        self._context, self._sites, self._event, self._job = context, sites, event, job
        self._reads, self._waits = reads_at_site(event.verb, event.body), wait > 0
        self._late_at = context.now + wait
        self._sent = 0  # the token under which it was sent last
        self._spare: dict[bytes, Contact] = {}

    def send(self, token: int, seen: str) -> None:
        """Send the request, or repeat it under the same token."""
        body = self._event.body | ({"seen": seen} if changes_job(self._event.verb) else {})
        sites, again = self._sites(self._job) if self._reads else ReadSites(), token == self._sent
        if not sites.first or (again and self._context.now >= self._late_at):
            self._context.route(self._job, self._ask(token, body))  # to the master: no site answers in time
        else:
            for site in sites.first:
                self._context.send(site, self._ask(token, body))
        if again:
            self._send_spare(token, body, sites)
        self._sent = token

    @safeguard("spare-sites-are-asked")
    def _send_spare(self, token: int, body: dict[str, Any], sites: ReadSites) -> None:
        trips = self._context.facts("round trips").get("seconds", {}) if sites.spare else {}
        for site in sites.spare:
            self._spare[site.id] = site
            is_master = bool(sites.first) and site is sites.spare[0]
            spare_s = trips.get(site.id, SPARE_S) * (MASTER_TRIPS if is_master else 1.0)
            self._context.send(site, self._ask(token, body | {"spare": spare_s}))

    def answered(self, token: int) -> None:
        """Let the other sites drop the request, because the answer is here."""
        for site in self._spare.values():
            self._context.send(site, self._ask(token, {"spare": 0}, HUNG_UP))  # the master need not know

    def hung_up(self, token: int) -> None:
        """Let all drop a long poll, because the client waits no more."""
        self.answered(token)
        if self._waits:  # an earlier master refuses it, and no request waits for that
            self._context.route(self._job, self._ask(token, {}, HUNG_UP))

    def _ask(self, token: int, body: dict[str, Any], verb: str = "") -> Ask:
        return Ask(verb or self._event.verb, self._job, encode_json(body), self._context.me, token)
