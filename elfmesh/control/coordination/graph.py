"""Annotated dataflows: components, their paths, and the streams between them; the order of an analysis.

A path leads from an input to an output of a component and has an annotation; the paths of a component share
its state. A stream leads from an output to an input. Without a producer it is a source, without a consumer
an output. The module knows structure only; `rules` knows what annotations mean.

Invariants: names of components are unique; each end of a stream exists; each path has one annotation.

Paper: Blazes II, IV, V-A (cycles). Rule: S11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from elfmesh.control.coordination.labels import Annotation
from elfmesh.errors import DataError
from elfmesh.text import suggest

M1, M2 = "M1", "M2"
ORDERS = ("", M1, M2)
"""Orders of a stream: none, fixed beforehand (sequenced), decided while running (ordered)."""

Port = tuple[str, str]
"""Component and interface."""

Node = tuple[str, str, str]
"""Interface in the order of an analysis: "in" or "out", component, interface."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a declaration; line 0 if only the file is known."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        numbers = f":{self.line}:{self.column}" if self.column else f":{self.line}" if self.line else ""
        return f"{self.file}{numbers}"


@dataclass(frozen=True, slots=True)
class AnnotatedPath:
    """Path of a component.

    Attributes:
        lineage: each output column with the expression that makes it; None: all names are kept.
        idempotent: a record that arrives twice changes nothing.
        why: the reason of the annotation, for display.
        remedy: what would make the path confluent without coordination.
    """

    source: str
    target: str
    annotation: Annotation
    lineage: tuple[tuple[str, str], ...] | None = None
    idempotent: bool = False
    why: str = ""
    at: Place = Place()
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True, slots=True)
class Component:
    """Component; `replicated` is its Rep annotation, or None if it follows from its inputs.

    `group` is the job of which the component is a part. `order` is M1 if an order of its final output is
    fixed beforehand.
    """

    name: str
    paths: tuple[AnnotatedPath, ...]
    replicated: bool | None = None
    at: Place = Place()
    group: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class SealedOn:
    """Seal of a stream by names: a punctuation for each value of the key, or an order of one time.

    `may_break` says that records may follow the punctuation, and `conditions` when none has.
    """

    key: frozenset[str]
    ordered: bool = False
    conditions: tuple[str, ...] = ()
    may_break: bool = False


@dataclass(frozen=True, slots=True)
class DataStream:
    """Stream from an output to an input.

    Attributes:
        replicated: several instances of the consumer receive the same contents (Rep).
        once: no record arrives twice.
        delayed: its records belong to later intervals than those from which they were made.
        order: M1 or M2 if an order is imposed, together with the other inputs of its consumer.
        provisional: what ends this output, if others count for it, such as a final record; "" if it is final.
        conditions: what is assumed of its records, by counts of the records that are made from them.
    """

    name: str
    producer: Port | None
    consumer: Port | None
    seals: tuple[SealedOn, ...] = ()
    replicated: bool = False
    once: bool = True
    delayed: bool = False
    order: str = ""
    at: Place = Place()
    provisional: str = ""
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Determines:
    """Dependency between columns of sources, by names; `both` if each side determines the other.

    `streams` are the sources that have it; none: all do.
    """

    left: frozenset[str]
    right: frozenset[str]
    both: bool = False
    at: Place = field(default_factory=Place, compare=False)
    streams: frozenset[str] = frozenset()

    def __str__(self) -> str:
        left, right = (", ".join(sorted(side)) for side in (self.left, self.right))
        return f"{left} {'<->' if self.both else '->'} {right}"


@dataclass(frozen=True)
class Graph:
    """Annotated dataflow.

    Raises:
        DataError: two components have one name, or a stream begins or ends nowhere.
    """

    components: tuple[Component, ...]
    streams: tuple[DataStream, ...]
    dependencies: tuple[Determines, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for each in self.components:
            if each.name in seen:
                raise DataError(f"component {each.name} occurs twice", where=str(each.at))
            seen.add(each.name)
        for stream in self.streams:
            for port, ports, side in (
                (stream.producer, self._outputs, "output"),
                (stream.consumer, self._inputs, "input"),
            ):
                if port is not None and port not in ports:
                    raise self._nowhere(stream, port, side, ports)

    def _nowhere(self, stream: DataStream, port: Port, side: str, ports: Iterable[Port]) -> DataError:
        component, interface = port
        if component not in self.by_name:
            text, hint = f"unknown component {component}", suggest(component, self.by_name)
        else:
            text = f"component {component} has no {side} {interface}"
            hint = suggest(interface, [name for owner, name in ports if owner == component])
        return DataError(f"stream {stream.name}: {text}", where=str(stream.at), hint=hint)

    @cached_property
    def by_name(self) -> Mapping[str, Component]:
        return {each.name: each for each in self.components}

    @cached_property
    def _inputs(self) -> frozenset[Port]:
        return frozenset((each.name, path.source) for each in self.components for path in each.paths)

    @cached_property
    def _outputs(self) -> frozenset[Port]:
        return frozenset((each.name, path.target) for each in self.components for path in each.paths)

    @cached_property
    def outputs(self) -> tuple[DataStream, ...]:
        return tuple(each for each in self.streams if each.consumer is None)

    @cached_property
    def producers(self) -> Mapping[str, list[Port]]:
        """Return where each output of the dataflow comes from."""
        found: dict[str, list[Port]] = {}
        for each in self.outputs:
            found.setdefault(each.name, []).extend([each.producer] if each.producer else [])
        return found

    @cached_property
    def provisional(self) -> Mapping[str, str]:
        """Return the outputs in whose place others count, with what ends them."""
        return {each.name: each.provisional for each in self.outputs if each.provisional}

    @cached_property
    def _groups(self) -> Mapping[str, str]:
        return {each.name: self.by_name[each.producer[0]].group for each in self.outputs if each.producer}

    def group_of(self, output: str) -> str:
        """Return the job whose output this is, or nothing."""
        return self._groups.get(output, "")

    @cached_property
    def into(self) -> Mapping[Port, list[DataStream]]:
        """Return the streams into each input."""
        found: dict[Port, list[DataStream]] = {}
        for each in self.streams:
            if each.consumer is not None:
                found.setdefault(each.consumer, []).append(each)
        return found

    @cached_property
    def paths_into(self) -> Mapping[Port, list[AnnotatedPath]]:
        found: dict[Port, list[AnnotatedPath]] = {}
        for component in self.components:
            for path in component.paths:
                found.setdefault((component.name, path.target), []).append(path)
        return found

    def writers(self, component: str, path: AnnotatedPath | None = None) -> list[AnnotatedPath]:
        """Return the paths that write the component's state, except for the given one."""
        paths = self.by_name[component].paths
        return [each for each in paths if each.annotation.writes and each is not path]

    def reading(self, port: Port) -> list[Node]:
        """Return the inputs that reach an output by the state that its order-sensitive paths read.

        Rule: S11.
        """
        found: dict[Node, None] = {}
        for path in self.paths_into[port]:
            if path.annotation.order_sensitive:
                for writer in self.writers(port[0], path):
                    found["in", port[0], writer.source] = None
        return list(found)

    def sources_of(self, node: Node, *, state: bool = True) -> list[Node]:
        """Return the interfaces on which the label of an interface depends, without delayed streams."""
        side, component, interface = node
        if side == "in":
            streams = self.into.get((component, interface), ())
            return [("out", *each.producer) for each in streams if each.producer and not each.delayed]
        own: list[Node] = [("in", component, path.source) for path in self.paths_into[component, interface]]
        return [*own, *self.reading((component, interface))] if state else own

    def order(self, *, state: bool = True) -> list[list[Node]]:
        """Return the interfaces in the order of an analysis; those of a cycle are together.

        Cost: proportional to interfaces and edges. It does not recurse.
        """
        nodes: list[Node] = [("in", *port) for port in sorted(self._inputs)]
        nodes += [("out", *port) for port in sorted(self._outputs)]
        return list(components(nodes, lambda node: self.sources_of(node, state=state)))


def components(nodes: Iterable[Node], sources: Callable[[Node], list[Node]]) -> Iterator[list[Node]]:
    """Yield the strongly connected sets of a graph, each after the sets on which it depends (Tarjan)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    inside: set[Node] = set()
    for root in nodes:
        if root in index:
            continue
        walk: list[tuple[Node, Iterator[Node]]] = []
        _enter(root, index, low, stack, inside)
        walk.append((root, iter(sources(root))))
        while walk:
            node, rest = walk[-1]
            for each in rest:
                if each not in index:
                    _enter(each, index, low, stack, inside)
                    walk.append((each, iter(sources(each))))
                    break
                if each in inside:
                    low[node] = min(low[node], index[each])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == index[node]:
                    yield _leave(node, stack, inside)


def _enter(
    node: Node, index: dict[Node, int], low: dict[Node, int], stack: list[Node], inside: set[Node]
) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    inside.add(node)


def _leave(node: Node, stack: list[Node], inside: set[Node]) -> list[Node]:
    members: list[Node] = []
    while not members or members[-1] != node:
        members.append(stack.pop())
        inside.discard(members[-1])
    return sorted(members)
