"""Derives the label of each stream of a dataflow, with the rules that gave it.

One pass visits the interfaces in the order of their dependencies. A cycle that a delayed stream cuts is
labelled by least fixpoint, because its records belong to later intervals. Any other cycle is one component
with the annotations of all its paths.

Deviation: the paper enumerates all paths from sources to outputs. One pass is enough, because labels are
reconciled at every output; a test compares both. Deviation: a cycle with an order-sensitive path and a path
that writes counts as OW under the sound rules, because the most severe single annotation (OR) would not
keep the disagreement that the other path stores.

Paper: Blazes V-A. Rules: S7, S10, S11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from elfmesh.control.coordination.attributes import (
    Attribute,
    Columns,
    Dependency,
    Seal,
    merged,
    translated,
)
from elfmesh.control.coordination.derivation import Analysis, Derivation
from elfmesh.control.coordination.graph import (
    M1,
    M2,
    AnnotatedPath,
    DataStream,
    Graph,
    Node,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import Annotation, Severity, StreamLabel
from elfmesh.control.coordination.rules import (
    PAPER,
    RULE_SETS,
    PathInput,
    RuleSet,
    conclude,
    reconcile,
)
from elfmesh.errors import UsageError


def analyse(graph: Graph, rules: str | RuleSet = "sound") -> Analysis:
    """Derive all labels of a dataflow.

    Args:
        graph: the dataflow.
        rules: "sound" or "paper".

    Raises:
        UsageError: there are no such rules.

    Cost: proportional to paths and streams, at most five times where delayed streams form cycles.
    """
    if isinstance(rules, str):
        if rules not in RULE_SETS:
            raise UsageError(f"no rules {rules!r}", hint=f"There are {', '.join(RULE_SETS)}.")
        rules = RULE_SETS[rules]
    first = _Labelling(graph, rules)
    found = first.run()
    breaking = tuple(replace(each, seals=_lasting(each.seals)) for each in graph.streams)
    otherwise: dict[str, Severity] = {}
    if breaking != graph.streams:
        second = _Labelling(replace(graph, streams=breaking), rules, order=first.order).run()
        otherwise = {name: label.severity for name, label in second.outputs.items()}
    return replace(found, otherwise=otherwise)


def _lasting(seals: tuple[SealedOn, ...]) -> tuple[SealedOn, ...]:
    return tuple(each for each in seals if not each.may_break)


def dependencies(graph: Graph, rules: RuleSet) -> tuple[Dependency, ...]:
    """Return the declared dependencies, between the attributes of each source."""
    origins = {each.name for each in graph.streams if each.producer is None or each.delayed}
    if "lineage" not in rules:
        origins = {""}
    return tuple(
        Dependency(
            frozenset(Attribute(origin, name) for name in each.left),
            frozenset(Attribute(origin, name) for name in each.right),
            each.both,
        )
        for origin in sorted(origins if graph.dependencies else ())
        for each in graph.dependencies
        if not each.streams or origin in ("", *each.streams)
    )


def replicated_components(graph: Graph, rules: RuleSet) -> frozenset[str]:
    """Return the components with several instances. Rule: S7."""
    found = {each.name for each in graph.components if each.replicated}
    direct = {each.consumer[0] for each in graph.streams if each.consumer and each.replicated}
    found |= {name for name in direct if graph.by_name[name].replicated is None}
    if "S7" not in rules:
        return frozenset(found)
    followers: dict[str, set[str]] = {}
    for each in graph.streams:
        if each.producer and each.consumer:
            followers.setdefault(each.producer[0], set()).add(each.consumer[0])
    fresh = deque(sorted(found))
    while fresh:
        for name in sorted(followers.get(fresh.popleft(), ())):
            if name not in found and graph.by_name[name].replicated is None:
                found.add(name)
                fresh.append(name)
    return frozenset(found)


@dataclass
class _Labelling:
    """One analysis; `delayed` has the labels of delayed streams, which only rise."""

    graph: Graph
    rules: RuleSet
    labels: dict[Node, StreamLabel] = field(default_factory=dict)
    derivations: dict[Port, list[Derivation]] = field(default_factory=dict)
    delayed: dict[str, tuple[Severity, bool]] = field(default_factory=dict)
    steps: int = 0
    order: list[list[Node]] = field(default_factory=list)

    def run(self) -> Analysis:
        graph = self.graph
        self.replicated = replicated_components(graph, self.rules)
        self.dependencies = dependencies(graph, self.rules)
        order = self.order or graph.order(state="S11" in self.rules)
        self.order = order
        self.delayed = {
            each.name: (Severity.ASYNC, each.once) for each in graph.streams if each.delayed and each.producer
        }
        while True:
            self.labels, self.derivations = {}, {}
            for members in order:
                if len(members) > 1 or members[0] in graph.sources_of(members[0]):
                    self._cycle(members)
                else:
                    self._visit(members[0])
            if not self._raise_delayed():
                break
        outputs = {each.name: self._stream(each) for each in graph.outputs}
        return Analysis(
            graph, self.rules, outputs, {}, self.labels, self.derivations, self.replicated, self.steps
        )

    def _raise_delayed(self) -> bool:
        before = dict(self.delayed)
        for each in self.graph.streams:
            if each.delayed and each.producer:
                label = self.labels["out", *each.producer]
                self.delayed[each.name] = (label.severity, label.once and each.once)
        return self.delayed != before

    # -- streams

    def _stream(self, stream: DataStream) -> StreamLabel:
        """Return the label of the records of a stream, with the seals that it adds."""
        self.steps += 1
        origin = stream.name if "lineage" in self.rules else ""
        label = StreamLabel(Severity.ASYNC, Columns(origin))
        if stream.producer is not None and not stream.delayed:
            label = self.labels["out", *stream.producer]
        elif stream.producer is not None:
            severity, once = self.delayed[stream.name]
            label = replace(label, severity=severity, once=once)
        if not stream.seals and not stream.conditions and stream.once:
            return label
        seals, conditions = set(label.seals), {*label.conditions, *stream.conditions}
        for each in stream.seals:
            known = [label.columns.attribute(name) for name in each.key]
            if all(known):
                seals.add(Seal(frozenset(a for a in known if a), each.ordered))
            conditions |= set(each.conditions)
        once = label.once and stream.once
        return StreamLabel(label.severity, label.columns, frozenset(seals), once, frozenset(conditions))

    def _input(self, port: Port, without: frozenset[Node] = frozenset()) -> StreamLabel | None:
        streams = [
            each
            for each in self.graph.into.get(port, ())
            if each.producer is None or each.delayed or ("out", *each.producer) not in without
        ]
        if not streams:
            return None
        return self._meeting([self._stream(each) for each in streams], ".".join(port))

    def _meeting(self, labels: Sequence[StreamLabel], place: str) -> StreamLabel:
        """Return the label where streams meet: the highest, with the seals that all have. Rule: S10."""
        if len(labels) == 1:
            return labels[0]
        columns = merged([each.columns for each in labels], place)
        kept = [
            {seal for each in label.seals if (seal := translated(each, label.columns, columns))}
            for label in labels
        ]
        return StreamLabel(
            max(each.severity for each in labels),
            columns,
            frozenset(set.intersection(*kept) if "S10" in self.rules else set.union(*kept)),
            all(each.once for each in labels),
            frozenset().union(*(each.conditions for each in labels)),
        )

    # -- interfaces

    def _visit(self, node: Node) -> None:
        side, component, interface = node
        if side == "in":
            label = self._input((component, interface))
            origin = f"{component}.{interface}" if "lineage" in self.rules else ""
            self.labels[node] = label or StreamLabel(Severity.ASYNC, Columns(origin))
            return
        found = [self._given(component, path) for path in self.graph.paths_into[component, interface]]
        self._settle((component, interface), found, self._by_state(component, found))

    def _given(self, component: str, path: AnnotatedPath) -> PathInput:
        self.steps += 1
        others = [
            (each, self.labels["in", component, each.source])
            for each in (self.graph.writers(component, path) if path.annotation.order_sensitive else ())
            if ("in", component, each.source) in self.labels
        ]
        return PathInput(
            path,
            self.labels["in", component, path.source],
            tuple(others),
            component in self.replicated,
            self._ordered(component, path),
            self.dependencies,
            f"{component}.{path.target}",
        )

    def _ordered(self, component: str, path: AnnotatedPath) -> str:
        """Return the order in which all records arrive that a path's component writes or reads. Rule: S9."""
        inputs = {path.source, *(each.source for each in self.graph.writers(component))}
        orders = {
            stream.order for name in sorted(inputs) for stream in self.graph.into.get((component, name), ())
        }
        if not orders or "" in orders:
            return ""
        return M1 if orders == {M1} else M2

    def _by_state(self, component: str, found: Sequence[PathInput]) -> list[PathInput]:
        """Return the paths that reach an output only by the state that its paths read. Rule: S11."""
        if "S11" not in self.rules:
            return []
        own = {id(each.path) for each in found}
        writers = {id(path): path for each in found for path, _ in each.writers if id(path) not in own}
        return [self._given(component, path) for path in writers.values()]

    def _settle(self, port: Port, found: Sequence[PathInput], by_state: Sequence[PathInput]) -> None:
        pairs = [(each, conclude(self.rules, each)) for each in found]
        pairs += [(each, replace(conclude(self.rules, each), read=False)) for each in by_state]
        severity, protected = reconcile(self.rules, pairs, port[0] in self.replicated, len(found))
        met = self._meeting([one.out for _, one in pairs[: len(found)]], ".".join(port))
        conditions = frozenset().union(*(each.label.conditions for each, _ in pairs))
        label = StreamLabel(severity, met.columns, met.seals, met.once, conditions)
        self.labels["out", *port] = label
        self.derivations[port] = [
            Derivation(port, each.path, each.label, one, safe, label)
            for (each, one), safe in zip(pairs, protected, strict=True)
        ]

    # -- cycles

    def _cycle(self, members: list[Node]) -> None:
        """Label a cycle as one component with all its annotations; no seal leaves it."""
        inside = frozenset(members)
        outputs = [node[1:] for node in members if node[0] == "out"]
        paths = [
            (port[0], path)
            for port in outputs
            for path in self.graph.paths_into[port]
            if ("in", port[0], path.source) in inside
        ]
        name = ".".join(members[0][1:])
        columns = Columns(f"cycle of {name}" if "lineage" in self.rules else "")
        inputs = [
            label
            for node in members
            if node[0] == "in" and (label := self._input(node[1:], inside)) is not None
        ]
        label = self._meeting(inputs, name) if inputs else StreamLabel(Severity.ASYNC, columns)
        label = self._without_seals(label)
        for node in members:
            if node[0] == "in":
                self.labels[node] = label
        path = AnnotatedPath(
            "cycle", "cycle", self._collapsed([each for _, each in paths]),
            idempotent=all(each.idempotent for _, each in paths if each.annotation.writes),
            why=f"cycle of {len(members)} interfaces without a delay",
        )  # fmt: skip
        rep = any(port[0] in self.replicated for port in outputs)
        found = [PathInput(path, label, (), rep, "", self.dependencies, name)]
        own = {id(each) for _, each in paths}
        for port in outputs:
            beside = [
                self._given(port[0], each) for each in self.graph.paths_into[port] if id(each) not in own
            ]
            found += [*beside, *self._by_state_outside(port, inside)]
        pairs = [(each, conclude(self.rules, each)) for each in found]
        severity, protected = reconcile(self.rules, pairs, rep, len(pairs))
        if any(one.taint or one.read for _, one in pairs) and path.annotation.writes and rep:
            severity = max(severity, Severity.DIVERGE if self.rules != PAPER else severity)
        label = replace(label, severity=severity, columns=columns)
        for node in members:
            self.labels[node] = replace(label, severity=max(severity, self.labels.get(node, label).severity))
        for port in outputs:
            self.derivations[port] = [
                Derivation(port, each.path, each.label, one, safe, label)
                for (each, one), safe in zip(pairs, protected, strict=True)
            ]

    def _by_state_outside(self, port: Port, inside: frozenset[Node]) -> list[PathInput]:
        if "S11" not in self.rules:
            return []
        nodes = [node for node in self.graph.reading(port) if node not in inside]
        return [
            self._given(port[0], path)
            for node in nodes
            for path in self.graph.writers(port[0])
            if path.source == node[2]
        ]

    def _without_seals(self, label: StreamLabel) -> StreamLabel:
        return label if "S3" not in self.rules else replace(label, seals=frozenset())

    def _collapsed(self, paths: Sequence[AnnotatedPath]) -> Annotation:
        gates = tuple(dict.fromkeys(gate for each in paths for gate in each.annotation.gates))
        known = all(each.annotation.gates for each in paths if each.annotation.order_sensitive)
        worst = max((each.annotation for each in paths), key=lambda each: each.severity)
        order_sensitive, writes = worst.order_sensitive, worst.writes
        if self.rules != PAPER:
            order_sensitive = any(each.annotation.order_sensitive for each in paths)
            writes = any(each.annotation.writes for each in paths)
        return Annotation(order_sensitive, writes, gates if known else ())
