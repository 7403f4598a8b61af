"""Runs a random dataflow under a random schedule, and compares what the analysis says with what happens.

Truth of the world: a component with Rep has three instances; each instance receives every record of its
streams, in any order; a punctuation arrives after all records of its partition; a stream that may repeat
records repeats some. A component delays a path until a punctuation exactly where the analysis concludes
that a seal fits.

Every third schedule is random. The others are directed: instances take their messages in opposite orders, by
value, or with the readers of a state before its writers, because most anomalies need two records to be
swapped. A dataflow runs over several workloads, of which some have many records in one partition.

An anomaly is Run if two schedules give different outputs, Inst if instances of one schedule do, and Diverge
if their states differ at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elfmesh.control.coordination.analysis import analyse, dependencies, replicated_components
from elfmesh.control.coordination.attributes import Seal
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.graph import (
    AnnotatedPath,
    Component,
    DataStream,
    Determines,
    Graph,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import Severity, StreamLabel
from elfmesh.control.coordination.rules import SOUND, RuleSet, is_compatible
from tests.control.coordination.explore.machines import MACHINES, STATE_ONLY, Machine, Record, canonical
from tests.control.coordination.graphs import sealed

INSTANCES = 3
WORKLOADS = 3
SCHEDULE_KINDS = 3
Message = tuple[DataStream, Record | None, tuple[str, int] | None]
"""Stream, and a record or a punctuation (column, value)."""


@dataclass(frozen=True)
class World:
    """A dataflow with a machine for each component and the records of its sources."""

    graph: Graph
    machines: dict[str, Machine]
    records: dict[str, list[Record]]


KEYS, WATERMARK = ("", "id", "campaign", "campaign"), "order(w)"
"""On what a source may be sealed; windows of the time `w` are its values."""


def random_world(
    rng: random.Random, choice: Sequence[Machine] = MACHINES, keys: Sequence[str] = KEYS
) -> World:
    components, streams, machines, records = [], [], {}, {}
    depends = rng.random() < 0.4
    free: list[Port] = []
    for at in range(rng.randint(1, 5)):
        machine, name = rng.choice(choice), f"c{at}"
        components.append(Component(name, machine.paths, True if rng.random() < 0.4 else None))
        machines[name] = machine
        order = rng.choice(("", "", "", "", "M1", "M2"))
        for each in machine.paths:
            for which in range(1 + (rng.random() < 0.15)):
                label = f"{name}.{each.source}.{which}"
                if free and rng.random() < 0.75:
                    streams.append(DataStream(label, rng.choice(free), (name, each.source)))
                    continue
                key = rng.choice(keys)
                once, seals = rng.random() < 0.9, sealed(key) if key else ()
                seals = (SealedOn(frozenset("w"), ordered=True),) if key == WATERMARK else seals
                streams.append(DataStream(label, None, (name, each.source), seals, once=once, order=order))
                records[label] = [_record(rng, number, depends) for number in range(rng.randint(2, 4))]
        free += [(name, each.target) for each in machine.paths if each.target not in STATE_ONLY]
    known = (Determines(frozenset({"id"}), frozenset({"campaign"})),) if depends else ()
    return World(Graph(tuple(components), tuple(streams), known), machines, records)


def _busier(world: World, rng: random.Random) -> World:
    """Return the same dataflow over more records in fewer partitions."""
    depends = bool(world.graph.dependencies)
    records = {
        name: [_record(rng, number, depends, keys=2) for number in range(rng.randint(3, 5))]
        for name in world.records
    }
    return replace(world, records=records)


def _record(rng: random.Random, number: int, depends: bool, keys: int = 3) -> Record:
    key = rng.randrange(keys)
    campaign = key % 2 if depends else rng.randint(0, 1)
    return {"id": key, "campaign": campaign, "v": 10 + number, "w": number % 2}


@dataclass
class Run:
    """One schedule: the outputs of each interface and the states, by instance."""

    world: World
    analysis: Analysis
    rng: random.Random
    directed: int = 0
    outputs: dict[tuple[str, str, int], Counter[Any]] = field(default_factory=dict)
    states: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.world.graph
        self.salt = self.rng.random()
        self.replicated = replicated_components(graph, SOUND)
        self.readers: dict[Port, list[DataStream]] = {}
        for each in graph.streams:
            if each.producer:
                self.readers.setdefault(each.producer, []).append(each)
        self.pending: dict[tuple[str, int], list[Message]] = {}
        self.waiting: dict[tuple[str, int], list[tuple[AnnotatedPath, Record]]] = {}
        self.ended: dict[tuple[str, int], dict[str, set[tuple[str, int]]]] = {}
        self.ended_by: dict[tuple[str, int, str, tuple[str, int]], set[str]] = {}
        self.forwarded: set[tuple[str, int, str, tuple[str, int]]] = set()
        self.sealed_reads = {
            (each.name, path.source): self._seals(each.name, path)
            for each in graph.components
            for path in each.paths
            if path.annotation.order_sensitive
        }

    def instances(self, component: str) -> range:
        return range(INSTANCES if component in self.replicated else 1)

    def _seals(self, component: str, path: AnnotatedPath) -> dict[str, str]:
        """Return the column whose punctuation ends the partitions that a path waits for, by input."""
        found = {}
        writers = self.world.graph.writers(component, path)
        own = path.annotation.writes or not writers
        for each in (*([path] if own else []), *writers):
            label = self.analysis.labels["in", component, each.source]
            rules, known = self.analysis.rules, dependencies(self.analysis.graph, self.analysis.rules)
            fitting = [
                seal for seal in label.seals
                if is_compatible(rules, path.annotation, _only(label, seal), known)
            ]  # fmt: skip
            if not fitting:
                return {}
            found[each.source] = min(attribute.name for seal in fitting for attribute in seal.key)
        return found

    def go(self) -> None:
        for stream in self.world.graph.streams:
            if stream.producer is None and stream.consumer:
                self._begin(stream)
        while ready := [key for key, messages in sorted(self.pending.items()) if messages]:
            self._deliver(self.rng.choice(ready))
        for key in sorted(self.waiting):  # the end of the input ends every partition
            self._release(key, None)
            while ready := [other for other, messages in sorted(self.pending.items()) if messages]:
                self._deliver(self.rng.choice(ready))

    def _begin(self, stream: DataStream) -> None:
        assert stream.consumer is not None
        records = self.world.records[stream.name]
        for instance in self.instances(stream.consumer[0]):
            for record in records:
                times = 1 if stream.once or self.rng.random() < 0.5 else 2
                self._send(stream, instance, [record] * times)
            for seal in stream.seals:
                (column,) = seal.key
                for value in sorted({record[column] for record in records}):
                    self._punctuate(stream, instance, (column, value))

    def _queue(self, stream: DataStream, instance: int) -> list[Message]:
        assert stream.consumer is not None
        return self.pending.setdefault((stream.consumer[0], instance), [])

    def _send(self, stream: DataStream, instance: int, records: list[Record]) -> None:
        self._queue(stream, instance).extend((stream, record, None) for record in records)

    def _punctuate(self, stream: DataStream, instance: int, end: tuple[str, int]) -> None:
        self._queue(stream, instance).append((stream, None, end))

    def _deliver(self, key: tuple[str, int]) -> None:
        queue = self.pending[key]
        allowed = [at for at, message in enumerate(queue) if self._may(queue, at, message)]
        at = self._chosen(key, allowed)
        if order := self._order(queue[at][0]):
            rank = self._rank if order == "M1" else self._shuffled
            at = min(
                (each for each in allowed if self._order(queue[each][0])), key=lambda it: rank(queue[it])
            )
        stream, record, end = queue.pop(at)
        component, instance = key
        assert stream.consumer is not None
        port = stream.consumer
        if record is None:
            assert end is not None
            by = self.ended_by.setdefault((*key, port[1], end), set())
            by.add(stream.name)
            if by >= self._producers(port, end[0]):
                self.ended.setdefault(key, {}).setdefault(port[1], set()).add(end)
                self._release(key, end)
                for known in sorted(set().union(*self.ended[key].values())):
                    self._forward(component, instance, known)
            return
        for path in self.world.machines[component].paths:
            if path.source == port[1]:
                if self._must_wait(key, path, record):
                    self.waiting.setdefault(key, []).append((path, record))
                else:
                    self._step(key, path, record)

    def _chosen(self, key: tuple[str, int], allowed: list[int]) -> int:
        """Return which message arrives next, in an order that differs between instances and schedules."""
        kind, turned = self.directed % SCHEDULE_KINDS, (self.directed // SCHEDULE_KINDS + key[1]) % 2
        if not kind:
            return self.rng.choice(allowed)
        queue = self.pending[key]

        def rank(at: int) -> tuple[Any, ...]:
            stream, record, _ = queue[at]
            value = canonical(record) if record else ()
            assert stream.consumer is not None
            paths = [path for path in self.world.machines[key[0]].paths if path.source == stream.consumer[1]]
            writes = any(path.annotation.writes for path in paths)
            return (writes, value) if kind == 1 else (value, at)

        return max(allowed, key=rank) if turned else min(allowed, key=rank)

    def _producers(self, port: Port, column: str) -> set[str]:
        """Return the streams whose punctuations end a partition: those that are sealed, else all."""
        streams = self.world.graph.into[port]
        sealed_ones = {each.name for each in streams if column in self._columns(each)}
        return sealed_ones or {each.name for each in streams}

    def _columns(self, stream: DataStream) -> set[str]:
        label = self.analysis.labels["out", *stream.producer] if stream.producer else None
        own = {name for seal in stream.seals for name in seal.key}
        return own | {each.name for seal in (label.seals if label else ()) for each in seal.key}

    def _order(self, stream: DataStream) -> str:
        return "" if stream.producer else stream.order

    def _rank(self, message: Message) -> tuple[Any, ...]:
        stream, record, end = message
        return (record is None, stream.name, canonical(record) if record else end)

    def _shuffled(self, message: Message) -> tuple[Any, ...]:
        return random.Random(f"{self.salt} {self._rank(message)}").random(), self._rank(message)

    def _may(self, queue: list[Message], at: int, message: Message) -> bool:
        """Return whether a message may arrive now: a punctuation only after the records of its partition."""
        stream, _, end = message
        if end is None:
            return True
        column, value = end
        return not any(
            other == stream and record is not None and record.get(column, value) == value
            for other, record, _ in queue[:at]
        )

    def _must_wait(self, key: tuple[str, int], path: AnnotatedPath, record: Record) -> bool:
        seals = self.sealed_reads.get((key[0], path.source), {})
        ended = self.ended.get(key, {})
        for source, column in seals.items():
            ends = [value for name, value in sorted(ended.get(source, set())) if name == column]
            if source == path.source and column not in record:
                return not ends  # a punctuation of a column that is gone could mean any record
            value = record.get(column)
            gate = set().union(*path.annotation.gates)
            if not gate & {column, f"window({column})"}:  # the gate determines it: see _record
                value = record.get("id", 0) % 2 if source != path.source else value
            if value not in ends:
                return True
        return False

    def _release(self, key: tuple[str, int], end: tuple[str, int] | None) -> None:
        held = self.waiting.pop(key, [])
        held.sort(key=lambda each: (not each[0].annotation.writes, each[0].source, canonical(each[1])))
        for path, record in held:
            if end is not None and self._must_wait(key, path, record):
                self.waiting.setdefault(key, []).append((path, record))
            else:
                self._step(key, path, record)

    def _step(self, key: tuple[str, int], path: AnnotatedPath, record: Record) -> None:
        component, instance = key
        state = self.states.setdefault(key, {})
        made = self.world.machines[component].steps[path.source](state, record)
        output = self.outputs.setdefault((component, path.target, instance), Counter())
        output.update(canonical(each) for each in made)
        for stream in self.readers.get((component, path.target), ()):
            assert stream.consumer is not None
            for other in self._targets(component, instance, stream.consumer[0]):
                self._send(stream, other, made)

    def _targets(self, producer: str, instance: int, consumer: str) -> list[int]:
        """Return the instances that an instance feeds: its own, or all of them if it is alone."""
        return [instance] if producer in self.replicated else list(self.instances(consumer))

    def _forward(self, component: str, instance: int, end: tuple[str, int]) -> None:
        """Pass a punctuation on where all inputs of an output have it and none of its records waits."""
        machine, key = self.world.machines[component], (component, instance)
        for target in {path.target for path in machine.paths}:
            paths = [path for path in machine.paths if path.target == target]
            ready = all(end in self.ended.get(key, {}).get(path.source, set()) for path in paths)
            waits = any(
                path.target == target and record.get(end[0], end[1]) == end[1]
                for path, record in self.waiting.get(key, ())
            )
            if not ready or waits or (component, instance, target, end) in self.forwarded:
                continue
            self.forwarded.add((component, instance, target, end))
            for stream in self.readers.get((component, target), ()):
                assert stream.consumer is not None
                for other in self._targets(component, instance, stream.consumer[0]):
                    self._punctuate(stream, other, end)


def _only(label: StreamLabel, seal: Seal) -> StreamLabel:
    return replace(label, seals=frozenset({seal}))


@dataclass(frozen=True)
class Witness:
    """An anomaly: where, and how severe."""

    interface: tuple[str, str]
    seen: Severity
    label: Severity

    @property
    def is_unsound(self) -> bool:
        return self.seen > self.label


def explore(world: World, schedules: int, seed: int, rules: RuleSet = SOUND) -> list[Witness]:
    """Return for each interface the most severe anomaly of some schedules, beside its label."""
    analysis = analyse(world.graph, rules)
    worst: dict[Port, Severity] = {}
    for workload in range(WORKLOADS):
        first: dict[Port, Any] = {}
        busy = world if not workload else _busier(world, random.Random(f"{seed} {workload}"))
        for number in range(workload, schedules, WORKLOADS):
            run = Run(busy, analysis, random.Random(f"{seed} {number}"), number // WORKLOADS)
            run.go()
            for component in world.graph.components:
                for target in dict.fromkeys(path.target for path in component.paths):
                    _compare(run, (component.name, target), worst, first)
    return [Witness(port, seen, analysis.labels["out", *port].severity) for port, seen in worst.items()]


def _compare(run: Run, port: Port, worst: dict[Port, Severity], first: dict[Port, Any]) -> None:
    component, target = port
    once = run.analysis.labels["out", *port].once
    found = [run.outputs.get((component, target, each), Counter()) for each in run.instances(component)]
    shown: list[Any] = [sorted(each.items()) if once else sorted(each) for each in found]
    if target in STATE_ONLY:
        shown = [run.states.get((component, each), {}) for each in run.instances(component)]
    seen = Severity.ASYNC
    if first.setdefault(port, shown) != shown:
        seen = Severity.RUN
    if any(each != shown[0] for each in shown):
        seen = Severity.INST
    paths = run.world.machines[component].paths
    writes = any(path.annotation.writes for path in paths)
    if writes and any(
        p.target == target and (p.annotation.writes or p.annotation.order_sensitive) for p in paths
    ):
        states = [run.states.get((component, each), {}) for each in run.instances(component)]
        if any(each != states[0] for each in states):
            seen = Severity.DIVERGE
    worst[port] = max(worst.get(port, Severity.ASYNC), seen)
