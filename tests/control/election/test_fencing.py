"""The fence of messages: what is refused by its epoch, what passes, and who learns the newer epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.election.fencing import Fencing
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol.fences import FENCES, By
from elfmesh.control.protocol.messages_early import Early
from elfmesh.control.protocol.messages_parts import (
    Part,
    PartAck,
    PartFault,
    PartRequest,
    PartRoot,
    SitePart,
    TreeOrder,
)
from elfmesh.control.protocol.messages_safety import Keep, KeptCopy, Surrender, Verify
from elfmesh.control.protocol.messages_standby import ContributionRequest, Prefix, Shipping
from elfmesh.control.protocol.messages_succession import Handover, Known, Replica
from elfmesh.control.protocol.messages_versions import Rehearse
from elfmesh.machine import Contact, Message
from elfmesh.srt.messages import Segment
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS, A, B

KNOWN = 5
ROSTER = 3
OTHER_JOB = b"o" * 20


@dataclass
class Term:
    epoch: int = KNOWN
    roster_epoch: int = ROSTER


@dataclass
class Led:
    term: Term = field(default_factory=Term)


@dataclass
class Epochs:
    """A leadership that has seen epoch `KNOWN` of every job, and leads `JOB` in it and in `ROSTER`."""

    masters: dict[bytes, Led] = field(default_factory=lambda: {JOB: Led()})
    notified: list[Contact | None] = field(default_factory=list)
    asked: list[tuple[bytes, int]] = field(default_factory=list)

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        self.asked.append((job, epoch))
        if epoch < KNOWN:
            self.notified.append(sender)
        return epoch >= KNOWN


class Rig:
    def __init__(self) -> None:
        self.context, self.epochs = new_context(1), Epochs()
        self.fencing = Fencing(self.context, cast(Leadership, self.epochs))

    def passes(self, message: Message) -> Message | None:
        """What passes of a message of the agent B."""
        return self.fencing.passed(B, message)


def by_epoch(epoch: int) -> list[tuple[Message, Contact | None]]:
    """Messages that their epoch fences, of the master A where they name one, and who learns a newer epoch."""
    terms = replace(TERMS, epoch=epoch)
    return [
        (ctl.Announce(MANIFEST, A, epoch), A),
        (ctl.Roster(terms), B),
        (ctl.Mark(JOB, "i", epoch, 1, 7, 7), None),
        (ctl.Stop(JOB, "i", epoch), B),
        (ctl.Fenced(JOB, epoch), None),
        (PartRoot(JOB, 0, A, epoch, 7), A),
        (TreeOrder(JOB, 0, epoch, 1, 2, 0, True), B),
        (PartRequest(JOB, "i", epoch, 1, 7), B),
        (ContributionRequest(JOB, epoch, 7), B),
        (Verify(MANIFEST, epoch, 7, 1), B),
        (Surrender(JOB, "i", A, epoch, 0, 7), A),
        (Rehearse(MANIFEST, epoch), None),
        (Replica(terms, None), B),
        (Handover(terms, None), B),
    ]


def by_term(epoch: int) -> list[Message]:
    """Messages to the master of an epoch."""
    copy = Keep(JOB, "i", A.id, 0, 1, 2, ((),))
    return [
        ctl.Announced(JOB, epoch, (), (), 1),
        ctl.RosterAck(JOB, epoch, 1, 0),
        ctl.Waiting(JOB, epoch, 0, 7),
        ctl.Rate(JOB, epoch, 0, 1.0),
        KeptCopy(epoch, copy),
        Early(JOB, "i", epoch, 1, 0, 0, 1, 7),
        Prefix(epoch, JOB, ()),
        Shipping(JOB, epoch, 0, A.id),
        SitePart(JOB, epoch, 0, Segment(1, 0, 1, 2, b"\1")),
    ]


def by_roster(roster_epoch: int) -> list[Message]:
    """Messages of roots to the master of a roster epoch."""
    return [
        Part(JOB, 0, 1, Segment(roster_epoch, 0, 1, 2, b"\1")),
        PartFault(JOB, 0, roster_epoch, 1, 2, b"\1", "it is torn"),
    ]


def test_the_tables_of_this_test_have_every_fence() -> None:
    epochs = {type(message) for message, _ in by_epoch(1)}
    assert epochs == {kind for kind, fence in FENCES.items() if fence.by is By.EPOCH}
    terms = {type(message) for message in by_term(1)}
    assert terms == {kind for kind, fence in FENCES.items() if fence.by is By.TERM}
    rosters = {type(message) for message in by_roster(1)}
    assert rosters == {kind for kind, fence in FENCES.items() if fence.by is By.ROSTER}


@pytest.mark.parametrize("place", range(len(by_epoch(0))))
def test_a_message_of_an_older_epoch_is_refused_and_the_agent_that_needs_it_learns_the_newer(
    place: int,
) -> None:
    rig = Rig()
    (old, learns), (same, _), (new, _) = (by_epoch(KNOWN + by)[place] for by in (-1, 0, 1))
    assert rig.passes(old) is None
    assert rig.epochs.notified == [learns]
    assert rig.passes(same) is same
    assert rig.passes(new) is new
    assert rig.epochs.asked == [(JOB, KNOWN - 1), (JOB, KNOWN), (JOB, KNOWN + 1)]


@pytest.mark.parametrize("place", range(len(by_term(0))))
def test_a_message_to_a_master_passes_in_its_own_epoch_alone(place: int) -> None:
    rig = Rig()
    for by in (-1, 1):
        assert rig.passes(by_term(KNOWN + by)[place]) is None
    assert rig.context.stats["control.fenced"] == 2
    message = by_term(KNOWN)[place]
    assert rig.passes(message) is message
    rig.epochs.masters.clear()
    assert rig.passes(message) is None, "this agent does not lead the job"
    assert rig.context.stats["control.fenced"] == 3
    assert rig.epochs.asked == [], "no epoch is learned from it"


@pytest.mark.parametrize("place", range(len(by_roster(0))))
def test_contributions_pass_in_the_roster_epoch_of_the_master_whatever_its_epoch(place: int) -> None:
    rig = Rig()
    for refused in (ROSTER - 1, ROSTER + 1, KNOWN):
        assert rig.passes(by_roster(refused)[place]) is None
    message = by_roster(ROSTER)[place]
    assert rig.passes(message) is message
    rig.epochs.masters.clear()
    assert rig.passes(message) is None, "this agent does not lead the job"
    assert rig.context.stats["control.fenced"] == 4


def test_an_answer_about_a_job_teaches_its_epoch_and_is_handled_in_any_case() -> None:
    rig = Rig()
    for epoch in (KNOWN - 1, KNOWN, KNOWN + 1):
        message = Known(JOB, 1, None, None, epoch=epoch)
        assert rig.passes(message) is message
    assert rig.epochs.asked == [(JOB, KNOWN - 1), (JOB, KNOWN), (JOB, KNOWN + 1)]


def test_of_a_list_of_jobs_the_outdated_ones_are_left_out() -> None:
    other = replace(MANIFEST, job_id=OTHER_JOB)
    jobs = tuple(
        ctl.Announce(manifest, A, epoch)
        for manifest, epoch in ((MANIFEST, KNOWN - 1), (other, KNOWN), (MANIFEST, KNOWN + 1))
    )
    rig = Rig()
    assert rig.passes(ctl.Running("clicks", jobs)) == ctl.Running("clicks", jobs[1:])
    assert rig.epochs.notified == [None]
    assert rig.passes(ctl.Running("clicks", jobs[:1])) == ctl.Running("clicks", ())


@pytest.mark.parametrize("message", [ctl.WhatRuns("clicks", A), PartAck(JOB, 0, 1)])
def test_a_message_without_a_fence_passes(message: Any) -> None:
    rig = Rig()
    assert rig.passes(message) is message
    assert rig.epochs.asked == []


def test_a_fenced_multicast_notifies_no_sender() -> None:
    rig = Rig()
    assert rig.fencing.passed(None, ctl.Stop(JOB, "i", KNOWN - 1)) is None
    assert rig.epochs.notified == [None]
