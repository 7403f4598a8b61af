"""How early rows are made without their safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from elfmesh.cbt.rows import combine
from elfmesh.ql.engine.open_groups import merged
from tests.sim.swarm.ablations.names import Patch, always, instead, original
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.shapes import LOSSY, Shape, small


def _added_up() -> list[Patch]:
    """What a member reports is added to what it has reported before."""
    found = original("early-newest")

    def newest(known: Any, new: Any, boot: int, number: int) -> Any:
        if known is not None:
            new = {name: combine([known.tables[name], rows]) for name, rows in new.items()}
        return found(None, new, boot, number)

    return instead("early-newest", newest)


def _partitions_added_up() -> list[Patch]:
    """What a member reports of partitions is added to what it has reported before."""
    found = original("early-partition-newest")

    def newest(self: Any, known: Any, new: Any, boot: int, number: int) -> Any:
        return found(self, None, new if known is None else merged([known.tables, new]), boot, number)

    return instead("early-partition-newest", newest)


def _by_number(boot: int, number: int, boots: Any, numbers: Any) -> Any:
    """A state counts by its number alone, which begins again with each boot."""
    return numbers <= number


def _any_records(parts: Any, pane: Any) -> Any:
    """Seals alone end a partition, whatever records it has."""
    return parts.sealed(pane)


def _any_interval(self: Any, effect: Any) -> list[int]:
    """Partitions end in any open interval, whatever the earlier ones will have."""
    return [index for index in sorted(self._intervals) if index >= effect.below]


def _nothing_withdrawn(self: Any, record: Any, withdrawn: Any) -> Any:
    """What was emitted early is not compared with the final rows."""
    return record


def _stated(producers: str, shape: Shape) -> Shape:
    """The same with early rows of partitions that so many producers seal."""

    def made(scenario: Scenario) -> Scenario:
        base = shape(scenario)
        job = wide.stated(base.jobs[0], producers, 100)
        return replace(base, jobs=(job,), traffic=wide.in_partitions(base.traffic, job))

    return made


def _assuming(shape: Shape) -> Shape:
    """The same with a job whose early rows rely on a bound that the records contradict."""

    def made(scenario: Scenario) -> Scenario:
        base = shape(scenario)
        job = replace(base.jobs[0], name="sums", ids=False, early_ms=100, summed=wide.SUMMED[0])
        return replace(base, jobs=(replace(job, assume=wide.ASSUMPTIONS[0]),))

    return made


def _grouped(shape: Shape) -> Shape:
    """The same with a job whose groups need two records, so that a record that counts twice makes a row."""

    def made(scenario: Scenario) -> Scenario:
        base = shape(scenario)
        job = replace(base.jobs[0], name="sums", ids=False, early_ms=100, enough=3)
        return replace(base, jobs=(job,))

    return made


EARLY = _grouped(small(poll_s=0.1))
SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "early-newest": (
        "a later state of a member replaces the earlier one, because states are cumulative",
        "D-19",
        _added_up,
        EARLY,
    ),
    "early-partition-newest": (
        "a later state of a partition at a member replaces the earlier one",
        "D-19",
        _partitions_added_up,
        _stated("1", small(poll_s=0.1)),
    ),
    "early-boot": (
        "a state of a later boot of an agent is newer, whatever its number",
        "D-19",
        always(("early-boot", _by_number)),
        EARLY,
    ),
    "early-stated-records": (
        "a partition has early rows once it has the records that its producers state",
        "D-19",
        always(("early-stated-records", _any_records)),
        _stated("2", small(poll_s=0.1, weather=LOSSY)),
    ),
    "early-first-interval": (
        "a partition has early rows after all earlier intervals are closed",
        "D-19",
        always(("early-first-interval", _any_interval)),
        _stated("ALL", small(poll_s=0.1, weather=LOSSY, job={"lateness_s": 4})),
    ),
    "early-withdrawn": (
        "a record that is not clean names the early rows that it lacks",
        "D-19",
        always(("early-withdrawn", _nothing_withdrawn)),
        _assuming(small(poll_s=0.1)),
    ),
    "assumptions-counted": (
        "the violations of what a job assumes make its records unclean",
        "D-19",
        always(("assumptions-counted", lambda self, panes: 0)),
        _assuming(small()),
    ),
}
ELSEWHERE = {
    **dict.fromkeys(
        ("early-partition-newest", "early-stated-records", "early-first-interval"),
        "tests/ingest/test_early_partitions.py",
    ),
    "early-boot": "tests/ingest/test_early_rows.py",
}
