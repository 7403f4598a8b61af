"""A new master takes over what the sites of its predecessor hold, if the numbers mean the same agents."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.closing.stores.replica_buffers import covered_in_all
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.paths.inheritance import Inheritance
from elfmesh.control.protocol.messages_parts import PartRequest, SitePart
from elfmesh.machine import Contact, Message, Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.closing.rig import COUNTED, START, ClosingRig
from tests.control.contexts import new_context
from tests.control.register.support import STRANGER, run

BEFORE = 2
"""The roster epoch before the rig's, which is 3."""


class Rig(ClosingRig):
    """The master in epoch 3; its predecessor's sites are a dead agent, m0, m1 and the master itself."""

    def __init__(self, inherits: int = BEFORE) -> None:
        super().__init__()
        dead, me = new_context(50).me, self.context.me
        self.first, self.second = (each.contact for each in self.terms.members)
        layout = PathLayout("region", (Gateway("", self.first),), (dead, self.first, self.second, me))
        self.leads = True
        terms = replace(self.terms, layout=layout)
        self.inheritance = Inheritance(self.context, terms, inherits, self.collection, lambda: self.leads)

    def sent(self) -> list[tuple[Contact, Message]]:
        out, self.context.out = self.context.out, []
        own = [(self.context.me, message) for message, _ in self.context.inbox]
        self.context.inbox.clear()
        return own + [(each.to, each.message) for each in out if isinstance(each, Send)]

    def part(
        self,
        sender: Contact,
        mask: int,
        payload: bytes = b"x",
        *,
        epoch: int = BEFORE,
        partition: int = 0,
        rev: int = 1,
        counts: tuple[int, ...] = COUNTED,
        cut: bool = False,
    ) -> None:
        entry = SegmentEntry(START, counts, len(payload) + cut, rev)
        segment = Segment(epoch, 0, START, START + 1, bitmap_of(mask), (entry,))
        message = SitePart(self.manifest.job_id, 3, partition, segment)
        self.inheritance.on_site_part(sender, message, payload)

    @property
    def parts(self) -> list[tuple[int, bytes]]:
        return [(part.mask, part.payload) for part in self.collection.trees[0].parts(START)]


def test_the_parts_are_requested_of_all_sites_that_are_present_until_each_has_answered() -> None:
    rig = Rig()
    rig.inheritance.begin()
    asked = rig.sent()
    request = PartRequest(rig.manifest.job_id, "i", 3, BEFORE, START)
    assert all(message == request for _, message in asked)
    assert {rig.context.me.id, rig.first.id, rig.second.id} <= {to.id for to, _ in asked}
    assert rig.inheritance.asked_at == rig.context.now
    rig.part(rig.first, 0b01)
    rig.part(rig.context.me, 0b01)
    run(rig.context, 0.3)
    assert rig.first.id not in {to.id for to, _ in rig.sent()}
    rig.leads = False
    run(rig.context, 2.0)
    assert rig.sent() == []


def test_a_term_that_continues_none_requests_nothing() -> None:
    rig = Rig(inherits=0)
    rig.inheritance.begin()
    run(rig.context, 2.0)
    assert (rig.sent(), rig.inheritance.asked_at) == ([], None)
    rig.part(rig.first, 0b11)
    assert rig.parts == []
    assert rig.context.stats["control.misplaced"] == 1


def test_an_interval_is_complete_by_the_parts_of_one_site() -> None:
    rig = Rig()
    rig.part(rig.first, 0b01)
    assert rig.collection.missing() == 0b10
    rig.part(rig.second, 0b10)
    assert rig.collection.missing() != 0, "parts of two sites are never merged"
    decisions = rig.decisions
    rig.part(rig.second, 0b01, b"y")
    assert rig.collection.missing() == 0
    assert rig.decisions > decisions
    assert rig.parts == [(0b10, b"x"), (0b01, b"y")]


def test_contributions_of_this_term_replace_those_of_sites_once_they_cover_as_many_members() -> None:
    rig = Rig()
    rig.part(rig.first, 0b11)
    rig.contribute(0b01, b"new")
    assert rig.parts == [(0b11, b"x")]
    rig.contribute(0b10, b"new")
    assert rig.parts == [(0b01, b"new"), (0b10, b"new")]


def test_an_overlap_of_the_parts_of_a_site_collects_nothing_again() -> None:
    rig = Rig()
    rig.part(rig.first, 0b01, b"a")
    rig.part(rig.first, 0b01, b"a")
    rig.part(rig.first, 0b11, b"ab")
    assert rig.parts == [(0b11, b"ab")], "a part that contains another one replaces it"
    assert rig.asked == []
    assert rig.context.stats["control.overlaps"] == 0


def test_a_revision_that_no_site_has_inside_is_waited_for() -> None:
    rig = Rig()
    rig.part(rig.first, 0b11)
    rig.part(rig.first, 0b01, b"late", rev=2)
    assert rig.collection.trees[0].lacks_revision(START)
    run(rig.context, 1.0)
    assert ("recollect", START, START + 1, 0, 1) in rig.asked
    rig.contribute(0b01, b"late", rev=2, attempt=1)
    rig.contribute(0b10, b"b", attempt=1)
    assert rig.parts == [(0b01, b"late"), (0b10, b"b")]


def test_a_part_with_numbers_of_another_roster_does_not_count() -> None:
    rig = Rig()
    rig.part(rig.first, 0b111)
    rig.part(rig.first, 0b11, epoch=1)
    assert rig.parts == []
    assert rig.context.stats["control.fenced"] == 2


def test_a_part_of_a_stranger_or_with_a_wrong_size_does_not_count() -> None:
    rig = Rig()
    rig.part(STRANGER, 0b11)
    rig.part(rig.first, 0b11, partition=1)
    assert rig.context.stats["control.misplaced"] == 2
    rig.part(rig.first, 0b11, cut=True)
    rig.part(rig.first, 0b11, counts=(1,) * (COUNTS_MAX + 1))
    assert rig.context.stats["control.malformed"] == 2
    assert covered_in_all(rig.collection.trees, START) == 0
