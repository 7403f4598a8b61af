"""How a job asks the masters of the jobs that it reads, and what it takes of their answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.control.answers import NOT_FOUND, OK, UNAVAILABLE
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.upstream.buffer import Read
from elfmesh.control.upstream.poller import (
    AGAIN_S,
    GRACE_S,
    PAGE_RECORDS,
    UNKNOWN_AGAIN_S,
    WAIT_S,
    UpstreamPoller,
)
from elfmesh.machine import Contact, Send
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.control.closing.rig import manifest_of
from tests.control.contexts import new_context
from tests.control.member.support import SECOND
from tests.control.paging import table_of_pages
from tests.control.register.support import run
from tests.control.upstream.masters import UPSTREAM, body_of, give, page_of, questions

READER = manifest_of(
    "CREATE JOB shop.best EVERY '30 s' AS SELECT product, max(hits) AS best FROM shop.top GROUP BY product"
)
SLIDE_US = 10 * SECOND
ROWS = table_to_ipc(pa.table({"product": ["a"], "hits": pa.array([1], pa.int64())}))
FACTS: dict[str, Any] = {
    "incarnation": "a1",
    "slide_us": SLIDE_US,
    "size_us": SLIDE_US,
    "columns": ["product", "hits"],
    "paused": False,
    "begin_us": None,
    "until_us": 5 * SLIDE_US,
    "earliest": 3,
    "latest": 4,
    "expired": None,
}


class Rig:
    """The poller of a job that reads one other job."""

    def __init__(self, *, asks_sites: bool = False) -> None:
        self.context = new_context(1)
        self.answers = 0
        self.idle = False
        self.read = Read("shop/top", UPSTREAM)
        self.poller = UpstreamPoller(
            self.context, [READER], self._answered, lambda read: self.idle, asks_sites=asks_sites
        )
        self.poller.begin(self.read)

    def _answered(self) -> None:
        self.answers += 1

    def asked(self) -> list[Ask]:
        return questions(self.context)

    def answer(self, *indices: int, status: int = OK, rows: bytes = ROWS, **changes: Any) -> None:
        """The master answers the one question that is under way."""
        (ask,) = self.asked()
        records = [(ResultRecord(job="shop/top", index=index), rows) for index in indices]
        give(self.context, ask, status, FACTS | changes, page_of(records))

    def asked_site(self) -> list[tuple[Contact, Ask]]:
        """What sites are asked."""
        sent = [each for each in self.context.out if isinstance(each, Send) and isinstance(each.message, Ask)]
        self.context.out = [each for each in self.context.out if each not in sent]
        return [(each.to, each.message) for each in sent if isinstance(each.message, Ask)]

    def asks_again_after(self, pause_s: float) -> bool:
        """Whether the next question is asked after a pause and not before."""
        assert self.asked() == []
        now = self.context.now
        run(self.context, now + pause_s - 0.01)
        early = self.asked()
        run(self.context, now + pause_s)
        return early == [] and len(self.asked()) == 1


def test_a_poller_asks_for_the_results_from_where_it_has_read() -> None:
    rig = Rig()
    (ask,) = rig.asked()
    assert (ask.verb, ask.job) == ("feed", UPSTREAM[0])
    assert body_of(ask) == {"reader": "shop/best", "from_us": None, "limit": PAGE_RECORDS, "wait": WAIT_S}


def test_a_poller_takes_the_records_and_asks_for_the_next_at_once() -> None:
    rig = Rig()
    rig.answer(3, 4)
    assert [piece.at_us for piece in rig.read.pieces] == [3 * SLIDE_US, 4 * SLIDE_US]
    assert (rig.read.until_us, rig.read.first_us) == (5 * SLIDE_US, 3 * SLIDE_US)
    assert (rig.read.incarnation, rig.read.slide_us, rig.read.size_us) == ("a1", SLIDE_US, SLIDE_US)
    assert rig.read.waits == "its next interval is not closed"
    assert rig.answers == 1
    (ask,) = rig.asked()
    assert body_of(ask)["from_us"] == 5 * SLIDE_US


def test_the_same_records_twice_are_taken_once() -> None:
    rig = Rig()
    rig.answer(3, 4)
    rig.answer(3, 4)
    assert len(rig.read.pieces) == 2


def test_what_is_read_never_shrinks() -> None:
    rig = Rig()
    rig.answer(3, 4)
    rig.answer(until_us=2 * SLIDE_US)
    assert rig.read.until_us == 5 * SLIDE_US


def test_a_log_without_records_begins_nowhere() -> None:
    rig = Rig()
    rig.answer(earliest=1, latest=0)
    assert rig.read.first_us is None


def test_what_is_not_kept_any_more_is_known_as_lost() -> None:
    rig = Rig()
    rig.answer(3, until_us=4 * SLIDE_US)
    rig.answer(9, begin_us=8 * SLIDE_US, until_us=10 * SLIDE_US, expired=7)
    assert rig.read.begin_us == 8 * SLIDE_US
    lost = rig.read.pieces[1]
    assert (lost.first_us, lost.at_us, lost.quality.completeness) == (4 * SLIDE_US, 8 * SLIDE_US - 1, 0.0)
    assert rig.read.pieces[2].at_us == 9 * SLIDE_US


def test_a_paused_job_is_known_as_one() -> None:
    rig = Rig()
    rig.answer(paused=True)
    assert rig.read.waits == "it is paused"


@pytest.mark.parametrize(("status", "pause_s"), [(UNAVAILABLE, AGAIN_S), (NOT_FOUND, UNKNOWN_AGAIN_S)])
def test_a_question_that_is_refused_is_repeated_with_its_reason_known(status: int, pause_s: float) -> None:
    rig = Rig()
    for _ in UPSTREAM if status == NOT_FOUND else UPSTREAM[:1]:
        rig.answer(status=status, error="there is none")
    assert (rig.read.waits, rig.answers) == ("there is none", 1)
    assert rig.asks_again_after(pause_s)


def test_a_silent_master_is_asked_again() -> None:
    rig = Rig()
    rig.asked()
    run(rig.context, WAIT_S + GRACE_S - 0.01)
    assert rig.answers == 0
    run(rig.context, WAIT_S + GRACE_S)
    assert (rig.read.waits, rig.answers) == ("its master does not answer", 1)
    assert rig.asks_again_after(AGAIN_S)


@pytest.mark.parametrize(
    "changes",
    [{"slide_us": "soon"}, {"until_us": None}, {"columns": 7}, {"incarnation": "b2", "columns": None}],
)
def test_an_answer_that_cannot_be_read_is_counted_and_asked_for_again_later(changes: dict[str, Any]) -> None:
    rig = Rig()
    rig.answer(3, **changes)
    assert rig.context.stats["control.malformed"] == 1
    assert rig.read.waits.startswith("its answer cannot be read")
    assert rig.read.until_us is None
    assert rig.asks_again_after(UNKNOWN_AGAIN_S)


def test_a_damaged_page_is_asked_for_again_later() -> None:
    rig = Rig()
    (ask,) = rig.asked()
    give(rig.context, ask, OK, FACTS, b"rubbish")
    assert (rig.context.stats["control.malformed"], rig.answers) == (1, 1)
    assert rig.asks_again_after(UNKNOWN_AGAIN_S)


def test_results_without_the_columns_that_the_job_reads_are_not_taken() -> None:
    rig = Rig()
    rig.answer(3, columns=["product"])
    assert "hits" in rig.read.waits
    assert (rig.read.incarnation, list(rig.read.pieces)) == (None, [])
    assert rig.asks_again_after(UNKNOWN_AGAIN_S)


def test_columns_are_checked_when_the_numbering_is_a_new_one() -> None:
    rig = Rig()
    rig.answer(3, until_us=4 * SLIDE_US)
    rig.answer(4, columns=["product"])
    assert len(rig.read.pieces) == 2, "within a numbering they stay"
    rig.answer(5, incarnation="b2", columns=["product"])
    assert rig.read.incarnation == "a1"


def test_the_pages_of_a_record_are_fetched_before_it_is_taken() -> None:
    rig = Rig()
    rig.answer(3, rows=table_of_pages(ROWS))
    assert (list(rig.read.pieces), rig.answers) == ([], 0)
    (ask,) = rig.asked()
    assert ask.verb == "rows"
    give(rig.context, ask, OK, {}, ROWS)
    assert (len(rig.read.pieces), rig.answers) == (1, 1)


def test_a_page_that_does_not_come_has_the_whole_question_repeated() -> None:
    rig = Rig()
    rig.answer(3, rows=table_of_pages(ROWS))
    (ask,) = rig.asked()
    give(rig.context, ask, UNAVAILABLE, {})
    assert rig.read.waits == "its master does not give the rows of a record"
    assert rig.asks_again_after(AGAIN_S)


def test_a_job_of_which_nothing_is_wanted_learns_now_and_then_that_it_has_a_reader() -> None:
    rig = Rig()
    rig.idle = True
    rig.answer(3)
    rig.answer()
    assert rig.read.until_us == 5 * SLIDE_US
    assert rig.asks_again_after(WAIT_S)


def test_an_idle_question_takes_no_records() -> None:
    rig = Rig()
    rig.asked()
    rig.idle = True
    run(rig.context, WAIT_S + GRACE_S + AGAIN_S)
    (ask,) = rig.asked()
    assert ask.verb == "readable"
    give(rig.context, ask, OK, FACTS, page_of([(ResultRecord(job="shop/top", index=3), ROWS)]))
    assert (list(rig.read.pieces), rig.read.slide_us) == ([], SLIDE_US)


def test_a_pause_ends_early_for_another_question_and_not_for_the_same() -> None:
    rig = Rig()
    rig.poller.hasten(rig.read)
    rig.answer(status=UNAVAILABLE)
    rig.poller.hasten(rig.read)
    assert rig.asked() == []
    rig.read.until_us = 7 * SLIDE_US
    rig.poller.hasten(rig.read)
    (ask,) = rig.asked()
    assert body_of(ask)["from_us"] == 7 * SLIDE_US
    run(rig.context, AGAIN_S)
    assert rig.asked() == [], "the pause is over once"


def test_a_stopped_poller_takes_nothing_and_asks_nothing() -> None:
    rig = Rig()
    rig.poller.stop()
    rig.answer(3)
    run(rig.context, 100.0)
    assert (rig.asked(), list(rig.read.pieces), rig.answers) == ([], [], 0)
    rig = Rig()
    rig.answer(status=UNAVAILABLE)
    rig.poller.stop()
    run(rig.context, 100.0)
    assert rig.asked() == []


SITES = [[bytes([number] * 20).hex(), f"s{number}", 7400, "", "eu"] for number in (8, 9)]
WITH_SITES: dict[str, Any] = {"sites": {"job": UPSTREAM[0].hex(), "agents": SITES}}


def asked_at_a_site() -> None:
    """Point 17: what a site answers counts while the master is silent."""
    rig = Rig(asks_sites=True)
    assert rig.asked_site() == [], "it is not known yet"
    rig.answer(3, 4, **WITH_SITES)
    asked = rig.asked_site()
    assert len(asked) == 1
    ((site, ask),) = asked
    assert (site.host, ask.job, ask.verb, body_of(ask)["near"]) == ("s8", UPSTREAM[0], "feed", "a1")
    given = FACTS | WITH_SITES | {"until_us": 6 * SLIDE_US}
    give(rig.context, ask, OK, given, page_of([(ResultRecord(job="shop/top", index=5), ROWS)]))
    assert [piece.at_us // SLIDE_US for piece in rig.read.pieces] == [3, 4, 5]
    assert rig.read.until_us == 6 * SLIDE_US
    rig.answer(5, **WITH_SITES)
    assert [piece.at_us // SLIDE_US for piece in rig.read.pieces] == [3, 4, 5], (
        "the second answer is the same"
    )


def test_a_site_is_asked_beside_the_master_and_the_first_answer_counts() -> None:
    asked_at_a_site()


@pytest.mark.parametrize(
    "changes", [{"incarnation": "a2"}, {"begin_us": 9 * SLIDE_US}, {"sites": {"job": "x", "agents": []}}]
)
def test_what_a_site_does_not_know_for_sure_is_left_to_the_master(changes: dict[str, Any]) -> None:
    rig = Rig(asks_sites=True)
    rig.answer(3, 4, **WITH_SITES)
    ((_, ask),) = rig.asked_site()
    give(rig.context, ask, OK, FACTS | WITH_SITES | changes | {"until_us": 9 * SLIDE_US}, page_of([]))
    assert (rig.read.until_us, rig.read.incarnation, len(rig.read.pieces)) == (5 * SLIDE_US, "a1", 2)
    run(rig.context, rig.context.now + AGAIN_S)
    ((site, _),) = rig.asked_site()
    assert site.host == "s9", "the next one"


def test_a_reader_that_needs_no_results_now_asks_no_site() -> None:
    rig = Rig(asks_sites=True)
    rig.idle = True
    rig.answer(3, 4, **WITH_SITES)
    assert rig.asked_site() == []
