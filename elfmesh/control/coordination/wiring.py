"""Which outputs of components feed which inputs: by declared streams, or by equal names.

Invariant: each interface of a component has at least one stream. An input that no output feeds has a source,
and an output that no input reads is an output of the dataflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elfmesh.control.coordination.graph import (
    Component,
    DataStream,
    Port,
)
from elfmesh.errors import DataError
from elfmesh.text import suggest


def connected_by_name(
    components: Sequence[Component], declared: Sequence[DataStream]
) -> tuple[DataStream, ...]:
    """Connect equal names of different components; declared streams annotate those of their name."""
    outputs: dict[str, dict[Port, None]] = {}
    inputs: dict[str, dict[Port, None]] = {}
    for each in components:
        for path in each.paths:
            outputs.setdefault(path.target, {})[each.name, path.target] = None
            inputs.setdefault(path.source, {})[each.name, path.source] = None
    found: list[DataStream] = []
    for name in dict.fromkeys([*inputs, *outputs]):
        makers, readers = outputs.get(name, {}), inputs.get(name, {})
        joined = [(one, other) for one in makers for other in readers if one[0] != other[0]]
        sources = [each for each in readers if each not in {other for _, other in joined}]
        ends = [each for each in makers if each not in {one for one, _ in joined}]
        found += [DataStream(name, one, other) for one, other in joined]
        found += [DataStream(name, None, each) for each in sources]
        found += [DataStream(_apart(name, each, ends), each, None) for each in ends]
    by_name = {each.name: each for each in declared}
    names = {one.name for one in found}
    for name, given in by_name.items():
        if name not in names:
            near = suggest(name, sorted(names))
            raise DataError(f"no stream {name}{'; ' + near if near else ''}", where=str(given.at))
    return tuple(
        replace(by_name[each.name], producer=each.producer, consumer=each.consumer)
        if each.name in by_name
        else each
        for each in found
    )


def connected(components: Sequence[Component], declared: Sequence[DataStream]) -> tuple[DataStream, ...]:
    """Add to the declared streams a source or an output for each interface that none of them has."""
    found = list(declared)
    inputs = {each.consumer for each in declared}
    outputs = {each.producer for each in declared}
    open_inputs: dict[Port, None] = {}
    open_outputs: dict[Port, None] = {}
    for each in components:
        for path in each.paths:
            if (each.name, path.source) not in inputs:
                open_inputs[each.name, path.source] = None
            if (each.name, path.target) not in outputs:
                open_outputs[each.name, path.target] = None
    found += [DataStream(port[1], None, port) for port in open_inputs]
    names = {each.name for each in declared if each.consumer is None}
    for port in open_outputs:
        name = port[1] if port[1] not in names else ".".join(port)
        found.append(DataStream(_apart(name, port, list(open_outputs)), port, None))
    return tuple(found)


def _apart(name: str, port: Port, ports: Sequence[Port]) -> str:
    """Return the name of an output; with its component if others have the same name."""
    return name if sum(each[1] == port[1] for each in ports) == 1 else ".".join(port)
