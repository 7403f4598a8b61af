"""Asking the masters of other jobs for their results, again and again, for a job that reads them.

Owns the questions, and when each is repeated. What the answers are for is the business of who reads.

Invariants: of each job one question at a time is under way, or a pause before the next; who is asked again
after a change of either master answers the same.

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
from elfmesh.control.jobs.records import encode_json
from elfmesh.control.protocol.messages import Answered
from elfmesh.control.upstream.buffer import HELD_BYTES_MAX, Read
from elfmesh.control.upstream.candidate_placements import ask_named
from elfmesh.control.upstream.whole_records import Records, WholeRecords
from elfmesh.errors import ElfError

WAIT_S = 2.0
"""How long a master that has nothing new keeps a question: who asks of a dead one loses no more."""

GRACE_S = 1.5
AGAIN_S, UNKNOWN_AGAIN_S = 0.3, 2.0
"""When a question is repeated that could not be answered now, or that no job answers to."""

PAGE_RECORDS = 100


class UpstreamPoller:
    """The questions of one job.

    Args:
        context: clock and way out.
        manifests: of the job that reads, in the versions whose intervals are open; the newest is the last.
        answered: called after every answer.
        is_idle: whether nothing is wanted of a job for now; then it is only told that it has a reader.
    """

    def __init__(
        self,
        context: Context,
        manifests: Sequence[Manifest],
        answered: Callable[[], None],
        is_idle: Callable[[Read], bool],
    ) -> None:
        self._context, self._reader = context, manifests[-1].qualified
        self._received, self._is_idle = answered, is_idle
        self._statements = [ql.parse(manifest.text) for manifest in manifests]
        self._pauses: dict[str, Timer] = {}
        self._asked: dict[str, tuple[str, int | None]] = {}
        self.stopped = False

    def begin(self, read: Read) -> None:
        """Ask for what comes next, from now on."""
        self._ask(read)

    def hasten(self, read: Read) -> None:
        """Ask now, if there is a pause and another question than the one that was answered last."""
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
        body = {
            "reader": self._reader,
            "from_us": from_us,
            "limit": PAGE_RECORDS,
            "wait": WAIT_S,
        }
        then = partial(self._answered, read, verb)
        ask_named(self._context, read.candidates, verb, encode_json(body), WAIT_S + GRACE_S, then)

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
        read.waits = f"what it says cannot be read: {error}"
        return UNKNOWN_AGAIN_S

    def _go_on(self, read: Read, pause: float) -> None:
        if pause:
            self._pauses[read.name] = self._context.after(pause, lambda: self._ask(read))
        self._received()
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
        read.take(records, read.slide_us)
        read.until_us = until_us if read.until_us is None else max(until_us, read.until_us)
        return 0.0
