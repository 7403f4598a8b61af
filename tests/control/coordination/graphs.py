"""Small dataflows for tests, and random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from elfmesh.control.coordination.graph import (
    AnnotatedPath,
    Component,
    DataStream,
    Determines,
    Graph,
    SealedOn,
)
from elfmesh.control.coordination.labels import annotated


def path(
    source: str,
    target: str,
    kind: str,
    *gates: Sequence[str],
    lineage: dict[str, str] | None = None,
    idempotent: bool = False,
) -> AnnotatedPath:
    made = None if lineage is None else tuple(lineage.items())
    return AnnotatedPath(source, target, annotated(kind, *gates), made, idempotent)


def sealed(*key: str, ordered: bool = False) -> tuple[SealedOn, ...]:
    return (SealedOn(frozenset(key), ordered),)


def chain(
    *paths: AnnotatedPath,
    source: DataStream | None = None,
    rep: bool = False,
    dependencies: Sequence[Determines] = (),
) -> Graph:
    """Components c0, c1, ... of one path each, behind each other; the output is named out."""
    components = tuple(Component(f"c{at}", (each,), rep or None) for at, each in enumerate(paths))
    first = source or DataStream("s", None, None)
    streams = [
        DataStream(
            first.name, None, ("c0", paths[0].source), first.seals, first.replicated, first.once,
            order=first.order,
        )
    ]  # fmt: skip
    for at, (one, other) in enumerate(itertools.pairwise(paths)):
        streams.append(DataStream(f"s{at}", (f"c{at}", one.target), (f"c{at + 1}", other.source)))
    last = len(paths) - 1
    streams.append(DataStream("out", (f"c{last}", paths[-1].target), None))
    return Graph(components, tuple(streams), tuple(dependencies))


def ring(size: int, *, delayed: bool = False, kind: str = "CR") -> Graph:
    """A ring of components, with one input and one output."""
    gates = (["k"],) if kind.startswith("O") else ()
    components = tuple(Component(f"c{at}", (path("in", "out", kind, *gates),)) for at in range(size))
    streams = [
        DataStream(
            f"r{at}", (f"c{at}", "out"), (f"c{(at + 1) % size}", "in"),
            delayed=delayed and at == size - 1, seals=sealed("k") if delayed else (),
        )
        for at in range(size)
    ]  # fmt: skip
    ends = [
        DataStream("s", None, ("c0", "in"), sealed("k")),
        DataStream("out", (f"c{size - 1}", "out"), None),
    ]
    return Graph(components, (*streams, *ends))


def random_graph(rng: random.Random, components_max: int = 6) -> Graph:
    """An acyclic dataflow with random annotations, seals, Rep and dependencies."""
    names = ["a", "b", "c"]
    components, streams = [], []
    outputs: list[tuple[str, str]] = []
    for at in range(rng.randint(1, components_max)):
        name = f"c{at}"
        inputs = ["x", "y"][: rng.randint(1, 2)]
        paths = []
        for each in inputs:
            kind = rng.choice(("CR", "CW", "OR", "OW"))
            gates = [rng.sample(names, rng.randint(1, 2))] if kind[0] == "O" and rng.random() < 0.8 else []
            paths.append(path(each, "out", kind, *gates))
        components.append(Component(name, tuple(paths), rng.choice((None, None, True))))
        for each in inputs:
            if outputs and rng.random() < 0.7:
                streams.append(DataStream(f"{name}{each}", rng.choice(outputs), (name, each)))
            else:
                seal = sealed(rng.choice(names)) if rng.random() < 0.5 else ()
                streams.append(
                    DataStream(
                        f"{name}{each}", None, (name, each), seal, rng.random() < 0.2, rng.random() < 0.9
                    )
                )
        outputs.append((name, "out"))
    streams.append(DataStream("out", outputs[-1], None))
    known = [Determines(frozenset("a"), frozenset("b"))] if rng.random() < 0.3 else []
    return Graph(tuple(components), tuple(streams), tuple(known))
