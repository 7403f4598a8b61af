"""What people are shown of a job beside its results: counts, samples, errors.

Owns these numbers; they go on when the job's version changes, and begin again with another master.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from elfmesh.control.jobs.records import BUCKETS, UNUSABLE, ResultRecord
from elfmesh.control.protocol.messages import Report

RECENT = 8
SAMPLES_MAX = 10


class Tally:
    """Counts of one job, as its master has seen them."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(BUCKETS, 0)
        self.recent: deque[ResultRecord] = deque(maxlen=RECENT)
        self.samples: deque[str] = deque(maxlen=SAMPLES_MAX)
        self.worker_errors: dict[str, str] = {}

    def published(self, record: ResultRecord) -> None:
        for bucket, count in record.counts.items():
            self.totals[bucket] += count
        self.recent.append(record)

    def inherited(self, records: Iterable[ResultRecord]) -> None:
        """An earlier master has published these; their counts are not in the totals."""
        self.recent.extend(records)

    def report(self, message: Report, *, is_member: bool) -> None:
        self.samples.extend(f"{message.name}: {sample}" for sample in message.samples)
        self.worker_errors.pop(message.name, None)
        if message.error and is_member:
            self.worker_errors[message.name] = message.error

    def unusable_share(self, version: int) -> float:
        """The share of records of a version, of late, that could not be used."""
        counts = [record.counts for record in self.recent if record.version == version]
        bad = sum(each.get(name, 0) for each in counts for name in UNUSABLE)
        read = sum(each.get(name, 0) for each in counts for name in ("contributed", "filtered", *UNUSABLE))
        return bad / read if read else 0.0
