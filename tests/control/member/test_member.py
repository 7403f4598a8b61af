"""One agent's part in one job: its number, its worker, and what goes up of what the worker seals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED
from elfmesh.control.jobs.terms import Gateway, PathLayout, RosterEntry, Terms
from elfmesh.control.member import worker_control
from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.member.member import Member
from elfmesh.control.protocol.events import (
    PauseWorker,
    Persist,
    ReleaseWorker,
    ResumeWorker,
    Sealed,
    StartWorker,
    StopWorker,
)
from elfmesh.control.protocol.messages import Enroll, Mark, Rate, RosterAck, Waiting
from elfmesh.machine import Contact, Effect, Message, Send
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import Contribute, Release, Subscribe, Unsubscribe
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS, A, B, run

NUMBER = 3
COUNTED = (1, *NOT_COUNTED[1:])


class Rig:
    """A member of the job that A leads in epoch 1."""

    def __init__(self, *, begun: int | None = 0) -> None:
        self.context = new_context(1)
        self.member = Member(self.context, MANIFEST, read_plan(MANIFEST.text), A, 1, CopyStore(self.context))
        if begun is not None:
            self.member.begin(begun)
        self.begun = self.out()

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def sent(self) -> list[tuple[Contact, Message]]:
        return [(each.to, each.message) for each in self.out() if isinstance(each, Send)]

    def terms(self, version: int = 1, number: int | None = NUMBER, **changes: Any) -> Terms:
        until, start = changes.pop("until", None), changes.pop("since", 0)
        mine = () if number is None else (RosterEntry(number, self.context.me, "m", start, until),)
        return replace(TERMS, version=version, members=mine, **changes)

    def roster(self, version: int = 1, **changes: Any) -> RosterAck | None:
        return self.member.on_roster(self.terms(version, **changes))

    def seal(self, start: int, stop: int, *, incarnation: str = "i", evaluated: int = 1) -> None:
        run_of = tuple(Contribution(index, COUNTED, b"p") for index in range(start, stop))
        self.member.sealed(Sealed(JOB, incarnation, start, stop, (run_of,), evaluated=evaluated))

    def up(self) -> list[tuple[int, int, int, int]]:
        """Epoch, number, first interval and end of what goes up within a second."""
        run(self.context, self.context.now + 1.0)
        found = [each.segment for each in self.out() if isinstance(each, Contribute)]
        return [
            (each.epoch, bits_of(each.coverage).bit_length() - 1, each.start, each.stop)
            for each in found
            if each.start < each.stop
        ]


def of_type(out: list[Effect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in out if isinstance(effect, kind)]


def test_a_member_joins_the_tree_and_starts_its_worker_once() -> None:
    rig = Rig(begun=7)
    assert Subscribe(JOB) in rig.begun
    (started,) = of_type(rig.begun, StartWorker)
    assert isinstance(started, StartWorker)
    assert (started.manifest, started.start, started.stages) == (MANIFEST, 7, ())
    rig.member.begin(9)
    assert of_type(rig.out(), StartWorker) == []


def test_a_roster_gives_a_number_that_is_kept_on_disk_and_acknowledged() -> None:
    rig = Rig()
    assert rig.roster(4) == RosterAck(JOB, 1, 4, NUMBER)
    assert [each.key for each in rig.out() if isinstance(each, Persist) and each.kind == "member"] == [JOB]
    assert rig.member.entry is not None


@pytest.mark.parametrize(("epoch", "version"), [(2, 3), (1, 9)])
def test_an_older_roster_changes_nothing_and_the_newest_is_acknowledged_again(
    epoch: int, version: int
) -> None:
    rig = Rig()
    rig.roster(4, epoch=2)
    rig.out()
    assert rig.roster(version, epoch=epoch, number=8) == RosterAck(JOB, 2, 4, NUMBER)
    assert rig.out() == []
    assert rig.roster(4, epoch=2) == RosterAck(JOB, 2, 4, NUMBER), "the same one again"
    assert rig.out() == []


def test_a_roster_without_the_member_is_not_acknowledged_and_it_enrols_again() -> None:
    rig = Rig()
    assert rig.roster(1, number=None) is None
    rig.roster(2)
    rig.out()
    assert rig.roster(3, number=None) is None
    out = rig.out()
    assert Persist("member", JOB, b"") in out
    assert [type(each.message) for each in out if isinstance(each, Send)] == [Enroll]


def test_what_is_sealed_before_there_is_a_number_waits_for_it() -> None:
    rig = Rig()
    rig.seal(0, 3)
    assert rig.up() == []
    rig.roster()
    assert rig.up() == [(1, NUMBER, 0, 3)]
    rig.seal(3, 5)
    assert rig.up() == [(1, NUMBER, 3, 5)]


def test_a_worker_reads_on_while_little_waits_for_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_control, "PENDING_MAX", 2)
    rig = Rig()
    rig.seal(0, 1)
    assert of_type(rig.out(), PauseWorker) == []
    rig.seal(1, 2)
    assert of_type(rig.out(), PauseWorker) == [PauseWorker(JOB)]
    rig.roster()
    out = rig.out()
    assert of_type(out, ResumeWorker) == [ResumeWorker(JOB)]


def test_what_another_incarnation_or_version_has_made_does_not_go_up() -> None:
    rig = Rig()
    rig.roster()
    rig.out()
    rig.seal(0, 3, incarnation="j")
    rig.seal(0, 3, evaluated=2)
    assert rig.up() == []
    assert rig.context.stats["control.other_version"] == 1


def test_a_new_master_gets_everything_that_is_open_again() -> None:
    rig = Rig()
    rig.roster()
    rig.seal(0, 4)
    rig.out()
    rig.roster(2, epoch=2, master=B, closed=2)
    assert rig.up() == [(2, NUMBER, 2, 4)]
    assert rig.member.master == B


def test_a_new_master_of_the_same_roster_epoch_gets_nothing_again() -> None:
    rig = Rig()
    rig.roster(1)
    rig.seal(0, 2)
    assert rig.up() == [(1, NUMBER, 0, 2)]
    assert rig.roster(2, epoch=4, stated_roster_epoch=1, master=B) == RosterAck(JOB, 4, 2, NUMBER)
    assert rig.up() == []
    rig.seal(2, 3)
    assert rig.up() == [(1, NUMBER, 2, 3)]
    rig.member.on_watermark(Mark(JOB, "i", 4, 2, 2, FIRST))
    assert [each for each in rig.out() if isinstance(each, Release)] == [Release(JOB, 2, 1)]
    rig.roster(3, epoch=5, stated_roster_epoch=5, master=A)
    assert rig.up() == [(5, NUMBER, 2, 3)]


def test_a_new_gateway_gets_everything_that_is_open_again() -> None:
    rig = Rig()
    layouts = [PathLayout("region", (Gateway("", each),)) for each in (A, B)]
    rig.roster(1, layout=layouts[0])
    rig.seal(0, 2)
    assert rig.up() == [(1, NUMBER, 0, 2)]
    rig.member.on_watermark(mark(1))
    rig.roster(2, layout=layouts[0])
    assert rig.up() == []
    rig.roster(3, layout=layouts[1])
    assert rig.up() == [(1, NUMBER, 1, 2)]


def test_a_member_with_another_number_contributes_again_from_where_that_begins() -> None:
    rig = Rig()
    rig.roster()
    rig.seal(0, 4)
    rig.out()
    rig.roster(2, number=5, since=3)
    assert [(number, stop) for _, number, _, stop in rig.up()] == [(5, 4)]


def test_a_pause_holds_the_worker_and_a_repeated_one_has_no_effect() -> None:
    rig = Rig()
    rig.roster()
    rig.out()
    rig.roster(2, paused=True)
    assert of_type(rig.out(), PauseWorker) == [PauseWorker(JOB)]
    rig.roster(3, paused=True)
    assert of_type(rig.out(), PauseWorker) == []
    rig.roster(4)
    assert of_type(rig.out(), ResumeWorker) == [ResumeWorker(JOB)]


def mark(closed: int, version: int = 1) -> Mark:
    return Mark(JOB, "i", 1, version, closed, FIRST)


def test_a_mark_releases_what_is_closed_and_never_less() -> None:
    rig = Rig()
    rig.roster()
    rig.seal(0, 4)
    rig.out()
    rig.member.on_watermark(mark(3))
    assert of_type(rig.out(), Release) == [Release(JOB, 3, 1)]
    for closed in (3, 2):
        rig.member.on_watermark(mark(closed))
        assert of_type(rig.out(), Release) == []


def test_a_worker_may_forget_what_is_closed_and_settled() -> None:
    rig = Rig()
    rig.roster()
    rig.seal(0, 4)
    rig.out()
    rig.member.on_watermark(mark(4))
    stops = [each.stop for each in rig.out() if isinstance(each, ReleaseWorker)]
    assert stops[-1] == 4
    assert stops == sorted(set(stops))


@pytest.mark.parametrize(("version", "asks"), [(1, False), (2, True)])
def test_a_mark_of_a_newer_roster_has_the_member_ask_for_it(version: int, asks: bool) -> None:
    rig = Rig()
    rig.roster()
    rig.out()
    rig.member.on_watermark(mark(1, version))
    assert any(isinstance(message, Enroll) for _, message in rig.sent()) is asks


def test_a_member_that_leaves_holds_back_what_it_seals_until_its_last_interval_is_named() -> None:
    rig = Rig()
    rig.roster()
    rig.out()
    rig.member.requests.leave()
    rig.seal(0, 4)
    assert rig.up() == []
    assert not rig.member.has_left
    rig.roster(2, until=2)
    assert [stop for _, _, _, stop in rig.up()] == [2]
    rig.member.on_watermark(mark(1))
    assert not rig.member.has_left
    rig.member.on_watermark(mark(2))
    assert rig.member.has_left


def test_a_member_reports_its_rate_and_asks_about_intervals_that_stay_open() -> None:
    rig = Rig()
    rig.roster()
    rig.out()
    rig.seal(0, 1)
    run(rig.context, 1.0)
    rates = [message for _, message in rig.sent() if isinstance(message, Rate)]
    assert rates == [Rate(JOB, 1, NUMBER, 1.0, (1.0,), 1.0)], "with the size of a contribution"
    run(rig.context, 10.0)
    waiting = [message for _, message in rig.sent() if isinstance(message, Waiting)]
    assert waiting[:1] == [Waiting(JOB, 1, NUMBER, 1)]


def test_a_stopped_member_leaves_its_trees_its_disk_and_its_worker() -> None:
    rig = Rig()
    rig.roster()
    rig.seal(0, 1)
    rig.out()
    rig.member.stop()
    out = rig.out()
    assert Persist("member", JOB, b"") in out
    assert StopWorker(JOB, "i") in out
    assert Unsubscribe(JOB) in out
    run(rig.context, 1000.0)
    assert rig.out() == []
