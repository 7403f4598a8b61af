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
from pathlib import Path

from elfmesh.api.annotation_files import SUFFIXES, parse_document, read_document
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import Document, joined, read_annotations
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.graph import Graph
from elfmesh.control.coordination.labels import LABELS, Severity
from elfmesh.control.coordination.repair import RepairPlan, repairs
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.errors import DataError, RuntimeFailure, UsageError
from elfmesh.ql import parse_many
from elfmesh.ql.plan.statement import Statement

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
    """Read files as one dataflow.

    Args:
        paths: annotation files (YAML or JSON); or ELF-QL texts, and directories of them.
        variants: for each component with variants, the chosen one.

    Raises:
        DataError: an annotation file is wrong.
        QueryError: a text is wrong.
        RuntimeFailure: a file cannot be read.
        UsageError: a component has several variants, and none is chosen.
    """
    return _only(load_all(*paths, variants=variants))


def load_all(*paths: str, variants: Mapping[str, str] | None = None) -> dict[str, Graph]:
    """Read files as one dataflow for each choice of variants, by the names of the variants.

    Raises:
        UsageError: some files are annotations and others are texts.
    """
    files = [file for path in paths for file in _files(path)]
    annotations = [each for each in files if each.endswith(SUFFIXES)]
    if not annotations and files:
        if variants:
            raise UsageError("texts have no variants")
        return {"": dataflow(job_graph(each for file in files for each in _statements(file)))}
    if len(annotations) < len(files):
        raise UsageError("annotation files and texts are not one dataflow", hint="Analyse them apart.")
    return _graphs([read_document(each) for each in annotations], variants or {})


def _files(path: str) -> list[str]:
    """Return a file, or the ELF-QL files of a directory."""
    if not Path(path).is_dir():
        return [path]
    found = sorted(map(str, Path(path).rglob("*.elfql")))
    if not found:
        raise UsageError(f"no *.elfql file in {path}")
    return found


def _statements(path: str) -> list[Statement]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=path, hint="Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 at byte {error.start}", where=path) from None
    return list(parse_many(text, source=path))


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
