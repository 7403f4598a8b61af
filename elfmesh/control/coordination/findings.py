"""Findings of `elf lint`: what in the texts makes an output differ, each with a code, a place and a remedy.

A rule is a function of what was read. The table in docs/coordination.md lists the codes. Their levels never
change, because scripts test for them.

A comment allows a finding of the line behind it:

    -- elf: allow B010 because the file changes once a year

Paper: Blazes V-A (labels), VII (grey box).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from elfmesh.control.coordination.analysis import dependencies
from elfmesh.control.coordination.cost import FORMULAS, SEAL_KEY, SEQUENCED, Circumstances, expected_s
from elfmesh.control.coordination.declared import DeclaredProgram
from elfmesh.control.coordination.derivation import Analysis, Derivation
from elfmesh.control.coordination.graph import Determines, Place
from elfmesh.control.coordination.labels import Severity, StreamLabel
from elfmesh.control.coordination.relations import NOT_TRIED, Refuted
from elfmesh.control.coordination.repair import remedies
from elfmesh.control.coordination.rules import is_compatible
from elfmesh.control.coordination.statements import WEBHOOK, job_steps, shown
from elfmesh.control.jobs.graph import EdgeKind, JobGraph, TaskKind
from elfmesh.control.jobs.program_paths import POST, least_delivery
from elfmesh.ql.expressions.assumption import AssumedBound
from elfmesh.ql.plan.delivery import TopicDelivery
from elfmesh.ql.plan.early import EarlyRefused, gains_by_early
from elfmesh.ql.plan.statement import ROWS, Statement


class Level(IntEnum):
    """How serious a finding is."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


LEVELS = {str(each): each for each in Level}

CODES: dict[str, tuple[Level, str]] = {
    "B001": (Level.WARNING, "contents of an output may differ between runs"),
    "B002": (Level.ERROR, "an output may differ between instances for a while"),
    "B003": (Level.ERROR, "the states of replicas may differ permanently"),
    "B004": (Level.WARNING, "a callback of a program declares no path"),
    "B005": (Level.ERROR, "a trial has refuted what a function is declared to be"),
    "B006": (Level.ERROR, "a Python function may depend on more than its arguments"),
    "B007": (Level.ERROR, "a seal does not end the partitions of a path"),
    "B008": (Level.WARNING, "a job reads a job that may publish without stragglers"),
    "B009": (Level.WARNING, "a comment allows a finding without a reason"),
    "B010": (Level.WARNING, "a lookup file where a TABLE of the text would be Async"),
    "B011": (Level.INFO, "a sketch whose error depends on the tree"),
    "B012": (Level.ERROR, "a cycle without a delay"),
    "B013": (Level.INFO, "a job whose rows could be emitted early"),
    "B014": (Level.ERROR, "EARLY on a job whose rows may be removed again"),
    "B015": (Level.WARNING, "revisions into a sink that only appends"),
    "B016": (Level.ERROR, "an assumption that a sample contradicts"),
    "B017": (Level.ERROR, "records that may arrive twice change a state"),
    "B018": (Level.INFO, "a topic that is stronger than its readers need"),
    "B019": (Level.WARNING, "counts of ROWS that intervals without stragglers move"),
}
"""Level and title of each code."""

LABEL_CODES = {Severity.RUN: "B001", Severity.INST: "B002", Severity.DIVERGE: "B003"}
_COMMENT = re.compile(r"\s*(?:--|#)(.*)")
_ALLOW = re.compile(r"\s*elf:\s*allow\b\s*(B\d{3}(?:\s*,\s*B\d{3})*)?\s*(?:because\s+(\S.*))?(.*)")
_EDGES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Finding at a place; `allowed` is the reason of the comment that allows it, or nothing."""

    code: str
    at: Place
    message: str
    remedy: str
    allowed: str = ""

    @property
    def level(self) -> Level:
        return CODES[self.code][0]


@dataclass(frozen=True, slots=True)
class Linted:
    """What the rules see: an analysis, and what it was made from.

    Attributes:
        refused: errors about EARLY; the jobs are not in the graph.
        contradicted: dependencies that a sample contradicts, with the values that show it.
        exceeded: bounds of ASSUME that a sample contradicts, likewise.
    """

    analysis: Analysis
    jobs: JobGraph = field(default_factory=lambda: JobGraph((), ()))
    programs: Sequence[DeclaredProgram] = ()
    refuted: Refuted = field(default_factory=lambda: NOT_TRIED)
    refused: Sequence[EarlyRefused] = ()
    contradicted: Mapping[Determines, str] = field(default_factory=dict)
    exceeded: Mapping[AssumedBound, str] = field(default_factory=dict)


def findings(linted: Linted) -> list[LintFinding]:
    """Return all findings, by their places.

    Cost: proportional to the dataflow. No repair is searched.
    """
    found = dict.fromkeys(each for rule in RULES for each in rule(linted))
    return sorted(found, key=lambda each: (each.at.file, each.at.line, each.at.column, each.code))


# -- labels and annotations


def _labels(linted: Linted) -> Iterator[LintFinding]:
    analysis = linted.analysis
    for name, label in analysis.outputs.items():
        worst = max(label.severity, analysis.otherwise.get(name, label.severity))
        if worst is Severity.ASYNC or name in analysis.graph.provisional:
            continue
        producers = analysis.graph.producers[name]
        at = analysis.graph.by_name[producers[0][0]].at if producers else Place()
        why, remedy = cause(analysis, name)
        yield LintFinding(LABEL_CODES[worst], at, f"{name} is {analysis.shown(name)}: {why}", remedy)


def cause(analysis: Analysis, name: str) -> tuple[str, str]:
    """Return why an output is not Async, and what would make it so."""
    label = analysis.outputs[name]
    if label.severity is Severity.ASYNC:
        return "it may be published without stragglers", "ON STRAGGLER WAIT or CORRECT, without HORIZON"
    found = [each for each in analysis.why(name) if each.anomaly]
    why = found[0].path.why or f"{found[0].output[0]}: {found[0].path} is {found[0].path.annotation}"
    if others := analysis.inherited(name):
        why = f"it inherits the label of {', '.join(others)}"
    remedy = "; ".join(remedies(analysis, name))
    return why, remedy or f"`elf blazes` lists repairs; --why '{name}' derives the label"


def _steps(linted: Linted) -> Iterator[LintFinding]:
    for task in linted.jobs.jobs:
        assert task.statement is not None
        for each in job_steps(task, linted.jobs, linted.refuted):
            if each.code:
                at = Place(task.statement.source, each.at.line, each.at.column)
                yield LintFinding(each.code, at, each.why, each.remedy)


def _silent(linted: Linted) -> Iterator[LintFinding]:
    for program in linted.programs:
        for callback, at in program.silent:
            message = f"{callback} of {shown(program.name)} declares no path, so it counts as OW (unknown)"
            yield LintFinding(
                "B004", at, message, "@elfmesh.path(INPUT, OUTPUT, LABEL, ...) above the callback"
            )


def _seals(linted: Linted) -> Iterator[LintFinding]:
    analysis = linted.analysis
    known = dependencies(analysis.graph, analysis.rules)
    for each in (step for steps in analysis.derivations.values() for step in steps):
        path = each.path
        if not each.anomaly or not path.annotation.gates:
            continue
        for label in _read_from(analysis, each):
            if label.seals and not is_compatible(analysis.rules, path.annotation, label, known):
                seal = "; ".join(sorted(map(str, label.seals)))
                name, gates = each.output[0], str(path.annotation).partition(" ")[2]
                gate = ", ".join(sorted(path.annotation.gates[0]))
                yield LintFinding(
                    "B007", path.at, f"the seal ({seal}) does not end the partitions {gates} of {name}",
                    f"seal on one of {gate}, or declare the dependency {gate} -> {seal}",
                )  # fmt: skip


def _read_from(analysis: Analysis, each: Derivation) -> list[StreamLabel]:
    """Return the labels of the streams whose seals could end the partitions of a path."""
    component, path = each.output[0], each.path
    writers = [] if path.annotation.writes else analysis.graph.writers(component, path)
    return [analysis.labels["in", component, one.source] for one in writers] or [each.input]


def _cycles(linted: Linted) -> Iterator[LintFinding]:
    graph = linted.analysis.graph
    for members in graph.order():
        if len(members) > 1 or members[0] in graph.sources_of(members[0]):
            names = list(dict.fromkeys(node[1] for node in members))
            listed = ", ".join(names[:_EDGES_SHOWN]) + (", ..." if len(names) > _EDGES_SHOWN else "")
            yield LintFinding(
                "B012", graph.by_name[names[0]].at, f"records of one interval go round through {listed}",
                "let one stream of the cycle carry records of closed intervals only (delayed: true)",
            )  # fmt: skip


def _twice(linted: Linted) -> Iterator[LintFinding]:
    """Yield paths that write a state, are not idempotent, and read a stream that may repeat records.

    A callback without an annotation is a finding of its own.
    """
    graph = linted.analysis.graph
    silent = {at for program in linted.programs for _, at in program.silent}
    for component in graph.components:
        for path in component.paths:
            once = all(each.once for each in graph.into.get((component.name, path.source), ()))
            if not once and path.annotation.writes and not path.idempotent and path.at not in silent:
                yield LintFinding(
                    "B017", path.at, f"a record that arrives twice counts twice in {component.name}",
                    path.remedy or "make the path idempotent and declare it, or deliver each record once",
                )  # fmt: skip


def _readers(linted: Linted) -> Iterator[LintFinding]:
    for edge in linted.jobs.edges:
        read, target = edge.source.statement, edge.target.statement
        if edge.source.kind is not TaskKind.JOB or read is None or read.job is None or target is None:
            continue
        if read.job.on_straggler.lower() == "skip" or read.job.horizon_us is not None:
            yield LintFinding(
                "B008", _begin(target),
                f"{shown(edge.target.name)} reads {shown(edge.source.name)}, which may be published without "
                "stragglers, and cannot tell",
                f"ON STRAGGLER WAIT or CORRECT, without HORIZON, in {shown(edge.source.name)}",
            )  # fmt: skip


def _counts(linted: Linted) -> Iterator[LintFinding]:
    for task in linted.jobs.jobs:
        statement = task.statement
        if statement is None or statement.job is None or statement.window is None:
            continue
        skips = statement.job.on_straggler.lower() == "skip"
        if statement.window.kind == ROWS and (skips or statement.job.horizon_us is not None):
            how = "skips" if skips else "publishes without an agent"
            yield LintFinding(
                "B019", _begin(statement),
                f"an interval that {shown(task.name)} {how} moves all later windows of ROWS, whose records "
                "are then FINAL_PARTIAL",
                f"ON STRAGGLER WAIT or CORRECT, without HORIZON, in {shown(task.name)}",
            )  # fmt: skip


def _revisions(linted: Linted) -> Iterator[LintFinding]:
    for edge in linted.jobs.edges:
        sink = edge.target.sink
        if sink is not None and edge.kind is EdgeKind.REVISIONS and sink.type == WEBHOOK:
            yield LintFinding(
                "B015", Place(sink.source, sink.line),
                f"the sink {sink.name} sends all revisions of an interval of {shown(edge.source.name)}, and "
                "none replaces another",
                'state = "final", or a sink of another type',
            )  # fmt: skip


# -- early rows, assumptions, topics


def _early(linted: Linted) -> Iterator[LintFinding]:
    for each in linted.refused:
        remedy = each.hint or "leave EARLY out"
        yield LintFinding("B014", Place(each.source, each.line, each.column), each.message, remedy)
    for task in linted.jobs.jobs:
        statement = task.statement
        job = statement.job if statement is not None else None
        if statement is None or job is None or job.early_us is not None or job.delivery is not None:
            continue
        if gains_by_early(statement):
            yield LintFinding(
                "B013", _begin(statement), f"no further record removes a row of {shown(task.name)}",
                f"EARLY '250 ms' after {shown(task.name)} emits each row before its window closes",
            )  # fmt: skip


def _assumed(linted: Linted) -> Iterator[LintFinding]:
    for each in linted.analysis.graph.dependencies:
        if proof := linted.contradicted.get(each):
            message = f"the dependency {each} does not hold: {proof}"
            yield LintFinding("B016", each.at, message, "leave it out, or correct the columns")
    for task in linted.jobs.jobs:
        assert task.statement is not None
        for bound in task.statement.assumes:
            if isinstance(bound, AssumedBound) and (proof := linted.exceeded.get(bound)):
                at = Place(task.statement.source, bound.at.line, bound.at.column)
                message = f"the assumption {bound} does not hold: {proof}"
                yield LintFinding("B016", at, message, "leave it out, or correct the bound")


def _topics(linted: Linted) -> Iterator[LintFinding]:
    paths = [path for program in linted.programs for path in program.paths if path.source.startswith(POST)]
    for task in linted.jobs.jobs:
        statement = task.statement
        job = statement.job if statement is not None else None
        if statement is None or job is None or job.delivery in (None, TopicDelivery.UNORDERED):
            continue
        names = ("*", task.name, shown(task.name))
        readers = [each for each in paths if each.source.removeprefix(POST) in names]
        confluent = [not each.annotation.order_sensitive for each in readers]
        if readers and least_delivery(confluent) is TopicDelivery.UNORDERED:
            strategy = SEAL_KEY if job.delivery is TopicDelivery.SEALED else SEQUENCED
            every_s = (job.every_us or 0) / 1e6
            cost_s = expected_s(strategy, Circumstances(every_s=every_s, sequence_every_s=every_s))
            yield LintFinding(
                "B018", _begin(statement),
                f"{shown(task.name)} is {job.delivery}, and all paths that read it are confluent: a post "
                f"waits {FORMULAS[strategy]}, about {cost_s:g} s",
                "DELIVERY UNORDERED",
            )  # fmt: skip


def _begin(statement: Statement) -> Place:
    place = statement.origin.place(statement.offset)
    return Place(statement.source, place.line, place.column)


RULES: tuple[Callable[[Linted], Iterator[LintFinding]], ...] = (
    _labels, _silent, _steps, _seals, _readers, _cycles, _twice, _counts, _revisions, _early, _assumed,
    _topics,
)  # fmt: skip


# -- comments that allow


def allowing(text: str, file: str) -> tuple[dict[int, dict[str, str]], list[LintFinding]]:
    """Return the codes that comments allow, by the line behind them, and the comments without a reason."""
    found: dict[int, dict[str, str]] = {}
    wrong: list[LintFinding] = []
    waiting: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        comment = _COMMENT.fullmatch(line)
        if comment is None:
            if waiting and line.strip():
                found[number], waiting = waiting, {}
            continue
        if (match := _ALLOW.fullmatch(comment[1])) is None:
            continue
        codes, reason, rest = match.groups()
        named = re.split(r"\s*,\s*", codes) if codes else []
        if not named or not reason or rest.strip() or not CODES.keys() >= set(named):
            at = Place(file, number, line.index("elf:") + 1)
            message = "this comment allows nothing: it lacks a code or a reason"
            wrong.append(LintFinding("B009", at, message, "-- elf: allow B010 because REASON"))
        else:
            waiting |= dict.fromkeys(named, reason)
    return found, wrong


def with_comments(found: Iterable[LintFinding], texts: Mapping[str, str]) -> list[LintFinding]:
    """Return findings with the reasons that comments in their files give, and findings about the comments."""
    allowed = {file: allowing(text, file) for file, text in sorted(texts.items())}
    marked = [
        replace(each, allowed=allowed[each.at.file][0].get(each.at.line, {}).get(each.code, ""))
        if each.at.file in allowed
        else each
        for each in found
    ]
    wrong = [each for _, found_there in allowed.values() for each in found_there]
    return sorted([*marked, *wrong], key=lambda each: (each.at.file, each.at.line, each.at.column, each.code))
