"""How an agent gets the pages of rows that a record needs: from whom, when again, and when it gives up."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.row_pages import digest_of
from elfmesh.control.protocol.events import KeepPage
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.control.replicas.page_copies import FETCH_S, FETCH_TRIES, PageCopies
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Effect, Send
from tests.control.paging import table_of_pages
from tests.control.register.support import JOB, ME, STRANGER, A, B, context, run

ONE, TWO = b"one", b"two"
INDEX = 7


class Rig:
    """The page copies of one job at the agent `ME`."""

    def __init__(self, held: tuple[tuple[int, bytes], ...] = ()) -> None:
        self.context = context()
        self.copies = PageCopies(self.context, JOB, "i", held)
        self.done: list[str] = []

    def obtain(self, *pages: bytes, sources: tuple[Contact, ...] = (A, B), name: str = "done") -> None:
        wanted = {digest_of(page): INDEX for page in pages}
        self.copies.obtain(wanted, sources, lambda: self.done.append(name))

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def asked(self) -> list[tuple[Contact, bytes]]:
        """Return the receivers of requests, each with the digest of the page that it is to send."""
        sent = [effect for effect in self.out() if isinstance(effect, Send)]
        found = []
        for each in sent:
            assert isinstance(each.message, Fetch)
            assert (each.message.job, each.message.incarnation, each.message.after) == (JOB, "i", INDEX)
            self.token = each.message.token
            found.append((each.to, each.message.part))
        return found

    def answer(self, sender: Contact, page: bytes, payload: bytes | None = None, token: int = 0) -> None:
        """A source answers its newest question; None: with the page itself, b"": that it lacks it."""
        message = Page(JOB, "i", token or self.token, False, part=digest_of(page))
        self.copies.on_page(sender, message, page if payload is None else payload)

    def wait(self, seconds: float) -> None:
        run(self.context, self.context.now + seconds)


def test_a_page_is_asked_of_one_source_and_kept_on_disk() -> None:
    rig = Rig()
    rig.obtain(ONE)
    assert rig.asked() == [(A, digest_of(ONE))]
    rig.answer(A, ONE)
    assert rig.out() == [KeepPage(JOB, "i", INDEX, ONE)]
    assert (rig.done, rig.copies.gone) == (["done"], set())
    rig.wait(100.0)
    assert rig.asked() == []


def test_pages_are_asked_for_one_after_the_other() -> None:
    rig = Rig()
    rig.obtain(ONE, TWO)
    assert rig.asked() == [(A, digest_of(ONE))]
    rig.answer(A, ONE)
    assert rig.asked() == [(A, digest_of(TWO))]
    assert rig.done == []
    rig.answer(A, TWO)
    assert rig.done == ["done"]


def test_a_page_that_does_not_come_is_asked_of_the_next_source_after_growing_pauses() -> None:
    rig = Rig()
    rig.obtain(ONE)
    sources = [source for source, _ in rig.asked()]
    pauses = [*FETCH_S, FETCH_S[-1]][: FETCH_TRIES - 1]
    for pause in pauses:
        rig.wait(pause - 0.01)
        assert rig.asked() == []
        rig.wait(0.01)
        sources += [source for source, _ in rig.asked()]
    assert sources == [A, B, A, B]
    rig.wait(FETCH_S[-1])
    assert (rig.asked(), rig.done) == ([], ["done"])
    assert rig.copies.gone == set(), "no source has said that it lacks the page"


def test_every_source_is_asked_before_the_question_is_given_up() -> None:
    rig = Rig()
    sources = tuple(
        Contact(bytes([number]) * 20, "sim", number) for number in range(30, 30 + FETCH_TRIES + 2)
    )
    rig.obtain(ONE, sources=sources)
    rig.wait(1000.0)
    assert [source for source, _ in rig.asked()] == list(sources)
    assert rig.done == ["done"]


def test_a_page_that_comes_begins_the_tries_again() -> None:
    rig = Rig()
    rig.obtain(ONE, TWO)
    rig.wait(sum(FETCH_S))
    rig.asked()
    rig.answer(A, ONE)
    assert len(rig.asked()) == 1
    rig.wait(FETCH_S[0])
    assert len(rig.asked()) == 1, "after the shortest pause"


def test_a_page_is_gone_when_every_source_has_answered_that_it_lacks_it() -> None:
    rig = Rig()
    rig.obtain(ONE, TWO)
    rig.asked()
    rig.answer(A, ONE, b"")
    assert rig.asked() == [(B, digest_of(ONE))]
    rig.answer(B, ONE, b"")
    assert rig.copies.gone == {digest_of(ONE)}
    assert [part for _, part in rig.asked()] == [digest_of(TWO)]
    rig.answer(B, TWO)
    assert (rig.done, rig.copies.gone) == (["done"], {digest_of(ONE)})


def test_without_a_source_every_page_is_gone() -> None:
    rig = Rig()
    rig.obtain(ONE, sources=(ME,))
    assert (rig.asked(), rig.done, rig.copies.gone) == ([], ["done"], {digest_of(ONE)})


def test_a_source_that_the_overlay_has_lost_is_asked_last() -> None:
    rig = Rig()
    rig.context.lost(A.id)
    rig.obtain(ONE)
    assert [source for source, _ in rig.asked()] == [B]


def test_a_page_with_another_digest_is_refused_and_still_wanted() -> None:
    rig = Rig()
    rig.obtain(ONE)
    rig.asked()
    with pytest.raises(ProtocolError, match="another digest"):
        rig.answer(A, ONE, b"rubbish")
    assert (rig.out(), rig.done) == ([], [])
    rig.wait(FETCH_S[0])
    assert [source for source, _ in rig.asked()] == [B]


def test_a_page_that_was_not_asked_for_is_dropped() -> None:
    rig = Rig()
    rig.token = 1
    rig.answer(A, ONE)
    assert rig.out() == []


def test_a_late_answer_is_taken_and_does_not_begin_a_second_question() -> None:
    rig = Rig()
    rig.obtain(ONE, TWO)
    rig.asked()
    late = rig.token
    rig.wait(FETCH_S[0])
    assert rig.asked() == [(B, digest_of(ONE))]
    rig.answer(A, ONE, token=late)
    assert [part for _, part in rig.asked()] == [digest_of(TWO)]
    rig.answer(B, ONE)
    assert rig.out() == []


def test_a_late_lack_of_one_source_does_not_repeat_the_question_under_way() -> None:
    rig = Rig()
    rig.obtain(ONE)
    rig.asked()
    late = rig.token
    rig.wait(FETCH_S[0])
    rig.asked()
    rig.answer(A, ONE, b"", token=late)
    assert rig.asked() == []


def test_what_is_wanted_meanwhile_joins_the_question_under_way() -> None:
    rig = Rig()
    rig.obtain(ONE, sources=(A,), name="first")
    assert rig.asked() == [(A, digest_of(ONE))]
    rig.obtain(ONE, TWO, sources=(A, B), name="second")
    assert rig.asked() == []
    rig.answer(A, ONE)
    rig.answer(A, TWO)
    assert rig.done == ["first", "second"]


def test_a_later_question_has_its_own_sources_and_forgets_what_was_gone() -> None:
    rig = Rig()
    rig.obtain(ONE, sources=(A,))
    rig.asked()
    rig.answer(A, ONE, b"")
    assert rig.copies.gone == {digest_of(ONE)}
    rig.obtain(ONE, sources=(STRANGER,))
    assert rig.copies.gone == set()
    assert rig.asked() == [(STRANGER, digest_of(ONE))]
    rig.answer(STRANGER, ONE)
    assert (rig.done, rig.copies.gone) == (["done", "done"], set())


def test_a_record_lacks_the_pages_that_are_not_here_until_they_are() -> None:
    rig = Rig(((INDEX, digest_of(ONE)),))
    rows = table_of_pages(ONE, TWO)
    assert rig.copies.lacking(INDEX, b"rows themselves") == {}
    assert rig.copies.lacking(INDEX, rows) == {digest_of(TWO): INDEX}
    rig.copies.keep(INDEX, TWO)
    assert rig.copies.lacking(INDEX, rows) == {}
    rig.copies.passed(INDEX - 1)
    assert rig.copies.lacking(INDEX, rows) == {}
    rig.copies.passed(INDEX)
    assert rig.copies.lacking(INDEX, rows).keys() == {digest_of(ONE), digest_of(TWO)}
