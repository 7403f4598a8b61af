"""What a dead member contributed, fetched from the peers that keep it (D-8).

Owns how often they are asked, and the step from a copy to segments of the trees. Whether an interval waits is
the closer's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from elfmesh.control.cover import numbers
from elfmesh.control.gathered import Gathered
from elfmesh.control.manifest import Manifest
from elfmesh.control.master_judge import Judge
from elfmesh.control.messages_safety import Keep, Surrender
from elfmesh.control.office import Office
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PublishDone
from elfmesh.srt.messages import Segment

ASK_S = 0.5
"""How often the keepers of a dead member are asked while an interval waits for it."""

PUBLISH_S = 2.0


class Recovery:
    """Fetches for one job.

    Args:
        office: the way out.
        manifest: the job.
        replicas: peers that keep each contribution; 0: nobody is asked.
        epoch: the master's term.
        judge: knows who is dead.
    """

    def __init__(self, office: Office, manifest: Manifest, replicas: int, epoch: int, judge: Judge) -> None:
        self._office, self._manifest, self._replicas = office, manifest, replicas
        self._epoch, self._judge = epoch, judge
        self._asked_at: dict[int, float] = {}

    def ask(self, missing: int, start: int) -> None:
        """An interval waits for these members: ask who keeps contributions of the dead among them."""
        for number in numbers(missing) if self._replicas else ():
            asked_at = self._asked_at.get(number, float("-inf"))
            if self._judge.dead_since(number) is None or self._office.now - asked_at < ASK_S:
                continue
            self._asked_at[number] = self._office.now
            job, incarnation = self._manifest.job_id, self._manifest.incarnation
            question = Surrender(job, incarnation, self._office.me, self._epoch, number, start)
            self._office.publish(job, question, PUBLISH_S, _unanswered)

    def segments(
        self, copy: Keep, payload: bytes, first: int, trees: Sequence[Gathered]
    ) -> Iterator[tuple[int, Segment, tuple[bytes, ...]]]:
        """A copy as segments, one per partition, as far as it is of intervals from `first` on."""
        entries = [entry for part in copy.parts for entry in part]
        if len(copy.parts) != len(trees) or sum(entry.size for entry in entries) != len(payload):
            self._office.stats["control.malformed"] += 1
            return
        if copy.stop <= first:
            return
        at = 0
        for partition, part in enumerate(copy.parts):
            kept, payloads = [], []
            for entry in part:
                if entry.interval >= first:
                    kept.append(entry)
                    payloads.append(payload[at : at + entry.size])
                at += entry.size
            yield (
                partition,
                Segment(
                    self._epoch,
                    trees[partition].attempt(first),
                    max(copy.start, first),
                    copy.stop,
                    bitmap_of(1 << copy.number),
                    tuple(kept),
                ),
                tuple(payloads),
            )


def _unanswered(done: PublishDone | None) -> None:
    """The copies come by themselves; who was not reached is asked again."""
