"""Reads the files of a coordination analysis: texts, programs, sinks, annotations, and directories.

A directory stands for its ELF-QL files and for the Python files that mention elfmesh. No file is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elfmesh.api import sink_files
from elfmesh.api.annotation_files import SUFFIXES, read_document
from elfmesh.control.coordination.declared import (
    SOURCE_BYTES_MAX,
    DeclaredProgram,
    read_programs,
)
from elfmesh.control.coordination.document import Document
from elfmesh.control.coordination.graph import Graph
from elfmesh.control.coordination.program_flows import with_programs
from elfmesh.control.coordination.relations import NOT_TRIED, Refuted
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import JobGraph, JobSink, job_graph
from elfmesh.errors import DataError, QueryError, RuntimeFailure, UsageError
from elfmesh.ql import parse_many
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.plan.early import EarlyRefused
from elfmesh.ql.plan.statement import Statement
from elfmesh.ql.text.parsing import parse_each

Trial = Callable[[PythonFunction], str]
"""Tries a function, and returns why it is not confluent, or nothing."""

PYTHON = ".py"
TEXT_BYTES_MAX = 4 << 20


@dataclass
class DataflowFiles:
    """What the files have; `texts` may have comments, and `refused` are errors of jobs with EARLY."""

    documents: list[Document] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    programs: list[DeclaredProgram] = field(default_factory=list)
    sinks: list[JobSink] = field(default_factory=list)
    refused: list[EarlyRefused] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def has_jobs(self) -> bool:
        return bool(self.statements or self.programs or self.refused)

    def jobs(self) -> JobGraph:
        """Return the graph of all jobs; a program's own text counts if no file creates the job.

        Raises:
            DataError: two statements create the same job.
        """
        known = {each.name for each in self.statements}
        own = {
            each.name: each.statement for each in self.programs if each.statement and each.name not in known
        }
        return job_graph([*self.statements, *own.values()], self.sinks)

    def dataflow(self, refuted: Refuted = NOT_TRIED) -> Graph:
        return with_programs(dataflow(self.jobs(), refuted), self.programs)

    def refuted(self, trial: Trial | None) -> Refuted:
        """Try each function that the texts declare and that is not ORDERED; return those that fail."""
        functions = [each for task in self.jobs().jobs if task.statement for each in task.statement.functions]
        fresh = dict.fromkeys(each for each in functions if each.ordered is None) if trial else {}
        return {each: proof for each in fresh if trial and (proof := trial(each))}


def read_files(paths: Iterable[str], *, mixed: bool = True, without_early: bool = False) -> DataflowFiles:
    """Read files and directories; without `mixed`, they are all annotations, or none is.

    With `without_early`, a job on which EARLY is impossible is left out and its error is in `refused`.

    Raises:
        DataError: an annotation file or a program is wrong, or a file has more than TEXT_BYTES_MAX bytes.
        QueryError: a text is wrong.
        RuntimeFailure: a file cannot be read.
        ConfigError: a configuration has a wrong sink.
        UsageError: a directory has no file to analyse, or annotations are mixed with texts.
    """
    found = DataflowFiles()
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    if not mixed and len({file.endswith(SUFFIXES) for file in files}) > 1:
        raise UsageError("annotation files and texts are not one dataflow", hint="Analyse them apart.")
    for file in files:
        if file.endswith(SUFFIXES):
            found.documents.append(read_document(file))
            found.texts[file] = _text(_bytes(file), file)
        elif file.endswith(PYTHON):
            data = _bytes(file)
            found.programs += read_programs(data, file)
            found.texts[file] = data.decode("utf-8", "replace")
        elif file.endswith(sink_files.SUFFIX):
            text = _text(_bytes(file), file)
            found.sinks += sink_files.read_sinks(text, file)
            found.texts[file] = text
        else:
            text = _text(_bytes(file), file)
            for each in parse_each(text, source=file) if without_early else parse_many(text, source=file):
                _add(found, each)
            found.texts[file] = text
    return found


def _add(found: DataflowFiles, each: Statement | QueryError) -> None:
    if isinstance(each, EarlyRefused):
        found.refused.append(each)
    elif isinstance(each, QueryError):
        raise each
    else:
        found.statements.append(each)


def _files(path: str) -> Iterator[str]:
    """Yield a file, or the files of a directory that belong to a dataflow."""
    if not Path(path).is_dir():
        yield path
        return
    texts = sorted(map(str, Path(path).rglob("*.elfql")))
    programs = [str(each) for each in sorted(Path(path).rglob(f"*{PYTHON}")) if _is_program(each)]
    if not texts and not programs:
        raise UsageError(
            f"no *.elfql file and no program in {path}", hint="Name annotation files one by one."
        )
    yield from (*texts, *programs)


def _is_program(path: Path) -> bool:
    return path.is_file() and b"elfmesh" in _read(str(path), SOURCE_BYTES_MAX + 1)


def _read(path: str, size: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=path, hint="Check the path.") from None


def _bytes(path: str) -> bytes:
    data = _read(path, TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise DataError(f"the file has more than {TEXT_BYTES_MAX} bytes", where=path)
    return data


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8 at byte {error.start}", where=path, hint="Save the text as UTF-8."
        ) from None
