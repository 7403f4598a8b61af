"""Whole records: fetches the pages of rows of another job's records from its master, one after the other.

Owns the requests for the pages of one answer. A record whose rows no agent has any more, or whose rows are
too large for a reader, is returned as skipped, so that the reader's completeness shows the loss.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from elfmesh.control.answers import GONE, OK, read_answer
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import RowPage, joined, table_of
from elfmesh.control.protocol.messages import Answered
from elfmesh.control.upstream.candidate_placements import ask_named
from elfmesh.errors import ProtocolError
from elfmesh.ql.values.row_json import encode_json

PAGE_S = 15.0
Records = Sequence[tuple[ResultRecord, bytes]]


class WholeRecords:
    """Requests for the pages of one answer.

    Args:
        candidates: ids of the other job's candidate placements.
        records: records of the answer.
        bytes_max: maximum size of the rows of one record.
        then: receives the records, or None if the master does not send a page now.
    """

    def __init__(
        self,
        context: Context,
        candidates: tuple[bytes, ...],
        records: Iterable[tuple[ResultRecord, bytes]],
        bytes_max: int,
        then: Callable[[Records | None], None],
    ) -> None:
        self._context, self._candidates, self._bytes_max, self._then = context, candidates, bytes_max, then
        self._left = deque(records)
        self._done: list[tuple[ResultRecord, bytes]] = []
        self._pages: deque[RowPage] = deque()
        self._rows: list[bytes] = []

    def go_on(self) -> None:
        """Take the records that need no request, and request the next page."""
        while self._left:
            record, rows = self._left[0]
            table = table_of(rows)
            if table is None:
                self._next(record, rows)
            elif sum(page.nbytes for page in table.pages) > self._bytes_max:
                self._lack(record)
            else:
                self._pages.extend(table.pages)
                self._ask()
                return
        self._then(self._done)

    def _next(self, record: ResultRecord, rows: bytes) -> None:
        self._left.popleft()
        self._done.append((record, rows))

    def _lack(self, record: ResultRecord) -> None:
        self._context.stats["control.rows_not_read"] += 1
        self._next(replace(record, state="SKIPPED", completeness=0.0, fidelity=0.0), b"")

    def _ask(self) -> None:
        record, page = self._left[0][0], self._pages[0]
        body = encode_json({"index": record.index, "digest": page.digest.hex()})
        ask_named(self._context, self._candidates, "rows", body, PAGE_S, self._answered)

    def _answered(self, message: Answered | None, payload: bytes) -> None:
        record = self._left[0][0]
        if message is not None and message.status == GONE:
            self._pages.clear()
            self._rows.clear()
            self._lack(record)
            self.go_on()
            return
        try:
            if message is None or message.status != OK:
                raise ProtocolError("no page")
            data = read_answer(message, payload)[1]
            self._pages[0].check(data)
        except ProtocolError:
            self._then(None)
            return
        self._pages.popleft()
        self._rows.append(data)
        if self._pages:
            self._ask()
            return
        rows, self._rows = joined(self._rows), []
        self._next(record, rows)
        self.go_on()
