"""Makes the annotated dataflow of jobs from their plans, without annotations by an author.

A job is a group of components: for each part its rows (records -> row) and its states (row -> state, and
seal -> rows), and the root, which joins the parts. The outputs are the final rows and the tentative ones.
An agent seals an interval when its event time has passed the end by LATENESS; the seal is a promise that
late records break.

Paper: Blazes VII (white box); the table of paths is in docs/coordination.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from elfmesh.control.coordination.graph import (
    AnnotatedPath,
    Component,
    DataStream,
    Graph,
    Place,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import Annotation, annotated
from elfmesh.control.coordination.relations import (
    INTERVAL,
    PlanStep,
    gated,
    input_steps,
    plan_steps,
    relation_steps,
)
from elfmesh.control.jobs.graph import EdgeKind, JobGraph, JobTask, TaskEdge, TaskKind
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.plan.statement import Statement

EXACT = {
    "kll": "percentile",
    "kllmerge": "percentile over the records",
    "frequent": "GROUP BY the value, with count(*)",
    "top": "GROUP BY the value, with ORDER BY count(*) and LIMIT",
}
"""Sketches whose dropped values depend on the shape of the tree, within their error, and what is exact."""

SHAPED = frozenset(EXACT)

CONDITIONS = ("completeness = 1", "late_dropped = 0", "expired = 0", "source_gap = 0")
READ_CONDITIONS = ("records that are read are clean",)
_SEALED = SealedOn(frozenset({INTERVAL}))


def dataflow(jobs: JobGraph) -> Graph:
    """Return the annotated dataflow of jobs. An input that reads a job outside the graph counts as Async."""
    components: list[Component] = []
    streams: list[DataStream] = []
    for task in jobs.jobs:
        made = _JobComponents(task, jobs)
        components += made.components
        streams += made.streams
    outside = sorted(each.name for each in jobs.tasks if each.kind is TaskKind.RESULTS)
    notes = tuple(f"job {shown(each)} is not among the texts: it counts as Async" for each in outside)
    return Graph(tuple(components), tuple(streams), notes=notes)


def shown(name: str) -> str:
    """Return the name of a job as texts write it."""
    return name.replace("/", ".")


class _JobComponents:
    """Components and streams of one job."""

    def __init__(self, task: JobTask, jobs: JobGraph) -> None:
        assert task.statement is not None
        self.statement = task.statement
        self.name = shown(task.name)
        self.edges = jobs.into(task)
        self.components: list[Component] = []
        self.streams: list[DataStream] = []
        parts = self.statement.parts or (self.statement,)
        rows = [self._part(number, part, len(parts)) for number, part in enumerate(parts)]
        self._root(rows)

    def _place(self, at: TextPosition = NOWHERE) -> Place:
        if at == NOWHERE:
            return Place(self.statement.source)
        return Place(self.statement.source, at.line, at.column)

    def _part(self, number: int, part: Statement, count: int) -> tuple[Port, Port]:
        """Add the components of a part, and return the outputs with its final and its tentative rows."""
        name = f"{self.name} part {number + 1}" if count > 1 else f"{self.name} rows"
        edge = next(each for each in self.edges if each.part == number and each.kind is not EdgeKind.ROWS)
        lookups = [each for each in self.edges if each.part == number and each.kind is EdgeKind.ROWS]
        steps = [*_reading(edge), *_lookups(lookups), *input_steps(part)]
        why = "; ".join(step.why for step in steps) or "each record alone decides whether and where it counts"
        source = edge.source.name if edge.kind is EdgeKind.RECORDS else shown(edge.source.name)
        path = AnnotatedPath(
            source, "row", _annotation(steps), None, why=why, at=self._at(steps), remedy=_remedy(steps)
        )
        self.components.append(Component(name, (path,), at=self._place(), group=self.name))
        self.streams.append(self._input(edge, (name, source), f"{name} {source}"))
        final, tentative = self._states(name, part)
        return final, tentative

    def _at(self, steps: list[PlanStep]) -> Place:
        return self._place(next((step.at for step in steps if step.at != NOWHERE), NOWHERE))

    def _input(self, edge: TaskEdge, consumer: Port, name: str) -> DataStream:
        if edge.kind is EdgeKind.RECORDS:
            return DataStream(name, None, consumer, at=self._place())
        seal = SealedOn(_SEALED.key, conditions=READ_CONDITIONS)
        inside = edge.source.kind is not TaskKind.RESULTS
        producer = (f"{shown(edge.source.name)} root", "final") if inside else None
        return DataStream(name, producer, consumer, (seal,), delayed=edge.delayed, at=self._place())

    def _states(self, name: str, part: Statement) -> tuple[Port, Port]:
        """Add the states of a part: one that waits for the seals, and one that the deadline reads."""
        steps = list(plan_steps(part))
        written, why, remedy = _written(part)
        job = self.statement.job
        rule = job.on_straggler.lower() if job else "wait"
        seal = SealedOn(
            _SEALED.key,
            conditions=CONDITIONS if job else (),  # the end of files is a promise
            may_break=rule == "skip" or bool(job and job.horizon_us is not None),
        )
        found = []
        for kind, tick, seals in (("final", "seal", (seal,)), ("tentative", "deadline", ())):
            state = f"{name} {kind}"
            read = AnnotatedPath(
                tick, kind, _annotation(steps or [gated((), "", NOWHERE)]),
                why="; ".join(step.why for step in steps), at=self._at(steps), remedy=_remedy(steps),
            )  # fmt: skip
            write = AnnotatedPath("row", "state", written, why=why, at=self._place(), remedy=remedy)
            self.components.append(Component(state, (write, read), at=self._place(), group=self.name))
            self.streams.append(DataStream(f"{state} row", (name, "row"), (state, "row"), seals))
            self.streams.append(DataStream(f"{state} {tick}", None, (state, tick), (_SEALED,)))
            found.append((state, kind))
        return found[0], found[1]

    def _root(self, rows: list[tuple[Port, Port]]) -> None:
        steps = _root_steps(self.statement)
        why = "; ".join(step.why for step in steps) or "rows pass as they are"
        paths, name = [], f"{self.name} root"
        job = self.statement.job
        kinds = ("final", "tentative") if job and job.on_straggler.lower() == "correct" else ("final",)
        for at, kind in enumerate(kinds):
            for number, ports in enumerate(rows):
                source = f"{kind} {number + 1}"
                paths.append(AnnotatedPath(source, kind, _annotation(steps), why=why, at=self._at(steps)))
                self.streams.append(DataStream(f"{name} {source}", ports[at], (name, source)))
            label = self.name if kind == "final" else f"{self.name} tentative"
            self.streams.append(DataStream(label, (name, kind), None, provisional=kind != "final"))
        self.components.append(Component(name, tuple(paths), at=self._place(), group=self.name))


def _annotation(steps: Iterable[PlanStep]) -> Annotation:
    """Return CR without steps, otherwise OR with the gates of all; one unknown gate makes all unknown."""
    gates = [step.gate for step in steps]
    if not gates:
        return annotated("CR")
    known = [gate for gate in gates if gate is not None]
    return annotated("OR", *(dict.fromkeys(known) if len(known) == len(gates) else ()))


def _remedy(steps: Iterable[PlanStep]) -> str:
    """Return what makes all steps without a known gate confluent, or nothing if a step has no remedy."""
    remedies = [step.remedy for step in steps if step.gate is None]
    return "; ".join(dict.fromkeys(remedies)) if all(remedies) else ""


def _reading(edge: TaskEdge) -> Iterator[PlanStep]:
    if edge.kind is EdgeKind.RECORDS:
        return
    how = {
        EdgeKind.RESULTS: "closed records, after all records within the interval are closed",
        EdgeKind.LATEST: "the newest rows that ended before the interval began, after they are closed",
        EdgeKind.SAME: "the record of the interval with the same end, after it is closed",
    }[edge.kind]
    yield gated((), f"the master reads {how}", NOWHERE)


def _lookups(edges: Iterable[TaskEdge]) -> Iterator[PlanStep]:
    for each in edges:
        if each.source.kind is TaskKind.LOOKUP:
            why = "agents may hold different versions when they read a record"
            remedy = f"TABLE {each.source.name} (...) in the text, filled by `elf publish`: Async, no latency"
            yield PlanStep(None, f"join with the file {each.source.name}: {why}", remedy=remedy)


def _written(part: Statement) -> tuple[Annotation, str, str]:
    """Return the annotation of row -> state by the laws of the aggregates, the reason, and a remedy."""
    kinds = sorted({kind for table in part.tables for kind, _ in table.aggregates.values()})
    shaped = [kind for kind in kinds if kind.partition(":")[0] in SHAPED]
    if shaped:
        why = f"which values {', '.join(shaped)} drops beyond its exact size depends on the tree's shape"
        exact = dict.fromkeys(EXACT[kind.partition(":")[0]] for kind in shaped)
        return annotated("OW"), why, f"exact aggregates: {', '.join(exact)}"
    return annotated("CW"), "merging is associative and commutative, and exact in any tree", ""


def _root_steps(statement: Statement) -> list[PlanStep]:
    found = list(relation_steps(statement.relation))
    for _, relation in statement.scalars:
        found += [gated((), "a scalar subquery needs all rows of the interval", relation.at)]
        found += relation_steps(relation)
    return found
