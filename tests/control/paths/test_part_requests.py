"""Which groups a master takes for late, which sites it asks, and what that may cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Gateway, PathLayout, RosterEntry
from elfmesh.control.paths.idle_paths import IdlePaths
from elfmesh.control.paths.part_requests import (
    ANSWER_S,
    FREE_S,
    LAG_S_FIRST,
    LAG_S_MIN,
    NEXT_S,
    SHARE,
    PartRequests,
    RequestingTerm,
    UsualLag,
)
from elfmesh.control.paths.round_trips import RoundTrips
from elfmesh.control.protocol.messages_parts import PartRequest, SitePart
from elfmesh.machine import Contact, Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import JOB, TERMS, run

NEXT, DUE = 30, 100.0
DEADLINE_S = 60.0
SITES = tuple(replace(new_context(number).me, region=region) for number, region in ((2, "eu"), (3, "us")))
EU, US = (replace(new_context(number).me, region=region) for number, region in ((4, "eu"), (5, "us")))
LAGS_S = 0.2


class Term:
    """The term of a master that lacks the group us of the first open interval since `DUE`."""

    def __init__(self) -> None:
        self.context = new_context(1)
        self.context.now = DUE
        self.book = RosterBook((RosterEntry(0, EU, "m0"), RosterEntry(1, US, "m1")), 1)
        self.plan = SimpleNamespace(deadline_s=DEADLINE_S, cost=None)
        layout = PathLayout("region", (Gateway("eu", EU), Gateway("us", US)), (self.context.me, *SITES))
        self.layouts = SimpleNamespace(layout=layout)
        about = cast(JobPlan, self.plan), RoundTrips(), lambda: self.layouts.layout
        self.layouts.idle_paths = IdlePaths(self.context, *about)
        self.revived = list[tuple[Contact, float]]()
        self.closer = SimpleNamespace(next=NEXT, paused=False, founding=False)
        self.missing, self.collected = 0b10, list[int]()
        self.collection = SimpleNamespace(
            due_since=lambda interval: DUE,
            missing=lambda: self.missing,
            collected=lambda partition, segment, payloads, copy: self.collected.append(segment.start),
            trees=[None],
            straggler_policy=self,
        )
        self.dead: tuple[int, ...] = ()
        self.died_at: float | None = None
        self.inheritance = SimpleNamespace(asked_at=None)
        self.terms = replace(TERMS, epoch=7)
        self.trees = SimpleNamespace(copy_of=lambda tree: 0, revive=self._revive)

    def _revive(self, gateway: Contact) -> None:
        self.revived.append((gateway, round(self.context.now - DUE, 1)))

    def leads(self) -> bool:
        return True

    def dead_since(self, number: int) -> float | None:
        return self.died_at


class Rig:
    def __init__(self) -> None:
        self.term = Term()
        self.context = self.term.context
        self.requests = PartRequests(self.context, cast(RequestingTerm, self.term))

    def arrive(self, sender: Contact = EU, nbytes: int = 0, at: float | None = None) -> None:
        self.context.now = self.context.now if at is None else at
        self.requests.arrived(sender, segment(NEXT), nbytes)

    def asked(self, until: float) -> list[tuple[Contact, float]]:
        """Which sites are asked until then, and when."""
        found = []
        while self.context.now < until:
            run(self.context, min(until, self.context.now + 0.01))
            out, self.context.out = self.context.out, []
            for each in out:
                if isinstance(each, Send) and isinstance(each.message, PartRequest):
                    assert each.message == PartRequest(JOB, "i", 7, 7, NEXT, bitmap_of(0b10))
                    found.append((each.to, round(self.context.now - DUE, 1)))
        return found

    def last(self) -> tuple[float, list[Contact]]:
        """When the sites should have answered before the interval ends, and which of them are asked now."""
        self.context.out.clear()
        at = self.requests.before_end(self.term.missing, DUE)
        sent = [each for each in self.context.out if isinstance(each, Send)]
        request = PartRequest(JOB, "i", 7, 7, NEXT, bitmap_of(self.term.missing))
        assert all(each.message == request for each in sent)
        return at, [each.to for each in sent]

    def answer(self, sender: Contact = SITES[0], coverage: int = 0b10, payload: bytes = b"x") -> list[int]:
        message = SitePart(JOB, 7, 0, segment(NEXT, coverage, len(payload)))
        self.requests.on_site_part(sender, message, payload)
        return self.term.collected


def segment(start: int, coverage: int = 0b01, size: int = 1) -> Segment:
    return Segment(7, 0, start, start + 1, bitmap_of(coverage), (SegmentEntry(start, (1,), size),))


def test_a_group_that_has_sent_nothing_is_late_after_a_while_and_each_site_is_asked_once() -> None:
    rig = Rig()
    rig.arrive(nbytes=1000)
    late = [(SITES[0], LAG_S_FIRST), (SITES[1], LAG_S_FIRST + NEXT_S)]
    assert rig.asked(DUE + 10) == late
    rig.arrive()
    assert rig.asked(DUE + 20) == []


def test_what_each_gateway_has_sent_is_known_as_long_as_it_is_one() -> None:
    rig = Rig()
    rig.arrive(US, 1000, DUE + LAGS_S)
    found = rig.requests.arrivals[US.id]
    assert (found.stop, found.lag and round(found.lag.mean_s, 6)) == (NEXT + 1, LAGS_S)
    assert {each.contact.id for each in rig.term.layouts.layout.gateways} == set(rig.requests.arrivals)
    rig.term.layouts.layout = replace(rig.term.layouts.layout, gateways=(Gateway("eu", EU),))
    rig.arrive(EU)
    assert set(rig.requests.arrivals) == {EU.id}


def test_a_group_is_late_after_its_usual_lag_and_what_has_arrived_is_not_requested() -> None:
    rig = Rig()
    rig.term.missing = 0
    for _ in range(50):
        rig.arrive(US, 1000, DUE + LAGS_S)
    rig.context.now, rig.term.missing = DUE, 0b10
    rig.arrive()
    assert [at for _, at in rig.asked(DUE + 0.5)] == [LAGS_S]
    rig.term.missing = 0
    assert rig.asked(DUE + 10) == []


def test_the_next_interval_is_requested_again() -> None:
    rig = Rig()
    rig.arrive(nbytes=10_000)
    assert len(rig.asked(DUE + 5)) == len(SITES)
    rig.term.closer.next = NEXT + 1
    rig.arrive()
    sent = [each.message for each in rig.context.out if isinstance(each, Send)]
    assert [each.start for each in sent if isinstance(each, PartRequest)] == [NEXT + 1]


def test_an_idle_path_of_a_late_group_is_revived_first_and_then_sites_are_asked() -> None:
    """Point 25: within the usual lag of the group and four deviations."""
    rig = Rig()
    second = replace(new_context(6).me, region="us")
    layout = rig.term.layouts.layout
    gateways = (*layout.gateways, Gateway("us", second))
    rig.term.layouts.layout = replace(layout, gateways=gateways)
    path = second.id, rig.context.me.id
    rig.term.layouts.idle_paths._idle = {path}
    rig.term.layouts.idle_paths._pruned = rig.term.layouts.idle_paths._paths(rig.term.layouts.layout)
    rig.term.missing = 0
    for _ in range(50):
        rig.arrive(US, 1000, DUE + LAGS_S)
    rig.context.now, rig.term.missing = DUE, 0b10
    rig.arrive()
    asked = rig.asked(DUE + 10)
    assert rig.term.revived == [(second, LAGS_S)]
    assert [each for each, _ in asked] == list(SITES)
    assert path not in rig.term.layouts.idle_paths.idle
    assert rig.context.stats["control.revived_paths"] == 1


def test_only_the_first_copy_of_a_group_counts_for_its_usual_lag() -> None:
    rig = Rig()
    second = replace(new_context(6).me, region="us")
    layout = rig.term.layouts.layout
    rig.term.layouts.layout = replace(layout, gateways=(*layout.gateways, Gateway("us", second)))
    rig.term.missing = 0
    for _ in range(50):
        rig.arrive(US, 1000, DUE + LAGS_S)
        rig.arrive(second, 1000, DUE + 5)
    rig.context.now, rig.term.missing = DUE, 0b10
    rig.arrive()
    assert [at for _, at in rig.asked(DUE + 0.5)] == [LAGS_S]


def test_without_other_sites_or_while_the_job_is_paused_nothing_is_requested() -> None:
    for change in ("sites", "paused", "founding"):
        rig = Rig()
        if change == "sites":
            layout = rig.term.layouts.layout
            rig.term.layouts.layout = replace(layout, sites=layout.sites[:1])
        else:
            setattr(rig.term.closer, change, True)
        rig.arrive(nbytes=1000)
        assert rig.asked(DUE + 10) == []


def test_parts_of_sites_are_collected_as_those_of_roots() -> None:
    rig = Rig()
    assert rig.answer() == [NEXT]
    assert rig.context.stats["control.requested_bytes"] == 1


@pytest.mark.parametrize("wrong", ["sender", "member", "payload"])
def test_parts_of_others_of_unknown_members_or_of_another_size_are_refused_and_counted(wrong: str) -> None:
    rig = Rig()
    if wrong == "sender":
        rig.answer(sender=US)
    elif wrong == "member":
        rig.answer(coverage=0b100)
    else:
        message = SitePart(JOB, 7, 0, segment(NEXT, 0b10, 5))
        rig.requests.on_site_part(SITES[0], message, b"x")
    assert rig.term.collected == []
    assert rig.context.stats["control.malformed"] + rig.context.stats["control.misplaced"] == 1


def test_requested_bytes_use_up_a_budget_and_one_request_in_a_while_is_free() -> None:
    rig = Rig()
    rig.arrive(nbytes=1000)
    rig.answer(payload=b"x" * 1000)
    asked = [at for _, at in rig.asked(DUE + 10)]
    assert asked == [LAG_S_FIRST, LAG_S_FIRST + FREE_S], "the second one waits for the next free one"
    rig.term.closer.next += 1
    rig.arrive(nbytes=round(1000 / SHARE))
    assert rig.requests._budget > 0


def test_the_usual_lag_follows_the_newest_parts() -> None:
    lag = UsualLag(1.0)
    for _ in range(100):
        lag.add(LAG_S_MIN)
    assert abs(lag.mean_s - LAG_S_MIN) < 0.01
    assert lag.late_s < 2 * LAG_S_MIN
    lag.add(1.0)
    assert lag.late_s > 0.5


def asked_before_an_end() -> None:
    """Point 12: whatever was requested before and whatever the budget, an interval waits for the sites."""
    rig = Rig()
    rig.requests._budget = -1000.0
    rig.requests._free_at = DUE + 100
    assert rig.last() == (DUE + ANSWER_S, [*SITES])
    rig.context.now += ANSWER_S / 2
    assert rig.last() == (DUE + ANSWER_S, [])
    rig.term.missing = 0b11
    assert rig.last() == (DUE + 1.5 * ANSWER_S, [*SITES]), "the first member is asked for now"


def test_all_sites_are_asked_before_an_interval_ends_without_a_member() -> None:
    asked_before_an_end()


@pytest.mark.parametrize(("died_at", "waits"), [(DUE - 3, False), (DUE - 1, True), (None, True)])
def test_a_member_that_died_before_the_term_was_asked_for_when_the_term_began(
    died_at: float | None, waits: bool
) -> None:
    rig = Rig()
    rig.term.died_at, rig.term.inheritance.asked_at = died_at, DUE - 2
    at, asked = rig.last()
    assert (at, asked) == ((DUE if waits else DUE - 2) + ANSWER_S, [*SITES])


@pytest.mark.parametrize("dead", [(), (1,)])
def test_the_request_is_pending_while_a_member_is_missing_or_dead(dead: tuple[int, ...]) -> None:
    rig = Rig()
    rig.last()
    rig.term.dead = dead
    rig.context.out.clear()
    assert rig.asked(DUE + 2 * ANSWER_S + 0.1) == [
        (site, late * ANSWER_S) for late in (1, 2) for site in SITES
    ]
    rig.term.missing = 0
    assert bool(rig.asked(DUE + 5)) == bool(dead)
    rig.term.missing = 0b10
    assert (rig.last()[0] == DUE + ANSWER_S) == bool(dead), "a later interval does not wait for a dead member"


def test_an_interval_waits_for_no_site_that_is_gone_and_for_none_if_there_is_none() -> None:
    rig = Rig()
    rig.context._gone[SITES[0].id] = DUE, False
    assert rig.last() == (DUE + ANSWER_S, [SITES[1]])
    rig.context._gone[SITES[1].id] = DUE, False
    assert rig.last() == (DUE, [])
    rig.context._gone.clear()
    rig.context.now += 5
    assert rig.last() == (DUE + 5 + ANSWER_S, [*SITES]), "the first one is back and has not been asked"
