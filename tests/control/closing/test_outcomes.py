"""Whose contributions intervals were closed without: what goes with every mark, and answers from the log."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.closing.outcomes import (
    LACK_BYTES_MAX,
    LACKS_MAX,
    PAGE_RECORDS,
    PAGES_MAX,
    Lacking,
    serve_outcomes,
)
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import Partly, ResultRecord
from elfmesh.control.protocol.events import LogRead, ReadLog
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack, PrefixIn, Revisions
from elfmesh.machine import Send
from elfmesh.srt.coverage import bitmap_of
from tests.control.contexts import new_context
from tests.control.register.support import TERMS

JOB, MEMBER = b"j" * 20, new_context(5).me


def lack(start: int, stop: int, absent: int) -> Lack:
    return Lack(start, stop, bitmap_of(absent))


def test_a_watermark_reports_the_closed_intervals_only() -> None:
    lacking = Lacking(10)
    lacking.decided(10, 12, 0)
    lacking.decided(12, 15, 0b10)
    lacking.decided(15, 16, 0b11)
    lacking.revised(15, ((0, 2),))
    assert lacking.notified(12) == (10, (), (), ())
    assert lacking.notified(14) == (10, (lack(12, 14, 0b10),), (), ())
    assert lacking.notified(15) == (10, (lack(12, 15, 0b10),), (), ())
    expected = (lack(12, 15, 0b10), lack(15, 16, 0b11))
    assert lacking.notified(16) == (10, expected, (Revisions(15, ((0, 2),)),), ())


def test_an_interval_without_revisions_is_not_reported() -> None:
    lacking = Lacking(10)
    lacking.revised(10, ())
    assert lacking.notified(20) == (10, (), (), ())


def test_a_watermark_reports_the_newest_runs_and_from_where_on_it_is_complete() -> None:
    lacking = Lacking(0)
    for index in range(LACKS_MAX + 2):
        lacking.decided(2 * index, 2 * index + 1, 1)
    last = 2 * (LACKS_MAX + 2)
    start, lacks, *_ = lacking.notified(last)
    assert start == 3, "behind the newest run that is left out"
    assert lacks == tuple(lack(2 * index, 2 * index + 1, 1) for index in range(2, LACKS_MAX + 2))
    assert lacking.notified(last) == (start, lacks, (), ())


@pytest.mark.parametrize("more", [0, 1])
def test_the_bitmaps_of_a_mark_have_a_size_that_a_multicast_can_have(more: int) -> None:
    lacking = Lacking(0)
    half = LACK_BYTES_MAX // 2
    lacking.decided(0, 1, 1 << 8 * (half + more) - 1)
    lacking.decided(1, 2, 1 << 8 * half - 2)
    start, lacks, *_ = lacking.notified(2)
    assert [(each.start, len(each.absent)) for each in lacks] == [(0, half), (1, half)][more:]
    assert start == more


def test_a_watermark_reports_the_newest_revisions_and_is_complete_behind_the_others() -> None:
    lacking = Lacking(0)
    for index in range(LACKS_MAX + 1):
        lacking.revised(index, ((1, 2),))
    start, _, revised, _ = lacking.notified(100)
    assert start == 1
    assert [each.interval for each in revised] == list(range(1, LACKS_MAX + 1))


def test_a_watermark_reports_only_the_newest_prefixes() -> None:
    lacking = Lacking(0)
    partly = (Partly(1, "m1", 5, 3, 2),)
    for index in range(LACKS_MAX + 1):
        lacking.included(index, partly)
    start, *_, found = lacking.notified(100)
    assert start == 1
    assert found == tuple(PrefixIn(index, 1, 3, 2) for index in range(1, LACKS_MAX + 1))
    lacking.included(LACKS_MAX, ())
    assert lacking.notified(100)[3] == found[:-1]


def record(index: int, absent: int = 0, **fields: Any) -> tuple[ResultRecord, bytes]:
    return ResultRecord(job="shop/top", index=index, absent=bitmap_of(absent), **fields), b""


class Question:
    """A member with the number 1 asks what became of its contributions."""

    def __init__(self, *indices: int, closed: int = 100) -> None:
        self.context = new_context(1)
        terms = replace(TERMS, closed=closed)
        serve_outcomes(self.context, MEMBER, AskFates(JOB, "i", 1, indices), terms)

    def reads(self) -> list[tuple[int | None, int | None]]:
        """The ranges of the log that are being read."""
        return [(read.start, read.stop) for read in self._reads()]

    def _reads(self) -> list[ReadLog]:
        return [effect for effect in self.context.out if isinstance(effect, ReadLog)]

    def answer(self, *records: tuple[ResultRecord, bytes], following: int | None = None, **read: Any) -> None:
        (asked,) = self._reads()
        assert (asked.job, asked.incarnation, asked.limit) == (JOB, "i", PAGE_RECORDS)
        self.context.out.clear()
        page = read.pop("page", encode_page(records))
        self.context.answer(asked.token, LogRead(asked.token, page, following, **read))

    def notified(self) -> list[Fates]:
        sent = [effect for effect in self.context.out if isinstance(effect, Send)]
        assert all(effect.to == MEMBER for effect in sent)
        return [effect.message for effect in sent if isinstance(effect.message, Fates)]


def fates(
    inside: tuple[int, ...] = (),
    outside: tuple[int, ...] = (),
    unknown: tuple[int, ...] = (),
    revs: tuple[int, ...] | None = None,
) -> list[Fates]:
    given = (1,) * len(inside) if revs is None else revs
    return [Fates(JOB, "i", 1, inside, outside, unknown, given)]


def test_a_record_shows_whether_a_contribution_is_inside_and_in_which_revision() -> None:
    question = Question(9, 3, 5, 3, 7)
    assert question.reads() == [(3, 10)]
    question.answer(record(3), record(5, 0b10), record(7, 0b01, revs=((0, 5), (1, 3))), record(9, 0b11))
    assert question.notified() == fates((3, 7), (5, 9), revs=(1, 3))


def test_open_intervals_have_no_reported_outcome() -> None:
    assert Question(8, 9, closed=8).reads() == []
    question = Question(7, 8, closed=8)
    assert question.reads() == [(7, 8)]
    question.answer(record(7))
    assert question.notified() == fates((7,))


@pytest.mark.parametrize(("expired", "outside", "unknown"), [(None, (4,), ()), (3, (4,), ()), (4, (), (4,))])
def test_an_interval_without_a_record_lacks_the_member_unless_its_record_is_expired(
    expired: int | None, outside: tuple[int, ...], unknown: tuple[int, ...]
) -> None:
    question = Question(4)
    question.answer(expired=expired)
    assert question.notified() == fates((), outside, unknown)


def test_damaged_intervals_have_an_unknown_outcome_whatever_their_record_holds() -> None:
    question = Question(3, 4, 5, 6)
    question.answer(record(3), record(5), record(6), lost=((4, 5),))
    assert question.notified() == fates((3, 6), (), (4, 5))


def test_intervals_behind_a_hole_in_the_log_have_no_reported_outcome_yet() -> None:
    question = Question(3, 5, 9)
    question.answer(record(3), following=4, hole=(5, 8))
    assert question.notified() == fates((3,))
    question = Question(3, 5)
    question.answer(record(3), record(5), hole=(6, 8))
    assert question.notified() == fates((3, 5)), "the hole is behind all that was asked"


def test_a_long_log_is_read_page_by_page() -> None:
    question = Question(3, 9)
    question.answer(record(3), following=4)
    assert question.notified() == []
    assert question.reads() == [(4, 10)]
    question.answer(record(9), following=10)
    assert question.notified() == fates((3, 9))


def test_an_answer_that_needs_too_many_pages_has_the_outcomes_known_so_far() -> None:
    question = Question(0, PAGES_MAX, 1000, closed=2000)
    for index in range(PAGES_MAX):
        assert question.notified() == []
        question.answer(record(index), following=index + 1)
    assert question.reads() == []
    assert question.notified() == fates((0,))


@pytest.mark.parametrize("read", [{"error": "the disk is gone"}, {"page": b"rubbish"}])
def test_a_log_that_cannot_be_read_gives_no_answer(read: dict[str, Any]) -> None:
    question = Question(3)
    question.answer(**read)
    assert (question.notified(), question.reads()) == ([], [])
    assert question.context.stats["control.malformed"] == ("page" in read)


def test_a_log_that_is_not_read_in_time_gives_no_answer() -> None:
    question = Question(3)
    question.context.out.clear()
    question.context.now = 1000.0
    question.context.fire()
    assert question.context.out == []


def test_the_record_that_votes_have_chosen_replaces_the_revisions_that_the_master_has_decided() -> None:
    """A member that heard of its revision would not count late records that the chosen record lacks."""
    lacking = Lacking(10)
    lacking.revised(12, ((5, 2),))
    assert lacking.notified(13)[2] == (Revisions(12, ((5, 2),)),)
    lacking.revised(12, ())
    assert lacking.notified(13)[2] == ()
