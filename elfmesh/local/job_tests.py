"""Runs test cases in job files with the embedded engine: `--@test input=clicks.ndjson expect=top10.json`.

A case is a line of its own and belongs to the statement that follows it:

  --@test input=PATH[,...] expect=PATH [format=F] [lookup.NAME=PATH[,format=F]]
  --@test input.STREAM=PATH[,format=F] input.OTHER=PATH expect=PATH      for queries over several streams

Paths are relative to the job file. The expected output is JSON: either rows, or intervals as `elf run -o
json` prints them, of which only the given members are compared. It can also be CSV as `-o csv` prints it.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import re
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, to_json
from elfmesh.errors import DataError, ElfError
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.sources.blocks import check_readable
from elfmesh.ingest.stream_formats import run_format
from elfmesh.local.embedded import LogRun
from elfmesh.local.named_logs import read_lookups, read_streams
from elfmesh.local.run_output import RowsWriter
from elfmesh.local.text_input import read_text
from elfmesh.ql import Statement, parse_many
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import job_read
from elfmesh.ql.values.row_json import encode_json

_CASE = re.compile(r"^[ \t]*--@test\b(.*)$", re.MULTILINE)
_KEY = re.compile(r"input|expect|format|(?:input|lookup)\.[A-Za-z_][A-Za-z0-9_.-]*")
_HINT = "As in --@test input=clicks.ndjson expect=top10.json format=json"


@dataclass(frozen=True, slots=True)
class Case:
    """A test case: its position, its settings, and the number of its statement in the file."""

    file: str
    line: int
    settings: tuple[tuple[str, str], ...]
    number: int


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of a test case: `problem` if it could not run, `difference` if the answer is wrong."""

    file: str
    line: int
    name: str
    problem: str = ""
    difference: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the answer equals the expected one."""
        return not self.problem and not self.difference


def job_files(paths: Sequence[str]) -> Iterator[str]:
    """Yield the job files of the given paths. Directories are searched for *.elfql."""
    for path in paths:
        if Path(path).is_dir():
            yield from map(str, sorted(Path(path).rglob("*.elfql")))
        else:
            yield path


def run_tests(path: str, *, python: bool = False) -> Iterator[CaseResult]:
    """Run each case of a file in order. A file without cases yields nothing.

    `python` states that the file is trusted, so that the Python functions of its jobs may run.
    """
    try:
        text, _ = read_text(path)
        if not _CASE.search(text):
            return
        statements = parse_many(text, source=path)
        cases = list(find_cases(text, path, statements))
    except ElfError as error:
        yield CaseResult(path, getattr(error, "line", 0), "", problem=str(error))
        return
    for case in cases:
        job = statements[case.number].job
        name = job.qualified.replace("/", ".") if job else "query"
        try:
            difference = tuple(_difference(case, statements, python))
        except (ElfError, OSError) as error:
            yield CaseResult(path, case.line, name, problem=str(error))
        else:
            yield CaseResult(path, case.line, name, difference=difference)


def find_cases(text: str, source: str, statements: Sequence[Statement]) -> Iterator[Case]:
    """Yield the cases of a text. A malformed case raises a QueryError with its position."""
    origin = SourceText(text, source)
    for match in _CASE.finditer(text):
        at = match.start() + match[0].index("--@test")
        settings: list[tuple[str, str]] = []
        try:
            words = shlex.split(match[1])
        except ValueError as error:
            raise origin.error(f"the case cannot be read: {error}", at, _HINT) from None
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not value or not _KEY.fullmatch(key):
                raise origin.error(f"{word!r} is not a setting of a test case", at, _HINT)
            if key in dict(settings):
                raise origin.error(f"{key} is given twice", at, _HINT)
            settings.append((key, value))
        given = dict(settings)
        inputs = [key for key in given if key.partition(".")[0] == "input"]
        if "expect" not in given or not inputs or ("input" in given and len(inputs) > 1):
            raise origin.error("a case needs input= (or input.STREAM= for each) and expect=", at, _HINT)
        number = next((n for n, each in enumerate(statements) if each.offset > at), len(statements) - 1)
        yield Case(source, origin.place(at).line, tuple(settings), number)


# -- running


def _difference(case: Case, statements: Sequence[Statement], python: bool) -> list[str]:
    settings = dict(case.settings)
    expect = _beside(case, settings["expect"])
    notes: list[str] = []
    statement, results = _run(case, settings, statements, notes.append if python else None)
    if broken := sum(each.record.counts.get(ASSUMPTION_BROKEN, 0) for each in results):
        hint = "Correct the input, or the ASSUME of the job."
        raise DataError(f"violations of ASSUME by the input: {broken}", hint=hint)
    difference = _compared(expect, statement, results)
    return [*notes, *difference] if difference else []


def _compared(expect: str, statement: Statement, results: Sequence[IntervalResult]) -> list[str]:
    if expect.endswith(".csv"):
        out = io.StringIO()
        writer = RowsWriter("csv", out, statement)
        for result in results:
            writer.interval(result)
        actual = [(line, line) for line in out.getvalue().splitlines()]
        return _diff([(line, line) for line in read_text(expect)[0].splitlines()], actual)
    found = [_read(encode_json(to_json(each.record, each.table)).decode()) for each in results]
    return _diff(*_comparable(_expected(expect), found))


def _run(
    case: Case,
    settings: dict[str, str],
    statements: Sequence[Statement],
    note: Callable[[str], None] | None,
) -> tuple[Statement, list[IntervalResult]]:
    """Run the case's statement after the jobs that it reads. With `note`, functions are trusted."""
    given = {
        kind: [f"{name}={_beside(case, value)}" for key, value in settings.items()
               for prefix, _, name in [key.partition(".")] if prefix == kind and name]
        for kind in ("input", "lookup")
    }  # fmt: skip
    streams = read_streams(given["input"], lambda paths: [_readable(path) for path in paths])
    lookups = read_lookups(given["lookup"])
    logs = [_readable(_beside(case, path)) for path in settings.get("input", "").split(",") if path]
    jobs = JobRows()
    for number in _needed(case.number, statements):
        statement = statements[number]
        form = run_format(
            settings.get("format", "auto"), multiline="", timezone="UTC", year=None, patterns={},
            host=socket.gethostname(),
        )  # fmt: skip
        evaluator = local_evaluator(statement, note) if statement.functions and note is not None else None
        with contextlib.ExitStack() as stack:
            if evaluator is not None:
                stack.callback(evaluator.close)
            run = LogRun(
                statement, logs, format=form, streams=streams, lookups=lookups, jobs=jobs, functions=evaluator
            )
            results = run.answers()
            jobs.begin(statement)
            for result in results:
                jobs.add(statement, result)
    return run.statement, results


def _needed(number: int, statements: Sequence[Statement]) -> list[int]:
    names = {each.job.qualified: at for at, each in enumerate(statements[:number]) if each.job}
    wanted = [number]
    for at in wanted:
        read = map(job_read, statements[at].streams)
        wanted += [names[name] for name in read if names.get(name, at) < at]
    return sorted(set(wanted))


def _beside(case: Case, path: str) -> str:
    return str(Path(case.file).parent / path)


def _readable(path: str) -> str:
    check_readable(path)
    return path


# -- comparing


def _expected(path: str) -> list[Any]:
    text, _ = read_text(path)
    try:
        found = _read(text)
    except ValueError:
        try:
            found = [_read(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise DataError(f"is neither JSON nor JSON lines: {error}", where=path) from None
    found = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in found):
        raise DataError("contains something other than rows or intervals", where=path, hint="Write objects.")
    return found


def _read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


Lines = list[tuple[str, str]]
"""Lines to compare: the form that must be equal, and the form for display."""


def _comparable(expected: list[Any], found: list[Any]) -> tuple[Lines, Lines]:
    if not any("rows" in each for each in expected):
        return _rows(expected), _rows([row for each in found for row in each["rows"]])
    plain = [{key: each[key] for key in ("interval", "rows")} for each in found]
    for at, each in enumerate(expected[: len(found)]):
        plain[at] = _projected(found[at], each)
    return [line for each in expected for line in _interval(each)], [
        line for each in plain for line in _interval(each)
    ]


def _projected(found: Any, expected: Any) -> Any:
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return found
    return {
        key: found[key] if key == "rows" else _projected(found[key], expected[key])
        for key in expected
        if key in found
    }


def _interval(each: dict[str, Any]) -> Lines:
    head = {key: value for key, value in each.items() if key != "rows"}
    return [
        *(_rows([head]) if head else []),
        *(("  " + one, "  " + two) for one, two in _rows(each.get("rows", []))),
    ]


def _rows(rows: list[Any]) -> Lines:
    return [(_canonical(row), _shown(row)) for row in rows]


def _canonical(value: Any) -> str:
    """Return equal texts for equal JSON: sorted members, numbers by value (1.0 is 1; true is not 1)."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_canonical, value)) + "]"
    if isinstance(value, Decimal) and value.is_finite():
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits)).lstrip("0")
        kept = text.rstrip("0")
        return f"{'-' if sign else ''}{kept}e{int(exponent) + len(text) - len(kept)}" if kept else "0"
    return json.dumps(value, default=str)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _diff(expected: Lines, found: Lines) -> list[str]:
    shown = dict((*expected, *found))
    lines = difflib.unified_diff(
        [line for line, _ in expected], [line for line, _ in found], "expected", "found", lineterm=""
    )
    return [
        line if number < 2 or line[:1] == "@" else line[0] + shown[line[1:]]
        for number, line in enumerate(lines)
    ]
