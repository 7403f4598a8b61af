"""The parts that close the intervals of one job in one term, and what they ask of the master around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job, read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy
from elfmesh.control.jobs.terms import RosterEntry, Stage, Terms
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.protocol.messages_standby import Delta, PaneDelta, Prefix
from elfmesh.overlay.events import Probe, ProbeDone
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.member.support import TEXT
from tests.control.register.support import run

START = 7
COUNTED = (1,) + (0,) * 8
SLIDE_US = 10_000_000


def manifest_of(text: str) -> Manifest:
    return new_manifest(read_job(text)[0], text, "local", created=1, incarnation="i")


class ClosingRig:
    """A job of some members, m0, m1 and so on, in the role of its master.

    Args:
        text: of the job.
        members: how many it has.
        older: first interval and text of the versions before it, which begins at `effective`.

    Attributes:
        asked: requests to the master: ("hasten", stop) and ("recollect", start, stop, tree, attempt).
        decisions: number of calls that let the master decide intervals.
        evictions: number of reported evictions of members.
        of_sites: which members sites were asked for, and since when these are missing.
        sites_at: when the sites should have answered.
    """

    def __init__(
        self,
        text: str = TEXT,
        members: int = 2,
        *,
        older: Sequence[tuple[int, str]] = (),
        effective: int = -(2**62),
    ) -> None:
        self.context = new_context(1)
        self.asked: list[tuple[object, ...]] = []
        self.decisions = self.evictions = 0
        self.of_sites, self.sites_at = list[tuple[int, float]](), float("-inf")
        self.manifest = replace(manifest_of(text), version=1 + len(older))
        entries = tuple(
            RosterEntry(number, new_context(2 + number).me, f"m{number}") for number in range(members)
        )
        self.book = RosterBook(entries)
        stages = tuple(
            Stage(start, replace(manifest_of(each), version=1 + place), 1 + place)
            for place, (start, each) in enumerate(older)
        )
        self.terms = Terms(
            manifest=self.manifest,
            master=self.context.me,
            epoch=3,
            start=START,
            closed=START,
            members=entries,
            older=stages,
            effective=effective,
        )
        self.term = ClosingTerm(
            self.context,
            self.terms,
            read_plan(text),
            self.book,
            self,
            Rates(),
            deque(maxlen=10),
            TentativeAccuracy(),
        )
        self.collection = Collection(self.term)

    # -- what closing asks of a master -----------------------------------------------------------------

    def close_ready(self) -> None:
        self.decisions += 1

    def commit(self, record: ResultRecord, rows: bytes) -> None: ...

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None: ...

    def shown(self) -> None: ...

    def advanced(self) -> None: ...

    def hasten(self, stop: int) -> None:
        self.asked.append(("hasten", stop))

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        self.asked.append(("recollect", start, stop, partition, attempt))

    is_granted = False

    def end_grant(self) -> None:
        self.asked.append(("end_grant",))

    def request_of_sites(self, missing: int, due: float) -> float:
        self.of_sites.append((missing, due))
        return self.sites_at

    def evicted(self) -> None:
        self.evictions += 1

    def asked_now(self) -> list[tuple[object, ...]]:
        """What was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked

    # -- what happens to them --------------------------------------------------------------------------

    def contribute(
        self,
        mask: int,
        payload: bytes | None,
        interval: int = START,
        *,
        stop: int | None = None,
        tree: int = 0,
        attempt: int = 0,
        rev: int = 1,
        counts: tuple[int, ...] = COUNTED,
    ) -> None:
        """The members in `mask` contribute to an interval, and nothing up to `stop`; None: nothing at all."""
        entries = () if payload is None else (SegmentEntry(interval, counts, len(payload), rev),)
        payloads = () if payload is None else (payload,)
        end = interval + 1 if stop is None else stop
        segment = Segment(3, attempt, interval, end, bitmap_of(mask), entries)
        self.collection.collected(tree, segment, payloads)

    def wait(self, until: float) -> None:
        """Let time pass."""
        run(self.context, until)

    def answer_probes(self, *dead: int) -> list[int]:
        """Answer the probes that are under way: all live but the dead ones. The numbers that were probed."""
        probes = [effect for effect in self.context.out if isinstance(effect, Probe)]
        self.context.out[:] = [effect for effect in self.context.out if not isinstance(effect, Probe)]
        numbers = []
        for probe in probes:
            entry = self.book.of(probe.contact.id)
            assert entry is not None
            numbers.append(entry.number)
            done = ProbeDone(probe.token, probe.contact, entry.number not in dead)
            self.context.answer(probe.token, done)
        return numbers

    def kill(self, number: int) -> None:
        """A probe finds a member dead."""
        self.collection.straggler_policy.suspect(number)
        assert number in self.answer_probes(number)

    def orders(self) -> list[Finalise]:
        """The rows that were ordered."""
        return [effect for effect in self.context.out if isinstance(effect, Finalise)]


def delta(rig: ClosingRig, number: int, contributed: int, filtered: int = 0) -> None:
    """A standby sends what it holds of a member of the first interval."""
    member = rig.book.entries[number].contact.id
    until_us = START * SLIDE_US + SLIDE_US // 2
    panes = (PaneDelta(1, START, contributed, filtered, 1),)
    sent = Delta(rig.manifest.job_id, "i", member, 1, 1, 0, START, until_us, panes)
    rig.collection.on_prefix(Prefix(3, rig.manifest.job_id, (sent,)), b"p")
