"""What becomes of an interval: each cell of the tables in the head of `interval_closer`, on a real closer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from elfmesh.control.closing import interval_closer
from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.member_intervals import MemberIntervals
from elfmesh.control.closing.ports import Phase
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import TERMS

START = 7
DEAD = 2.0 * read_plan(TERMS.manifest.text).deadline_s + 120.0


@dataclass
class Rig:
    """A closer with a job of two members, and all that it tells the master around it."""

    handed: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context = new_context(1)
        members = tuple(RosterEntry(number, new_context(2 + number).me, f"m{number}") for number in range(2))
        terms = TERMS.__class__(
            manifest=TERMS.manifest, master=TERMS.master, epoch=1, start=START, closed=START, members=members
        )
        self.term = ClosingTerm(
            self.context, terms, read_plan(TERMS.manifest.text), RosterBook(members), self
        )
        self.collection = Collection(self.term)
        self.closer = Closer(self.term, MemberIntervals(self.term, self.collection))
        self.closer.begin()

    # -- what a closer asks of a master ----------------------------------------------------------------

    def close_ready(self) -> None:
        self.closer.advance()

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        self.handed.append(record.index)

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        self.pages.append(index)

    def shown(self) -> None: ...

    def advanced(self) -> None: ...

    def hasten(self, stop: int) -> None: ...

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None: ...

    def evicted(self) -> None: ...

    # -- what happens to it ----------------------------------------------------------------------------

    def contribute(self, mask: int, payload: bytes | None, interval: int = START) -> None:
        entries = () if payload is None else (SegmentEntry(interval, (1,) + (0,) * 8, len(payload), 1),)
        payloads = () if payload is None else (payload,)
        segment = Segment(1, 0, interval, interval + 1, bitmap_of(mask), entries)
        self.collection.collected(0, segment, payloads)

    def ordered(self) -> list[int]:
        return [effect.interval for effect in self.context.out if isinstance(effect, Finalise)]

    def finalised(self, error: str = "") -> None:
        job = TERMS.manifest.job_id
        self.closer.finalised(Finalised(job, 1, START, b"" if error else b"rows", error))

    @property
    def phase(self) -> Phase:
        """Where interval `START` is, as seen from outside."""
        for closing in self.closer._closing:
            if closing.record.index == START:
                return closing.phase
        if self.closer.next == START:
            return Phase.GONE if self.closer.frozen else Phase.OPEN
        return Phase.CLOSED if self.is_closed() else Phase.GONE

    def is_closed(self) -> bool:
        return self.closer.closed > START and (not self.ordered() or START in self.committed)

    committed: list[int] = field(default_factory=list)

    def commit_oldest(self) -> None:
        self.closer.committed(1)
        self.committed.append(START)


STEPS: dict[str, Callable[[Rig], None]] = {
    "pass": lambda rig: rig.contribute(3, None),
    "decide": lambda rig: rig.contribute(3, b"partial"),
    "empty": lambda rig: rig.contribute(3, b""),
    "rows": lambda rig: rig.finalised(),
    "error": lambda rig: rig.finalised("they cannot be made"),
    "publish": lambda rig: rig.closer.publish(),
    "commit": lambda rig: rig.commit_oldest(),
    "stop": lambda rig: rig.closer.stop(),
}


def rig_in(phase: Phase) -> Rig:
    """A closer whose interval `START` is in this phase."""
    rig = Rig()
    if phase is Phase.OPEN:
        return rig
    rig.contribute(3, b"partial")
    if phase is Phase.GONE:
        rig.closer.stop()
    if phase in (Phase.READY, Phase.HANDED, Phase.CLOSED):
        rig.closer.behind = phase is Phase.READY
        rig.finalised()
        rig.closer.behind = False
    if phase is Phase.CLOSED:
        rig.commit_oldest()
    assert rig.phase is phase
    return rig


def _table(head: str) -> list[list[str]]:
    """The lines of a table in the module's head that begins with this word."""
    lines = (interval_closer.__doc__ or "").splitlines()
    at = next(place for place, line in enumerate(lines) if line.strip().startswith(f"{head} "))
    found = [re.split(r"[ |]+", lines[at].strip())]
    for line in lines[at + 2 :]:
        if not line.strip():
            return found
        found.append(re.split(r"[ |]+", line.strip()))
    return found


HEAD, *ROWS = _table("phase")
CELLS = [(row[0], step, cell) for row in ROWS for step, cell in zip(HEAD[1:], row[1:], strict=True)]


def test_the_table_has_every_phase_and_every_step() -> None:
    assert [row[0] for row in ROWS] == list(Phase)
    assert HEAD[1:] == list(STEPS)
    reasons = set(re.findall(r"(?<= )(\d) [A-Z]", interval_closer.__doc__ or ""))
    assert {cell for _, _, cell in CELLS if cell.isdigit()} == reasons


@pytest.mark.parametrize(("phase", "step", "cell"), CELLS, ids=lambda each: each)
def test_a_step_does_what_its_cell_says(phase: str, step: str, cell: str) -> None:
    rig = rig_in(Phase(phase))
    before = (rig.handed[:], rig.pages[:], len(rig.closer._closing), rig.ordered())
    if cell == "3":
        with pytest.raises(ValueError, match="not handed on"):
            STEPS[step](rig)
        assert rig.phase is Phase(phase)
        return
    if cell == "READY" and step in ("rows", "error"):
        rig.closer.behind = True  # or what is ready is handed on at once
    STEPS[step](rig)
    if cell.isdigit():
        assert rig.phase is Phase(phase)
        assert (rig.handed, rig.pages, len(rig.closer._closing), rig.ordered()) == before
        return
    assert rig.phase is Phase(cell)
    assert rig.ordered() == before[3] + [START] * (cell == "MAKING")
    assert rig.handed == before[0] + [START] * (cell == "HANDED")
    if step == "stop":
        assert rig.closer.idle
    if step == "error":
        (closing,) = rig.closer._closing
        assert (closing.record.state, closing.rows) == ("SKIPPED", b"")


FLAGS = {row[0]: tuple(row[1:4]) for row in _table("flag")[1:]}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_keeps_back_what_the_table_says(flag: str) -> None:
    may_decide, may_give_up, may_publish = (cell == "yes" for cell in FLAGS[flag])

    rig = rig_in(Phase.READY)
    setattr(rig.closer, flag, True)
    rig.closer.publish()
    assert (rig.handed == [START]) == may_publish

    rig = Rig()
    setattr(rig.closer, flag, True)
    rig.contribute(3, b"partial")
    assert (rig.closer.next > START) == may_decide

    rig = Rig()
    setattr(rig.closer, flag, True)
    rig.contribute(1, b"partial")
    rig.contribute(1, b"partial", START + 1)
    rig.collection.straggler_policy._dead[1] = rig.context.now
    rig.context.now += DEAD
    rig.closer.advance()
    assert (rig.closer.next > START) == may_give_up


def test_without_a_flag_all_of_it_happens() -> None:
    rig = Rig()
    rig.contribute(1, b"partial")
    rig.contribute(1, b"partial", START + 1)
    assert rig.closer.next == START
    rig.collection.straggler_policy._dead[1] = rig.context.now
    rig.context.now += DEAD
    rig.closer.advance()
    assert rig.closer.next > START
    rig.finalised()
    assert rig.handed == [START]


def test_records_are_handed_on_in_order() -> None:
    rig = Rig()
    rig.contribute(3, b"partial")
    rig.contribute(3, b"partial", START + 1)
    rig.closer.finalised(Finalised(TERMS.manifest.job_id, 1, START + 1, b"rows"))
    assert rig.handed == []
    rig.finalised()
    assert rig.handed == [START, START + 1]
    rig.closer.committed(2)
    assert (rig.closer.closed, rig.closer.idle) == (START + 2, True)
