"""The open panes of a member on their way to its standby."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.policy import Policy
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.member import pane_sender as under_test
from elfmesh.control.member.pane_sender import (
    AGAIN_S,
    ALONE,
    AVOID_S,
    EXCLUDED,
    NO_ROOM,
    SILENT,
    TOO_BIG,
    TRIES,
    UNABLE,
    PaneSender,
)
from elfmesh.control.protocol.events import CutPanes, PanesCut
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.control.protocol.messages_standby import Chained, Delta, Shipping
from elfmesh.machine import Contact, Send
from tests.control.closing.rig import manifest_of
from tests.control.contexts import new_context
from tests.control.register.support import TERMS, run

TEXT = (
    "CREATE JOB a.b STANDBY ALL LAG '500 ms' AS"
    " SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
)
MANIFEST = manifest_of(TEXT)
JOB, LAG_US = MANIFEST.job_id, 500_000


def member(number: int, rack: str = "") -> RosterEntry:
    return RosterEntry(number, new_context(number, rack).me, f"m{number}", stands_by=True)


@dataclass
class Side:
    master: Contact = field(default_factory=lambda: new_context(9).me)
    epoch: int = 3
    entry: RosterEntry | None = field(default_factory=lambda: member(1, "r1"))
    manifest: Manifest = MANIFEST
    plan: JobPlan = field(default_factory=lambda: read_plan(TEXT))


class Rig:
    """Member 1 in rack r1; 2 is in the same rack, 3 and 4 are not."""

    def __init__(self, *others: RosterEntry) -> None:
        self.context, self.side = new_context(1, "r1"), Side()
        self.sender = PaneSender(self.context, self.side)
        self.members = (member(1, "r1"), *(others or (member(2, "r1"), member(3, "r2"), member(4, "r2"))))
        self.sender.on_roster(replace(TERMS, members=self.members))

    def out(self) -> list[object]:
        """Orders to the worker, and deltas with their receiver."""
        out, self.context.out = self.context.out, []
        return [(each.to, each.message) if isinstance(each, Send) else each for each in out]

    def cut(
        self, order: int, *, whole: bool, payload: bytes = b"x", error: str = "", age_us: int = 0
    ) -> None:
        panes = (CutPane(1, 7, 2, 1, payload),) if payload else ()
        self.sender.cut(PanesCut(JOB, "i", order, whole, panes, 0, 5, error, age_us=age_us))

    def deltas(self) -> list[tuple[Contact, int, int]]:
        """Receiver, chain and number of what was sent."""
        sent = [each for each in self.out() if isinstance(each, tuple) and isinstance(each[1], Delta)]
        return [(to, message.chain, message.seq) for to, message in sent]

    def acknowledge(self, chain: int, following: int, *, has_room: bool = True) -> None:
        standby = self.sender.standby
        assert standby is not None
        boot = self.context.me.incarnation
        self.sender.on_chained(standby, Chained(JOB, "i", boot, chain, following, has_room))

    def begun(self) -> Rig:
        """The standby has acknowledged the beginning of the first chain, so order 2 is with the worker."""
        self.cut(1, whole=True)
        self.acknowledge(1, 1)
        self.out()
        return self


def in_another_rack() -> None:
    rig = Rig()
    assert rig.sender.standby in [each.contact for each in rig.members[2:]]
    assert rig.out() == [CutPanes(JOB, 1, whole=True)]
    rig.cut(1, whole=True)
    assert rig.deltas() == [(rig.sender.standby, 1, 0)]


def test_the_standby_is_in_another_rack_and_its_chain_begins_with_all_open_panes() -> None:
    in_another_rack()


def test_in_a_fleet_of_one_rack_the_nearest_stands_by_and_alone_none() -> None:
    rig = Rig(member(2, "r1"))
    assert rig.sender.standby == rig.members[1].contact
    rig.sender.on_roster(replace(TERMS, members=rig.members[:1]))
    assert CutPanes(JOB, 0, whole=False) in rig.out()
    assert not rig.sender.standby


def test_a_member_that_the_plan_leaves_out_has_no_standby_and_drops_the_one_that_it_had() -> None:
    rig = Rig().begun()
    rig.sender.on_roster(replace(TERMS, members=rig.members, standbys=(2, 3)))
    assert rig.out()[0] == CutPanes(JOB, 0, whole=False)
    assert rig.sender.standby is None
    rig.sender.on_roster(replace(TERMS, members=rig.members, standbys=(1,)))
    assert rig.out()[0] == CutPanes(JOB, 3, whole=True)


def test_a_nearer_member_in_the_same_domain_ends_no_chain() -> None:
    me = new_context(1).me.id
    near, far = sorted((member(3, "r2"), member(4, "r2")), key=lambda each: ids.distance(each.contact.id, me))
    rig = Rig(far).begun()
    rig.sender.on_roster(replace(TERMS, members=(*rig.members, near)))
    assert rig.sender.standby == far.contact
    assert rig.deltas() == []


def test_a_member_in_another_domain_takes_the_place_of_a_standby_in_the_same() -> None:
    rig = Rig(member(2, "r1")).begun()
    rig.sender.on_roster(replace(TERMS, members=(*rig.members, member(3, "r2"))))
    assert rig.sender.standby == member(3, "r2").contact


def test_a_standby_in_the_same_domain_is_left_for_another_that_may_have_room_again() -> None:
    rig = Rig(member(2, "r1"), member(3, "r2"))
    rig.cut(1, whole=True)
    rig.acknowledge(1, 0, has_room=False)
    rig.cut(2, whole=True)
    rig.acknowledge(2, 1)
    assert rig.sender.standby == rig.members[1].contact, "the other one has no room"
    run(rig.context, 2 * AVOID_S)
    assert rig.sender.standby == rig.members[2].contact, "also if nothing is read meanwhile"


def test_the_label_of_the_clause_decides_what_another_domain_is() -> None:
    rig = Rig()
    rig.side.plan = read_plan(TEXT.replace("ALL", "ALL ACROSS region"))
    near, far = (replace(each, contact=replace(each.contact, region=region)) for each, region in zip(
        rig.members[2:], ("eu", "us"), strict=True))  # fmt: skip
    rig.context.me = replace(rig.context.me, region="eu")
    rig.sender.on_roster(replace(TERMS, members=(rig.members[0], near, far)))
    assert rig.sender.standby == far.contact


def test_the_next_delta_is_ordered_with_the_acknowledgement_for_a_lag_after_the_one_before() -> None:
    rig = Rig().begun()
    run(rig.context, 60.0)
    assert rig.out() == [], "the worker has the order until it reads something"
    rig.cut(2, whole=False)
    assert rig.deltas() == [(rig.sender.standby, 1, 1)]
    rig.acknowledge(1, 2)
    assert CutPanes(JOB, 3, whole=False, after_us=LAG_US) in rig.out()


def test_what_is_not_acknowledged_is_sent_again_and_then_to_another_agent() -> None:
    rig = Rig().begun()
    first = rig.sender.standby
    run(rig.context, 0.6)
    rig.cut(2, whole=False)
    run(rig.context, 0.6 + AGAIN_S * (TRIES - 0.5))
    assert rig.deltas() == [(first, 1, 1)] * TRIES
    run(rig.context, 0.6 + AGAIN_S * (TRIES + 0.5))
    assert rig.out()[0] == CutPanes(JOB, 3, whole=True)
    assert rig.sender.standby not in (None, first)
    rig.cut(3, whole=True)
    assert rig.deltas() == [(rig.sender.standby, 2, 0)]


def test_an_agent_of_an_earlier_release_is_never_chosen() -> None:
    earlier = [replace(member(number, "r2"), stands_by=False) for number in (3, 4)]
    rig = Rig(member(2, "r1"), *earlier)
    assert rig.sender.standby == rig.members[1].contact, "although it is in the rack of the member"
    rig = Rig(*earlier)
    assert rig.sender.standby is None
    assert rig.out() == [
        (rig.side.master, Shipping(JOB, rig.side.epoch, 1, b"", UNABLE)),
    ]
    rig.sender.on_roster(replace(TERMS, members=rig.members[:1]))
    sent = [each[1] for each in rig.out() if isinstance(each, tuple)]
    assert [each.problem for each in sent if isinstance(each, Shipping)] == [ALONE]


def test_an_agent_that_acknowledges_nothing_is_not_chosen_again_while_another_stands_by() -> None:
    rig = Rig()
    first = rig.sender.standby
    rig.cut(1, whole=True)
    run(rig.context, AGAIN_S * (TRIES + 0.5))
    rig.cut(2, whole=True)
    rig.acknowledge(2, 1)
    other = rig.sender.standby
    assert other not in (None, first)
    rig.context.now += 2 * AVOID_S
    rig.sender.on_roster(replace(TERMS, members=rig.members))
    assert rig.sender.standby == other


def test_a_standby_without_room_is_replaced_and_the_only_one_asked_again_later() -> None:
    rig = Rig(member(2, "r2"))
    rig.cut(1, whole=True)
    rig.acknowledge(1, 0, has_room=False)
    rig.out()
    run(rig.context, AVOID_S - 1)
    assert rig.out() == []
    run(rig.context, AVOID_S + 1)
    assert rig.out() == [CutPanes(JOB, 2, whole=True)]


def test_a_standby_that_lost_the_chain_gets_all_open_panes() -> None:
    rig = Rig().begun()
    run(rig.context, 0.6)
    rig.cut(2, whole=False)
    rig.out()
    rig.acknowledge(1, 0)
    assert rig.out() == [CutPanes(JOB, 3, whole=True)]


def test_a_worker_that_was_started_again_begins_a_new_chain() -> None:
    rig = Rig().begun()
    rig.cut(2, whole=True)
    assert rig.deltas() == [(rig.sender.standby, 2, 0)]


def test_a_chain_begins_again_when_its_deltas_are_larger_than_its_panes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_test, "DELTAS_BYTES_MIN", 2)
    rig = Rig().begun()
    run(rig.context, 0.6)
    rig.cut(2, whole=False, payload=b"xxx")
    rig.out()
    rig.acknowledge(1, 2)
    assert CutPanes(JOB, 3, whole=True, after_us=LAG_US) in rig.out()


def test_panes_that_no_message_can_carry_are_counted_and_tried_again_later() -> None:
    rig = Rig()
    rig.out()
    rig.cut(1, whole=True, error="too large")
    assert (rig.deltas(), rig.sender.acknowledged) == ([], False)
    assert rig.context.stats["control.not_shipped_too_big"] == 1
    run(rig.context, AVOID_S + 1)
    assert rig.out() == [CutPanes(JOB, 2, whole=True)]


def test_reports_of_earlier_orders_and_acknowledgements_of_other_agents_change_nothing() -> None:
    rig = Rig()
    rig.cut(0, whole=True)
    rig.cut(1, whole=True)
    rig.sender.on_chained(new_context(9).me, Chained(JOB, "i", 1, 1, 1))
    assert not rig.sender.acknowledged
    rig.sender.stop()
    rig.out()
    run(rig.context, 100.0)
    assert rig.out() == []


def problems(rig: Rig) -> list[tuple[bytes, str]]:
    """The standbys and the problems that the member reports to its master."""
    sent = [each[1] for each in rig.out() if isinstance(each, tuple)]
    return [(each.standby, each.problem) for each in sent if isinstance(each, Shipping)]


def test_the_master_receives_why_a_member_has_no_standby() -> None:
    rig = Rig(member(2, "r2"))
    assert problems(rig) == [], "it may have one soon"
    rig.cut(1, whole=True, error="too large")
    assert problems(rig) == [(b"", TOO_BIG)]
    run(rig.context, AVOID_S + 1)
    rig.cut(2, whole=True)
    rig.acknowledge(1, 0, has_room=False)
    assert problems(rig) == [(b"", NO_ROOM)]
    run(rig.context, 2 * AVOID_S + 2)
    rig.cut(3, whole=True)
    rig.acknowledge(2, 1)
    assert rig.sender.standby is not None
    assert problems(rig) == [(rig.sender.standby.id, "")]
    rig.sender.on_roster(replace(TERMS, members=rig.members[:1]))
    assert problems(rig) == [(b"", ALONE)]


def test_the_master_receives_that_no_agent_acknowledges() -> None:
    rig = Rig(member(2, "r2"))
    rig.cut(1, whole=True)
    run(rig.context, AGAIN_S * (TRIES + 0.5))
    assert problems(rig) == [(b"", SILENT)]


def test_the_master_receives_lag_and_bytes_from_time_to_time() -> None:
    rig = Rig().begun()
    assert rig.sender.lag_s == 0
    rig.context.now = 9.0
    rig.cut(2, whole=False, payload=b"x" * 500, age_us=700_000)
    rig.context.now = 10.5
    assert rig.sender.lag_s == pytest.approx(2.2)
    rig.out()
    rig.acknowledge(1, 2)
    (report,) = [each[1] for each in rig.out() if isinstance(each, tuple) and isinstance(each[1], Shipping)]
    assert (report.lag_ms, report.bytes_s) == (2_200, round(500 / 10.5))
    rig.context.now = 60.0
    assert rig.sender.lag_s == pytest.approx(2.2), "nothing was read since"


def test_the_beginning_of_a_chain_at_a_new_standby_is_no_lasting_cost() -> None:
    rig = Rig()
    rig.cut(1, whole=True, payload=b"x" * 50_000)
    rig.acknowledge(1, 1)
    rig.out()
    run(rig.context, 0.5)
    rig.context.now = 10.5
    rig.cut(2, whole=False, payload=b"x" * 500)
    rig.acknowledge(1, 2)
    (report,) = [each[1] for each in rig.out() if isinstance(each, tuple) and isinstance(each[1], Shipping)]
    assert report.bytes_s == round(500 / 10.5)


def test_the_standby_is_an_agent_that_the_rule_of_the_host_allows() -> None:
    rig = Rig()
    rig.context.policy = Policy(keep_in=(("rack=r1",),))
    rig.sender.on_roster(replace(TERMS, members=rig.members, version=2))
    assert rig.sender.standby == rig.members[1].contact
    rig.out()
    rig.cut(rig.sender._order, whole=True)
    ((to, delta),) = [each for each in rig.out() if isinstance(each, tuple) and isinstance(each[1], Delta)]
    assert (to, delta.keep_in) == (rig.members[1].contact, (("rack=r1",),))
    others = (rig.members[0], *rig.members[2:])
    rig.sender.on_roster(replace(TERMS, members=others, version=3))
    assert rig.sender._problem == EXCLUDED
    assert [each for each in rig.out() if isinstance(each, CutPanes)] == [CutPanes(JOB, 0, whole=False)]
