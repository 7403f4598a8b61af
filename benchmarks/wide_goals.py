"""The goals of jobs at several sites beside what was measured, as a section of docs/benchmarks/wide-area.md.

    make wide-sim wide-bench wide-real
    python -m benchmarks.wide_goals build/wide/COMMIT/*.json

Owns the goals. A goal that is missed is printed bold. One whose figures are in no report is printed as
missing, and the command fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.harness import ROOT, Report
from benchmarks.wide_agents import GATEWAY, MASTER, MEMBER, NO_LOG
from benchmarks.wide_sim import COPIES, CUT, FAULTS, ONE, THREE
from tests.reliability import with_section

PAGE = ROOT / "docs/benchmarks/wide-area.md"
REFERENCE, SEATTLE = "seal to reader, PlanetLab, 5 regions, 30 agents", "seal to reader, Seattle, 30 agents"

ROUND_TRIP_S = 0.44
"""The longest round trip of the reference network with 15 agents."""

PAPER = {"union": 3.86, "filter": 3.50, "aggregate": 1.92, "join": 1.22}
"""Table I: the processor time of a server at degree 3 against degree 1."""

TABLE_1 = {MASTER: 1.25, GATEWAY: 1.25, MEMBER: 1.05}
"""The goal for each role."""

TAKEOVER = f"the master is killed, real agents, {NO_LOG}"

Values = Mapping[str, float]


@dataclass(frozen=True)
class Goal:
    """One row.

    Attributes:
        what: was measured.
        paper: what the paper has, "" if nothing.
        goal: as text.
        measured: returns the figure; KeyError if it is not there.
        met: whether a figure meets the goal.
        shown: how the figure is printed.
    """

    what: str
    paper: str
    goal: str
    measured: Callable[[Values], float]
    met: Callable[[float], bool]
    shown: str = "{:.2f}x"


def _ratio(one: str, other: str) -> Callable[[Values], float]:
    return lambda values: values[one] / values[other]


def _value(name: str) -> Callable[[Values], float]:
    return lambda values: values[name]


def _at_most(limit: float) -> Callable[[float], bool]:
    return lambda found: found <= limit


def _fault(fault: str, paths: str, when: str) -> Goal:
    before = f"{fault}, {paths}: before, p99"
    what = "the interval in flight" if when == "in flight" else "intervals within 10 s"
    measured = _ratio(f"{fault}, {paths}: {when}, p99", before)
    return Goal(f"{fault}, `{paths}`: p99 of {what}", "", "at most 1.5x before", measured, _at_most(1.5))


def _role(fault: str, paths: str) -> Goal:
    """What the loss of a role adds to that of a log, which no other agent has."""
    what = f"{fault}, `{paths}`: p99 of intervals within 10 s, beyond that of a member without a role"

    def added(values: Values) -> float:
        return values[f"{fault}, {paths}: 10 s after, p99"] - values[f"{FAULTS[3]}, {paths}: 10 s after, p99"]

    return Goal(
        what, "", f"at most a round trip, {ROUND_TRIP_S} s", added, _at_most(ROUND_TRIP_S), "{:.2f} s"
    )


def _figure_4(degree: int, cost: float) -> Goal:
    measured = _value(f"Fig. 4, min-cost, {degree} replicas: network cost")
    what = f"Fig. 4: network cost of {degree} min-cost replicas against one"
    return Goal(what, f"{cost:g}x", f"at most {cost:g}x", measured, _at_most(cost))


def _table_1(operator: str, role: str) -> Goal:
    about, limit = f"Table I, {operator}, {role}", TABLE_1[role]
    paper = f"{PAPER[operator]:g}x" if role == MASTER else ""
    what = f"Table I, processor time of {role} with 3 sites against 1: {operator}"
    return Goal(
        what, paper, f"at most {limit:g}x", _ratio(f"{about}, PATHS 3", f"{about}, PATHS 1"), _at_most(limit)
    )


GOALS = (
    Goal(
        f"reference network, `{THREE}`: p50",
        "",
        "0.45 s",
        _value(f"{REFERENCE}, {THREE}: p50"),
        _at_most(0.45),
        "{:.2f} s",
    ),
    Goal("the same: p99", "", "1.0 s", _value(f"{REFERENCE}, {THREE}: p99"), _at_most(1.0), "{:.2f} s"),
    Goal(
        "p99 against `PATHS 1`",
        "",
        "at most 0.2x",
        _ratio(f"{REFERENCE}, {THREE}: p99", f"{REFERENCE}, {ONE}: p99"),
        _at_most(0.2),
    ),
    Goal(
        "p99 against one tree",
        "",
        "at most 0.067x",
        _ratio(f"{REFERENCE}, {THREE}: p99", f"{REFERENCE}, one tree: p99"),
        _at_most(1 / 15),
    ),
    Goal(
        "Seattle, no labels, `PATHS 3` against one tree: p50",
        "",
        "at most 0.55x",
        _ratio(f"{SEATTLE}, PATHS 3: p50", f"{SEATTLE}, one tree: p50"),
        _at_most(0.55),
    ),
    Goal(
        "the same: p99",
        "",
        "at most 0.45x",
        _ratio(f"{SEATTLE}, PATHS 3: p99", f"{SEATTLE}, one tree: p99"),
        _at_most(0.45),
    ),
    *(
        _fault(fault, paths, when)
        for fault in (*FAULTS[:3], CUT)
        for paths in (THREE, COPIES)
        for when in ("in flight", "10 s after")
    ),
    *(_role(fault, paths) for fault in FAULTS[:3] for paths in (THREE, COPIES)),
    Goal(
        "requested bytes without a fault",
        "",
        "at most 10 %",
        _value(f"requested bytes, {REFERENCE[16:]}, {THREE}"),
        _at_most(10),
        "{:.1f} %",
    ),
    Goal(
        "requested bytes, one link cut",
        "",
        "at most 15 %",
        _value(f"requested bytes, {CUT}, {THREE}"),
        _at_most(15),
        "{:.1f} %",
    ),
    Goal(
        f"bytes between 3 regions, `{THREE}` against one tree",
        "",
        "at most 0.35x",
        _ratio(
            f"bytes between 3 regions of 10 agents, {THREE}", "bytes between 3 regions of 10 agents, one tree"
        ),
        _at_most(0.35),
    ),
    Goal(
        f"legs on the close path, `{THREE}`: longest against their sum",
        "",
        "at most 1.05x",
        lambda values: values[f"seal to readers in other regions, 2 legs of 50 ms, {THREE}: longest"] / 0.1,
        _at_most(1.05),
    ),
    Goal(
        "agents of the Seattle trace taken for dead in an hour",
        "",
        "at most 1",
        _value("agents taken for dead, Seattle, 99 agents, 0.25 h"),
        _at_most(1),
        "{:.0f}",
    ),
    Goal(
        "Fig. 2, votes: longest while a site is stopped against the median",
        "",
        "at most 2x",
        _ratio(
            "Fig. 2, votes (PATHS 3): longest while it is stopped", "Fig. 2, votes (PATHS 3): median before"
        ),
        _at_most(2),
    ),
    Goal(
        "Fig. 2, votes: longest after the kill against the median",
        "",
        "at most 2x",
        _ratio(
            "Fig. 2, votes (PATHS 3): longest within 5 s of the kill",
            "Fig. 2, votes (PATHS 3): median before",
        ),
        _at_most(2),
    ),
    Goal(
        "Fig. 3: variance with 3 replicas against 1",
        "falls",
        "at most 0.25x",
        _ratio("Fig. 3, 3 replicas: variance", "Fig. 3, 1 replica: variance"),
        _at_most(0.25),
        "{:.3f}x",
    ),
    *(_figure_4(degree, cost) for degree, cost in ((2, 4.78), (3, 10.99), (4, 18.32), (5, 26.71))),
    *(
        Goal(
            f"Fig. 4, {degree} replicas: limits at which min-cost is not above random, of 7",
            "7",
            "7",
            _value(f"Fig. 4, {degree} replicas: min-cost is not above random"),
            lambda found: found >= 7,
            "{:.0f}",
        )
        for degree in (2, 3, 4, 5)
    ),
    *(_table_1(operator, role) for operator in PAPER for role in TABLE_1),
    Goal(
        f"real agents, a master without a log is killed, `{THREE}`: the next result",
        "",
        "at most 1.2x usual",
        _ratio(f"{TAKEOVER}: next result, median", f"{TAKEOVER}: next result before, median"),
        _at_most(1.2),
    ),
    Goal(
        "Fig. 5: cost of 4 replicas, pruned with revival against static",
        "less than half",
        "at most 0.5x",
        _ratio(
            "Fig. 5, 4 replicas, pruned with revival: network cost",
            "Fig. 5, 4 replicas, static: network cost",
        ),
        _at_most(0.5),
    ),
)


class Table(NamedTuple):
    """A section of the page, and the goals that no report has figures of."""

    text: str
    missing: list[str]


def section(reports: Sequence[Report], goals: Sequence[Goal] = GOALS) -> Table:
    """Return the table of goals.

    Raises:
        SystemExit: the reports are of several commits, so the table would compare different programs.
    """
    if len(commits := sorted({each.commit for each in reports})) > 1:
        raise SystemExit(f"the reports must be of one commit: {', '.join(commits)}")
    values = {
        each.name: each.value
        for report in reports
        for each in report.figures
        if not each.skipped or each.skipped[0] == "0"
    }
    lines, missing = ["| what | paper | goal | measured |", "|---|---|---|---|"], []
    for goal in goals:
        try:
            found = goal.measured(values)
        except KeyError:
            shown = "missing"
            missing.append(goal.what)
        else:
            shown = goal.shown.format(found)
            shown = shown if goal.met(found) else f"**{shown}**"
        lines.append(f"| {goal.what} | {goal.paper} | {goal.goal} | {shown} |")
    about = sorted({f"{each.machine}; commit {each.commit}" for each in reports})
    return Table("\n".join([*lines, "", *about]), missing)


def main(paths: Sequence[str], page: Path = PAGE) -> None:
    """Write the section from the reports at these paths.

    Raises:
        SystemExit: goals have no figure. The page names them as missing.
    """
    table = section([msgspec.json.decode(Path(each).read_bytes(), type=Report) for each in paths])
    page.write_text(with_section(page.read_text(), "goals", table.text))
    if table.missing:
        named = "".join(f"\n  {each}" for each in table.missing)
        raise SystemExit(f"of {len(GOALS)} goals, {len(table.missing)} have no figure:{named}")


if __name__ == "__main__":
    main(sys.argv[1:])
