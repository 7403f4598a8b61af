"""Parts of a topology that can be planned on their own (PPA IV-C1 and IV-C3).

Owns the division of a topology into full and structured topologies, and of a structured one into units.

Deviation: the paper finds the parts by depth-first searches whose rule contradicts their direction. Here all
full edges are cut; operators joined only by full edges form full topologies. The result depends on no order
of visits.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.planning.topology import FULL, MERGE, SPLIT, Pair, Topology, components


@dataclass(frozen=True, slots=True)
class Part:
    """Operators that are planned together.

    Attributes:
        operators: their positions, ascending.
        full: whether all streams between them are full.
    """

    operators: tuple[int, ...]
    full: bool


def split(topology: Topology) -> list[Part]:
    """Divide a topology into full and structured ones, ordered by their first operator."""
    every = range(len(topology.operators))
    links = [pair for pair, stream in topology.pairs if stream.kind != FULL]
    within = components(every, links)
    single = [group[0] for group in within if len(group) == 1]
    full_links = [
        pair
        for pair, stream in topology.pairs
        if stream.kind == FULL and pair[0] in single and pair[1] in single
    ]
    parts = [Part(group, full=False) for group in within if len(group) > 1]
    parts += [Part(group, full=True) for group in components(single, full_links)]
    return sorted(parts, key=lambda each: each.operators)


def units(topology: Topology, part: Part) -> list[tuple[int, ...]]:
    """Divide a structured part so that a unit has few MC-trees, its *segments*.

    A boundary lies before an operator that has a merged input and splits its output, and between a join and
    its merged inputs.
    """
    return components(part.operators, set(unit_links(topology, part)))


def unit_links(topology: Topology, part: Part) -> list[Pair]:
    """Return the streams inside the units of a structured part."""
    inside = [
        (pair, stream)
        for pair, stream in topology.pairs
        if stream.kind != FULL and pair[0] in part.operators and pair[1] in part.operators
    ]
    splitting = {pair[0] for pair, stream in inside if stream.kind == SPLIT}
    return [
        pair
        for pair, stream in inside
        if not (stream.kind == MERGE and (pair[1] in splitting or topology.operators[pair[1]].correlated))
    ]
