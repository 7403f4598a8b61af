"""Which parts an agent takes as a master and which as a site, and what it acknowledges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.terms import PathLayout, Terms
from elfmesh.control.master.master import Master
from elfmesh.control.member.part_handler import PartHandler
from elfmesh.control.paths.site_parts import SiteParts
from elfmesh.control.paths.sites import Sites
from elfmesh.control.protocol.messages_parts import Part, PartAck, PartRequest, SitePart
from elfmesh.machine import Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import JOB, TERMS, A, B

OWN = 3
"""The roster epoch of this agent's term, if it leads the job."""


def part(roster_epoch: int, *, partition: int = 0, size: int = 1) -> Part:
    entry = SegmentEntry(5, (1,), size)
    return Part(JOB, partition, 9, Segment(roster_epoch, 0, 5, 6, bitmap_of(1), (entry,)))


class Rig:
    def __init__(self, *, leads: bool, is_site: bool) -> None:
        self.context = new_context(1)
        me = self.context.me if is_site else B
        terms: Terms = replace(TERMS, layout=PathLayout("region", (), (A, me)))
        trees = SimpleNamespace(copy_of=lambda tree: 0)
        term = SimpleNamespace(roster_epoch=OWN, trees=trees, collection=SimpleNamespace(trees=[None]))
        masters = {JOB: cast(Master, SimpleNamespace(term=term))} if leads else {}
        self.sites = SiteParts(self.context, lambda job: (terms, 0))
        self.voted_on: list[bytes] = []
        voting = SimpleNamespace(collected=lambda message, payload: self.voted_on.append(payload))
        self.handler = PartHandler(self.context, masters, self.sites, cast(Sites, voting))

    def take(self, message: Part) -> tuple[bool, bool]:
        """Whether the master gets a part, and whether the part is acknowledged."""
        is_masters = self.handler.on_part(B, message, b"x")
        out, self.context.out = self.context.out, []
        acks: list[Any] = [each.message for each in out if isinstance(each, Send) and each.to == B]
        assert acks in ([], [PartAck(JOB, message.partition, message.seq)])
        return is_masters, bool(acks)


@pytest.mark.parametrize(
    ("leads", "is_site", "message", "taken", "held"),
    [
        (True, False, part(OWN), (True, True), 0),
        (True, True, part(OWN), (True, True), 0),
        (True, True, part(OWN - 1), (True, True), 1),
        (True, False, part(OWN, partition=1), (False, False), 0),
        (True, False, part(OWN, size=2), (False, False), 0),
        (False, True, part(OWN), (False, True), 1),
        (False, True, part(OWN, size=2), (False, False), 0),
        (False, False, part(OWN), (False, False), 0),
    ],
)
def test_a_part_goes_to_the_master_or_is_held_at_a_site(
    leads: bool, is_site: bool, message: Part, taken: tuple[bool, bool], held: int
) -> None:
    rig = Rig(leads=leads, is_site=is_site)
    assert rig.take(message) == taken
    rig.sites.on_part_request(A, PartRequest(JOB, "i", 4, message.segment.epoch, 0), b"")
    sent = [each for each in rig.context.out if isinstance(each, Send)]
    assert [isinstance(each.message, SitePart) for each in sent] == [True] * held
    assert rig.context.stats["control.misplaced"] == (taken == (False, False))


def test_a_site_votes_on_what_it_holds_and_a_master_does_not_hold_it_twice() -> None:
    site, master = Rig(leads=False, is_site=True), Rig(leads=True, is_site=True)
    site.take(part(OWN))
    master.take(part(OWN))
    assert (site.voted_on, master.voted_on) == ([b"x"], [])
