"""Searches for the cheapest coordination after which an output has at most the required label.

The places of a repair are the components where a read comes too early or a state depends on the order of
arrival. A strategy at a place applies to all streams that write or read the state of the component: a seal
that fits the gates, an order fixed beforehand (M1), or an order decided while running (M2, which leaves
Run). Every candidate is analysed again.

Invariant: a repair is minimal. The search takes candidates by rising cost and every strategy costs
something, so a part of the result that also reaches the goal would have been found before. A search beyond
`PLACES_MAX` places or `CANDIDATES_MAX` candidates is greedy: it leaves out each strategy that the goal does
not need, and `RepairPlan.exact` is false.

Paper: Blazes V-B.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.attributes import WINDOW
from elfmesh.control.coordination.cost import (
    FORMULAS,
    ORDERED,
    SEAL_INTERVAL,
    SEAL_KEY,
    SEQUENCED,
    WAITS_FOR,
    WEIGHTS,
    Circumstances,
    expected_s,
)
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.graph import M1, M2, Component, DataStream, Graph, SealedOn
from elfmesh.control.coordination.labels import Severity
from elfmesh.control.coordination.rules import SOUND, RuleSet

PLACES_MAX = 12
CANDIDATES_MAX = 2_000
GREEDY_PLACES_MAX = 64
"""Places beyond which no repair is searched: each costs an analysis of the dataflow."""


@dataclass(frozen=True, slots=True)
class StrategyAt:
    """Strategy for the inputs of a component; `streams` are their names, `key` the seal's."""

    component: str
    strategy: str
    streams: tuple[str, ...]
    key: tuple[str, ...] = ()

    @property
    def cost(self) -> int:
        return WEIGHTS[self.strategy]

    def __str__(self) -> str:
        name = f"{self.strategy} ({', '.join(self.key)})" if self.key else self.strategy
        return f"{name} at {self.component}: {', '.join(self.streams)}"


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Strategies that together lower a label; `exact` says that no cheaper ones reach the same goal."""

    steps: tuple[StrategyAt, ...]
    label: Severity
    exact: bool

    @property
    def cost(self) -> int:
        return sum(each.cost for each in self.steps)

    def expected_s(self, at: Circumstances) -> float:
        """Return the predicted latency: that of the slowest strategy at each place, one after the other."""
        return sum(expected_s(each.strategy, at) for each in self.steps)

    @property
    def formula(self) -> str:
        return " + ".join(FORMULAS[each.strategy] for each in self.steps)

    @property
    def waits_for(self) -> str:
        return "; ".join(dict.fromkeys(WAITS_FOR[each.strategy] for each in self.steps))


def repairs(analysis: Analysis, output: str, require: Severity = Severity.ASYNC) -> list[RepairPlan]:
    """Return the cheapest repair, then the cheapest with each kind of order alone; none if none is needed.

    A repair that does not reach the required label has the label that remains. Where all causes have a
    remedy in the text, or a final output replaces this one, no coordination is proposed.

    Raises:
        UsageError: the dataflow has no such output.
    """
    provisional = output in analysis.graph.provisional
    if analysis.label(output) <= require or provisional or remedies(analysis, output):
        return []
    found = [
        plan
        for kinds in ((SEAL_INTERVAL, SEAL_KEY, SEQUENCED, ORDERED), (SEQUENCED,), (ORDERED,))
        if (plan := search(analysis.graph, output, require, kinds, analysis.rules)) is not None
    ]
    return list(dict.fromkeys(found))


def remedies(analysis: Analysis, output: str) -> list[str]:
    """Return what makes each cause of a label confluent without coordination, if all causes have a remedy."""
    found = [each.path.remedy for each in analysis.why(output) if each.anomaly]
    return list(dict.fromkeys(found)) if all(found) else []


def search(
    graph: Graph,
    output: str,
    require: Severity,
    kinds: Sequence[str],
    rules: RuleSet = SOUND,
) -> RepairPlan | None:
    """Return the cheapest repair with these kinds of strategies; None if none lowers the label.

    Cost: an analysis for each candidate, at most `CANDIDATES_MAX` and some for each place.
    """
    before = analyse(graph, rules).label(output)
    options = _options(graph, output, kinds, rules)
    if not options or len(options) > GREEDY_PLACES_MAX:
        return None

    def reached(steps: Sequence[StrategyAt]) -> Severity:
        return analyse(applied(graph, steps), rules).label(output)

    everything = [step for each in options for step in each]
    best = reached(everything)
    if best > require:  # show what the strongest strategies leave
        goal = best
        if goal >= before:
            return None
    else:
        goal = require
    if len(options) <= PLACES_MAX:
        for count, steps in enumerate(_by_cost(options, _needed(options, goal, reached))):
            if reached(steps) <= goal:
                return RepairPlan(tuple(steps), reached(steps), exact=True)
            if count == CANDIDATES_MAX:
                break
    return _greedy(options, goal, reached)


def _needed(
    options: Sequence[Sequence[StrategyAt]],
    goal: Severity,
    reached: Callable[[Sequence[StrategyAt]], Severity],
) -> list[bool]:
    """Return for each place whether the goal is out of reach without it, whatever the other places do."""
    return [
        reached([step for other, each in enumerate(options) if other != at for step in each]) > goal
        for at in range(len(options))
    ]


def _by_cost(
    options: Sequence[Sequence[StrategyAt]], needed: Sequence[bool]
) -> Iterator[tuple[StrategyAt, ...]]:
    """Yield one strategy or none for each place, in the order of their cost."""

    def steps(chosen: tuple[int, ...]) -> tuple[StrategyAt, ...]:
        return tuple(options[at][number - 1] for at, number in enumerate(chosen) if number)

    start = tuple(int(each) for each in needed)
    heap = [(sum(each.cost for each in steps(start)), start, 0)]
    while heap:
        _, chosen, last = heapq.heappop(heap)
        yield steps(chosen)
        for at in range(last, len(options)):
            if chosen[at] < len(options[at]):
                following = (*chosen[:at], chosen[at] + 1, *chosen[at + 1 :])
                heapq.heappush(heap, (sum(each.cost for each in steps(following)), following, at))


def _greedy(
    options: Sequence[Sequence[StrategyAt]],
    goal: Severity,
    reached: Callable[[Sequence[StrategyAt]], Severity],
) -> RepairPlan | None:
    for kinds in (0, -1):
        steps = [each[kinds] for each in options]
        if reached(steps) <= goal:
            break
    else:
        steps = [step for each in options for step in each]
    for step in list(steps):
        without = [each for each in steps if each is not step]
        if reached(without) <= goal:
            steps = without
    return RepairPlan(tuple(steps), reached(steps), exact=False)


def _options(graph: Graph, output: str, kinds: Sequence[str], rules: RuleSet) -> list[list[StrategyAt]]:
    """Return the strategies of each place, cheapest first; the most upstream place first.

    A place may be hidden by a higher label of its input. The places that appear after all known ones are
    repaired are places too.
    """
    places: dict[str, list[StrategyAt]] = {}
    while True:
        repaired = applied(graph, [step for each in places.values() for step in each])
        fresh = [
            name
            for each in analyse(repaired, rules).why(output)
            if each.anomaly and (name := each.output[0]) not in places
        ]
        if not fresh:
            return [each for each in places.values() if each]
        for name in fresh:
            component = graph.by_name[name]
            found = [each for each in _strategies(graph, component) if each.strategy in kinds]
            places[name] = sorted(found, key=lambda each: each.cost)


def _strategies(graph: Graph, component: Component) -> Iterator[StrategyAt]:
    sealed, ordered = _inputs(component)
    for key in _keys(component):
        timed = any(name.startswith(f"{WINDOW}(") for name in key)
        kind = SEAL_INTERVAL if timed else SEAL_KEY
        yield StrategyAt(component.name, kind, _names(graph, component, sealed), key)
    for kind in (SEQUENCED, ORDERED):
        yield StrategyAt(component.name, kind, _names(graph, component, ordered))


def _inputs(component: Component) -> tuple[list[str], list[str]]:
    """Return the inputs that a seal must cover, and those that an order must cover."""
    writing = {each.source for each in component.paths if each.annotation.writes}
    sensitive = {each.source for each in component.paths if each.annotation.order_sensitive}
    return sorted(writing or sensitive), sorted(writing | sensitive)


def _names(graph: Graph, component: Component, inputs: Sequence[str]) -> tuple[str, ...]:
    streams = [each.name for name in inputs for each in graph.into.get((component.name, name), ())]
    return tuple(dict.fromkeys(streams))


def _keys(component: Component) -> list[tuple[str, ...]]:
    """Return the columns on which a seal fits all gates: one that all have, else one of each."""
    sensitive = [each.annotation for each in component.paths if each.annotation.order_sensitive]
    if not sensitive or not all(each.gates for each in sensitive):
        return []
    gates = [gate for each in sensitive for gate in each.gates]
    if common := sorted(frozenset.intersection(*gates)):
        return [(name,) for name in common]
    if not all(gates):
        return []
    return [tuple(dict.fromkeys(min(gate) for gate in gates))]


def applied(graph: Graph, steps: Sequence[StrategyAt]) -> Graph:
    """Return the dataflow after a repair."""
    if not steps:
        return graph
    changes: dict[str, list[StrategyAt]] = {}
    for each in steps:
        changes.setdefault(each.component, []).append(each)
    streams = [
        _changed(each, changes.get(each.consumer[0], ())) if each.consumer else each for each in graph.streams
    ]
    return replace(graph, streams=tuple(streams))


def _changed(stream: DataStream, steps: Sequence[StrategyAt]) -> DataStream:
    for each in steps:
        if stream.name not in each.streams:
            continue
        if each.strategy == SEQUENCED:
            stream = replace(stream, order=M1)
        elif each.strategy == ORDERED:
            stream = replace(stream, order=stream.order or M2)
        else:
            seals = [
                SealedOn(frozenset({name[len(WINDOW) + 1 : -1]}), ordered=True)
                if name.startswith(f"{WINDOW}(")
                else SealedOn(frozenset({name}))
                for name in each.key
            ]
            stream = replace(stream, seals=(*stream.seals, *seals))
    return stream
