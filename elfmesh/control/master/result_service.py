"""Answers to clients: results, offsets, schema, and pages of rows; of a master, or results of a site.

Owns the long polls that wait. Changes nothing about the job. A client that asks for all states gets the
newest revision of each open interval behind the final records. `revision` in the answer is the number of the
last one, so that a follower gets each revision once. `site` names who counts; a follower that states another
one begins again with the open intervals.

Invariants: each question gets one answer, at the latest when its wait is over, unless its client has hung up;
at most `WAITERS_MAX` questions wait.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import UNSET

from elfmesh.control.answers import (
    BAD_REQUEST,
    CONFLICT,
    FAILED,
    GONE,
    OK,
    UNAVAILABLE,
    Body,
    error_body,
    respond,
    seconds,
)
from elfmesh.control.closing.shown import ShownLines, SiteLines
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.pages import count_frames, encode_frame
from elfmesh.control.jobs.records import FIRST, PAO
from elfmesh.control.jobs.terms import CurrentTerms
from elfmesh.control.protocol.events import LOG_PAGE_BYTES_MAX, LogRead
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.protocol.replies import PageOfRows, ResultOffsets, ResultPage, ResultSchema
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.upstream.downstream_feed import DownstreamFeed
from elfmesh.safeguards import safeguard
from elfmesh.srt.residency import allows, shown, together

LIMIT_DEFAULT, LIMIT_MAX = 100, 1000
WAIT_S_MAX = 30.0
"""Longest poll: shorter than the idle time-outs between clients and agents."""

SPARE_S_MAX = 1.0
"""Longest time that another site gets to answer first."""

WAITERS_MAX = 256
"""Long polls that wait at one master. Further ones are answered at once."""

KEEP_HINT = "Write KEEP PARTIALS before AS in the job's text, and apply it again."
"""Hint for a job without partial aggregates."""


@dataclass(slots=True)
class Waiter:
    """A long poll: it waits for a record above `after` or a revision above `revision`.

    `revision` is None for a client that reads final records only. `spare_s`: how long another site, which
    the client asks too, gets to answer first.
    """

    ask: Ask
    body: dict[str, Any]
    after: int
    revision: int | None
    timer: Timer
    spare_s: float


class ResultService:
    """Answers requests about the results of one job.

    Args:
        context: the way out and the log.
        term: gives the terms as they are now.
        copy: this agent's copy of the results log.
        shown: the tentative records and early lines of the open intervals.
        feed: answers the jobs that read this one.

    Attributes:
        complete: whether no record comes any more, so that no question waits for one.
    """

    def __init__(
        self,
        context: Context,
        term: CurrentTerms,
        copy: LogCopy,
        shown: ShownLines | SiteLines,
        feed: DownstreamFeed,
    ) -> None:
        self._context, self._term, self._copy = context, term, copy
        terms = term.terms
        self._job, self._incarnation = terms.manifest.job_id, terms.manifest.incarnation
        self._earlier = {each.incarnation: each for each in terms.earlier}
        self._lines, self.feed = shown, feed
        self._waiters: dict[tuple[int, bytes], Waiter] = {}
        self.complete = False

    def ask(self, ask: Ask, body: dict[str, Any]) -> None:
        """Answer "results", "feed", "offsets" or "schema", now or when there is a new record."""
        try:
            body = self.feed.asked(body) if ask.verb in ("feed", "readable") else body
            after, wait = self._wanted(ask.verb, body)
            spare_s = seconds(body.get("spare"), SPARE_S_MAX)
        except (TypeError, ValueError):
            text = error_body("from, to, after, limit, wait, spare and revision must be numbers", code=2)
            self._respond(ask, BAD_REQUEST, text)
            return
        if ask.verb == "readable":
            read = partial(self._readable, ask)
            self._context.read_log(self._job, self._incarnation, None, None, 0, read)
            return
        if body.get("incarnation", self._incarnation) != self._incarnation:
            self._serve_earlier(ask, body)
            return
        rule = together(each.keep_in for each in self._term.terms.members)
        if body.get("state") in ("all", "early") and not allows(rule, ask.origin):
            refusal = f"rows of open intervals stay in {shown(rule)}, because members keep their data there"
            self._respond(
                ask, CONFLICT, error_body(refusal, hint="Read final records, or ask an agent there.")
            )
            return
        if (ask.token, ask.origin.id) in self._waiters:
            return  # a repetition, because the agent of the client has no answer yet
        body = self._from_here(body)
        latest = self._copy.latest
        revision = _revision(body)
        news = (latest is not None and after is not None and latest > after) or (
            revision is not None and self._lines.seq > revision
        )
        news = news or (ask.verb == "feed" and after is not None and self.feed.until > after + 1)
        at_once = wait <= 0 or after is None or news or self.complete
        if (at_once and not spare_s) or self._full():
            self._serve(ask, body)
            return
        timer = self._context.after(spare_s if at_once else wait, lambda: self._over(ask))
        waiter = Waiter(ask, body, FIRST if after is None else after, revision, timer, spare_s)
        self._waiters[ask.token, ask.origin.id] = waiter

    @safeguard("revisions-of-one-site")
    def _from_here(self, body: dict[str, Any]) -> dict[str, Any]:
        """Let a client begin again with the open intervals whose revision another site has counted."""
        return body if body.get("site") in (None, self._lines.source) else body | {"revision": 0}

    def ask_page(self, ask: Ask, body: dict[str, Any]) -> None:
        """Answer "rows": a page of the rows of a record, fetched from the other voters if it is not here."""
        index, digest = body.get("index"), str(body.get("digest"))
        try:
            page = int(str(index)), bytes.fromhex(digest)
        except ValueError:
            self._respond(ask, BAD_REQUEST, error_body("rows requires index and digest", code=2))
            return
        earlier = str(body.get("incarnation"))
        incarnation = earlier if earlier in self._earlier else self._incarnation
        self._read_page(ask, incarnation, page, last=incarnation == earlier != self._incarnation)

    def _read_page(self, ask: Ask, incarnation: str, page: tuple[int, bytes], *, last: bool) -> None:
        index, digest = page

        def read(found: LogRead | None) -> None:
            if found is not None and found.page:
                self._respond(ask, OK, PageOfRows(incarnation), found.page)
            elif not last:
                again = partial(self._read_page, ask, incarnation, page, last=True)
                self._copy.pages.obtain({digest: index}, self._term.terms.acceptors, again)
            else:
                gone = digest in self._copy.pages.gone or incarnation != self._incarnation
                why = "is lost, because no voter of the job has a page of its rows"
                why = why if gone else "is not complete now, because a page of its rows does not arrive"
                self._respond(ask, GONE if gone else UNAVAILABLE, error_body(f"interval {index} {why}"))

        self._context.read_log(self._job, incarnation, index, None, 0, read, digest=digest)

    def published(self, index: int) -> None:
        """A record is in the log: answer the long polls that wait for it."""
        for waiter in [each for each in self._waiters.values() if each.after < index]:
            self._answer(waiter)

    def reached(self, closed: int) -> None:
        """The log has all records below `closed`: answer the jobs that wait for them."""
        self.feed.reached(closed)
        waiters = [each for each in self._waiters.values() if each.ask.verb == "feed"]
        for waiter in [each for each in waiters if each.after + 1 < self.feed.until]:
            self._answer(waiter)

    def shown(self) -> None:
        """There is a new tentative record or early line: answer the long polls that wait for one."""
        for waiter in [each for each in self._waiters.values() if each.revision is not None]:
            self._answer(waiter)

    def close(self) -> None:
        """Nothing more will be published here: answer all long polls."""
        for waiter in list(self._waiters.values()):
            self._over(waiter.ask)

    def finish(self) -> None:
        """The last interval is published: answer all long polls, and let none wait from now on."""
        self.complete = True
        self.close()

    def hung_up(self, ask: Ask) -> Waiter | None:
        """The client of a question has hung up, or another site has answered; returns what was waiting."""
        waiter = self._waiters.pop((ask.token, ask.origin.id), None)
        if waiter is not None:
            waiter.timer.cancel()
        return waiter

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def _answer(self, waiter: Waiter) -> None:
        """Answer a long poll for which there is news, after the site that is asked first has had time."""
        at = self._context.now + waiter.spare_s
        if not waiter.spare_s:
            self._over(waiter.ask)
        elif at < waiter.timer.at:
            waiter.timer.cancel()
            waiter.timer = self._context.after(waiter.spare_s, lambda: self._over(waiter.ask))

    def _over(self, ask: Ask) -> None:
        waiter = self._waiters.pop((ask.token, ask.origin.id))
        waiter.timer.cancel()
        self._serve(waiter.ask, waiter.body)

    def _full(self) -> bool:
        return self.waiting >= WAITERS_MAX

    @staticmethod
    def _wanted(verb: str, body: dict[str, Any]) -> tuple[int | None, float]:
        wait = seconds(body.get("wait"), WAIT_S_MAX)
        for name in ("from", "to", "limit", "after", "revision"):
            if body.get(name) is not None:
                int(body[name])
        if verb in ("results", "feed"):
            start = body.get("from")
            return (-(2**63) if start is None else int(start) - 1), wait
        if verb == "schema":
            return -(2**63), wait
        after = body.get("after")
        return (None if after is None else int(after)), wait

    def _readable(self, ask: Ask, read: LogRead | None) -> None:
        expired = None if read is None else read.expired
        self._respond(ask, OK, self.feed.facts() | {"begin_us": self.feed.begin_us(expired)})

    def _serve(self, ask: Ask, body: dict[str, Any]) -> None:
        start = stop = None
        limit = 0
        if ask.verb in ("results", "feed"):
            start = None if body.get("from") is None else int(body["from"])
            stop = None if body.get("to") is None else int(body["to"]) + 1
            limit = _limit(body)
        if ask.verb == "feed":  # the page is complete up to here
            body = {**body, "until": self.feed.until}
        incarnation = str(body.get("incarnation", self._incarnation))
        self._context.read_log(
            self._job, incarnation, start, stop, limit, lambda read: self._read(ask, body, start, read)
        )

    def _serve_earlier(self, ask: Ask, body: dict[str, Any]) -> None:
        """Answer a question about an earlier numbering at once, because nothing is published there any more.

        Only the agent that led the job then has its results. Another agent answers that they are gone.
        """
        if body["incarnation"] in self._earlier and ask.verb in ("results", "schema"):
            self._serve(ask, body | {"state": "final"})
        else:
            hint = "`offsets` names the earlier numberings of the job's intervals."
            self._respond(ask, GONE, error_body("the job has no such numbering of intervals", hint=hint))

    def _read(self, ask: Ask, asked: dict[str, Any], start: int | None, read: LogRead | None) -> None:
        if read is None or read.error:
            reason = read.error if read else "the results log does not answer"
            self._respond(ask, FAILED, error_body(f"results cannot be read: {reason}"))
            return
        lost = _lost_within(read, start, asked) if asked.get("strict") else None
        if lost is not None:
            reported = f"{intervals(*lost)} lost: damaged on disk at every agent that kept the results"
            self._respond(ask, GONE, error_body(reported, hint="Read the intervals before and after."))
            return
        earlier = asked.get("incarnation", self._incarnation) != self._incarnation
        damaged = read.hole is not None and not read.page
        if damaged and not earlier and read.hole is not None and ask.verb in ("results", "feed"):
            low, stop = read.hole
            reported = f"{intervals(low, stop - 1)} damaged on this agent's disk and not repaired yet"
            self._respond(ask, UNAVAILABLE, error_body(reported, code=69))
            return
        earliest = read.earliest if read.earliest is not None else 0
        latest = read.latest if read.latest is not None else earliest - 1
        held: dict[str, Any] = {
            "earliest": earliest,
            "latest": latest,
            "expired": read.expired,
            "first": read.first,
            "incarnation": asked.get("incarnation", self._incarnation),
        }
        if ask.verb == "offsets":
            seq = UNSET if _revision(asked) is None else self._lines.seq
            reply = ResultOffsets(**held, earlier=tuple(self._earlier.values()) or UNSET, revision=seq)
            self._respond(ask, OK, reply)
        elif ask.verb == "schema":
            wanted = read.partials if asked.get("view") == PAO else read.schema
            if read.schema and not wanted:
                text = error_body("this job keeps no partial aggregates", hint=KEEP_HINT)
                self._respond(ask, CONFLICT, text)
            elif not wanted:
                hint = "The columns' types are known with the first result; ask again, or with wait=30."
                self._respond(ask, CONFLICT, error_body("this job has no result yet", hint=hint))
            else:
                self._respond(ask, OK, ResultSchema(**held, arrow=base64.b64encode(wanted).decode()))
        elif asked.get("strict") and earlier and (damaged or read.latest is None):
            latest = self._earlier[held["incarnation"]].latest
            gone = f"intervals {start} to {latest} of the numbering before an update are not kept any more"
            self._respond(ask, GONE, error_body(gone))
        elif asked.get("strict") and read.expired is not None and start is not None and start <= read.expired:
            hint = f"The log begins with interval {earliest}."
            self._respond(ask, GONE, error_body(f"interval {start} is not kept any more", hint=hint))
        else:
            following = read.next if read.next is not None else (start if start is not None else latest + 1)
            page, revision = read.page, _revision(asked)
            if ask.verb == "feed":
                until = asked["until"] if following > latest else None
                held |= self.feed.facts() | self.feed.stretch(following, until, read.expired)
                self._respond(ask, OK, held, page)
                return
            if revision is not None:
                after = None if following <= latest else FIRST if read.latest is None else following
                page, revision = self._with_lines(page, asked, after, revision)
            site = UNSET if asked.get("site") is None else self._lines.source
            self._respond(ask, OK, ResultPage(**held, next=following, revision=revision, site=site), page)

    def _with_lines(
        self, page: bytes, asked: dict[str, Any], after: int | None, revision: int
    ) -> tuple[bytes, int]:
        """Add the lines of the intervals from `after` on; None: the page is not the last one of the log."""
        if after is None:
            return page, revision
        start = after if asked.get("from") is None else max(after, int(asked["from"]))
        left = _limit(asked) - count_frames(page)
        found = self._lines.since(revision, start, early=asked.get("state") == "early")
        goes_on = asked.get("revision") is not None
        if not goes_on:  # a client without a cursor goes on by intervals
            found.sort(key=lambda each: each[1].index)
        for number, record, rows in found:
            if asked.get("to") is None or record.index <= int(asked["to"]):
                frame = encode_frame(record, rows)
                if left <= 0 or (page and len(page) + len(frame) > LOG_PAGE_BYTES_MAX):
                    return page, revision
                page += frame
                left -= 1
            revision = number if goes_on else revision
        return page, self._lines.seq

    def _respond(self, ask: Ask, status: int, body: Body, payload: bytes = b"") -> None:
        respond(self._context, ask.origin, ask.token, status, body, payload)


def intervals(first: int, last: int) -> str:
    """The intervals as the subject of a sentence, with its verb."""
    return f"interval {first} is" if first == last else f"intervals {first} to {last} are"


def _lost_within(read: LogRead, start: int | None, asked: dict[str, Any]) -> tuple[int, int] | None:
    stop = None if asked.get("to") is None else int(asked["to"])
    for first, last in read.lost:
        if (start is None or last >= start) and (stop is None or first <= stop):
            return first, last
    return None


def _limit(body: dict[str, Any]) -> int:
    limit = LIMIT_DEFAULT if body.get("limit") is None else int(body["limit"])
    return max(1, min(limit, LIMIT_MAX))


def _revision(body: dict[str, Any]) -> int | None:
    """The number of the last line that a client has, or None if it wants final records only."""
    return int(body.get("revision") or 0) if body.get("state") in ("all", "early") else None
