"""The second computation of fidelity: by hand, and what it finds to be wrong."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import BUCKETS, Partly, ResultRecord
from elfmesh.control.protocol.events import Sealed
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.fidelity.watch import (
    FidelityWatch,
    Made,
    i6_fidelity_is_true,
    i6_reported_rates_are_usual,
    of_record,
)
from tests.sim.swarm.judging.history import Appended, History, Incarnation
from tests.sim.swarm.judging.oracle import Truth
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.run import run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import small

JOB = Job("ids", True, 10, 10, 0, 1.0, "wait", 1, None)
PAIRS = dataclasses.replace(JOB, spans="WITHIN", within_s=1)
KEY: Incarnation = ("sim/ids", "1")
NAMES = {0: "h0", 1: "h1"}


def record(*missing: str, partly: tuple[Partly, ...] = (), shed: int = 0) -> ResultRecord:
    counts = dict.fromkeys(BUCKETS, 0) | {"contributed": 30, "shed": shed}
    return ResultRecord(
        job="sim/ids",
        index=5,
        start_us=50_000_000,
        end_us=60_000_000,
        missing=[*missing],
        counts=counts,
        partly=partly,
    )


@pytest.mark.parametrize(
    ("job", "made", "reports", "wanted"),
    [
        (JOB, record(), {}, 1.0),
        (JOB, record("h1"), {}, 0.5),
        (JOB, record("h1"), {0: (30.0,), 1: (10.0,)}, 0.75),
        (JOB, record("h1"), {0: (30.0,)}, 0.5),
        (JOB, record("h1"), {0: (0.0,), 1: (0.0,)}, 0.5),
        (JOB, record("h1", shed=10), {0: (30.0,), 1: (10.0,)}, 0.75 * 0.75),
        (PAIRS, record("h1"), {0: (30.0, 10.0), 1: (10.0, 30.0)}, 0.75 * 0.25),
        (
            JOB,
            record("h1", partly=(Partly(1, "h1", 55_000_000, 5, 0),)),
            {0: (30.0,), 1: (10.0,)},
            0.75 + 0.25 * 5 / 10,
        ),
    ],
    ids=["all", "by heads", "by rates", "the mean", "no records", "shed", "joined", "a prefix"],
)
def test_the_share_is_the_one_by_hand(
    job: Job, made: ResultRecord, reports: dict[int, tuple[float, ...]], wanted: float
) -> None:
    assert of_record(job, made, Made(made, NAMES, reports)) == pytest.approx(wanted)


def watched(key: Incarnation, *records: ResultRecord) -> FidelityWatch:
    """The watch of a run whose masters made these records and knew the rates of two members."""
    return FidelityWatch({key: [Made(each, NAMES, {0: (30.0,), 1: (10.0,)}) for each in records]})


def contributes_less(out: Outcome, key: Incarnation) -> None:
    """The contributions of h1 are below the rate that it has reported."""
    parts = tuple(Contribution(at, counts_of(records)) for at, records in ((1, 4), (2, 8)))
    out.history.given["h1", key] = [Sealed(b"j", key[1], 1, 3, (parts,))]


def counts_of(contributed: int) -> tuple[int, ...]:
    return (contributed, *(0,) * (len(BUCKETS) - 1))


def outcome(stated: float) -> Outcome:
    """A published record without h1."""
    history = History(lambda: 0.0)
    published = replace(record("h1"), fidelity=stated)
    history.appended[KEY] = [Appended(3.0, "h0", published, b"")]
    return Outcome(
        scenario=draw(0),
        history=history,
        truths={KEY: Truth(JOB, KEY, {})},
        final={},
        due={},
        closed_in_s={},
        fidelity=watched(KEY, published),
    )


def test_what_is_not_so_is_found() -> None:
    assert [*i6_fidelity_is_true(outcome(0.75))] == []
    (found,) = i6_fidelity_is_true(outcome(0.5))
    assert "fidelity 0.5 without ['h1'], not 0.75" in found
    without_a_note = outcome(0.75)
    without_a_note.fidelity = FidelityWatch()
    (found,) = i6_fidelity_is_true(without_a_note)
    assert "no master has made it" in found


def test_a_rate_above_all_contributions_is_found() -> None:
    out = outcome(0.75)
    assert [*i6_reported_rates_are_usual(out)] == []
    contributes_less(out, KEY)
    (found,) = i6_reported_rates_are_usual(out)
    assert "h1 reports 10.0 records, and contributes 4 to 8" in found


def test_the_watch_notes_records_that_lack_members_whose_rates_it_knows() -> None:
    found = run(small("crash", hosts=4)(draw(3)))
    notes = [each for of_job in found.fidelity.made.values() for each in of_job]
    lacking = [each for each in notes if each.record.missing]
    assert lacking
    assert any(len({*each.reports.values()}) > 1 for each in lacking)
