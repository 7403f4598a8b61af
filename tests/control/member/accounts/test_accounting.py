"""What decides the outcome of closed contributions, and what follows from it (D-1, D-15)."""

from __future__ import annotations

import random

from elfmesh.contribution import Contribution
from elfmesh.control.closing.outcomes import LACKS_MAX, Lacking
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import NOT_COUNTED
from elfmesh.control.member.accounts.accounting import ASK_S, ASKED_MAX, Accounting
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.protocol.events import DeadLetter, Persist, Sealed
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bitmap_of, bits_of
from tests.control.member.support import TEXT

MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=0, incarnation="x")
ME = 3


def sealed(*indices: int) -> Sealed:
    part = tuple(Contribution(index, (5, 2, *NOT_COUNTED[2:]), b"p") for index in indices)
    return Sealed(MANIFEST.job_id, "x", indices[0], indices[-1] + 1, (part,))


class Bench:
    """The accounting of a member, contributing from interval `first` on."""

    def __init__(self, first: int = 0) -> None:
        me = Contact(b"m" * 20, "sim", 1)
        self.context = Context(me, "agent-1", random.Random(1), lambda topic: {})
        self.asked: list[AskFates] = []
        self.ledger = Ledger("x")
        self.it = Accounting(self.context, MANIFEST, self.ledger, self.asked.append, lambda: None)
        self.it.take(self.ledger.numbered(first, ME))
        self.context.out.clear()

    def closed(self, *indices: int) -> None:
        self.it.take(self.ledger.closed(sealed(*indices)))

    def letters(self) -> list[int]:
        """Dead letters since the last time; the ledger is on disk behind them."""
        out, self.context.out = self.context.out, []
        found = [effect.interval for effect in out if isinstance(effect, DeadLetter)]
        assert not found or isinstance(out[-1], Persist)
        return found

    def wait(self, seconds: float) -> None:
        self.context.now += seconds
        self.context.fire()

    def outcomes(self, *, inside: tuple[int, ...] = (), outside: tuple[int, ...] = ()) -> None:
        self.it.on_outcomes(Fates(MANIFEST.job_id, "x", ME, inside, outside))


def lack(start: int, stop: int, *numbers: int) -> Lack:
    return Lack(start, stop, bitmap_of(sum(1 << number for number in numbers)))


def test_a_mark_decides_only_what_it_knows_completely() -> None:
    bench = Bench()
    bench.closed(10, 11, 12)
    bench.it.notified(11, (), 13)
    assert bench.ledger.undecided == 3, "10 is older than what the mark tells of, and comes first"
    assert bench.ledger.released(13)[0] == 10
    bench.outcomes(outside=(10,))
    assert bench.letters() == [10]
    bench.it.notified(11, (lack(12, 13, 1, ME),), 12)
    assert (bench.letters(), bench.ledger.released(13)[0]) == ([], 12), (
        "12 was not closed when the mark was made"
    )
    bench.it.notified(11, (lack(12, 13, 1, ME),), 13)
    assert (bench.letters(), bench.ledger.released(13)[0]) == ([12], 13)


def test_others_that_are_lacking_are_none_of_our_business() -> None:
    bench = Bench()
    bench.closed(10, 11)
    bench.it.notified(0, (lack(0, 99, 1, 2, 4),), 12)
    assert bench.letters() == []
    assert bench.ledger.undecided == 0


def test_the_master_is_asked_again_and_in_bounded_questions() -> None:
    bench = Bench()
    for index in range(ASKED_MAX + 5):
        bench.closed(index)
    assert bench.asked == []
    for _ in range(2):
        bench.wait(ASK_S * 1.25)
    assert [each.indices for each in bench.asked] == [tuple(range(ASKED_MAX))] * 2
    bench.outcomes(inside=tuple(range(ASKED_MAX)))
    bench.wait(ASK_S * 1.25)
    assert bench.asked[-1].indices == tuple(range(ASKED_MAX, ASKED_MAX + 5))


def test_what_never_went_up_is_known_without_asking_when_it_is_closed() -> None:
    bench = Bench(first=20)
    bench.it.take(bench.ledger.closed(sealed(10), is_found=True))
    bench.wait(ASK_S * 1.25)
    assert bench.letters() == []
    bench.it.closed = 11
    bench.wait(ASK_S * 1.25)
    assert bench.letters() == [10]
    assert bench.asked == []


def test_a_question_names_the_epoch_of_the_newest_roster() -> None:
    bench = Bench()
    bench.it.epoch = 7
    bench.closed(10)
    bench.wait(ASK_S * 1.25)
    assert [(each.number, each.epoch) for each in bench.asked] == [(ME, 7)]


def test_unknown_outcomes_are_kept_and_not_counted() -> None:
    bench = Bench()
    bench.closed(10)
    bench.it.on_outcomes(Fates(MANIFEST.job_id, "x", ME, (), (), (10,)))
    assert bench.letters() == [10]
    assert not any(bench.ledger.state.pending_corrections), "they may have been counted"


def test_watermarks_stay_small_and_name_the_interval_from_which_they_are_complete() -> None:
    lacking = Lacking(0)
    truth = {}
    for index in range(200):
        truth[index] = 0 if index % 2 else 1 << index % 7
        lacking.decided(index, index + 1, truth[index])
    since, lacks, *_ = lacking.notified(150)
    assert len(lacks) <= LACKS_MAX
    for index in range(since, 150):
        found = [bits_of(each.absent) for each in lacks if each.start <= index < each.stop]
        assert (found or [0]) == [truth[index]]
    assert 0 < since < 150
