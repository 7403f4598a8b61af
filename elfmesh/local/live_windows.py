"""Windows of `elf run` that are printed while the input continues.

A window is due when the watermark, the largest event time minus LATENESS, has passed its end. It is printed
with the state TENTATIVE, and again with the next revision when a record arrives for it. At the end of the
input, `LogRun` returns all windows as final, and each of them equals that of a run over the same bytes.

Windows stay in memory and in temporary files until the end of the input, because a late record may belong to
any of them. Sessions, and the one interval of a query without a window, are known at the end only.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from elfmesh.control.jobs.records import CONTRIBUTED, ResultRecord
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.ingest.worker.worker import JobWorker


class LiveWindows:
    """The windows of one run that are due.

    Attributes:
        late: records that arrived after their window was due.
    """

    def __init__(self) -> None:
        self.late = 0
        self._due_below: int | None = None
        self._counts: dict[int, tuple[int, ...]] = {}
        self._revisions: dict[int, int] = {}

    def due(self, worker: JobWorker, least_us: int | None) -> Iterator[OpenInterval]:
        """Yield, in order, the windows that are due now, and earlier ones with new records.

        Args:
            worker: it has processed the block.
            least_us: the smallest event time of the block; None if no record of it has one.

        Cost: the windows from `least_us` to the watermark, and the content of those that are yielded.
        """
        newest_us, window = worker.times.newest_us, worker.statement.window
        if least_us is None or newest_us is None or window is None or worker.statement.spans_intervals:
            return
        job = worker.statement.job
        stop = (newest_us - (job.lateness_us if job else 0) - window.size_us) // window.slide_us + 1
        first = (least_us - window.size_us) // window.slide_us + 1
        due = first if self._due_below is None else self._due_below
        start, self._due_below = min(first, due), max(stop, due)
        for index in worker.tally.occupied(start, self._due_below):
            counts, before = tuple(worker.tally.of(index)), self._counts.get(index)
            if index >= start and counts != before:
                if index < due:
                    self.late += counts[CONTRIBUTED] - (before[CONTRIBUTED] if before else 0)
                self._counts[index] = counts
                self._revisions[index] = self._revisions.get(index, 0) + 1
                yield worker.peek(index)

    def tentative(self, record: ResultRecord) -> ResultRecord:
        """Return the record of a window that is due, with its state and revision."""
        return msgspec.structs.replace(record, state="TENTATIVE", rev=self._revisions[record.index])

    def has(self, index: int, counts: tuple[int, ...]) -> bool:
        """Return whether a window was due with these counts, so that its rows are known already."""
        return self._counts.get(index) == counts
