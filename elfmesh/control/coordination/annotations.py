"""Reads annotation files: plain values in the format that the paper prints become dataflows.

    Count:  {annotation: [{from: words, to: counts, label: OW, subscript: [word, batch]}]}
    Report: {Rep: true, annotation: {from: click, to: response, label: CW},
             POOR: {from: request, to: response, label: OR, subscript: [id]}}
    streams: [{name: click, seal: [campaign]}]
    dependencies: ["id -> campaign"]

A key inside a component, or behind it, that is itself a path is a variant of the component. A stream with
`from` or `to` connects these ends; all other interfaces of equal names of different components are connected.
Inputs that no output feeds are sources, and outputs that no input reads are outputs of the dataflow.
`streams`, `dependencies`, `lineage` and `idempotent` are additions to the paper's format.

The values are hostile: every mistake is a DataError of one line, with file and line.

Paper: Blazes VI-A, VI-B.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elfmesh.control.coordination.document import NAME_CHARS_MAX, Document, Where, unknown
from elfmesh.control.coordination.graph import (
    ORDERS,
    AnnotatedPath,
    Component,
    DataStream,
    Determines,
    Graph,
    Port,
    SealedOn,
)
from elfmesh.control.coordination.labels import KINDS, annotated
from elfmesh.control.coordination.wiring import connected
from elfmesh.errors import DataError
from elfmesh.text import suggest

PATH_KEYS = ("from", "to", "label", "subscript", "lineage", "idempotent")
STREAM_KEYS = ("name", "from", "to", "seal", "rep", "once", "delayed", "order")
VARIANTS_MAX = 64
"""Dataflows of one file: the choices of all variants together."""

_ARROW = re.compile(r"(.+?)\s*(<->|->)\s*(.+)")
_ORDER = re.compile(r"order\(\s*(\w+)\s*\)")


@dataclass(frozen=True, slots=True)
class AnnotatedDataflow:
    """Dataflow of a file; `variants` has for each component with variants its alternative paths."""

    components: tuple[Component, ...]
    variants: Mapping[str, Mapping[str, AnnotatedPath]]
    streams: tuple[DataStream, ...]
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
        streams = connected(components, self.streams)
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
        where: Where = (document.name((name,), name),)
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
    streams = _streams(document, values.get("streams", []))
    dependencies = tuple(_dependencies(document, values.get("dependencies", [])))
    return AnnotatedDataflow(tuple(components.values()), variants, streams, dependencies)


def joined(flows: Sequence[AnnotatedDataflow]) -> AnnotatedDataflow:
    """Return several dataflows as one, in which equal names are connected as in one file."""
    return AnnotatedDataflow(
        tuple(each for flow in flows for each in flow.components),
        {name: others for flow in flows for name, others in flow.variants.items()},
        tuple(each for flow in flows for each in flow.streams),
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
            replicated = document.flag(where, each)
        elif isinstance(each, dict):
            _variant(document, variants.setdefault(name, {}), key, each, where)
        else:
            raise document.wrong(where, unknown(key, ("annotation", "Rep"), "key"))
    if not paths and name not in variants:
        raise document.wrong((name,), f"component {name} has no path")
    _once(document, paths)
    return Component(name, tuple(paths), replicated, document.place((name,)))


def _variant(
    document: Document, others: dict[str, AnnotatedPath], name: str, value: dict[str, Any], where: Where
) -> None:
    others[document.name(where, name)] = _path(document, value, where)


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
            raise document.wrong((*where, key), unknown(key, PATH_KEYS, "key"))
    for key in ("from", "to", "label"):
        if key not in value:
            raise document.wrong(where, f"a path without `{key}`")
    label = value["label"]
    if not isinstance(label, str) or label not in KINDS:
        raise document.wrong((*where, "label"), unknown(label, KINDS, "label"))
    gates = []
    if "subscript" in value:
        if label.startswith("C"):
            raise document.wrong((*where, "subscript"), f"a confluent path ({label}) has no subscript")
        gates = [document.names((*where, "subscript"), value["subscript"])]
    lineage = None
    if "lineage" in value:
        lineage = tuple(_lineage(document, (*where, "lineage"), value["lineage"]))
    return AnnotatedPath(
        document.name((*where, "from"), value["from"]),
        document.name((*where, "to"), value["to"]),
        annotated(label, *gates),
        lineage,
        document.flag((*where, "idempotent"), value.get("idempotent", False)),
        at=document.place(where),
    )


def _lineage(document: Document, where: Where, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        raise document.wrong(where, "lineage maps each output column to the expression that makes it")
    for name, text in value.items():
        yield document.name((*where, name), name), document.name((*where, name), text)


# -- streams


def _streams(document: Document, value: Any) -> tuple[DataStream, ...]:
    if not isinstance(value, list):
        raise document.wrong(("streams",), "streams is a list")
    found: list[DataStream] = []
    for at, each in enumerate(value):
        where: Where = ("streams", at)
        if not isinstance(each, dict) or "name" not in each:
            raise document.wrong(where, "a stream needs a name")
        for key in each:
            if key not in STREAM_KEYS:
                raise document.wrong((*where, key), unknown(key, STREAM_KEYS, "key"))
        ends = [_port(document, (*where, key), each[key]) if key in each else None for key in ("from", "to")]
        order = each.get("order", "")
        if order not in ORDERS:
            raise document.wrong((*where, "order"), unknown(order, ORDERS[1:], "order"))
        flags = {
            key: document.flag((*where, key), each.get(key, key == "once"))
            for key in ("rep", "once", "delayed")
        }
        seals = (_seal(document, (*where, "seal"), each["seal"]),) if "seal" in each else ()
        found.append(
            DataStream(
                document.name((*where, "name"), each["name"]), ends[0], ends[1], seals, flags["rep"],
                flags["once"], flags["delayed"], order, document.place(where),
            )
        )  # fmt: skip
    return tuple(found)


def _seal(document: Document, where: Where, value: Any) -> SealedOn:
    if isinstance(value, str) and (order := _ORDER.fullmatch(value)):
        return SealedOn(frozenset({order[1]}), ordered=True)
    return SealedOn(document.names(where, value))


def _port(document: Document, where: Where, value: Any) -> Port:
    component, dot, interface = document.name(where, value).rpartition(".")
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
        left, right = (document.names(where, side.split(",")) for side in (match[1], match[3]))
        yield Determines(left, right, match[2] == "<->", document.place(where))
