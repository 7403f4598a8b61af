"""Upstream poller: requests results from the masters and sites of other jobs for a job that reads them.

Owns the requests and their repetitions. The buffers of the job that reads use the answers.

Invariants: for each job there is one request under way, or a pause before the next one; with sites, another
one at a site. A request that is repeated after a change of either master gets the same answer. What a site
answers only adds to it: records that were read before are dropped, and a loss is stated by the master alone.

Paper: ELF 2.4, coordination of jobs: the request is routed to the other job's master.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from elfmesh import ql
from elfmesh.control.answers import NOT_FOUND, OK, decode_body, read_answer
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import check_result_columns
from elfmesh.control.jobs.row_pages import table_of
from elfmesh.control.protocol.messages import Answered
from elfmesh.control.upstream.buffer import HELD_BYTES_MAX, Read
from elfmesh.control.upstream.candidate_placements import ask_named
from elfmesh.control.upstream.downstream_feed import sites_of_json
from elfmesh.control.upstream.whole_records import Records, WholeRecords
from elfmesh.errors import ElfError, ProtocolError
from elfmesh.ql.values.row_json import encode_json
from elfmesh.safeguards import safeguard

WAIT_S = 2.0
"""Time for which a master without new results holds a request; it bounds the delay after a master's death."""

GRACE_S = 1.5
AGAIN_S, UNKNOWN_AGAIN_S = 0.3, 2.0
"""Pause before a request is repeated that could not be answered, or whose job does not exist."""

PAGE_RECORDS = 100


class UpstreamPoller:
    """Upstream poller of one job.

    Args:
        manifests: versions with open intervals of the job that reads; the newest is the last.
        answered: called after every answer.
        is_idle: returns whether no results of a job are needed now; the request then only registers the
            reader.
        asks_sites: whether a site of the job that is read gets each request as well, so that the death of
            a master delays no interval. The first answer counts.
    """

    def __init__(
        self,
        context: Context,
        manifests: Sequence[Manifest],
        answered: Callable[[], None],
        is_idle: Callable[[Read], bool],
        *,
        asks_sites: bool = False,
    ) -> None:
        self._context, self._reader = context, manifests[-1].qualified
        self._received, self._is_idle = answered, is_idle
        self._statements = [ql.parse(manifest.text) for manifest in manifests]
        self._pauses: dict[str, Timer] = {}
        self._asked: dict[str, tuple[str, int | None]] = {}
        self._asks_sites, self._at_site = asks_sites, dict[str, int]()
        self._turns: dict[str, int] = {}
        self.stopped = False

    def begin(self, read: Read) -> None:
        self._ask(read)

    def hasten(self, read: Read) -> None:
        """End a pause if the next request differs from the last one."""
        pause = self._pauses.get(read.name)
        if pause is not None and self._asked[read.name] != self._question(read):
            pause.cancel()
            self._ask(read)

    def stop(self) -> None:
        self.stopped = True

    def _question(self, read: Read) -> tuple[str, int | None]:
        return ("readable" if self._is_idle(read) else "feed"), read.until_us

    def _ask(self, read: Read) -> None:
        self._pauses.pop(read.name, None)
        if self.stopped:
            return
        verb, from_us = self._asked[read.name] = self._question(read)
        body = {"reader": self._reader, "from_us": from_us, "limit": PAGE_RECORDS, "wait": WAIT_S}
        then = partial(self._answered, read, verb)
        ask_named(self._context, read.candidates, verb, encode_json(body), WAIT_S + GRACE_S, then)

    @safeguard("sites-are-read-too")
    def _ask_site(self, read: Read) -> None:
        """Ask a site, unless a request is under way at one; the next one if this one does not answer."""
        job, sites = read.sites
        is_due = self._asks_sites and sites and read.name not in self._at_site
        if self.stopped or not is_due or self._is_idle(read):
            return
        turn = self._at_site[read.name] = self._turns.get(read.name, 0)
        body = {"reader": self._reader, "from_us": read.until_us, "limit": PAGE_RECORDS, "wait": WAIT_S}
        asked = encode_json(body | {"near": read.incarnation})
        then = partial(self._site_answered, read)
        self._context.ask_job(job, "feed", asked, WAIT_S + GRACE_S, then, sites[turn % len(sites)])

    def _site_answered(self, read: Read, message: Answered | None, payload: bytes) -> None:
        turn = self._at_site.pop(read.name)
        if self.stopped:
            return
        try:
            if message is None or message.status != OK:
                raise ProtocolError("the site does not answer")
            body, page = read_answer(message, payload)
            records = decode_page(page)
            lacks = body["begin_us"] is not None and int(body["begin_us"]) > (read.until_us or 0)
            if lacks or body["incarnation"] != read.incarnation or any(table_of(rows) for _, rows in records):
                raise ProtocolError("only the master has what follows")
            self._take(read, "feed", body, records)
        except (ElfError, KeyError, TypeError, ValueError):
            self._turns[read.name] = turn + 1
            self._context.after(AGAIN_S, lambda: self._ask_site(read))
            return
        self._received()
        self._ask_site(read)

    def _answered(self, read: Read, verb: str, message: Answered | None, payload: bytes) -> None:
        if self.stopped:
            return
        pause = AGAIN_S
        if message is None:
            read.waits = "its master does not answer"
        elif message.status != OK:
            pause, read.waits = self._refused(message, payload)
        else:
            try:
                body, page = read_answer(message, payload)
                then = partial(self._whole, read, verb, body)
                WholeRecords(self._context, read.candidates, decode_page(page), HELD_BYTES_MAX, then).go_on()
            except ElfError as error:
                pause = self._unreadable(read, error)
            else:
                return
        self._go_on(read, pause)

    def _whole(self, read: Read, verb: str, body: dict[str, Any], records: Records | None) -> None:
        if self.stopped:
            return
        pause = AGAIN_S
        if records is None:
            read.waits = "its master does not give the rows of a record"
        else:
            try:
                pause = self._take(read, verb, body, records)
            except (ElfError, KeyError, TypeError, ValueError) as error:
                pause = self._unreadable(read, error)
        self._go_on(read, pause)

    def _unreadable(self, read: Read, error: Exception) -> float:
        self._context.stats["control.malformed"] += 1
        read.waits = f"its answer cannot be read: {error}"
        return UNKNOWN_AGAIN_S

    def _go_on(self, read: Read, pause: float) -> None:
        if pause:
            self._pauses[read.name] = self._context.after(pause, lambda: self._ask(read))
        self._received()
        self._ask_site(read)
        if not pause:
            self._ask(read)

    def _refused(self, message: Answered, payload: bytes) -> tuple[float, str]:
        unknown = message.status == NOT_FOUND
        try:
            reason = str(decode_body(payload[: message.body_size]).get("error"))
        except ElfError:
            reason = "its master cannot answer"
        return (UNKNOWN_AGAIN_S if unknown else AGAIN_S), reason

    def _take(self, read: Read, verb: str, body: dict[str, Any], records: Records) -> float:
        if body["incarnation"] != read.incarnation:  # a new numbering, perhaps with other columns
            try:
                for statement in self._statements:
                    check_result_columns(statement, read.name, body["columns"])
            except ElfError as error:
                read.waits = str(error)
                return UNKNOWN_AGAIN_S
            read.incarnation = body["incarnation"]
        read.slide_us, read.size_us = int(body["slide_us"]), int(body["size_us"])
        read.waits = "it is paused" if body.get("paused") else "its next interval is not closed"
        if verb == "readable":
            return WAIT_S
        begin_us, until_us = body["begin_us"], int(body["until_us"])
        earliest, latest = int(body["earliest"]), int(body["latest"])
        read.first_us = earliest * read.slide_us if earliest <= latest else None
        if begin_us is not None:
            read.lost(int(begin_us), expired=body.get("expired") is not None)
            read.begin_us = int(begin_us)
        read.sites = sites_of_json(body)
        read.take(records, read.slide_us)
        read.until_us = until_us if read.until_us is None else max(until_us, read.until_us)
        return 0.0
