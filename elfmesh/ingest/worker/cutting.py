"""What a version of a job has read since its last report, by pane, for the standby of its open panes.

Rows that the panes have taken are kept as they are, and inserted into a second set of panes, the tail, when
they are many or a report is due, because an insertion of many rows costs little more than one of a few. A
report empties the tail. The merged reports equal the panes themselves, because merging has no order. In
memory only: a restarted agent reads its open panes again.

Paper: PPA II-B, where a replica receives the same input. Deviation: it receives partial aggregates of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt import Panes, encode_parts
from elfmesh.control.protocol.events_standby import CutPane, CutPanes
from elfmesh.errors import DataError
from elfmesh.ingest.worker.insertion import Ints, batches_of
from elfmesh.ingest.worker.tally import Tally
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.ql import Prepared, Statement

PENDING_ROWS_MAX = 1 << 14
"""Number of rows from which a table's rows are inserted before a report is due; this bounds their memory."""

_Pending = list[tuple[Ints, pa.RecordBatch]]


class CutPace:
    """When a worker carries out the orders to report, by the wall clock.

    Attributes:
        order: the newest order; None: there was none.
        age_us: time since the oldest record was read that only the newest report has.
    """

    def __init__(self) -> None:
        self.order: CutPanes | None = None
        self.age_us = 0
        self._number = self._reported_us = 0
        self._since_us: int | None = None  # when the oldest record was read that is in no report

    def take(self, now_us: int, *, has_read: bool) -> CutPanes | None:
        """Return the order if it is to be carried out now, the first one as a whole report.

        `has_read` states whether records were read that are in no report.
        """
        order = self.order
        if has_read and self._since_us is None:
            self._since_us = now_us
        if order is None or self.due_us(now_us) != now_us:
            return None
        if not self._number:
            order = replace(order, whole=order.whole or order.number > 0)
        if not has_read and not order.whole and order.number:
            return None
        self.age_us = 0 if self._since_us is None else max(0, now_us - self._since_us)
        self._number, self._reported_us, self._since_us = order.number, now_us, None
        return order

    def due_us(self, now_us: int) -> int | None:
        """Return when the order is due, `now_us` if it is; None: it is carried out."""
        if self.order is None or self.order.number == self._number:
            return None
        return now_us if not self.order.number else self._paced_us(now_us)

    def within_us(self, now_us: int) -> int | None:
        """Return the time within which the log must be read again for the standby; None: it has none."""
        if self.order is None or not self.order.after_us:
            return None
        return self._paced_us(now_us) - now_us or self.order.after_us

    def _paced_us(self, now_us: int) -> int:
        """Return the end of the time after the newest report; `now_us` behind it or if the clock was set."""
        assert self.order is not None
        end_us = self._reported_us + (self.order.after_us if self._number else 0)
        return end_us if self._reported_us <= now_us < end_us else now_us


class PaneTail:
    """The tail of one version's panes.

    Args:
        statement: statement of the version.
        evaluated: number of the version.
        seed: seed of the tables of keys.
    """

    def __init__(self, statement: Statement, evaluated: int, seed: int) -> None:
        window = statement.window
        assert window is not None, "a job has intervals"
        self._rows = Panes(statement.tables, window.pane_us, seed=seed)
        self._evaluated = evaluated
        self._counts: dict[int, list[int]] = {}
        self._pending: dict[str, _Pending] = {table.name: [] for table in statement.tables}
        self._broken = False

    @property
    def has_records(self) -> bool:
        return bool(self._counts)

    @property
    def nbytes(self) -> int:
        waiting = (int(rows.nbytes) for found in self._pending.values() for _, rows in found)
        return self._rows.nbytes + sum(waiting)

    def insert(self, prepared: Prepared) -> None:
        """Add the rows and the counts of records that the panes have taken."""
        for name, (places, rows) in batches_of(prepared).items():
            if not rows.num_rows:
                continue
            pending = self._pending[name]
            if pending and pending[-1][1].schema != rows.schema:
                self._flush(name)
            pending.append((places, rows))
            if sum(len(each) for each, _ in pending) >= PENDING_ROWS_MAX:
                self._flush(name)
        for bucket, panes in enumerate((prepared.kept, prepared.filtered)):
            for pane, number in panes.items():
                self._counts.setdefault(pane, [0, 0])[bucket] += number

    def settle(self) -> bool:
        """Insert the rows that are kept. Returns False if the tail lacks a row that the panes have."""
        for name in self._pending:
            self._flush(name)
        return not self._broken

    def _flush(self, name: str) -> None:
        pending = self._pending[name]
        if not pending:
            return
        places = np.concatenate([each for each, _ in pending])
        rows = pa.Table.from_batches([each for _, each in pending]).combine_chunks()
        pending.clear()
        try:
            for batch in rows.to_batches():  # one, unless a column is larger than an array may be
                self._rows.insert(name, places[: batch.num_rows], batch)
                places = places[batch.num_rows :]
        except DataError:
            self._broken = True

    def drop_below(self, pane: int) -> None:
        self.settle()
        self._rows.drop_below(pane)
        self._counts = {index: each for index, each in self._counts.items() if index >= pane}

    def take(self) -> list[CutPane]:
        """Return the records since the last call, by pane. Raises PartialTooLarge."""
        self.settle()
        found = [
            cut_pane(self._evaluated, pane, self._counts[pane], self._rows) for pane in sorted(self._counts)
        ]
        self.clear()
        return found

    def clear(self) -> None:
        """Drop all records; keeps the memory of the rows."""
        for pending in self._pending.values():
            pending.clear()
        if panes := self._rows.panes():
            self._rows.drop_below(panes[-1] + 1)
        self._counts.clear()
        self._broken = False


def whole_panes(evaluated: int, tally: Tally, panes: Panes) -> list[CutPane]:
    """Return all open panes of a version. Raises PartialTooLarge."""
    return [cut_pane(evaluated, pane, tally.of_pane(pane), panes) for pane in tally.panes()]


def cut_pane(evaluated: int, pane: int, counts: tuple[int, int] | list[int], panes: Panes) -> CutPane:
    contributed, filtered = counts
    (payload,) = encode_parts(panes.pane(pane), 1, DATA_FRAME_BYTES_MAX)
    return CutPane(evaluated, pane, contributed, filtered, payload)
