"""Each question about results gets one answer: at once, with the next record, or when its wait is over."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.records import PAO, ResultRecord
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Numbering
from elfmesh.control.master.result_service import (
    LIMIT_MAX,
    WAIT_S_MAX,
    WAITERS_MAX,
    ResultService,
    intervals,
)
from elfmesh.control.protocol.events import LogRead, ReadLog
from elfmesh.control.protocol.messages import Answered, Ask
from elfmesh.control.upstream.downstream_feed import DownstreamFeed
from elfmesh.machine import Send
from tests.control.master.stub_term import StubTerm, other
from tests.control.register.support import JOB, TERMS

LATEST = 41
"""The last record of the master's log."""

CLIENT = other(5)
EARLIER = Numbering(incarnation="older", first=3, latest=9)


class Rig:
    """The results of a job that had another numbering before."""

    def __init__(self) -> None:
        self.term = StubTerm(began=replace(TERMS, acceptors=(other(2), other(3)), earlier=(EARLIER,)))
        self.context = self.term.context
        self.tentative = Tentative(self.context, 1, lambda: None, lambda: None)
        feed = DownstreamFeed(self.context, self.term.plan, self.term)
        early = EarlyLines(self.term.plan, 1, self.tentative, lambda: None)
        self.early, shown = early, ShownLines(self.tentative, early, "m/1")
        self.service = ResultService(self.context, self.term, self.term.copy, shown, feed)
        self.tokens = iter(range(70, 70 + 2 * WAITERS_MAX))

    def ask(self, verb: str, body: dict[str, Any]) -> Ask:
        ask = Ask(verb, JOB, b"", CLIENT, next(self.tokens))
        (self.service.ask_page if verb == "rows" else self.service.ask)(ask, body)
        return ask

    def reads(self) -> list[ReadLog]:
        return [each for each in self.context.out if isinstance(each, ReadLog)]

    def read(self, **found: Any) -> tuple[int, dict[str, Any]]:
        """The log answers its last question; the answer to the client follows."""
        token = self.reads()[-1].token
        self.context.out.clear()
        self.context.answer(token, LogRead(token, **found))
        [(status, body)] = self.term.answers()
        return status, body


def test_results_that_are_there_are_read_at_once_and_bounded() -> None:
    rig = Rig()
    rig.ask("results", {"from": 10, "to": 20, "limit": 10 * LIMIT_MAX, "wait": 20})
    [read] = rig.reads()
    assert (read.start, read.stop, read.limit, read.incarnation) == (10, 21, LIMIT_MAX, "i")
    page = encode_page([(ResultRecord(job="shop/top", index=10), b"")])
    status, body = rig.read(page=page, next=11, latest=LATEST)
    assert (status, body["next"], body["latest"], body["incarnation"]) == (200, 11, LATEST, "i")


def test_a_spare_question_is_answered_after_the_other_site_has_had_time() -> None:
    rig = Rig()
    rig.ask("results", {"from": LATEST, "spare": 0.2})
    rig.term.run(0.15)
    assert rig.reads() == [], "the record is here"
    rig.term.run(0.1)
    assert len(rig.reads()) == 1
    ask = rig.ask("results", {"from": LATEST + 1, "wait": 20, "spare": 0.2})
    rig.service.published(LATEST + 1)
    rig.term.run(0.15)
    rig.service.published(LATEST + 2)
    assert len(rig.reads()) == 1
    rig.term.run(0.1)
    assert len(rig.reads()) == 2, "a later record delays it no further"
    assert rig.service.hung_up(ask) is None


def test_a_spare_question_is_dropped_when_the_other_site_has_answered() -> None:
    rig = Rig()
    ask = rig.ask("results", {"from": LATEST + 1, "wait": 20, "spare": 0.2})
    rig.service.published(LATEST + 1)
    dropped = rig.service.hung_up(ask)
    assert dropped is not None
    assert dropped.spare_s == 0.2
    rig.term.run(30.0)
    assert rig.reads() == []


def test_a_long_poll_is_answered_with_the_record_that_it_waits_for() -> None:
    rig = Rig()
    rig.ask("results", {"from": LATEST + 1, "wait": 20})
    assert (rig.reads(), rig.service.waiting) == ([], 1)
    rig.service.published(LATEST)
    assert rig.service.waiting == 1
    rig.service.published(LATEST + 1)
    assert (len(rig.reads()), rig.service.waiting) == (1, 0)


def test_a_long_poll_ends_at_the_latest_after_the_longest_wait() -> None:
    rig = Rig()
    rig.ask("results", {"from": LATEST + 1, "wait": 10 * WAIT_S_MAX})
    rig.term.run(WAIT_S_MAX - 0.1)
    assert rig.reads() == []
    rig.term.run(0.1)
    assert len(rig.reads()) == 1
    assert rig.read(latest=LATEST)[1]["next"] == LATEST + 1


def test_a_repeated_question_waits_once_and_a_client_that_hangs_up_waits_no_more() -> None:
    rig = Rig()
    ask = rig.ask("results", {"from": LATEST + 1, "wait": 20})
    rig.service.ask(ask, {"from": LATEST + 1, "wait": 20})
    assert rig.service.waiting == 1
    rig.service.hung_up(ask)
    rig.service.published(LATEST + 1)
    assert (rig.service.waiting, rig.reads()) == (0, [])


def test_at_most_so_many_questions_wait_and_the_end_of_the_term_answers_all() -> None:
    rig = Rig()
    for _ in range(WAITERS_MAX + 1):
        rig.ask("results", {"from": LATEST + 1, "wait": 20})
    assert (rig.service.waiting, len(rig.reads())) == (WAITERS_MAX, 1)
    rig.service.close()
    assert (rig.service.waiting, len(rig.reads())) == (0, WAITERS_MAX + 1)


def test_only_a_client_that_reads_all_states_waits_for_revisions() -> None:
    rig = Rig()
    rig.ask("results", {"from": LATEST + 1, "wait": 20})
    rig.ask("results", {"from": LATEST + 1, "wait": 20, "state": "all", "revision": rig.tentative.seq})
    rig.service.shown()
    assert (rig.service.waiting, len(rig.reads())) == (1, 1)


def begins_again() -> None:
    """Point 19: the revision of another site says nothing here."""
    rig = Rig()
    rig.tentative.begin(ResultRecord(job="shop/top", index=LATEST + 1), (1, 1, 0))
    rig.tentative.made(LATEST + 1, 1, b"")
    body = {"from": LATEST + 1, "wait": 20, "state": "all", "revision": rig.tentative.seq + 7}
    for site, waits in (({}, True), ({"site": "m/1"}, True), ({"site": "s/4"}, False), ({"site": ""}, False)):
        before = rig.service.waiting
        rig.ask("results", body | site)
        assert (rig.service.waiting > before) == waits, site
    _, found = rig.read(latest=LATEST, next=LATEST + 1)
    assert (found["site"], found["revision"]) == ("m/1", rig.tentative.seq)


def test_a_follower_that_comes_from_another_site_begins_again_with_the_open_intervals() -> None:
    begins_again()


def test_the_newest_revision_follows_the_final_records() -> None:
    rig = Rig()
    record = ResultRecord(job="shop/top", index=LATEST + 1, rev=1)
    rig.tentative.begin(record, (1, 1, 0))
    rig.tentative.made(record.index, 1, b"")
    rig.ask("results", {"state": "all"})
    token = rig.reads()[-1].token
    rig.context.answer(token, LogRead(token, latest=LATEST))
    [sent] = [each for each in rig.context.out if isinstance(each, Send)]
    assert isinstance(sent.message, Answered)
    page = decode_page(sent.payload[sent.message.body_size :])
    assert [(each.index, each.rev) for each, _ in page] == [(LATEST + 1, 1)]
    assert rig.term.answers()[0][1]["revision"] == rig.tentative.seq


def test_early_lines_follow_the_final_records_for_clients_that_ask_for_them() -> None:
    rig = Rig()
    for index in (LATEST, LATEST + 1):  # the log has the record of the first by now
        rig.early.add(ResultRecord(job="shop/top", index=index, state="EARLY"), b"", 1)
    for state, expected in (("early", 1), ("all", 0)):
        rig.ask("results", {"from": LATEST, "state": state, "revision": 0})
        page = encode_page([(ResultRecord(job="shop/top", index=LATEST), b"")])
        token = rig.reads()[-1].token
        rig.context.out.clear()
        rig.context.answer(token, LogRead(token, page=page, next=LATEST + 1, latest=LATEST))
        [sent] = [each for each in rig.context.out if isinstance(each, Send)]
        assert isinstance(sent.message, Answered)
        found = [record.state for record, _ in decode_page(sent.payload[sent.message.body_size :])]
        assert found == ["FINAL", *["EARLY"] * expected]


def test_a_reader_waits_until_more_is_closed() -> None:
    rig = Rig()
    rig.ask("feed", {"reader": "shop/r", "from_us": (LATEST + 1) * rig.term.plan.slide_us, "wait": 20})
    assert rig.service.waiting == 1
    rig.service.reached(LATEST + 1)
    assert rig.service.waiting == 1
    rig.service.reached(LATEST + 2)
    assert (rig.service.waiting, len(rig.reads())) == (0, 1)


@pytest.mark.parametrize(
    ("verb", "body", "found", "status", "text"),
    [
        (
            "results",
            {"from": 5, "strict": True},
            {"expired": 7, "earliest": 8},
            410,
            "interval 5 is not",
        ),
        ("results", {"strict": True}, {"lost": ((4, 6),)}, 410, "intervals 4 to 6 are lost"),
        ("results", {}, {"hole": (4, 5)}, 503, "interval 4 is damaged on this agent's disk"),
        ("results", {}, {"error": "no such file"}, 500, "results cannot be read: no such file"),
        ("schema", {}, {}, 409, "this job has no result yet"),
        ("schema", {"view": PAO}, {"schema": b"s"}, 409, "this job keeps no partial aggregates"),
        (
            "results",
            {"incarnation": "older", "from": 4, "strict": True},
            {},
            410,
            "intervals 4 to 9 of the",
        ),
    ],
)
def test_results_that_cannot_be_read_are_an_error(
    verb: str, body: dict[str, Any], found: dict[str, Any], status: int, text: str
) -> None:
    rig = Rig()
    rig.ask(verb, body)
    answered, reply = rig.read(**found)
    assert answered == status
    assert text in reply["error"]


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("results", {"from": "soon"}, 400),
        ("rows", {"index": 4, "digest": "none"}, 400),
        ("results", {"incarnation": "unknown"}, 410),
        ("offsets", {"incarnation": "older"}, 410),
    ],
)
def test_a_question_that_has_no_answer_is_refused_at_once(
    verb: str, body: dict[str, Any], status: int
) -> None:
    rig = Rig()
    rig.ask(verb, body)
    assert ([answered for answered, _ in rig.term.answers()], rig.reads()) == ([status], [])


def test_offsets_name_the_earlier_numberings() -> None:
    rig = Rig()
    rig.ask("offsets", {"after": LATEST - 1})
    status, body = rig.read(earliest=1, latest=LATEST)
    assert (status, body["latest"]) == (200, LATEST)
    assert body["earlier"] == [{"incarnation": "older", "first": 3, "latest": 9}]


def test_a_page_of_rows_comes_from_the_voters_if_it_is_not_here() -> None:
    rig = Rig()
    digest = b"d" * 32
    asked: list[tuple[Any, ...]] = []
    rig.term.copy.pages.obtain = lambda *args: asked.append(args)  # type: ignore[method-assign]  # listens in
    rig.ask("rows", {"index": 7, "digest": digest.hex()})
    token = rig.reads()[-1].token
    rig.context.answer(token, LogRead(token))
    [(wanted, sources, then)] = asked
    assert (wanted, sources) == ({digest: 7}, (other(2), other(3)))
    rig.context.out.clear()
    then()
    status, body = rig.read()
    assert status == 503
    assert body["error"].endswith("because a page of its rows does not arrive")


def test_a_page_of_rows_that_every_voter_has_lost_is_gone() -> None:
    rig = Rig()
    digest = b"d" * 32
    rig.term.copy.pages.gone.add(digest)
    rig.ask("rows", {"index": 7, "digest": digest.hex(), "incarnation": "older"})
    status, body = rig.read()
    assert status == 410
    assert body["error"].startswith("interval 7 is lost")


def test_intervals_are_the_subject_of_a_sentence() -> None:
    assert (intervals(4, 4), intervals(4, 6)) == ("interval 4 is", "intervals 4 to 6 are")


@pytest.mark.parametrize("state", ["all", "early", "final"])
def test_rows_of_open_intervals_are_read_only_where_all_members_keep_their_data(state: str) -> None:
    rig = Rig()
    entries = rig.term.book.entries
    rig.term.book = RosterBook((entries[0], replace(entries[1], keep_in=(("region=eu",),))), 3)
    rig.ask("results", {"from": 10, "state": state})
    answers = rig.term.answers()
    if state == "final":
        assert answers == []
        return
    [(status, body)] = answers
    assert status == 409
    assert str(body["error"]).startswith("rows of open intervals stay in region=eu")
    rig.service.ask(Ask("results", JOB, b"", replace(CLIENT, region="eu"), 1), {"from": 10, "state": state})
    assert len(rig.reads()) == 1
