"""Makes the annotated dataflow of jobs from their plans, without annotations by an author.

A job is a group of components: for each part its rows (records -> row) and its states (row -> state, and
seal -> rows), and the root, which joins the parts. The outputs are final, tentative and early rows.
An agent seals an interval when its event time has passed the end by LATENESS; the seal is a promise that
late records break.

Paper: Blazes VII (white box); the table of paths is in docs/coordination.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from elfmesh.control.coordination.cost import (
    EARLY,
    FORMULAS,
    ORDERED,
    SEAL_KEY,
    SEQUENCED,
    WAITS_FOR,
    Circumstances,
    expected_s,
)
from elfmesh.control.coordination.graph import (
    M1,
    M2,
    AnnotatedPath,
    Component,
    DataStream,
    Determines,
    Graph,
    Place,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import Annotation, annotated
from elfmesh.control.coordination.relations import (
    INTERVAL,
    NOT_TRIED,
    PlanStep,
    Refuted,
    gated,
    input_steps,
    plan_steps,
    relation_steps,
    sealed_keys,
)
from elfmesh.control.jobs.graph import EdgeKind, JobGraph, JobTask, TaskEdge, TaskKind
from elfmesh.control.jobs.records import ASSUMPTION_BROKEN
from elfmesh.ql.expressions.assumption import AssumedDependency
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.plan.delivery import TopicDelivery
from elfmesh.ql.plan.statement import JobClause, Statement

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
UNTIL_FINAL = "until the final record replaces it"
UNTIL_AT = "without `--at TIME`, because a reader gets the newest record, which others may have later"
"""Why an output is provisional."""

WEBHOOK, PROMETHEUS = "webhook", "prometheus"
"""Types of sinks that read or store in ways of their own."""

_STRATEGIES = {TopicDelivery.SEQUENCED: SEQUENCED, TopicDelivery.ORDERED: ORDERED}
_ORDERS = {TopicDelivery.SEQUENCED: M1, TopicDelivery.ORDERED: M2}

_SEALED = SealedOn(frozenset({INTERVAL}))


def dataflow(jobs: JobGraph, refuted: Refuted = NOT_TRIED) -> Graph:
    """Return the annotated dataflow of jobs. An input that reads a job outside the graph counts as Async."""
    components: list[Component] = []
    streams: list[DataStream] = []
    dependencies: list[Determines] = []
    for task in jobs.jobs:
        made = _JobComponents(task, jobs, refuted)
        components += made.components
        streams += made.streams
        dependencies += made.dependencies
    outputs = {each.producer for each in streams}
    for edge in (each for each in jobs.edges if each.target.kind is TaskKind.SINK):
        component, read = _sink(edge, outputs)
        components.append(component)
        streams += read
    outside = sorted(each.name for each in jobs.tasks if each.kind is TaskKind.RESULTS)
    notes = tuple(f"job {shown(each)} is not among the texts: it counts as Async" for each in outside)
    return Graph(tuple(components), tuple(streams), tuple(dependencies), notes)


def _sink(edge: TaskEdge, outputs: Collection[Port | None]) -> tuple[Component, list[DataStream]]:
    """Return a job at a sink: a component that stores its records, with one output.

    A webhook sends a record again whose answer was lost. Prometheus reads the newest record when it is asked.
    Revisions of open intervals replace each other, except at a webhook, which has each of them.
    """
    sink = edge.target.sink
    assert sink is not None
    name, root = f"{shown(edge.source.name)} > {sink.name}", f"{shown(edge.source.name)} root"
    place = Place(sink.source, sink.line)
    revised = edge.kind is EdgeKind.REVISIONS and (root, "tentative") in outputs
    hook, idempotent = sink.type == WEBHOOK, sink.idempotent
    fixes = ['state = "final"'] if revised else []
    fixes += [] if idempotent else ["idempotent = true, if the receiver stores keys"]
    remedy = " and ".join(fixes)
    if sink.type == PROMETHEUS:
        why, remedy = "a reader gets the newest record, which others may have later", "read `elf results`"
        paths = [AnnotatedPath("final", "rows", annotated("OR"), why=why, at=place, remedy=remedy)]
    else:
        why = "a record may be sent twice, with the same key" if hook else "one record for each interval"
        paths = [AnnotatedPath("final", "rows", annotated("CW"), None, idempotent, why, place, remedy)]
    if revised:
        target = "rows" if hook else "open rows"
        why = "revisions of an open interval depend on which agents have contributed"
        gate = annotated("OW", [INTERVAL])
        paths.append(AnnotatedPath("tentative", target, gate, None, idempotent, why, place, remedy))
    ends = [(each.source, (root, each.source)) for each in paths]
    streams = [
        DataStream(f"{name} {kind}", producer, (name, kind), once=not hook, at=place)
        for kind, producer in ends
    ]
    streams += [
        DataStream(name if target == "rows" else f"{name} {target}", (name, target), None,
                   provisional=UNTIL_FINAL if target != "rows" else "", at=place)
        for target in dict.fromkeys(path.target for path in paths)
    ]  # fmt: skip
    replicated = True if sink.type == PROMETHEUS else None
    return Component(name, tuple(paths), replicated, place, name), streams


def shown(name: str) -> str:
    """Return the name of a job as texts write it."""
    return name.replace("/", ".")


class _JobComponents:
    """Components and streams of one job, and the dependencies that it assumes of its source."""

    def __init__(self, task: JobTask, jobs: JobGraph, refuted: Refuted) -> None:
        assert task.statement is not None
        self.refuted = refuted
        self.statement = task.statement
        self.name = shown(task.name)
        self.begin = self._place(self.statement.origin.place(self.statement.offset))
        self.edges = jobs.into(task)
        self.components: list[Component] = []
        self.streams: list[DataStream] = []
        self.dependencies: list[Determines] = []
        self.assumed = tuple(f"{ASSUMPTION_BROKEN} = 0 ({each})" for each in self.statement.assumes)
        parts = self.statement.over_records
        rows = [self._part(number, part, len(parts)) for number, part in enumerate(parts)]
        if rows:
            self._root(rows)
        else:
            self._once()

    def _place(self, at: TextPosition = NOWHERE) -> Place:
        if at == NOWHERE:
            return Place(self.statement.source)
        return Place(self.statement.source, at.line, at.column)

    def _part(self, number: int, part: Statement, count: int) -> dict[str, Port]:
        """Add the components of a part, and return the outputs with its rows by kind: "final", ..."""
        name = f"{self.name} part {number + 1}" if count > 1 else f"{self.name} rows"
        edge = next(each for each in self.edges if each.part == number and each.kind is not EdgeKind.ROWS)
        lookups = [each for each in self.edges if each.part == number and each.kind is EdgeKind.ROWS]
        steps = [*_reading(edge), *_lookups(lookups, part), *input_steps(part, self.refuted)]
        why = "; ".join(step.why for step in steps) or "each record alone decides whether and where it counts"
        why += "".join(f"; ASSUME {each}" for each in part.assumes)
        source = edge.source.name if edge.kind is EdgeKind.RECORDS else shown(edge.source.name)
        path = AnnotatedPath(
            source, "row", _annotation(steps), None, why=why, at=self._at(steps), remedy=_remedy(steps)
        )
        self.components.append(Component(name, (path,), at=self.begin, group=self.name))
        self.streams.append(self._input(edge, (name, source), f"{name} {source}"))
        return self._states(name, part)

    def _at(self, steps: list[PlanStep]) -> Place:
        return self._place(next((step.at for step in steps if step.at != NOWHERE), NOWHERE))

    def _input(self, edge: TaskEdge, consumer: Port, name: str) -> DataStream:
        if edge.kind is EdgeKind.RECORDS:
            self.dependencies += [
                Determines(
                    frozenset(each.left), frozenset({each.right}),
                    at=self._place(each.at), streams=frozenset({name}),
                )
                for each in self.statement.assumes
                if isinstance(each, AssumedDependency)
            ]  # fmt: skip
            return DataStream(name, None, consumer, at=self._place(), conditions=self.assumed)
        seal = SealedOn(_SEALED.key, conditions=READ_CONDITIONS)
        inside = edge.source.kind is not TaskKind.RESULTS
        producer = (f"{shown(edge.source.name)} root", "final") if inside else None
        return DataStream(name, producer, consumer, (seal,), delayed=edge.delayed, at=self._place())

    def _states(self, name: str, part: Statement) -> dict[str, Port]:
        """Add the states of a part: one that waits for the seals, and those that are read before."""
        steps = list(plan_steps(part))
        shaped = _shaped(part)
        why = shaped.why if shaped else "merging is associative and commutative, and exact in any tree"
        job, ends = self.statement.job, part.plan.seal
        rule = job.on_straggler.lower() if job else "wait"
        by = _SEALED if ends is None else SealedOn(frozenset(sealed_keys(ends)))
        seal = SealedOn(
            by.key,
            conditions=CONDITIONS if job else (),  # the end of files is a promise
            may_break=rule == "skip" or bool(job and job.horizon_us is not None),
        )
        found = dict[str, Port]()
        kinds = [("final", "seal", (seal,)), ("tentative", "deadline", ())]
        if job is not None and job.early_us is not None:
            kinds.append(("early", "batch", ()) if ends is None else ("early", "seals", (seal,)))
        for kind, tick, seals in kinds:
            state = f"{name} {kind}"
            read = AnnotatedPath(
                tick, kind, _annotation(steps or [gated((), "", NOWHERE)]),
                why="; ".join(step.why for step in steps) or "rows need all records of the interval",
                at=self._at(steps), remedy=_remedy(steps),
            )  # fmt: skip
            if kind == "early" and ends is None:
                why_early = "a row is emitted once no further record can remove it"
                read = AnnotatedPath(tick, kind, annotated("CR"), None, why=why_early, at=self.begin)
            write = AnnotatedPath(
                "row", "state", annotated("OW" if shaped else "CW"), why=why,
                at=self._at([shaped] if shaped else []), remedy=shaped.remedy if shaped else "",
            )  # fmt: skip
            rep = True if kind == "tentative" and self._has_sites else None
            self.components.append(Component(state, (write, read), rep, self.begin, self.name))
            self.streams.append(DataStream(f"{state} row", (name, "row"), (state, "row"), seals))
            assumed = self.assumed if kind == "early" else ()
            ticks = DataStream(f"{state} {tick}", None, (state, tick), (by,), conditions=assumed)
            self.streams.append(ticks)
            found[kind] = (state, kind)
        return found

    def _root(self, rows: list[dict[str, Port]]) -> None:
        steps = _root_steps(self.statement)
        job = self.statement.job
        why = "; ".join(step.why for step in steps) or _cost_of(job) or "rows pass as they are"
        paths, name = [], f"{self.name} root"
        kinds = ["final", "tentative"] if self._has_tentative() else ["final"]
        kinds += ["early"] if "early" in rows[0] else []
        for kind in kinds:
            for number, ports in enumerate(rows):
                source = f"{kind} {number + 1}"
                reason = self._early_cost() if kind == "early" and not steps else why
                paths.append(AnnotatedPath(source, kind, _annotation(steps), why=reason, at=self._at(steps)))
                self.streams.append(DataStream(f"{name} {source}", ports[kind], (name, source)))
            label = self.name if kind == "final" else f"{self.name} {kind}"
            self.streams.append(
                DataStream(label, (name, kind), None, provisional=UNTIL_FINAL if kind == "tentative" else "")
            )
        order = _ORDERS.get(job.delivery, "") if job is not None and job.delivery is not None else ""
        # Each site makes the record, and one of them is closed: its rows are those of one instance.
        rep = False if self._has_sites else None
        self.components.append(Component(name, tuple(paths), rep, self.begin, self.name, order))
        if job is None and any(each.kind is EdgeKind.RESULTS for each in self.edges):
            self._newest(name)

    def _once(self) -> None:
        """Add the root of a statement without FROM."""
        name = f"{self.name} root"
        path = AnnotatedPath(
            "one row", "final", annotated("CR"), None, why="it reads no record", at=self.begin
        )
        self.components.append(Component(name, (path,), at=self.begin, group=self.name))
        self.streams.append(DataStream(f"{name} one row", None, (name, "one row"), at=self.begin))
        self.streams.append(DataStream(self.name, (name, "final"), None))

    def _newest(self, root: str) -> None:
        """Add the rows of `elf query` without `--at`: each reader has its own newest record."""
        name = f"{self.name} newest"
        path = AnnotatedPath(
            "final", "rows", annotated("OR"), why="it reads the newest record", at=self.begin
        )
        self.components.append(Component(name, (path,), True, self.begin, self.name))
        self.streams.append(DataStream(f"{name} final", (root, "final"), (name, "final")))
        self.streams.append(DataStream(name, (name, "rows"), None, provisional=UNTIL_AT))

    @property
    def _has_sites(self) -> bool:
        """Whether several sites make tentative records, each from the contributions that it has."""
        return self.statement.job is not None and self.statement.job.paths > 1

    def _early_cost(self) -> str:
        """Return when a row is emitted early, and for what it waits."""
        job, seal = self.statement.job, self.statement.plan.seal
        assert job is not None
        at = Circumstances(early_s=(job.early_us or 0) / 1e6)
        waits = WAITS_FOR[EARLY if seal is None else SEAL_KEY]
        return f"{EARLY}: {FORMULAS[EARLY]}, expected {expected_s(EARLY, at):g} s; waits for {waits}"

    def _has_tentative(self) -> bool:
        """Return whether the job publishes open intervals. A batch of an ORDERED topic is a record."""
        job = self.statement.job
        if job is None or job.delivery is TopicDelivery.ORDERED or self.statement.spans_intervals:
            return False
        return job.on_straggler.lower() == "correct"


def _cost_of(job: JobClause | None) -> str:
    """Return how a topic puts its posts in order, and what that costs; "" for another job."""
    strategy = _STRATEGIES.get(job.delivery) if job is not None and job.delivery is not None else None
    if job is None or strategy is None:
        return ""
    at = Circumstances(sequence_every_s=(job.every_us or 0) / 1e6)
    expected = f"{FORMULAS[strategy]}, expected {expected_s(strategy, at):g} s"
    return f"{strategy}: {expected}; waits for {WAITS_FOR[strategy]}"


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


def _lookups(edges: Iterable[TaskEdge], part: Statement) -> Iterator[PlanStep]:
    places = {join.name: key.at for join in part.lookups for key, _ in join.keys}
    for each in edges:
        if each.source.kind is TaskKind.LOOKUP:
            name = each.source.name
            why = f"join with the file {name}: agents may hold different versions when they read a record"
            remedy = f"TABLE {name} (...) in the text, filled by `elf publish`: Async, no latency"
            yield PlanStep(None, why, places.get(name, NOWHERE), remedy, "B010")


def _shaped(part: Statement) -> PlanStep | None:
    """Return the aggregates of a part whose states depend on the tree's shape, as one step, if it has any."""
    found = [
        (kind, given)
        for table in part.tables
        for kind, given in sorted(table.aggregates.values(), key=str)
        if kind.partition(":")[0] in SHAPED
    ]
    if not found:
        return None
    kinds = sorted({kind for kind, _ in found})
    exact = dict.fromkeys(EXACT[kind.partition(":")[0]] for kind in kinds)
    why = f"which values {', '.join(kinds)} drops beyond its exact size depends on the tree's shape"
    names = [name for _, given in found for name in ([given] if isinstance(given, str) else given or ())]
    values = [part.plan.values[int(name[1:])] for name in names if name[:1] == "v" and name[1:].isdigit()]
    at = next((each.at for each in values if each.at != NOWHERE), NOWHERE)
    return PlanStep(None, why, at, f"exact aggregates: {', '.join(exact)}", "B011")


def job_steps(task: JobTask, jobs: JobGraph, refuted: Refuted = NOT_TRIED) -> Iterator[PlanStep]:
    """Yield the order-sensitive steps of a job's whole text."""
    assert task.statement is not None
    for number, part in enumerate(task.statement.over_records):
        edges = [each for each in jobs.into(task) if each.part == number]
        yield from (*_lookups(edges, part), *input_steps(part, refuted), *plan_steps(part))
        if (shaped := _shaped(part)) is not None:
            yield shaped
    yield from _root_steps(task.statement)


def _root_steps(statement: Statement) -> list[PlanStep]:
    found = list(relation_steps(statement.relation, statement.parts))
    for _, relation in statement.scalars:
        found += [gated((), "a scalar subquery needs all rows of the interval", relation.at)]
        found += relation_steps(relation, statement.parts)
    return found
