"""The share of the expected input that a record states, computed again from what members had reported (D-10).

Owns the watch and the invariant. The watch notes each report of a member when its master takes it, and the
reports that the master had when it made a record. The formula stands here in a few lines that share nothing
with the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isclose, prod
from typing import TYPE_CHECKING, Any
from unittest import mock
from weakref import WeakKeyDictionary

from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.records import CONTRIBUTED, ResultRecord
from elfmesh.interval_map import numbers

if TYPE_CHECKING:
    from tests.sim.swarm.drawing.job import Job
    from tests.sim.swarm.judging.history import History, Incarnation
    from tests.sim.swarm.judging.outcome import Outcome

Reports = dict[int, tuple[float, ...]]
"""By roster number: the usual records of each input that a member has reported last."""

CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Made:
    """A record when a master has made it.

    Attributes:
        members: names of the expected members by roster number.
        reports: what these and other members had reported.
    """

    record: ResultRecord
    members: Mapping[int, str]
    reports: Reports


@dataclass
class FidelityWatch:
    """The watch of one run.

    Attributes:
        made: by job, the records that masters and sites have made, tentative ones included.
    """

    made: dict[Incarnation, list[Made]] = field(default_factory=dict)
    _reports: WeakKeyDictionary[Rates, Reports] = field(default_factory=WeakKeyDictionary)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note what members report to masters, and what these make of it."""
        reported, make = Rates.reported, RecordMaker.make

        def noted(rates: Rates, number: int, records: Sequence[float]) -> None:
            self._reports.setdefault(rates, {})[number] = tuple(records)
            reported(rates, number, records)

        def made(maker: RecordMaker, run: Any, rev: int) -> Any:
            record, payloads = make(maker, run, rev)
            term = maker._term
            manifest = term.stages[-1].manifest
            names = {each: term.book.names(1 << each)[0] for each in numbers(run.required)}
            note = Made(record, names, dict(self._reports.get(term.rates, {})))
            self.made.setdefault((manifest.qualified, manifest.incarnation), []).append(note)
            return record, payloads

        with (
            mock.patch.object(Rates, "reported", noted),
            mock.patch.object(RecordMaker, "make", made),
        ):
            yield


def of_record(job: Job, record: ResultRecord, made: Made) -> float:
    """The fidelity of a record, from the rates of its members that had been reported."""
    if record.state == "SKIPPED":
        return 0.0
    read = record.counts["contributed"] + record.counts["filtered"]
    dropped = record.counts["shed"] + record.counts["spool_overflow"]
    usual = {number: made.reports[number] for number in made.members if number in made.reports}
    inside = dict.fromkeys(made.members, 1.0)
    inside |= {number: 0.0 for number, name in made.members.items() if name in record.missing}
    for each in record.partly:
        totals = [sum(rates) for rates in usual.values()]
        mean = sum(totals) / len(totals) if totals else 0.0
        total = sum(usual[each.number]) if each.number in usual else mean
        assert record.start_us is not None
        assert record.end_us is not None
        passed = (each.until_us - record.start_us) / (record.end_us - record.start_us)
        to_come = total * (1 - min(1.0, max(0.0, passed)))
        known = each.contributed + to_come
        inside[each.number] = each.contributed / known if known else min(1.0, max(0.0, passed))
    share = prod(_of_input(usual, inside, at) for at in range(2 if job.spans == "WITHIN" else 1))
    return share * (read / (read + dropped) if dropped else 1.0)


def _of_input(usual: Reports, inside: Mapping[int, float], at: int) -> float:
    """The share of one input that is inside: by usual records, or by heads if there are none."""
    rates = {number: of_one[at if len(of_one) > 1 else 0] for number, of_one in usual.items()}
    mean = sum(rates.values()) / len(rates) if rates else 1.0
    weights = {number: rates.get(number, mean) for number in inside}
    if not sum(weights.values()):
        weights = dict.fromkeys(inside, 1.0)
    return sum(weights[number] * share for number, share in inside.items()) / sum(weights.values())


def i6_fidelity_is_true(out: Outcome) -> Iterator[str]:
    """A record states the share of what its members usually have that is inside (D-10)."""
    for key, truth in out.truths.items():
        notes = out.fidelity.made.get(key, [])
        by_record = {_place(each.record): each for each in notes}
        tentative = [each.record for each in notes if each.record.state == "TENTATIVE"]
        published = [each.record for each in out.history.appended.get(key, ()) if not each.record.lost]
        for record in (*tentative, *published):
            made = by_record.get(_place(record))
            where = f"{key[0]} {record.index} rev {record.rev}"
            if made is None:
                yield f"{where}: no master has made it"
            elif not isclose(wanted := of_record(truth.job, record, made), record.fidelity, abs_tol=CLOSE):
                yield f"{where}: fidelity {record.fidelity} without {record.missing}, not {wanted}"


def _place(record: ResultRecord) -> tuple[int, int, int, tuple[str, ...]]:
    return record.epoch, record.index, record.rev, tuple(record.missing)


def i6_reported_rates_are_usual(out: Outcome) -> Iterator[str]:
    """The rates that a member had reported lie between its least and its greatest contribution."""
    for key in out.truths:
        stated = {
            (name, each.reports[number])
            for each in out.fidelity.made.get(key, [])
            for number, name in each.members.items()
            if number in each.reports
        }
        for name, rates in sorted(stated):
            counted = contributed(out.history, name, key)
            for at, rate in enumerate(rates if counted else ()):
                least, most = (of(each[min(at, len(each) - 1)] for each in counted) for of in (min, max))
                if not least - CLOSE <= rate <= most + CLOSE:
                    yield f"{key[0]}: {name} reports {rate} records, and contributes {least} to {most}"


def contributed(history: History, name: str, key: Incarnation) -> list[tuple[int, ...]]:
    """By interval that a host has sealed: its records of each input."""
    found = []
    for event in history.given.get((name, key), ()):
        inputs = dict(event.inputs)
        found += [inputs.get(each.interval, (each.counts[CONTRIBUTED],)) for each in event.parts[0]]
    return found
