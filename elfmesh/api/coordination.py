"""Public API of coordination analysis: `from elfmesh import coordination`.

The module reads files; the analysis is in `elfmesh.control.coordination`, which reads none.

Example:
    >>> from elfmesh import coordination
    >>> graph = coordination.parse(b'{"Count": {"annotation": {"from": "words", "to": "n", "label": "OW"}}}')
    >>> print(coordination.analyse(graph).label("n"))
    Run
"""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.api.annotation_files import parse_document, read_document
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import Document, joined, read_annotations
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.graph import Graph
from elfmesh.control.coordination.labels import LABELS, Severity
from elfmesh.control.coordination.repair import RepairPlan, repairs
from elfmesh.errors import UsageError

__all__ = [
    "Analysis",
    "Graph",
    "RepairPlan",
    "Severity",
    "analyse",
    "load",
    "load_all",
    "parse",
    "repairs",
    "severity",
]


def load(*paths: str, variants: Mapping[str, str] | None = None) -> Graph:
    """Read annotation files as one dataflow.

    Args:
        paths: YAML or JSON files.
        variants: for each component with variants, the chosen one.

    Raises:
        DataError: a file is wrong.
        RuntimeFailure: a file cannot be read.
        UsageError: a component has several variants, and none is chosen.
    """
    return _only(load_all(*paths, variants=variants))


def load_all(*paths: str, variants: Mapping[str, str] | None = None) -> dict[str, Graph]:
    """Read annotation files as one dataflow for each choice of variants, by the names of the variants."""
    return _graphs([read_document(path) for path in paths], variants or {})


def parse(data: bytes, name: str = "input.json", variants: Mapping[str, str] | None = None) -> Graph:
    """Read the bytes of an annotation file; its name decides between JSON and YAML."""
    return _only(_graphs([parse_document(data, name)], variants or {}))


def severity(name: str) -> Severity:
    """Return a label by its name.

    Raises:
        UsageError: there is no such label.
    """
    if name not in LABELS:
        raise UsageError(f"no label {name!r}", hint=f"There are {', '.join(LABELS)}.")
    return LABELS[name]


def _only(found: dict[str, Graph]) -> Graph:
    if len(found) > 1:
        raise UsageError("the dataflow has variants", hint=f"Choose one of {'; '.join(found)}.")
    return next(iter(found.values()))


def _graphs(documents: list[Document], variants: Mapping[str, str]) -> dict[str, Graph]:
    if not documents:
        raise UsageError("no file")
    return joined([read_annotations(each) for each in documents]).graphs(variants)
