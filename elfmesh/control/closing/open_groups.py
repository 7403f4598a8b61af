"""Groups of a job (SESSION, SEALED, ROWS, WITHIN) that are open between two of its intervals.

The record of an interval contains the groups that are open after it, so that one change of the control
register closes the interval and stores them (D-4, D-6). A successor reads them from the register's tail. Logs
store records without them, because only the newest ones are used.

Owns the bytes, which intervals need them, and how they change a record. `ql` owns their content.

Invariants: intervals of such a job are finalised in order, each with the groups that its predecessor left
open. Intervals that are decided together are one order; until their rows are made, no further interval is
decided. An interval is decided behind one whose rows are not made only if it has records of its own, or if no
group can end before it has. After a skipped interval its predecessor's groups are still open, with
completeness 0. An interval in which open groups may end has a record even if no member has records for it:
where they are due, or (not with ROWS and WITHIN) where other members are expected.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.closing.ports import Closing
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord, with_broken, with_late
from elfmesh.control.jobs.row_pages import ROWS_BYTES_MAX
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalised
from elfmesh.safeguards import safeguard

ROWS, SESSION, WITHIN = "ROWS", "SESSION", "WITHIN"
"""Values of `JobPlan.spans`."""


class OpenGroups:
    """Open groups of one job in one term.

    Args:
        stages: the job's versions.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self._stages = stages
        self._data = b""
        self._due_us = 0
        self._start_us: int | None = None
        self._making = 0
        self._ends_us = 0

    @safeguard("open-groups")
    def restore(self, tail: bytes) -> None:
        """Continue from the last record of a page, which is the tail of the register."""
        for record, _ in decode_page(tail)[-1:]:
            self._data, self._start_us = record.open, record.start_us
            self._due_us = ql.due_us(record.open)

    def at(self, interval: int) -> bool:
        return bool(read_plan(stage_at(self._stages, interval).manifest.text).spans)

    def due(self, start: int, stop: int, required: int, before: int) -> int | None:
        """Return the first of some intervals in which groups may end even if no member has records for it.

        While rows of earlier intervals are made, it is a lower bound (`is_making`).

        Args:
            start: the first interval.
            stop: one past the last interval.
            required: members that these intervals expect.
            before: members that the interval before them expects.
        """
        if not (self.before(start) or self.is_making):
            return None
        plan = read_plan(stage_at(self._stages, start).manifest.text)
        changed = required != before and plan.spans not in (ROWS, WITHIN)
        ends_us = self._ends_us if self.is_making else self._due_us
        due = start if changed else max(start, plan.first_after(ends_us - plan.size_us))
        return due if due < stop else None

    def needed(self, interval: int, completeness: float) -> bool:
        """Return whether an interval without records changes the open groups, or ends some.

        With ROWS, WITHIN and SESSION, later rows depend on the records that it lacks.
        """
        if self.is_making or self.before(interval):
            return True
        spans = read_plan(stage_at(self._stages, interval).manifest.text).spans
        return spans in (ROWS, WITHIN, SESSION) and completeness < 1.0

    def waits(self, interval: int, closing: Sequence[Closing]) -> bool:
        """Return whether an interval needs the open groups of an interval that is being finalised."""
        return bool(closing) and closing[-1].rows is None and self.at(interval)

    @property
    def is_making(self) -> bool:
        """Whether rows of intervals with open groups are being made, so that these groups are not known."""
        return self._making > 0

    @safeguard("groups-in-making")
    def begin(self, record: ResultRecord) -> None:
        """Note that the rows of an interval are to be made; `made` ends this.

        Groups that it leaves open end when the groups of earlier intervals do, or after its own records.
        """
        assert record.start_us is not None, "a job has intervals"
        ends_us = record.start_us + read_plan(stage_at(self._stages, record.index).manifest.text).after_us
        if self.is_making:
            ends_us = min(ends_us, self._ends_us)
        elif self.before(record.index):
            ends_us = min(ends_us, self._due_us)
        self._making, self._ends_us = self._making + 1, ends_us

    def follows(self, interval: int, record: ResultRecord) -> bool:
        """Return whether an interval may continue the groups of a record in the same order."""
        return stage_at(self._stages, interval) is stage_at(self._stages, record.index)

    def before(self, interval: int) -> bytes | None:
        if not self.at(interval):
            return None
        since_us = stage_at(self._stages, interval).manifest.since_us
        emptied = since_us is not None and self._start_us is not None and self._start_us < since_us
        return b"" if emptied else self._data

    @property
    def next_us(self) -> int | None:
        """Return the earliest start of the interval that continues the open groups; None: there were none."""
        if self._start_us is None:
            return None
        return self._start_us + 1

    def made(self, closing: Closing, event: Finalised) -> str:
        """Take the rows of an interval; skip it if they cannot be made. Returns the error or ""."""
        if self.at(closing.record.index):
            self._making -= 1
        error, size = event.error, len(event.rows) + len(event.open)
        if not error and size > ROWS_BYTES_MAX:
            error = f"the open groups have {len(event.open)} bytes; with the rows {ROWS_BYTES_MAX} are kept"
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
        self._data, self._due_us, self._start_us = event.open, event.due_us, record.start_us
        counts = with_broken(with_late(record.counts, event.late), event.broken)
        share = min(record.completeness, event.completeness)
        partial = record.state == "FINAL" and share < 1.0
        state = "FINAL_PARTIAL" if partial else record.state
        return replace(record, open=event.open, completeness=share, state=state, counts=counts)

    def skipped(self, record: ResultRecord) -> ResultRecord:
        if record.state != "SKIPPED" or not self.at(record.index):
            return record
        text, before = stage_at(self._stages, record.index).manifest.text, self.before(record.index) or b""
        assert record.end_us is not None, "a job has intervals"
        self._data = ql.lacking_after(before, text, read_plan(text).spans.lower(), record.end_us)
        self._start_us = record.start_us
        return replace(record, open=self._data)
