"""What becomes of an interval: each cell of the tables in the head of `interval_closer`, on a real closer."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from elfmesh.control.closing import interval_closer, open_groups
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.member_intervals import MemberIntervals
from elfmesh.control.closing.ports import Phase
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Finalised
from elfmesh.control.protocol.messages_standby import Delta, PaneDelta, Prefix
from elfmesh.ql.engine.open_groups import NEVER_US, Open, write_open
from tests.control.closing.rig import START, ClosingRig, manifest_of
from tests.control.member.support import SEALED, SECOND, TEXT

DEAD = 2.0 * read_plan(TEXT).deadline_s + 120.0


class Rig(ClosingRig):
    """A closer with a job of two members."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)
        self.handed: list[int] = []
        self.pages: list[int] = []
        self.committed: list[int] = []
        self.closer = Closer(self.term, MemberIntervals(self.term, self.collection))
        self.closer.begin()

    def close_ready(self) -> None:
        self.closer.advance()

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        self.handed.append(record.index)

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        self.pages.append(index)

    def ordered(self) -> list[int]:
        return [order.interval for order in self.orders()]

    def finalised(self, error: str = "") -> None:
        event = Finalised(self.manifest.job_id, 3, START, b"" if error else b"rows", error)
        self.closer.finalised(event)

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


def test_prefixes_that_cannot_be_merged_are_not_in_the_record() -> None:
    rig = Rig()
    rig.kill(1)
    member = rig.book.entries[1].contact.id
    panes = (PaneDelta(1, START, 5, 0, 1),)
    sent = Delta(rig.manifest.job_id, "i", member, 1, 1, 0, START, START * 10_000_000 + 1, panes)
    rig.collection.on_prefix(Prefix(3, rig.manifest.job_id, (sent,)), b"p")
    rig.contribute(1, b"partial")
    rig.wait(DEAD)
    (closing,) = rig.closer._closing
    assert [each.agent for each in closing.record.partly] == ["m1"]
    assert closing.record.counts["contributed"] == 6
    rev = closing.record.rev
    rig.closer.finalised(Finalised(rig.manifest.job_id, 3, START, b"rows", rev=rev, lacks_prefixes=True))
    assert (closing.record.partly, closing.record.missing) == ((), ["m1"])
    assert closing.record.counts["contributed"] == 1
    assert rig.term.lacking.notified(START + 1)[3] == ()


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
def test_a_step_has_the_effect_in_its_cell(phase: str, step: str, cell: str) -> None:
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
def test_a_flag_keeps_back_what_the_table_lists(flag: str) -> None:
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
    rig.closer.finalised(Finalised(rig.manifest.job_id, 3, START + 1, b"rows"))
    assert rig.handed == []
    rig.finalised()
    assert rig.handed == [START, START + 1]
    rig.closer.committed(2)
    assert (rig.closer.closed, rig.closer.idle) == (START + 2, True)


def test_an_incomplete_interval_ends_the_grant_before_it_is_decided() -> None:
    rig = Rig()
    rig.is_granted = True
    rig.kill(1)
    rig.contribute(1, b"partial")
    rig.wait(DEAD)
    assert ("end_grant",) in rig.asked
    assert (rig.closer.next, rig.closer.idle) == (START, True), "votes may have closed it without the master"
    rig.is_granted = False
    rig.closer.advance()
    assert rig.closer.next == START + 1


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.MAKING, Phase.READY])
def test_an_interval_that_votes_have_closed_is_closed_in_any_phase(phase: Phase) -> None:
    rig = rig_in(phase)
    rig.closer.adopt(ResultRecord(job="shop/top", index=START))
    assert (rig.closer.next, rig.closer.closed, rig.closer.idle) == (START + 1, START + 1, True)
    rig.finalised()
    assert rig.handed == []


AFTER = SEALED.replace("AFTER '1 h'", "AFTER '30 s'")
"""A partition of it is open for one interval or two after that of its last record."""


def order_of(rig: Rig) -> tuple[int, ...]:
    """The intervals of the newest order."""
    order = rig.orders()[-1]
    return order.interval, *(each.interval for each in order.then)


def behind(at: int) -> bytes:
    """Open groups that differ from those behind other intervals."""
    return write_open(Open({}, lacking=((at, 0.5),)), SEALED, "sealed")


def outcome(at: int, *then: Finalised, error: str = "", due_us: int = NEVER_US) -> Finalised:
    job = manifest_of(SEALED).job_id
    return Finalised(job, 3, at, b"rows", error, open=behind(at), due_us=due_us, then=then)


def busy(text: str = SEALED, *intervals: int) -> Rig:
    """Rows of `START` are being made, and the members have contributed to later intervals, or to none."""
    rig = Rig(text)
    rig.contribute(3, b"partial")
    for at in intervals:
        rig.contribute(3, b"partial", at)
    return rig


def test_intervals_with_open_groups_that_come_meanwhile_are_one_order() -> None:
    rig = busy(SEALED, START + 1, START + 2, START + 3)
    assert (rig.ordered(), rig.closer.next) == ([START], START + 1)
    rig.closer.finalised(outcome(START))
    assert order_of(rig) == (START + 1, START + 2, START + 3)
    assert rig.orders()[-1].open == behind(START)
    rig.closer.finalised(outcome(START + 1, outcome(START + 2), outcome(START + 3)))
    assert rig.handed == [START, START + 1, START + 2, START + 3]
    assert [closing.record.open for closing in rig.closer._closing][1:] == [
        behind(at) for at in (START + 1, START + 2, START + 3)
    ]


def test_an_order_has_at_most_as_many_intervals_and_bytes_as_are_made_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = busy(SEALED, *range(START + 1, START + 12))
    rig.closer.finalised(outcome(START))
    assert order_of(rig) == tuple(range(START + 1, START + interval_closer.IN_FLIGHT_MAX))
    monkeypatch.setattr(interval_closer, "IN_TURN_BYTES_MAX", 1)
    rig = busy(SEALED, START + 1, START + 2)
    rig.closer.finalised(outcome(START))
    assert order_of(rig) == (START + 1,)


def test_behind_rows_that_cannot_be_made_the_others_are_made_with_the_groups_that_are_open() -> None:
    rig = busy(SEALED, START + 1, START + 2, START + 3)
    rig.closer.finalised(outcome(START))
    rig.closer.finalised(outcome(START + 1, outcome(START + 2, error="no memory")))
    assert rig.handed == [START, START + 1, START + 2]
    assert order_of(rig) == (START + 3,)
    assert rig.orders()[-1].open == rig.closer._closing[2].record.open
    rig.closer.finalised(outcome(START + 3))
    assert rig.handed == [START, START + 1, START + 2, START + 3]


def test_rows_that_were_made_behind_too_large_groups_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = busy(SEALED, START + 1, START + 2)
    rig.closer.finalised(outcome(START))
    monkeypatch.setattr(open_groups, "ROWS_BYTES_MAX", 1)
    rig.closer.finalised(outcome(START + 1, outcome(START + 2)))
    assert (rig.handed, order_of(rig)) == ([START, START + 1], (START + 2,))


@pytest.mark.parametrize(
    ("text", "ordered", "until"),
    [(SEALED, (START + 1, START + 4), START + 5), (AFTER, (START + 1,), START + 3)],
)
def test_intervals_without_records_are_passed_meanwhile_if_no_group_can_end_in_them(
    text: str, ordered: tuple[int, ...], until: int
) -> None:
    rig = busy(text, START + 1)
    rig.contribute(3, None, START + 2, stop=START + 4)
    rig.contribute(3, b"partial", START + 4)
    rig.closer.finalised(outcome(START))
    assert (order_of(rig), rig.closer.next) == (ordered, until)


def test_a_group_that_may_end_without_records_is_waited_for() -> None:
    """Rows of `START + 1` leave a group that ends in `START + 3`, which has no records of its own."""
    rig = busy(AFTER, START + 1)
    rig.contribute(3, None, START + 2, stop=START + 4)
    rig.closer.finalised(outcome(START))
    end_us = (START + 4) * 10 * SECOND
    rig.closer.finalised(outcome(START + 1, due_us=end_us))
    assert order_of(rig) == (START + 3,)


def test_an_incomplete_interval_waits_until_the_open_groups_are_known() -> None:
    rig = busy(SEALED, START + 1)
    rig.contribute(1, b"partial", START + 2)
    rig.kill(1)
    rig.context.now += DEAD
    rig.closer.finalised(outcome(START))
    assert (order_of(rig), rig.closer.next) == ((START + 1,), START + 2)
    rig.closer.finalised(outcome(START + 1))
    assert (order_of(rig), rig.closer._closing[-1].record.state) == ((START + 2,), "FINAL_PARTIAL")
