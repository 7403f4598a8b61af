"""Each message between agents states whose data it contains, or contains none."""

from __future__ import annotations

import pytest

from elfmesh.agent.runtime.core import MESSAGES
from elfmesh.control.protocol.messages_parts import Part
from elfmesh.control.protocol.messages_residency import OWN, RULES, rule_of
from elfmesh.control.protocol.messages_safety import Keep, KeptCopy, Verified
from elfmesh.control.protocol.messages_standby import Delta, Prefix
from elfmesh.machine import Message
from elfmesh.overlay.messages import Ping
from elfmesh.srt.messages import Segment, SegmentUp
from elfmesh.srt.residency import ANYWHERE, Rule

NO_DATA = """
    Ping Pong Find Rows Found Beat BeatBack Relay Relayed Hop HopTaken Bye
    Join Joined Redirect Leave Reparent Frontier SegmentAck Overlap Fault Multicast MulticastAck Pull
    Submit Announce Verdict Announced WhatRuns Running Withdraw Enroll Leaving Roster RosterAck Mark
    Stop Fenced Waiting Rate Report PartRoot PartFault PartAck TreeOrder PartRequest Ask AskAll Question
    Inquire Known Replica Fetch Handover Verify Kept Surrender AskFates Fates Ordered Rehearse Rehearsed
    Prepare Chosen Conflict Outdated Resign Resigned Departed Excluded Chained Shipping ContributionRequest
"""
"""Rosters, orders and answers about them. A host with a rule puts no lines into `Report`."""

RESULTS = "Answered Page Promised Accept Accepted CumulativeVote"
"""Rows that are closed or are about to be. The master answers only readers inside about others."""

PROGRAMS = "Present Appointed Parcel Receipt Broadcast"
"""What programs send to each other."""

EU: Rule = (("region=eu",),)
RACK: Rule = (("rack=r1",),)
SEGMENT = Segment(1, 0, 0, 1, b"\1", (), EU)
KEEP = Keep(bytes(20), "i", bytes(20), 0, 0, 1, ())
DELTA = Delta(bytes(20), "i", bytes(20), 1, 1, 0, 0, 0, ())


def test_every_message_is_in_one_list() -> None:
    ruled = [kind.__name__ for kind in (*RULES, *OWN)]
    listed = [*ruled, *NO_DATA.split(), *RESULTS.split(), *PROGRAMS.split()]
    assert sorted(listed) == sorted(kind.__name__ for kind in MESSAGES), "does it contain data of a host?"


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (SegmentUp(bytes(20), 1, SEGMENT, True, False, 0), EU),
        (Part(bytes(20), 0, 1, SEGMENT), EU),
        (KEEP, ANYWHERE),
        (KeptCopy(1, Keep(bytes(20), "i", bytes(20), 0, 0, 1, (), keep_in=EU)), EU),
        (
            Prefix(
                1,
                bytes(20),
                (DELTA, Delta(bytes(20), "i", bytes(20), 1, 1, 1, 0, 0, (), EU)),
            ),
            EU,
        ),
        (Verified(bytes(20), 1, 0), RACK),
        (Ping(1), ANYWHERE),
    ],
)
def test_the_rule_of_a_message_is_that_of_the_data_in_it(message: Message, rule: Rule) -> None:
    assert rule_of(message, RACK) == rule
