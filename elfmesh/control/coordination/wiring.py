"""Which outputs of components feed which inputs: by declared streams, else by equal names.

Invariant: each interface of a component has at least one stream. An input that no output feeds has a source,
and an output that no input reads is an output of the dataflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elfmesh.control.coordination.graph import Component, DataStream, Port
from elfmesh.errors import DataError
from elfmesh.text import suggest


def connected(components: Sequence[Component], declared: Sequence[DataStream]) -> tuple[DataStream, ...]:
    """Return the streams of a dataflow.

    A declared stream with ends is taken as it is. The interfaces that no such stream has are connected where
    they have equal names in different components. A declared stream without ends annotates the streams of
    its name.

    Raises:
        DataError: there is no stream of the name that a declared stream without ends has.
    """
    wired = [each for each in declared if each.producer is not None or each.consumer is not None]
    by_name = {each.name: each for each in declared if each.producer is None and each.consumer is None}
    found = _by_names(components, wired)
    names = {one.name for one in found}
    for name, given in by_name.items():
        if name not in names:
            near = suggest(name, sorted(names))
            raise DataError(f"no stream {name}{'; ' + near if near else ''}", where=str(given.at))
    annotated = (
        replace(by_name[each.name], producer=each.producer, consumer=each.consumer)
        if each.name in by_name
        else each
        for each in found
    )
    return (*wired, *annotated)


def _by_names(components: Sequence[Component], wired: Sequence[DataStream]) -> list[DataStream]:
    """Return the streams of the interfaces that no wired stream has."""
    used_outputs, used_inputs = {each.producer for each in wired}, {each.consumer for each in wired}
    used_names = {each.name for each in wired if each.consumer is None}
    outputs: dict[str, dict[Port, None]] = {}
    inputs: dict[str, dict[Port, None]] = {}
    for each in components:
        for path in each.paths:
            if (each.name, path.target) not in used_outputs:
                outputs.setdefault(path.target, {})[each.name, path.target] = None
            if (each.name, path.source) not in used_inputs:
                inputs.setdefault(path.source, {})[each.name, path.source] = None
    found: list[DataStream] = []
    for name in dict.fromkeys([*inputs, *outputs]):
        makers, readers = outputs.get(name, {}), inputs.get(name, {})
        joined = [(one, other) for one in makers for other in readers if one[0] != other[0]]
        sources = [each for each in readers if each not in {other for _, other in joined}]
        ends = [each for each in makers if each not in {one for one, _ in joined}]
        apart = len(ends) > 1 or name in used_names
        found += [DataStream(name, one, other) for one, other in joined]
        found += [DataStream(name, None, each) for each in sources]
        found += [DataStream(".".join(each) if apart else name, each, None) for each in ends]
    return found
