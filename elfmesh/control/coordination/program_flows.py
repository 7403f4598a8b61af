"""Adds programs to the dataflow of jobs.

A program reads the closed records of its job, and all its vertices read the posts of its topics. It hears a
multicast at all vertices, at least once. What it inserts into a stream reaches the jobs that read the stream.
A result that a program has seen is closed, so records that it inserts belong to later intervals.

Paper: Blazes IV-A; ELF 2.4, Figure 7 (feedback loops).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from elfmesh.control.coordination.declared import DeclaredProgram
from elfmesh.control.coordination.graph import Component, DataStream, Graph, Port, SealedOn
from elfmesh.control.coordination.relations import INTERVAL
from elfmesh.control.coordination.statements import READ_CONDITIONS, shown
from elfmesh.control.jobs.program_paths import POST


def with_programs(graph: Graph, programs: Sequence[DeclaredProgram]) -> Graph:
    """Return the dataflow of jobs with programs beside them."""
    if not programs:
        return graph
    made = [Component(each.component, each.paths, True, each.at, each.component) for each in programs]
    streams = [stream for each in programs for stream in _streams(graph, each, programs)]
    found = replace(graph, components=(*graph.components, *made), streams=(*graph.streams, *streams))
    rounds = {node for members in found.order() if len(members) > 1 for node in members}
    late = {("in", each.component, "results") for each in programs} & rounds
    return replace(
        found,
        streams=tuple(
            replace(each, delayed=True) if each.consumer and ("in", *each.consumer) in late else each
            for each in found.streams
        ),
    )


def _streams(
    graph: Graph, program: DeclaredProgram, programs: Sequence[DeclaredProgram]
) -> Iterator[DataStream]:
    name = program.component
    inputs = dict.fromkeys(each.source for each in program.paths)
    targets = dict.fromkeys(each.target for each in program.paths)
    sealed = SealedOn(frozenset({INTERVAL}), conditions=READ_CONDITIONS)
    if "results" in inputs:
        root = f"{shown(program.name)} root"
        producer = (root, "final") if root in graph.by_name else None
        yield DataStream(f"{name} results", producer, (name, "results"), (sealed,), once=False, at=program.at)
    if "early" in inputs:
        root = f"{shown(program.name)} root"
        paths = graph.by_name[root].paths if root in graph.by_name else ()
        early = (root, "early") if any(path.target == "early" for path in paths) else None
        yield DataStream(f"{name} early", early, (name, "early"), once=False, at=program.at)
    for each in inputs:
        if each in ("start", "timer", "route"):
            yield DataStream(f"{name} {each}", None, (name, each), once=each != "route", at=program.at)
        elif each.startswith(POST):
            yield _posts(graph, program, each)
        elif each not in ("results", "early"):
            verb = "send_to:" if each == "recv" else each
            makers = [target for target in targets if target.startswith(verb)]
            producers: list[Port | None] = [(name, target) for target in makers]
            for producer in producers or [None]:
                yield DataStream(
                    f"{name} {each}", producer, (name, each), replicated=each == "multicast", once=False,
                    at=program.at,
                )  # fmt: skip
    for target in targets:
        verb, _, other = target.partition(":")
        if verb == "route":
            for callee in programs:
                named = other in ("*", callee.name, shown(callee.name))
                if named and any(path.source == "route" for path in callee.paths):
                    port = (callee.component, "route")
                    yield DataStream(f"{name} {target}", (name, target), port, once=False)
        elif verb in ("insert", "post"):
            for port in _readers(graph, program, other) if verb == "insert" else _topic(graph, other):
                yield DataStream(f"{name} {target}", (name, target), port, at=program.at)
        yield DataStream(f"{name} {target}", (name, target), None, at=program.at)


def _topic(graph: Graph, topic: str) -> list[tuple[str, str]]:
    """Return where a topic reads what is posted to it."""
    streams = [each for each in graph.streams if each.consumer is not None and each.producer is None]
    rows = f"{shown(topic)} rows"
    return [each.consumer for each in streams if each.consumer is not None and each.consumer[0] == rows]


def _posts(graph: Graph, program: DeclaredProgram, source: str) -> DataStream:
    """Return what a vertex receives of a topic: every one the same records, again after a crash.

    Only a topic that is unordered has early rows.
    """
    topic = graph.by_name.get(f"{shown(source.removeprefix(POST))} root")
    outputs = {path.target for path in topic.paths} if topic is not None else set()
    kind = "early" if "early" in outputs else "final"
    name = program.component
    if topic is None:
        return DataStream(
            f"{name} {source}", None, (name, source), replicated=True, once=False, at=program.at
        )
    return DataStream(
        f"{name} {source}", (topic.name, kind), (name, source), replicated=True, once=False,
        order=topic.order, at=program.at,
    )  # fmt: skip


def _readers(graph: Graph, program: DeclaredProgram, stream: str) -> list[tuple[str, str]]:
    """Return where jobs read a stream; without its name, the streams that the program's own job reads."""
    own = shown(program.name)
    return [
        each.consumer
        for each in graph.streams
        if each.consumer is not None
        and each.producer is None
        and not each.seals  # as ticks and results have
        and (each.consumer[1] == stream or (stream == "*" and graph.by_name[each.consumer[0]].group == own))
    ]
