"""What `describe` shows of a job besides its results: counts, samples of bad lines, errors.

Owns these values, and which hosts take no part. They go on with the next version, and begin again with
another master.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, BUCKETS, UNUSABLE, ResultRecord
from elfmesh.control.protocol.messages import Report
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.protocol.replies import RefusingAgent
from elfmesh.srt.residency import shown

RECENT = 8
"""Records that are kept of those published last."""

SAMPLES_MAX = 10
EXCLUDED_S, EXCLUDED_MAX = 90.0, 1024
"""How long an excluded host is named, and most of them. It repeats its message about every 30 s."""


class Tally:
    """Counts of one job since its master began to lead."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(BUCKETS, 0)
        self.recent: deque[ResultRecord] = deque(maxlen=RECENT)
        self.samples: deque[str] = deque(maxlen=SAMPLES_MAX)
        self.worker_errors: dict[str, str] = {}
        self._excluded: OrderedDict[bytes, tuple[Excluded, float]] = OrderedDict()

    def published(self, record: ResultRecord) -> None:
        for bucket, count in record.counts.items():
            self.totals[bucket] = self.totals.get(bucket, 0) + count
        self.recent.append(record)

    def inherited(self, records: Iterable[ResultRecord]) -> None:
        """An earlier master has published these records; the totals do not contain their counts."""
        self.recent.extend(records)

    def on_report(self, message: Report, *, is_member: bool) -> None:
        self.samples.extend(f"{message.name}: {sample}" for sample in message.samples)
        self.worker_errors.pop(message.name, None)
        if message.error and is_member:
            self.worker_errors[message.name] = message.error

    def on_excluded(self, agent: bytes, message: Excluded, now: float) -> None:
        """A host takes no part, because of its rule or of a limit."""
        self._excluded[agent] = message, now
        self._excluded.move_to_end(agent)
        while len(self._excluded) > EXCLUDED_MAX:
            self._excluded.popitem(last=False)

    def on_member(self, agent: bytes) -> None:
        """An agent takes part."""
        self._excluded.pop(agent, None)

    def excluded(self, now: float) -> list[str]:
        """Return a sentence for each host that takes no part because of its rule or of a limit."""
        messages = (message for message, at in self._excluded.values() if now - at <= EXCLUDED_S)
        return sorted(f"{message.name} takes no part: {_reason(message)}" for message in messages)

    def refused(self, now: float) -> list[RefusingAgent]:
        """Return the hosts that take no part because of a limit."""
        return [
            RefusingAgent(message.name, agent.hex(), message.why)
            for agent, (message, at) in self._excluded.items()
            if now - at <= EXCLUDED_S and not message.keep_in
        ]

    @property
    def broken(self) -> int:
        """Return the violations of ASSUME in the recent intervals."""
        return sum(record.counts.get(ASSUMPTION_BROKEN, 0) for record in self.recent)

    def unusable_share(self, version: int) -> float:
        """The share of unusable records in the recent intervals of a version."""
        counts = [record.counts for record in self.recent if record.version == version]
        bad = sum(each.get(name, 0) for each in counts for name in UNUSABLE)
        read = sum(each.get(name, 0) for each in counts for name in ("contributed", "filtered", *UNUSABLE))
        return bad / read if read else 0.0


def _reason(message: Excluded) -> str:
    rule = shown(message.keep_in)
    return f"its keep_in, {rule}, excludes {message.why}" if rule else message.why
