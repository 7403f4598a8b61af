"""A step of Algorithm 3."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import fidelities, fidelity
from elfmesh.control.planning.mc_trees import mc_trees, tasks_of
from elfmesh.control.planning.parts import Part, split, unit_links, units
from elfmesh.control.planning.structured import StructuredStep, _first_by_names
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import operator, random_topology


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


def one_by_one(topology: Topology, part: Part, plan: frozenset[int], room: int) -> frozenset[int]:
    """Algorithm 3 with one evaluation for each candidate, and nothing kept between them."""
    outside = set(range(len(topology)))
    for at in part.operators:
        outside -= set(topology.operators[at].tasks)
    groups, inside = units(topology, part), set(unit_links(topology, part))
    cut = {pair for pair, _ in topology.pairs if pair not in inside}
    segments: list[list[tuple[float, frozenset[int]]]] = []
    for group in groups:
        alone, back = topology.part(group, cut)
        trees = sorted((tasks_of(tree) for tree in mc_trees(alone)), key=alone.named)
        found = [
            (round(fidelity(alone, tree), TIE), frozenset(back[task] for task in tree)) for tree in trees
        ]
        segments.append(found)
    unit_of = {at: number for number, group in enumerate(groups) for at in group}
    pairs = {(unit_of.get(one), unit_of.get(other)) for (one, other), _ in topology.pairs}
    linked = {(one, other) for pair in pairs for one, other in (pair, pair[::-1]) if one != other}

    def value(tasks: frozenset[int]) -> float:
        return fidelity(topology, tasks | plan | outside)

    def visits(start: int) -> list[int]:
        order = [start]
        for at in order:
            order += [to for to in range(len(groups)) if (at, to) in linked and to not in order]
        return order[1:]

    def grown(at: int, segment: frozenset[int]) -> frozenset[int]:
        new, chosen = segment, {at: segment}
        for to in visits(at):
            near = {task for by, tasks in chosen.items() if (by, to) in linked for task in tasks}
            reached = {task for each in near for task in topology.neighbours[each]}
            joined = [(worth, each) for worth, each in segments[to] if each & reached]
            if not joined:
                break
            _, best = min(joined, key=lambda one: (-one[0], len(one[1] - plan), topology.named(one[1])))
            if len((new | best) - plan) > room:
                break
            new, chosen[to] = new | best, best
        return new

    base, candidates = value(frozenset()), []
    for at, of_unit in enumerate(segments):
        for _, segment in of_unit:
            if 0 < len(segment - plan) <= room:
                raises = value(segment) > base + 10.0**-TIE
                candidates.append(segment if raises else grown(at, segment))
    density = {each: round((value(each) - base) / len(each - plan), TIE) for each in candidates}
    best = max(density.values(), default=0.0)
    ties = [each for each, dense in density.items() if dense == best]
    return plan | min(ties, key=topology.named) if ties else plan


@pytest.mark.parametrize("seed", range(12))
def test_a_step_takes_the_candidate_that_an_evaluation_of_each_one_takes(seed: int) -> None:
    """Candidates are evaluated together, and those that have not grown only once."""
    dice = random.Random(seed)
    topology = random_topology(dice, (4, 7), (2, 5), "structured", joins=0.5 * (seed % 2), zipf=0.1)
    for part in split(topology):
        if part.full:
            continue
        fast, plan = StructuredStep(topology, part, fidelities), frozenset[int]()
        for room in range(min(10, len(topology)), 0, -2):
            following = fast.step(plan, room)
            assert topology.named(following) == topology.named(one_by_one(topology, part, plan, room))
            plan = following


@pytest.mark.parametrize("seed", range(30))
def test_of_equal_candidates_the_first_by_names_is_taken(seed: int) -> None:
    dice = random.Random(seed)
    named = [tuple(at for at in range(7) if dice.random() < 0.4) or (6,) for _ in range(9)]
    sets = [sum(1 << (6 - at) for at in each) for each in named]
    assert named[sets.index(_first_by_names(sets))] == min(named)
