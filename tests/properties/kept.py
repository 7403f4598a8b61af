"""Kept cases: what a generator of statements found once, in kept.jsonl; each is right now.

A case is a line of JSON: `why`, `statement`, `streams` (records by name), and either `rows` (in the order of
the statement if `ordered`; of all intervals together) or `refused`, a part of the message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elfmesh.errors import QueryError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse
from tests.properties.compare import EQUAL, Values, compared, plain, rows_of
from tests.properties.hunting import Finding
from tests.properties.rows import shown

PATH = Path(__file__).with_name("kept.jsonl")


@dataclass(frozen=True, slots=True)
class Kept:
    """One case; attributes as in the file."""

    why: str
    statement: str
    streams: dict[str, list[dict[str, Any]]]
    rows: list[list[Any]] | None = None
    refused: str = ""
    ordered: bool = False


def cases() -> list[Kept]:
    """All of them."""
    return [Kept(**json.loads(line)) for line in PATH.read_text().splitlines()]


def wrong_with(case: Kept, root: Path) -> str:
    """What is wrong with the answer now; "" is nothing.

    Args:
        case: what is run.
        root: an empty directory for its logs.
    """
    for name, rows in case.streams.items():
        (root / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    try:
        found = _answer(case, root)
    except QueryError as error:
        if case.refused and case.refused in str(error) and error.line and error.hint:
            return ""
        return f"refused: {error}"
    if case.rows is None:
        return f"answered {found[:5]}, and is to be refused"
    verdict = compared([tuple(map(_plain, row)) for row in case.rows], found, ordered=case.ordered)
    return "" if verdict.state == EQUAL else verdict.why


def _answer(case: Kept, root: Path) -> list[Values]:
    statement = parse(case.statement)
    logs = {name: ([str(root / f"{name}.json")], StreamFormat("json")) for name in statement.streams}
    job = LogRun(statement, [], streams=logs)
    tables = job.tables() if job.streams else (result.table for result in job.results())
    return [row for table in tables for row in rows_of(table)]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else plain(value)


def as_case(finding: Finding, rows: list[list[Any]] | None) -> str:
    """A finding as a line of the file, with what the oracle answers."""
    used = {table.name for table in finding.tables if f" {table.name} " in f" {finding.elf} "}
    streams = {
        table.name: [{name: shown(each) for name, each in row.items()} for row in table.rows]
        for table in finding.tables
        if table.name in used
    }
    case = {"why": finding.verdict.why, "statement": finding.elf, "streams": streams, "rows": rows}
    return json.dumps(case, ensure_ascii=False, default=str)
