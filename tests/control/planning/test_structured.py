"""A step of Algorithm 3."""

from __future__ import annotations

from elfmesh.control.planning.fidelity import fidelities
from elfmesh.control.planning.parts import Part, split
from elfmesh.control.planning.structured import StructuredStep
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import operator


def planned(*operators: dict[str, object]) -> tuple[StructuredStep, Part]:
    topology = topology_of({"operators": list(operators)})
    (part,) = split(topology)
    return StructuredStep(topology, part, fidelities), part


def test_a_step_adds_the_densest_segment() -> None:
    step, _ = planned(operator("A", [1.0, 5.0, 2.0]), operator("B", 3, ("A", "one-to-one")))
    first = step.step(frozenset(), 6)
    assert first == {1, 4}
    assert step.step(first, 4) == {1, 4, 2, 5}
    assert step.step(first, 1) == first, "no segment fits"


def test_segments_of_connected_units_are_added_together() -> None:
    """Behind a merge that splits, a segment of one unit alone completes no MC-tree."""
    step, _ = planned(
        operator("A", [1.0, 2.0, 3.0, 9.0]),
        operator("B", 2, ("A", "merge")),
        operator("C", 4, ("B", "split")),
    )
    first = step.step(frozenset(), 10)
    assert len(first) == 3
    assert first > {3, 5}, "the heaviest source and its receiver"
    assert step.step(frozenset(), 2) != first


def test_the_plan_stays_where_everything_is_replicated() -> None:
    step, _ = planned(operator("A", 2), operator("B", 2, ("A", "one-to-one")))
    whole = frozenset(range(4))
    assert step.step(whole, 3) == whole
