"""What a member commands its worker, and which part of the worker's reports counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.member.worker_control import PENDING_MAX, WorkerControl
from elfmesh.control.protocol.events import (
    PauseWorker,
    ReleaseWorker,
    ResumeWorker,
    Sealed,
    StartWorker,
    StopWorker,
)
from elfmesh.machine import Effect
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST

LATER = replace(MANIFEST, version=MANIFEST.version + 1)
EVALUATED = MANIFEST.version


class Rig:
    """The control of one worker."""

    def __init__(self, start: int | None = 7) -> None:
        self.context = new_context(1)
        self.worker = WorkerControl(self.context, MANIFEST)
        if start is not None:
            self.worker.begin(start, MANIFEST)
            self.out()

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def change(self, at: int) -> None:
        """Another version evaluates the intervals from `at` on; its worker starts."""
        self.worker.stages = (*self.worker.stages, Stage(at, LATER, LATER.version))
        self.worker.annuls(at)
        self.worker.run(LATER)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_worker_begins_once_and_is_numbered_by_its_starts() -> None:
    rig = Rig(start=None)
    rig.worker.run(MANIFEST)
    assert rig.out() == [], "its first interval is not known"
    rig.worker.begin(7, MANIFEST)
    rig.worker.begin(9, MANIFEST)
    rig.worker.run(MANIFEST)
    assert rig.out() == [StartWorker(MANIFEST, 7, (), begun) for begun in (1, 2)]


def test_a_worker_gets_the_stages_if_there_are_several(rig: Rig) -> None:
    rig.change(at=10)
    stages = (Stage(FIRST, MANIFEST, EVALUATED), Stage(10, LATER, LATER.version))
    assert rig.out() == [StartWorker(LATER, 7, stages, 2)]


def test_a_worker_pauses_with_its_job_and_while_too_much_waits(rig: Rig) -> None:
    rig.worker.limit(PENDING_MAX - 1)
    assert rig.out() == []
    rig.worker.limit(PENDING_MAX)
    rig.worker.pause(True, PENDING_MAX)
    assert rig.out() == [PauseWorker(JOB)]
    rig.worker.limit(0)
    assert rig.out() == [], "the job is paused still"
    rig.worker.pause(False, 0)
    assert rig.out() == [ResumeWorker(JOB)]


def test_a_worker_that_was_not_started_is_not_paused() -> None:
    rig = Rig(start=None)
    rig.worker.limit(PENDING_MAX)
    assert rig.out() == []


def test_a_worker_discards_what_lies_below_an_interval_once(rig: Rig) -> None:
    for floor in (10, 10, 9, 12):
        rig.worker.release(floor, floor - 8)
    assert rig.out() == [ReleaseWorker(JOB, 10, 2), ReleaseWorker(JOB, 12, 4)]


def test_a_worker_stops_with_its_incarnation(rig: Rig) -> None:
    rig.worker.stop("i")
    assert rig.out() == [StopWorker(JOB, "i")]


def test_a_report_counts_below_the_change_that_its_worker_has_missed(rig: Rig) -> None:
    report = Sealed(JOB, "i", 8, 12, ((),), evaluated=EVALUATED, begun=1)
    assert rig.worker.stands(report) == report
    rig.change(at=10)
    assert rig.worker.stands(report) == report.within(8, 10)
    assert rig.worker.valid_until(report, 8, 12) == 10


def test_a_report_of_an_annulled_interval_does_not_count_after_the_change_is_taken_back(rig: Rig) -> None:
    report = Sealed(JOB, "i", 8, 12, ((),), evaluated=EVALUATED, begun=1)
    rig.change(at=10)
    rig.worker.stages = rig.worker.stages[:1]
    assert rig.worker.valid_until(report, 8, 12) == 10
    assert rig.worker.valid_until(replace_begun(report, 2), 8, 12) == 12


def replace_begun(report: Sealed, begun: int) -> Sealed:
    return Sealed(JOB, "i", report.start, report.stop, report.parts, evaluated=report.evaluated, begun=begun)
