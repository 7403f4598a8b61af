"""Public API of coordination analysis: `from elfmesh import coordination`.

The module reads files; the analysis is in `elfmesh.control.coordination`, which reads none.

Example:
    >>> from elfmesh import coordination
    >>> graph = coordination.parse(b'{"Count": {"annotation": {"from": "words", "to": "n", "label": "OW"}}}')
    >>> print(coordination.analyse(graph).label("n"))
    Run
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from elfmesh.api.annotation_files import parse_document
from elfmesh.api.dataflow_files import Trial, read_files
from elfmesh.api.fleet_dataflow import attached_programs, fleet_dataflow, fleet_texts
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import joined, read_annotations
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.document import Document
from elfmesh.control.coordination.findings import Linted, LintFinding, findings, with_comments
from elfmesh.control.coordination.graph import Determines, Graph
from elfmesh.control.coordination.labels import LABELS, Severity
from elfmesh.control.coordination.repair import RepairPlan, repairs
from elfmesh.errors import UsageError
from elfmesh.ql.expressions.assumption import AssumedBound

Contradicts = Callable[[Collection[str], Collection[str]], str]
"""Returns what in a sample contradicts that the first columns determine the others, or nothing."""

Exceeds = Callable[[AssumedBound], str]
"""Returns what in a sample is beyond a bound, or nothing."""

__all__ = [
    "Analysis",
    "Graph",
    "LintFinding",
    "RepairPlan",
    "Severity",
    "analyse",
    "lint",
    "load",
    "load_all",
    "load_fleet",
    "parse",
    "repairs",
    "severity",
]


def load(*paths: str, variants: Mapping[str, str] | None = None) -> Graph:
    """Read files as one dataflow.

    Args:
        paths: annotation files (YAML or JSON); or ELF-QL texts, programs, and directories of them.
        variants: for each component with variants, the chosen one.

    Raises:
        DataError: an annotation file or a program is wrong.
        QueryError: a text is wrong.
        RuntimeFailure: a file cannot be read.
        UsageError: a component has several variants, and none is chosen.
    """
    return _only(load_all(*paths, variants=variants))


def load_all(
    *paths: str, variants: Mapping[str, str] | None = None, trial: Trial | None = None
) -> dict[str, Graph]:
    """Read files as one dataflow for each choice of variants, by the names of the variants.

    Args:
        paths: see `load`.
        variants: see `load`.
        trial: tries the Python functions of texts; None: they are read and not run.

    Raises:
        UsageError: some files are annotations and others are texts.
    """
    files = read_files(paths, mixed=False)
    if not files.documents and files.texts:
        if variants:
            raise UsageError("texts have no variants")
        return {"": files.dataflow(files.refuted(trial))}
    return _graphs(files.documents, variants or {})


def load_fleet(api: str | None = None, *paths: str) -> dict[str, Graph]:
    """Read the texts of all jobs and topics that a fleet runs as one dataflow, under the name "".

    Args:
        paths: programs (Python) and configurations (their sinks), which belong to the fleet.
        api: HOST:PORT of an agent; default: ELF_API, then 127.0.0.1:7401.

    Raises:
        Unreachable: no agent answers.
        UsageError: a path is an ELF-QL text or an annotation file.
    """
    from elfmesh.api.client.client import Client

    files, client = read_files(paths), Client(api)
    if files.statements or files.documents:
        hint = "Name programs and agent.toml; the fleet has the texts."
        raise UsageError("a text or an annotation file beside --fleet", hint=hint)
    texts, attached = fleet_texts(client), attached_programs(client)
    return {"": fleet_dataflow(texts, files.programs, files.sinks, attached)}


def lint(
    *paths: str,
    trial: Trial | None = None,
    contradicts: Contradicts | None = None,
    exceeds: Exceeds | None = None,
) -> list[LintFinding]:
    """Return the findings in files, by their places; those that a comment allows have its reason.

    Args:
        paths: annotation files, ELF-QL texts, programs, configurations (their sinks), and directories.
        trial: tries the Python functions of texts; None: they are read and not run.
        contradicts: compares a dependency with a sample; None: dependencies are believed.
        exceeds: compares a bound of ASSUME with a sample; None: bounds are believed.

    Raises:
        DataError, QueryError: a file cannot be read as what it is.
        RuntimeFailure: a file cannot be read.
    """
    files = read_files(paths, without_early=True)
    found: dict[LintFinding, None] = {}
    if files.has_jobs:
        refuted = files.refuted(trial)
        graph, jobs = files.dataflow(refuted), files.jobs()
        proofs = {each: _contradicted(each, contradicts) for each in graph.dependencies}
        assumed = [each for task in jobs.jobs if task.statement for each in task.statement.assumes]
        bounds = [each for each in assumed if isinstance(each, AssumedBound)]
        beyond = {each: exceeds(each) for each in bounds} if exceeds is not None else {}
        linted = Linted(analyse(graph), jobs, files.programs, refuted, files.refused, proofs, beyond)
        found |= dict.fromkeys(findings(linted))
    for graph in _graphs(files.documents, {}).values() if files.documents else ():
        proofs = {each: _contradicted(each, contradicts) for each in graph.dependencies}
        found |= dict.fromkeys(findings(Linted(analyse(graph), contradicted=proofs)))
    return with_comments(found, files.texts)


def _contradicted(each: Determines, contradicts: Contradicts | None) -> str:
    if contradicts is None:
        return ""
    return contradicts(each.left, each.right) or (contradicts(each.right, each.left) if each.both else "")


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
