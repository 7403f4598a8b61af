from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.member.early_sender import EarlySender
from elfmesh.control.protocol.events import EarlyMembers, EarlyReported
from elfmesh.control.protocol.messages_early import Early
from elfmesh.machine import Contact, Send
from tests.control.contexts import new_context
from tests.control.master.stub_term import entry
from tests.control.master.test_early import MANIFEST, TEXT
from tests.control.register.support import TERMS

REPORT = EarlyReported(MANIFEST.job_id, "i", 7, b"states", skipped=2, evaluated=1)


@dataclass
class Side:
    """A member with number 0 from interval 3 on."""

    master: Contact = field(default_factory=lambda: new_context(9).me)
    manifest: Manifest = MANIFEST
    plan: JobPlan = field(default_factory=lambda: read_plan(TEXT))
    epoch: int = 4
    entry: RosterEntry | None = field(default_factory=lambda: entry(0, start=3))
    closed: int | None = 5
    begun: int = 3


def sent(context: Context) -> list[Early]:
    return [
        each.message for each in context.out if isinstance(each, Send) and isinstance(each.message, Early)
    ]


def test_states_are_numbered_and_name_boot_epoch_and_version() -> None:
    context, side = new_context(1), Side()
    sender = EarlySender(context, side)
    sender.reported(REPORT)
    sender.reported(REPORT)
    first, second = sent(context)
    assert (first.seq, second.seq) == (1, 2)
    assert (first.epoch, first.version, first.number, first.interval) == (4, 1, 0, 7)
    assert (first.boot, first.skipped) == (context.me.incarnation, 2)


@pytest.mark.parametrize(
    "side",
    [
        Side(entry=None),
        Side(closed=8),
        Side(begun=8),
        Side(entry=entry(0, start=8)),
        Side(entry=entry(0, until=7)),
        Side(manifest=replace(MANIFEST, incarnation="other")),
    ],
)
def test_nothing_is_sent_of_an_interval_to_which_the_member_does_not_contribute(side: Side) -> None:
    context = new_context(1)
    EarlySender(context, side).reported(REPORT)
    assert sent(context) == []


def test_the_worker_shares_the_thresholds_among_the_members_of_the_roster() -> None:
    context, side = new_context(1), Side()
    sender = EarlySender(context, side)
    terms = replace(TERMS, manifest=MANIFEST, members=(entry(0), entry(1), entry(2, until=9)))
    sender.on_roster(terms)
    sender.on_roster(terms)
    assert context.out == [EarlyMembers(MANIFEST.job_id, 2)]
    side.plan = read_plan(TEXT.replace(" EARLY '1 s'", ""))
    sender.on_roster(replace(terms, members=(entry(0),)))
    assert len(context.out) == 1
