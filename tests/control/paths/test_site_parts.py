"""What an agent holds as a site of another master's job, and what it answers to a new master."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.terms import PathLayout, Terms
from elfmesh.control.paths import site_parts as under_test
from elfmesh.control.paths.site_parts import PART_BYTES, PENDING_S, SiteParts
from elfmesh.control.protocol.messages_parts import Part, PartRequest, SitePart
from elfmesh.machine import Contact, Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import JOB, TERMS, A, B, run


def part(start: int, *, epoch: int = 1, seq: int = 1, payload: bytes = b"x") -> Part:
    entry = SegmentEntry(start, (1,), len(payload))
    return Part(JOB, 0, seq, Segment(epoch, 0, start, start + 1, bitmap_of(1), (entry,)))


class Rig:
    """An agent that is a site of the job, as A's terms name it."""

    def __init__(self) -> None:
        self.context = new_context(1)
        self.closed = 0
        layout = PathLayout("region", (), (A, self.context.me))
        self.terms: Terms | None = replace(TERMS, layout=layout)
        self.sites = SiteParts(self.context, self._known)

    def _known(self, job: bytes) -> tuple[Terms, int] | None:
        return None if self.terms is None else (self.terms, self.closed)

    def request(self, sender: Contact = B, incarnation: str = "i", start: int = 0) -> list[int]:
        """The intervals of the parts that are sent at once."""
        self.context.out.clear()
        self.sites.on_part_request(sender, PartRequest(JOB, incarnation, 2, 1, start), b"")
        return self.out(sender)

    def out(self, to: Contact = B) -> list[int]:
        out, self.context.out = self.context.out, []
        sent = [each.message for each in out if isinstance(each, Send) and each.to == to]
        return [each.segment.start for each in sent if isinstance(each, SitePart) and each.epoch == 2]


def test_a_new_master_gets_the_open_parts_of_the_roster_epoch_that_it_names() -> None:
    rig = Rig()
    for start in (5, 6, 7):
        assert rig.sites.take(part(start), b"x")
    assert rig.sites.take(part(6, epoch=3), b"x")
    assert rig.request(start=6) == [6, 7]
    assert rig.request(incarnation="another") == []


def test_a_repeated_part_is_held_once_and_also_by_another_number() -> None:
    rig = Rig()
    for seq in (1, 1, 9):
        assert rig.sites.take(part(5, seq=seq), b"x")
    assert rig.sites.nbytes == PART_BYTES + 1
    assert rig.request() == [5]


def test_parts_that_arrive_within_a_while_answer_a_request_too() -> None:
    rig = Rig()
    rig.sites.take(part(5), b"x")
    assert rig.request() == [5]
    rig.sites.take(part(6), b"x")
    rig.sites.take(part(7, epoch=2), b"x")
    assert rig.out() == [6]
    run(rig.context, PENDING_S + 0.1)
    rig.context.now = max(rig.context.now, PENDING_S + 0.1)
    rig.sites.take(part(8), b"x")
    assert rig.out() == []


def test_closed_parts_are_dropped_and_all_of_them_when_the_job_ends() -> None:
    rig = Rig()
    for start in (5, 6):
        rig.sites.take(part(start), b"x")
    rig.sites.released(JOB, 6)
    assert rig.request() == [6]
    rig.closed = 7
    rig.sites.take(part(7), b"x")
    assert rig.request() == [7]
    rig.sites.stopped(JOB)
    rig.sites.stopped(JOB)
    rig.sites.released(JOB, 9)
    assert rig.request() == []
    assert rig.sites.nbytes == 0


def test_another_numbering_of_a_job_holds_nothing_of_the_one_before() -> None:
    rig = Rig()
    rig.sites.take(part(5), b"x")
    assert rig.terms is not None
    rig.terms = replace(rig.terms, manifest=replace(rig.terms.manifest, incarnation="j"))
    rig.sites.take(part(6), b"x")
    assert rig.request() == []
    assert rig.request(incarnation="j") == [6]


@pytest.mark.parametrize("terms", [None, TERMS, replace(TERMS, layout=PathLayout("region", (), (A, B)))])
def test_an_agent_that_the_terms_do_not_name_holds_nothing(terms: Terms | None) -> None:
    rig = Rig()
    rig.terms = terms
    assert not rig.sites.take(part(5), b"x")
    assert rig.sites.nbytes == 0


def test_without_room_a_site_holds_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "HELD_BYTES_MAX", 2 * PART_BYTES + 2)
    rig = Rig()
    for start in (5, 6, 7):
        assert rig.sites.take(part(start), b"x"), "the root is not to repeat it"
    assert rig.context.stats["control.site_no_room"] == 1
    assert rig.request() == [5, 6]


def test_a_request_for_some_members_gets_their_parts_alone_and_stays_open_beside_another() -> None:
    rig = Rig()
    for start, members in ((5, 0b01), (6, 0b10), (7, 0b11)):
        rig.sites.take(of(start, members), b"x")
    found = []
    for members in (0b01, 0b10):
        request = PartRequest(JOB, "i", 2, 1, 0, bitmap_of(members))
        rig.sites.on_part_request(B, request, b"")
        found.append(rig.out())
    assert found == [[5, 7], [6, 7]]
    rig.sites.take(of(8, 0b01), b"x")
    rig.sites.take(of(9, 0b100), b"x")
    assert rig.out() == [8]


def of(start: int, members: int) -> Part:
    one = part(start)
    return replace(one, segment=replace(one.segment, coverage=bitmap_of(members)))
