"""Prints an analysis: lines for people, plain values for JSON, DOT, and SVG without other programs.

Names in a dataflow are hostile: every format escapes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any

from elfmesh.control.coordination.cost import Circumstances
from elfmesh.control.coordination.derivation import Analysis, Derivation
from elfmesh.control.coordination.graph import DataStream, Graph
from elfmesh.control.coordination.labels import Severity, StreamLabel
from elfmesh.control.coordination.repair import RepairPlan, remedies, repairs
from elfmesh.errors import DataError
from elfmesh.text import printable

SVG_COMPONENTS_MAX = 500
COLOURS = {
    Severity.ASYNC: "#1a7f37",
    Severity.RUN: "#9a6700",
    Severity.INST: "#bc4c00",
    Severity.DIVERGE: "#cf222e",
}
_COLUMN, _ROW, _WIDTH, _HEIGHT = 220, 70, 150, 40


# -- text


def lines(analysis: Analysis, *, require: Severity = Severity.ASYNC) -> Iterator[str]:
    """Yield each output with its label, its paths or the causes of its label, and its repairs."""
    provisional = analysis.graph.provisional
    width = max((len(name) for name in analysis.outputs if name not in provisional), default=0)
    for name, label in analysis.outputs.items():
        if name in provisional:
            yield f"  {name}   {label.severity}   {provisional[name]}"
            continue
        conditions = f"   if {', '.join(sorted(label.conditions))}" if label.conditions else ""
        sealed = f"   sealed ({'; '.join(sorted(map(str, label.seals)))})" if label.seals else ""
        yield f"{name.ljust(width)}   {analysis.shown(name)}{sealed}{conditions}"
        bad = label.severity > Severity.ASYNC
        for each in analysis.own(name) if bad or analysis.graph.group_of(name) else ():
            if each.anomaly:
                yield f"  {described(each)}"
            elif each.path.why:
                yield f"  {each.path}   {each.path.annotation}   {each.path.why}"
        if bad and (others := analysis.inherited(name)):
            yield f"  inherits the label of {', '.join(others)}"
        yield from (f"  repair   {each}" for each in remedies(analysis, name))
        for plan in repairs(analysis, name, require):
            yield from _repair_lines(plan, require)
    yield from (f"note: {each}" for each in analysis.graph.notes)
    yield summary(analysis)


def summary(analysis: Analysis) -> str:
    """Return the number of final outputs by label."""
    provisional = analysis.graph.provisional
    counts = Counter(each.severity for name, each in analysis.outputs.items() if name not in provisional)
    words = [f"{counts[each]} {each}" for each in Severity if counts[each]]
    total = counts.total()
    return f"{total} output{'' if total == 1 else 's'}: {', '.join(words) or 'none'}"


def described(each: Derivation) -> str:
    """Return one application of a rule as a line."""
    path = each.path
    place = f" ({path.at})" if path.at.file and (path.at.line or not path.why) else ""
    why = f": {path.why}" if path.why else ""
    return (
        f"{each.output[0]}: {path}   {path.annotation}   rule {each.rule}: {each.input} gives "
        f"{each.conclusion}; {each.output[1]} is {each.label}{why}{place}"
    )


def _repair_lines(plan: RepairPlan, require: Severity) -> Iterator[str]:
    at = Circumstances()
    left = "" if plan.label <= require else ", which is more than required"
    greedy = "" if plan.exact else "; not the cheapest for certain, because there are too many places"
    expected = plan.expected_s(at)
    yield (
        f"  repair to {plan.label}{left}: expected {expected:.3g} s ({plan.formula}; default times); "
        f"waits for {plan.waits_for}{greedy}"
    )
    for each in plan.steps:
        yield f"    {each}"


# -- plain values


def values(analysis: Analysis, *, require: Severity = Severity.ASYNC, group: str = "") -> dict[str, Any]:
    """Return an analysis as plain values, as `elf blazes -o json` prints it; with `group`, one job alone."""
    graph = analysis.graph
    components = [each for each in graph.components if group in ("", each.group)]
    names = {each.name for each in components}
    streams = [
        each
        for each in graph.streams
        if any(port and port[0] in names for port in (each.producer, each.consumer))
    ]
    return {
        "outputs": [
            _output(analysis, name, label, require)
            for name, label in analysis.outputs.items()
            if group in ("", graph.group_of(name))
        ],
        "components": [
            {
                "name": each.name,
                "rep": each.name in analysis.replicated,
                "paths": [
                    {"from": path.source, "to": path.target, **_annotation(path.annotation.gates),
                     "label": path.annotation.kind, "why": path.why}
                    for path in each.paths
                ],
            }
            for each in components
        ],
        "streams": [_stream(analysis, each) for each in streams],
        "notes": list(graph.notes),
    }  # fmt: skip


def _annotation(gates: tuple[frozenset[str], ...]) -> dict[str, Any]:
    return {"gates": [sorted(gate) for gate in gates]}


def _output(analysis: Analysis, name: str, label: StreamLabel, require: Severity) -> dict[str, Any]:
    otherwise = analysis.otherwise.get(name, label.severity)
    return {
        "name": name,
        "provisional": name in analysis.graph.provisional,
        "until": analysis.graph.provisional.get(name),
        "label": str(label.severity),
        "otherwise": str(otherwise) if otherwise != label.severity else None,
        "conditions": sorted(label.conditions),
        "seals": sorted(map(str, label.seals)),
        "derivation": [_derivation(each) for each in analysis.own(name)],
        "inherits": analysis.inherited(name) if label.severity > Severity.ASYNC else [],
        "remedies": remedies(analysis, name),
        "repairs": [_repair(plan) for plan in repairs(analysis, name, require)],
    }


def _derivation(each: Derivation) -> dict[str, Any]:
    return {
        "component": each.output[0],
        "rule": each.rule,
        "path": str(each.path),
        "annotation": str(each.path.annotation),
        **_annotation(each.path.annotation.gates),
        "input": str(each.input),
        "conclusion": each.conclusion,
        "label": str(each.label),
        "why": each.path.why,
        "at": {"file": each.path.at.file, "line": each.path.at.line, "column": each.path.at.column},
    }


def _repair(plan: RepairPlan) -> dict[str, Any]:
    return {
        "steps": [
            {"strategy": each.strategy, "component": each.component, "streams": list(each.streams),
             "key": list(each.key)}
            for each in plan.steps
        ],
        "strategy": ", ".join(dict.fromkeys(each.strategy for each in plan.steps)),
        "streams": list(dict.fromkeys(name for each in plan.steps for name in each.streams)),
        "label": str(plan.label),
        "exact": plan.exact,
        "formula": plan.formula,
        "expected_s": round(plan.expected_s(Circumstances()), 6),
        "measured_s": None,
        "waits_for": plan.waits_for,
    }  # fmt: skip


def _stream(analysis: Analysis, each: DataStream) -> dict[str, Any]:
    return {
        "name": each.name,
        "from": ".".join(each.producer) if each.producer else None,
        "to": ".".join(each.consumer) if each.consumer else None,
        "label": str(_label(analysis, each)),
        "rep": each.replicated,
        "once": each.once,
        "delayed": each.delayed,
        "order": each.order,
    }


def _label(analysis: Analysis, stream: DataStream) -> Severity:
    if stream.producer is None:
        return Severity.ASYNC
    return analysis.labels["out", *stream.producer].severity


# -- graphs


def dot(analysis: Analysis) -> str:
    """Return the dataflow in the language of Graphviz: order-sensitive components are dashed."""
    graph, out = analysis.graph, ["digraph blazes {", "  rankdir=LR;", "  node [shape=box];"]
    for each in graph.components:
        dashed = any(path.annotation.order_sensitive for path in each.paths)
        paths = "".join(f"\\l{_dot(f'{path}  {path.annotation}')}" for path in each.paths)
        rep = " (Rep)" if each.name in analysis.replicated else ""
        style = ", style=dashed" if dashed else ""
        out.append(f'  "{_dot(each.name)}" [label="{_dot(each.name)}{rep}{paths}\\l"{style}];')
    for at, stream in enumerate(graph.streams):
        ends = []
        for side, port in (("source", stream.producer), ("output", stream.consumer)):
            if port is None:
                out.append(f'  "{side} {at}" [label="{_dot(stream.name)}", shape=plaintext];')
            ends.append(f'"{_dot(port[0])}"' if port else f'"{side} {at}"')
        label = _label(analysis, stream)
        text = f"{_dot(stream.name)}: {label}"
        out.append(f'  {ends[0]} -> {ends[1]} [label="{text}", color="{COLOURS[label]}"];')
    return "\n".join([*out, "}"])


def _dot(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def svg(analysis: Analysis) -> str:
    """Return the dataflow as an SVG picture: components in layers from the sources to the outputs.

    Raises:
        DataError: the dataflow is too large to read as a picture.
    """
    graph = analysis.graph
    if len(graph.components) > SVG_COMPONENTS_MAX:
        raise DataError(
            f"a picture of more than {SVG_COMPONENTS_MAX} components cannot be read",
            hint="Use -o dot and Graphviz.",
        )
    spots = _spots(graph)
    width = max((x for x, _ in spots.values()), default=0) + 2 * _COLUMN
    height = max((y for _, y in spots.values()), default=0) + 2 * _ROW
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    for stream in graph.streams:
        out += _arrow(analysis, stream, spots)
    for each in graph.components:
        x, y = spots[each.name]
        dashed = any(path.annotation.order_sensitive for path in each.paths)
        style = ' stroke-dasharray="5 3"' if dashed else ""
        title = "\n".join(f"{path}  {path.annotation}" for path in each.paths)
        out.append(
            f'<g><title>{_xml(title)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'fill="white" stroke="black"{style}/><text x="{x + 8}" y="{y + 24}">{_xml(each.name)}</text></g>'
        )
    return "\n".join([*out, "</svg>"])


def _xml(text: str) -> str:
    return escape("\n".join(printable(line) for line in text.split("\n")))


def _spots(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return the corner of each component: its layer is the longest way from a source, without cycles."""
    layers: dict[str, int] = {each.name: 0 for each in graph.components}
    for members in graph.order():
        for side, name, interface in members:
            if side == "in":
                streams = graph.into.get((name, interface), ())
                before = [each.producer[0] for each in streams if each.producer and each.producer[0] != name]
                layers[name] = max(layers[name], *(layers[other] + 1 for other in before), 0)
    rows: Counter[int] = Counter()
    spots = {}
    for name, layer in layers.items():
        column = min(layer, len(layers) - 1)
        spots[name] = (_COLUMN + column * _COLUMN, 20 + rows[column] * _ROW)
        rows[column] += 1
    return spots


def _arrow(analysis: Analysis, stream: DataStream, spots: dict[str, tuple[int, int]]) -> Iterator[str]:
    label = _label(analysis, stream)
    if stream.producer is not None:
        x1, y1 = spots[stream.producer[0]][0] + _WIDTH, spots[stream.producer[0]][1] + _HEIGHT // 2
    elif stream.consumer is not None:
        x1, y1 = spots[stream.consumer[0]][0] - 60, spots[stream.consumer[0]][1] + _HEIGHT // 2
    else:
        return
    if stream.consumer is not None:
        x2, y2 = spots[stream.consumer[0]][0], spots[stream.consumer[0]][1] + _HEIGHT // 2
    else:
        x2, y2 = x1 + 60, y1
    colour = COLOURS[label]
    yield f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{colour}" fill="none"/>'
    yield f'<circle cx="{x2}" cy="{y2}" r="3" fill="{colour}"/>'
    text = f"{stream.name}: {label}"
    yield f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 4}" fill="{colour}">{_xml(text)}</text>'
