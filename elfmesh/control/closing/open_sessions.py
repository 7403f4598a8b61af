"""The sessions of a job that are open between two of its intervals, as its master holds them.

They are written into the record of the interval behind which they are open, so that one change of the control
register closes the interval and keeps them (D-4, D-6): a successor finds them in the register's tail and goes
on with the same bytes. Logs keep records without them: only the newest are of use.

Owns the bytes, when an interval needs them, and what they do to its record. Refuses to know what they say
(`ql.sessions`).

Invariants: intervals with sessions are finalised one after the other, each with what the one before it has
left open; behind a skipped interval its predecessors' sessions are open still, with completeness 0; while any
are open, the next interval leaves a record, also if no member has records for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.closing.ports import Closing
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import ROWS_BYTES_MAX
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalised


class OpenSessions:
    """Of one job in one term.

    Args:
        stages: the job's versions.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self._stages = stages
        self._data = b""
        self._start_us: int | None = None

    def restore(self, tail: bytes) -> None:
        """Go on from the records that were closed last, a page."""
        for record, _ in decode_page(tail)[-1:]:
            self._data, self._start_us = record.open, record.start_us

    def at(self, interval: int) -> bool:
        return read_plan(stage_at(self._stages, interval).manifest.text).sessions

    def is_open(self, interval: int) -> bool:
        """Whether sessions may end with an interval although no member has records for it."""
        return bool(self.before(interval))

    def waits(self, interval: int, closing: Sequence[Closing]) -> bool:
        """Whether an interval needs what one that is being finalised leaves open."""
        return bool(closing) and closing[-1].rows is None and self.at(interval)

    def before(self, interval: int) -> bytes | None:
        if not self.at(interval):
            return None
        since_us = stage_at(self._stages, interval).manifest.since_us
        emptied = since_us is not None and self._start_us is not None and self._start_us < since_us
        return b"" if emptied else self._data

    def made(self, closing: Closing, event: Finalised) -> str:
        """The rows of an interval are there, or cannot be made: then it is skipped. Returns why."""
        error, size = event.error, len(event.rows) + len(event.open)
        if not error and size > ROWS_BYTES_MAX:
            error = f"the open sessions have {len(event.open)} bytes; with the rows {ROWS_BYTES_MAX} are kept"
        if error:
            lost = replace(closing.record, state="SKIPPED", completeness=0.0, fidelity=0.0, reason=error)
            closing.record = self.skipped(lost)
        else:
            closing.record = self._added(closing.record, event)
        closing.rows = b"" if error else event.rows
        return error

    def _added(self, record: ResultRecord, event: Finalised) -> ResultRecord:
        if not self.at(record.index):
            return record
        self._data, self._start_us = event.open, record.start_us
        share = min(record.completeness, event.completeness)
        partial = record.state == "FINAL" and share < 1.0
        state = "FINAL_PARTIAL" if partial else record.state
        return replace(record, open=event.open, completeness=share, state=state)

    def skipped(self, record: ResultRecord) -> ResultRecord:
        if record.state != "SKIPPED" or not self.at(record.index):
            return record
        self._data, self._start_us = ql.left_out(self.before(record.index) or b""), record.start_us
        return replace(record, open=self._data)
