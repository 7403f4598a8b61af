"""One member's ledger on its own: what is decided, when, and what goes up with it (D-1, D-15)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.contribution import Contribution
from elfmesh.control.closing.outcomes import LACKS_MAX, Lacking
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import BUCKETS, NOT_COUNTED
from elfmesh.control.member.accounting import ASK_S, ASKED_MAX, Accounting
from elfmesh.control.protocol.events import DeadLetter, Persist, Sealed
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bitmap_of, bits_of
from tests.control.member.support import TEXT

EXPIRED = BUCKETS.index("expired")
MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=0, incarnation="x")
ME = 3


def sealed(*indices: int, records: int = 5) -> Sealed:
    part = tuple(Contribution(index, (records, 2, *NOT_COUNTED[2:]), b"p") for index in indices)
    return Sealed(MANIFEST.job_id, "x", indices[0], indices[-1] + 1, (part,))


class Bench:
    """A accounting, and its disk."""

    def __init__(self, stored: bytes = b"") -> None:
        me = Contact(b"m" * 20, "sim", 1)
        self.context = Context(me, "agent-1", random.Random(1), lambda topic: {})
        self.asked: list[AskFates] = []
        self.stored = stored
        self.it = Accounting(self.context, MANIFEST, self.asked.append, lambda: None, stored)
        if not stored:
            self.it.numbered(0, ME)

    def letters(self) -> list[int]:
        """Dead letters since the last time; the ledger is on disk behind them."""
        out, self.context.out = self.context.out, []
        found = [effect.interval for effect in out if isinstance(effect, DeadLetter)]
        self.stored = next(
            (effect.data for effect in reversed(out) if isinstance(effect, Persist)), self.stored
        )
        assert not found or isinstance(out[-1], Persist)
        return found

    def restart(self) -> Bench:
        self.letters()
        return Bench(self.stored)

    def wait(self, seconds: float) -> None:
        self.context.now += seconds
        self.context.fire()

    def outcomes(self, *, inside: tuple[int, ...] = (), outside: tuple[int, ...] = ()) -> None:
        self.it.answered(Fates(MANIFEST.job_id, "x", ME, inside, outside))


def lack(start: int, stop: int, *numbers: int) -> Lack:
    return Lack(start, stop, bitmap_of(sum(1 << number for number in numbers)))


def test_a_mark_decides_only_what_it_knows_completely() -> None:
    bench = Bench()
    bench.it.closed(sealed(10, 11, 12), ME)
    bench.it.notified(11, (), 13)
    assert bench.it.undecided == 3, "10 is older than what the mark tells of, and comes first"
    assert bench.it.floor(13) == 10
    bench.outcomes(outside=(10,))
    assert bench.letters() == [10]
    bench.it.notified(11, (lack(12, 13, 1, ME),), 12)
    assert (bench.letters(), bench.it.floor(13)) == ([], 12), "12 was not closed when the mark was made"
    bench.it.notified(11, (lack(12, 13, 1, ME),), 13)
    assert (bench.letters(), bench.it.floor(13)) == ([12], 13)


def test_others_that_are_lacking_are_none_of_our_business() -> None:
    bench = Bench()
    bench.it.closed(sealed(10, 11), ME)
    bench.it.notified(0, (lack(0, 99, 1, 2, 4),), 12)
    assert bench.letters() == []
    assert bench.it.undecided == 0


def test_the_master_is_asked_again_and_in_bounded_questions() -> None:
    bench = Bench()
    for index in range(ASKED_MAX + 5):
        bench.it.closed(sealed(index), ME)
    assert bench.asked == []
    for _ in range(2):
        bench.wait(ASK_S * 1.25)
    assert [each.indices for each in bench.asked] == [tuple(range(ASKED_MAX))] * 2
    bench.outcomes(inside=tuple(range(ASKED_MAX)))
    bench.wait(ASK_S * 1.25)
    assert bench.asked[-1].indices == tuple(range(ASKED_MAX, ASKED_MAX + 5))


def test_what_is_owed_is_only_added_to_what_never_went_up() -> None:
    bench = Bench()
    bench.it.closed(sealed(10), ME)
    bench.outcomes(outside=(10,))
    again = sealed(11).parts[0]
    assert bench.it.place(again, again=True) == again
    placed = bench.it.place(sealed(12, 13).parts[0], again=False)
    assert placed[0].counts[EXPIRED] == 5
    assert placed[0].counts[:2] == (5, 4), "what was filtered is filtered"
    assert placed[1].counts[EXPIRED] == 0


def test_after_a_restart_the_same_goes_up_with_the_same_interval() -> None:
    bench = Bench()
    bench.it.closed(sealed(10), ME)
    bench.outcomes(outside=(10,))
    placed = bench.it.place(sealed(12).parts[0], again=False)
    bench = bench.restart()
    assert bench.it.place(sealed(12).parts[0], again=True) == placed
    assert bench.it.place(sealed(13).parts[0], again=False)[0].counts[EXPIRED] == 0
    bench.it.closed(Sealed(MANIFEST.job_id, "x", 12, 13, (placed,)), ME)
    bench.outcomes(outside=(12,))
    taken = bench.it.place(sealed(14).parts[0], again=False)
    assert taken[0].counts[:2] == (5, 2 + 2 + 2)
    assert taken[0].counts[EXPIRED] == 5 + 5, "its own records, and those that went up with it"


@pytest.mark.parametrize("number", [None, ME], ids=["from-before-the-term", "contributed-again"])
def test_after_a_restart_nothing_is_settled_twice(number: int | None) -> None:
    bench = Bench()
    bench.it.closed(sealed(10, 11), ME)
    bench.outcomes(outside=(10,))
    bench = bench.restart()
    bench.it.closed(sealed(10, 11), number)
    assert bench.it.undecided == 1
    bench.outcomes(outside=(10, 11))
    assert bench.letters() == [11]
    assert bench.it.pending_corrections[EXPIRED] == 5 + 5


class Boot:
    """A member's lives: what it sealed, what went up with each interval, and whether that is inside."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.written: list[tuple[Contribution, ...]] = []
        self.up: list[tuple[Contribution, ...]] = []
        self.inside: list[bool] = []

    def seal(self, records: int) -> None:
        self.written.append(sealed(len(self.up), records=records).parts[0])
        self.up.append(self.bench.it.place(self.written[-1], again=False))

    def close(self, inside: int) -> None:
        if len(self.inside) < len(self.up):
            self._closed(self.up[len(self.inside)], ME)
            self.inside.append(bool(inside % 2))

    def _closed(self, part: tuple[Contribution, ...], number: int | None) -> None:
        index = part[0].interval
        self.bench.it.closed(Sealed(MANIFEST.job_id, "x", index, index + 1, (part,)), number)

    def tell(self, until: int) -> None:
        until = min(until, len(self.inside))
        lacks = tuple(lack(index, index + 1, ME) for index in range(until) if not self.inside[index])
        self.bench.it.notified(0, lacks, until)

    def restart(self, begun: int) -> None:
        """The frame log has all frames still; the roster on disk says that `begun` intervals are closed."""
        closed = len(self.inside)
        self.bench = self.bench.restart()
        for index, part in enumerate(self.written):
            if index < min(begun, closed):
                self._closed(part, None)
                continue
            placed = self.bench.it.place(part, again=True)
            assert index < closed or placed == self.up[index], "the same goes up with the same interval"
            if index < closed:
                self._closed(placed, ME)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(("seal", "close", "tell", "restart")), st.integers(0, 9)), max_size=40)
)
def test_each_record_is_counted_once_however_often_its_agent_restarts(steps: list[tuple[str, int]]) -> None:
    boot = Boot()
    for step, number in steps:
        getattr(boot, step)(number)
    boot.tell(len(boot.inside))
    open_from = len(boot.inside)
    counted = [part for index, part in enumerate(boot.up) if index >= open_from or boot.inside[index]]
    found = sum(sum(part[0].counts) for part in counted) + sum(boot.bench.it.pending_corrections)
    assert found == sum(sum(part[0].counts) for part in boot.written)


def test_what_never_went_up_is_known_without_asking() -> None:
    bench = Bench()
    bench.it.numbered(20, ME)
    early = Accounting(bench.context, MANIFEST, bench.asked.append, lambda: None)
    early.closed(sealed(10))
    bench.wait(ASK_S * 1.25)
    assert bench.letters() == [10]
    assert bench.asked == []


def test_a_damaged_ledger_or_one_of_another_incarnation_is_an_empty_one() -> None:
    bench = Bench()
    bench.it.closed(sealed(10), ME)
    bench.outcomes(outside=(10,))
    bench.letters()
    other = Accounting(bench.context, MANIFEST, bench.asked.append, lambda: None, b"\xc1rubbish")
    assert not any(other.pending_corrections)


def test_unknown_fates_are_kept_and_not_counted() -> None:
    bench = Bench()
    bench.it.closed(sealed(10), ME)
    bench.it.answered(Fates(MANIFEST.job_id, "x", ME, (), (), (10,)))
    assert bench.letters() == [10]
    assert not any(bench.it.pending_corrections), "they may have been counted"


def test_marks_stay_small_and_say_from_where_they_are_complete() -> None:
    lacking = Lacking(0)
    truth = {}
    for index in range(200):
        truth[index] = 0 if index % 2 else 1 << index % 7
        lacking.decided(index, index + 1, truth[index])
    since, lacks, _ = lacking.notified(150)
    assert len(lacks) <= LACKS_MAX
    for index in range(since, 150):
        found = [bits_of(each.absent) for each in lacks if each.start <= index < each.stop]
        assert (found or [0]) == [truth[index]]
    assert 0 < since < 150
