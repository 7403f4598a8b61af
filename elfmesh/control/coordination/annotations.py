"""Reads annotation files: plain values in the format that the paper prints become dataflows.

    Count:  {annotation: [{from: words, to: counts, label: OW, subscript: [word, batch]}]}
    Report: {Rep: true, annotation: {from: click, to: response, label: CW},
             POOR: {from: request, to: response, label: OR, subscript: [id]}}
    streams: [{name: click, seal: [campaign]}]
    dependencies: ["id -> campaign"]

A key inside a component, or behind it, that is itself a path is a variant of the component. Without a
stream that has `from` or `to`, equal names of different components are connected; inputs that no output
feeds are sources, and outputs that no input reads are outputs of the dataflow. `streams`, `dependencies`,
`lineage` and `idempotent` are additions to the paper's format.

The values are hostile: every mistake is a DataError of one line, with file and line.

Paper: Blazes VI-A, VI-B.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elfmesh.control.coordination.graph import (
    ORDERS,
    AnnotatedPath,
    Component,
    DataStream,
    Determines,
    Graph,
    Place,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import KINDS, annotated
from elfmesh.errors import DataError
from elfmesh.text import suggest

PATH_KEYS = ("from", "to", "label", "subscript", "lineage", "idempotent")
STREAM_KEYS = ("name", "from", "to", "seal", "rep", "once", "delayed", "order")
NAME_CHARS_MAX = 200
VARIANTS_MAX = 64
"""Dataflows of one file: the choices of all variants together."""

_ARROW = re.compile(r"(.+?)\s*(<->|->)\s*(.+)")
_ORDER = re.compile(r"order\(\s*(\w+)\s*\)")

Where = tuple[str | int, ...]
"""Keys and positions that lead to a value."""


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values of a file, and the lines on which they stand, as far as they are known."""

    file: str
    values: Any
    lines: Mapping[Where, int] = field(default_factory=dict)

    def place(self, where: Where) -> Place:
        for length in range(len(where), -1, -1):
            if where[:length] in self.lines:
                return Place(self.file, self.lines[where[:length]])
        return Place(self.file)

    def wrong(self, where: Where, message: str) -> DataError:
        keys = ".".join(map(str, where))
        place = self.place(where)
        return DataError(f"{keys}: {message}" if keys and not place.line else message, where=str(place))


@dataclass(frozen=True, slots=True)
class AnnotatedDataflow:
    """Dataflow of a file; `variants` has for each component with variants its alternative paths."""

    components: tuple[Component, ...]
    variants: Mapping[str, Mapping[str, AnnotatedPath]]
    streams: tuple[DataStream, ...]
    wired: bool
    dependencies: tuple[Determines, ...]

    def graphs(self, chosen: Mapping[str, str]) -> dict[str, Graph]:
        """Return the dataflow of each choice of variants, by the names of the variants.

        Raises:
            DataError: a chosen component or variant does not exist, or there are too many choices.
        """
        for name, variant in chosen.items():
            if variant not in self.variants.get(name, {}):
                known = [f"{one}={other}" for one, others in self.variants.items() for other in others]
                raise DataError(f"no variant {name}={variant}", hint=suggest(f"{name}={variant}", known))
        kinds = [
            [(name, each) for each in ([chosen[name]] if name in chosen else others)]
            for name, others in self.variants.items()
        ]
        choices = list(itertools.islice(itertools.product(*kinds), VARIANTS_MAX + 1))
        if len(choices) > VARIANTS_MAX:
            raise DataError(f"more than {VARIANTS_MAX} choices of variants", hint="Choose with --variant.")
        return {", ".join(each for _, each in choice): self._graph(dict(choice)) for choice in choices}

    def _graph(self, choice: Mapping[str, str]) -> Graph:
        components = tuple(
            replace(each, paths=(*each.paths, self.variants[each.name][choice[each.name]]))
            if each.name in choice
            else each
            for each in self.components
        )
        streams = _connected(components, self.streams) if self.wired else _by_name(components, self.streams)
        silent = sum(path.lineage is None for each in components for path in each.paths)
        note = f"{silent} paths without lineage: columns of equal names are taken to be unchanged"
        return Graph(components, streams, self.dependencies, (note,) if silent else ())


def read_annotations(document: Document) -> AnnotatedDataflow:
    """Read the plain values of an annotation file.

    Raises:
        DataError: a value is wrong; the message names file and line.
    """
    values = document.values
    if not isinstance(values, dict) or not values:
        raise document.wrong((), "an annotation file maps names of components to their annotations")
    components: dict[str, Component] = {}
    variants: dict[str, dict[str, AnnotatedPath]] = {}
    last = ""
    for name, value in values.items():
        if name in ("streams", "dependencies"):
            continue
        where: Where = (_name(document, (name,), name),)
        if isinstance(value, dict) and "from" in value and last:
            _variant(document, variants.setdefault(last, {}), name, value, where)
            continue
        last = name
        components[name] = _component(document, name, value, variants)
    if not components:
        raise document.wrong((), "no component")
    for name, others in variants.items():
        for path in others.values():
            _once(document, (*components[name].paths, path))
    streams, wired = _streams(document, values.get("streams", []))
    dependencies = tuple(_dependencies(document, values.get("dependencies", [])))
    return AnnotatedDataflow(tuple(components.values()), variants, streams, wired, dependencies)


def joined(flows: Sequence[AnnotatedDataflow]) -> AnnotatedDataflow:
    """Return several dataflows as one, in which equal names are connected as in one file."""
    return AnnotatedDataflow(
        tuple(each for flow in flows for each in flow.components),
        {name: others for flow in flows for name, others in flow.variants.items()},
        tuple(each for flow in flows for each in flow.streams),
        any(flow.wired for flow in flows),
        tuple(each for flow in flows for each in flow.dependencies),
    )


def _component(
    document: Document, name: str, value: Any, variants: dict[str, dict[str, AnnotatedPath]]
) -> Component:
    if not isinstance(value, dict):
        raise document.wrong((name,), f"component {name} needs an annotation")
    replicated: bool | None = None
    paths: list[AnnotatedPath] = []
    for key, each in value.items():
        where: Where = (name, key)
        if key == "annotation":
            listed = each if isinstance(each, list) else [each]
            starts = [(*where, at) if isinstance(each, list) else where for at in range(len(listed))]
            paths += [_path(document, one, at) for one, at in zip(listed, starts, strict=True)]
        elif key in ("Rep", "rep"):
            replicated = _flag(document, where, each)
        elif isinstance(each, dict):
            _variant(document, variants.setdefault(name, {}), key, each, where)
        else:
            raise document.wrong(where, _unknown(key, ("annotation", "Rep"), "key"))
    if not paths and name not in variants:
        raise document.wrong((name,), f"component {name} has no path")
    _once(document, paths)
    return Component(name, tuple(paths), replicated, document.place((name,)))


def _variant(
    document: Document, others: dict[str, AnnotatedPath], name: str, value: dict[str, Any], where: Where
) -> None:
    others[_name(document, where, name)] = _path(document, value, where)


def _once(document: Document, paths: Sequence[AnnotatedPath]) -> None:
    seen: set[tuple[str, str]] = set()
    for each in paths:
        if (each.source, each.target) in seen:
            raise DataError(f"two labels for the path {each}", where=str(each.at))
        seen.add((each.source, each.target))


def _path(document: Document, value: Any, where: Where) -> AnnotatedPath:
    if not isinstance(value, dict):
        raise document.wrong(where, "a path is written {from: INPUT, to: OUTPUT, label: LABEL}")
    for key in value:
        if key not in PATH_KEYS:
            raise document.wrong((*where, key), _unknown(key, PATH_KEYS, "key"))
    for key in ("from", "to", "label"):
        if key not in value:
            raise document.wrong(where, f"a path without `{key}`")
    label = value["label"]
    if not isinstance(label, str) or label not in KINDS:
        raise document.wrong((*where, "label"), _unknown(label, KINDS, "label"))
    gates = []
    if "subscript" in value:
        if label.startswith("C"):
            raise document.wrong((*where, "subscript"), f"a confluent path ({label}) has no subscript")
        gates = [_names(document, (*where, "subscript"), value["subscript"])]
    lineage = None
    if "lineage" in value:
        lineage = tuple(_lineage(document, (*where, "lineage"), value["lineage"]))
    return AnnotatedPath(
        _name(document, (*where, "from"), value["from"]),
        _name(document, (*where, "to"), value["to"]),
        annotated(label, *gates),
        lineage,
        _flag(document, (*where, "idempotent"), value.get("idempotent", False)),
        at=document.place(where),
    )


def _lineage(document: Document, where: Where, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        raise document.wrong(where, "lineage maps each output column to the expression that makes it")
    for name, text in value.items():
        yield _name(document, (*where, name), name), _name(document, (*where, name), text)


# -- streams


def _streams(document: Document, value: Any) -> tuple[tuple[DataStream, ...], bool]:
    if not isinstance(value, list):
        raise document.wrong(("streams",), "streams is a list")
    found, wired = [], False
    for at, each in enumerate(value):
        where: Where = ("streams", at)
        if not isinstance(each, dict) or "name" not in each:
            raise document.wrong(where, "a stream needs a name")
        for key in each:
            if key not in STREAM_KEYS:
                raise document.wrong((*where, key), _unknown(key, STREAM_KEYS, "key"))
        ends = [_port(document, (*where, key), each[key]) if key in each else None for key in ("from", "to")]
        wired = wired or any(ends)
        order = each.get("order", "")
        if order not in ORDERS:
            raise document.wrong((*where, "order"), _unknown(order, ORDERS[1:], "order"))
        flags = {
            key: _flag(document, (*where, key), each.get(key, key == "once"))
            for key in ("rep", "once", "delayed")
        }
        seals = (_seal(document, (*where, "seal"), each["seal"]),) if "seal" in each else ()
        found.append(
            DataStream(
                _name(document, (*where, "name"), each["name"]), ends[0], ends[1], seals, flags["rep"],
                flags["once"], flags["delayed"], order, document.place(where),
            )
        )  # fmt: skip
    return tuple(found), wired


def _seal(document: Document, where: Where, value: Any) -> SealedOn:
    if isinstance(value, str) and (order := _ORDER.fullmatch(value)):
        return SealedOn(frozenset({order[1]}), ordered=True)
    return SealedOn(_names(document, where, value))


def _port(document: Document, where: Where, value: Any) -> Port:
    component, dot, interface = _name(document, where, value).rpartition(".")
    if not dot or not component:
        raise document.wrong(where, "an end of a stream is written COMPONENT.INTERFACE")
    return component, interface


def _dependencies(document: Document, value: Any) -> Iterator[Determines]:
    if not isinstance(value, list):
        raise document.wrong(("dependencies",), "dependencies is a list")
    for at, each in enumerate(value):
        where: Where = ("dependencies", at)
        match = _ARROW.fullmatch(each) if isinstance(each, str) and len(each) <= NAME_CHARS_MAX else None
        if match is None:
            raise document.wrong(where, 'a dependency is written "id -> campaign"')
        left, right = (_names(document, where, side.split(",")) for side in (match[1], match[3]))
        yield Determines(left, right, match[2] == "<->", document.place(where))


def _by_name(components: Sequence[Component], declared: Sequence[DataStream]) -> tuple[DataStream, ...]:
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


def _connected(components: Sequence[Component], declared: Sequence[DataStream]) -> tuple[DataStream, ...]:
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


# -- values


def _name(document: Document, where: Where, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_CHARS_MAX:
        raise document.wrong(where, f"a name is a text of 1 to {NAME_CHARS_MAX} characters")
    if not value.isprintable():
        raise document.wrong(where, f"control characters in the name {value!a}")
    return value


def _names(document: Document, where: Where, value: Any) -> frozenset[str]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise document.wrong(where, "an empty list of columns")
    return frozenset(_name(document, where, each).strip() for each in listed)


def _flag(document: Document, where: Where, value: Any) -> bool:
    if not isinstance(value, bool):
        raise document.wrong(where, f"{where[-1]} is true or false")
    return value


def _unknown(value: Any, known: Sequence[str] | Mapping[str, Any], what: str) -> str:
    near = suggest(value, known) if isinstance(value, str) and len(value) <= NAME_CHARS_MAX else ""
    shown = ascii(value if isinstance(value, str | int | bool | None) else type(value).__name__)[
        :NAME_CHARS_MAX
    ]
    return f"unknown {what} {shown}; {near or 'there are ' + ', '.join(known)}"
