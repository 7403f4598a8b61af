"""What an analysis finds: the labels of a dataflow, and for each label the rules that gave it.

Paper: Blazes V-A, VI (the derivations of the case studies).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from elfmesh.control.coordination.graph import AnnotatedPath, Graph, Node, Port
from elfmesh.control.coordination.labels import Severity, StreamLabel
from elfmesh.control.coordination.rules import Conclusion, RuleSet
from elfmesh.errors import UsageError


@dataclass(frozen=True, slots=True)
class Derivation:
    """One application of a rule to a path; `label` is that of the output after reconciliation."""

    output: Port
    path: AnnotatedPath
    input: StreamLabel
    found: Conclusion
    protected: bool
    label: StreamLabel

    @property
    def rule(self) -> str:
        return self.found.rule

    @property
    def conclusion(self) -> str:
        return f"{self.found.text}, protected" if self.protected else self.found.text

    @property
    def anomaly(self) -> bool:
        """Return whether this path is a cause: its state or its reads depend on the order of arrival."""
        return self.found.taint or (self.found.read and not self.protected)


@dataclass(frozen=True)
class Analysis:
    """Labels of a dataflow.

    Attributes:
        outputs: the label of each output of the dataflow, by its name.
        otherwise: the label where the conditions of the first one do not hold, if they may break.
        labels: the label of every interface.
        steps: paths and streams that were visited: the cost.
    """

    graph: Graph
    rules: RuleSet
    outputs: dict[str, StreamLabel]
    otherwise: dict[str, Severity]
    labels: dict[Node, StreamLabel]
    derivations: dict[Port, list[Derivation]]
    replicated: frozenset[str]
    steps: int

    def label(self, output: str) -> Severity:
        """Return the label of an output.

        Raises:
            UsageError: the dataflow has no such output.
        """
        return self._output(output).severity

    def shown(self, output: str) -> str:
        """Return the label as text, with its second case: "Async | Run"."""
        first = self.label(output)
        second = self.otherwise.get(output, first)
        return str(first) if second == first else f"{first} | {second}"

    def at(self, component: str, interface: str) -> Severity:
        """Return the label of an output of a component."""
        return self.labels["out", component, interface].severity

    def _output(self, output: str) -> StreamLabel:
        if output not in self.outputs:
            raise UsageError(f"no output {output}", hint=f"There are {', '.join(self.outputs) or 'none'}.")
        return self.outputs[output]

    def own(self, output: str) -> list[Derivation]:
        """Return the part of the derivation that belongs to the output's job; all of it without jobs."""
        return self._derived(output, self.graph.group_of(output))

    def inherited(self, output: str) -> list[str]:
        """Return the other jobs in which a cause of the label lies."""
        group = self.graph.group_of(output)
        causes = (self.graph.by_name[each.output[0]].group for each in self.why(output) if each.anomaly)
        return list(dict.fromkeys(each for each in causes if each != group)) if group else []

    def why(self, output: str) -> list[Derivation]:
        """Return the derivation of an output's label, from the sources on."""
        return self._derived(output, "")

    def _derived(self, output: str, group: str) -> list[Derivation]:
        self._output(output)
        producers = self.graph.producers[output]
        needed, fresh = set(producers), list(producers)
        while fresh:
            for port in _upstream(self.graph, fresh.pop()):
                if port not in needed and group in ("", self.graph.by_name[port[0]].group):
                    needed.add(port)
                    fresh.append(port)
        order = self._order
        return [step for port in sorted(needed, key=order.__getitem__) for step in self.derivations[port]]

    @cached_property
    def _order(self) -> dict[Port, int]:
        return {port: at for at, port in enumerate(self.derivations)}


def _upstream(graph: Graph, port: Port) -> Iterable[Port]:
    for node in graph.sources_of(("out", *port)):
        yield from (each.producer for each in graph.into.get(node[1:], ()) if each.producer is not None)
