"""What a case of another system is, how it is run here, and what became of it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias

from elfmesh.errors import ElfError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse
from tests.tooling.shared_data import DATA

PEERS = DATA / "cases"
NO_DATA = "the shared data is not beside this checkout"

PASSED, NOT_APPLICABLE, FAILING = "passed", "not applicable", "failing"

Row: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[Sequence[Row]], str]
"""What is wrong with these rows; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of another system.

    Attributes:
        name: unique within its peer.
        inputs: by stream, its records or a file of them.
        check: what the case expects.
        error: an error is as good as that.
    """

    name: str
    inputs: Mapping[str, Sequence[Row] | Path]
    check: Check
    error: bool = False


@dataclass(frozen=True, slots=True)
class Ours:
    """The case as ELF-QL.

    Attributes:
        text: the query.
        failing: why its rows are not those of the case; empty: they are.
    """

    text: str
    failing: str = ""


@dataclass(frozen=True, slots=True)
class NotOurs:
    """A case that means nothing here, and why."""

    why: str


Translation: TypeAlias = Ours | NotOurs


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        state: PASSED, NOT_APPLICABLE or FAILING.
        why: it is not passed.
    """

    name: str
    state: str
    why: str = ""


def outcome(case: Case, translation: Translation, root: Path) -> Outcome:
    """Run one case.

    Args:
        root: an empty directory for its inputs.

    Raises:
        AssertionError: it fails and is not declared to, or the other way round.
    """
    if isinstance(translation, NotOurs):
        return Outcome(case.name, NOT_APPLICABLE, translation.why)
    wrong = wrong_with(case, translation.text, root)
    if translation.failing:
        assert wrong, f"{case.name} passes now: it is no longer failing"
        return Outcome(case.name, FAILING, translation.failing)
    assert not wrong, f"{case.name}: {wrong}"
    return Outcome(case.name, PASSED)


def wrong_with(case: Case, text: str, root: Path) -> str:
    """What is wrong with the rows that the embedded engine gives; empty: nothing."""
    try:
        statement = parse(text)
        paths = {name: written(case.inputs[name], root / f"{name}.json") for name in statement.streams}
        logs = {name: ([str(path)], StreamFormat("json")) for name, path in paths.items()}
        job = LogRun(statement, [], streams=logs)
        tables = job.tables() if job.streams else (result.table for result in job.results())
        rows = [row for table in tables for row in table.to_pylist()]
    except ElfError as error:
        return "" if case.error else str(error)
    if job.stats.parse_errors or job.stats.field_errors:
        return f"{job.stats.parse_errors} records and {job.stats.field_errors} fields could not be read"
    return case.check(rows)


def written(records: Sequence[Row] | Path, path: Path) -> Path:
    """The records of a stream as a file: this one, unless they are in one."""
    if isinstance(records, Path):
        return records
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def outcomes(cases: Callable[[], Iterable[Case]], translate: Callable[[str], Translation]) -> list[Outcome]:
    """What became of all cases of a peer.

    Args:
        cases: loads them.
        translate: by name of the case.

    Raises:
        AssertionError: as `outcome`.
        KeyError: a case has no translation.
    """
    found = []
    for case in cases():
        with tempfile.TemporaryDirectory() as root:
            found.append(outcome(case, translate(case.name), Path(root)))
    return found


# -- Comparing


def shown(value: date) -> str:
    """A time as other systems write it: no zone, no fraction that is nought."""
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
        if not value.microsecond:
            return value.isoformat(timespec="seconds")
        return value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    return value.isoformat()


def number(value: float | Decimal) -> Any:
    """A number that equals another if they mean the same double, or the same integer."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    return int(value) if value.is_finite() and value == value.to_integral_value() else repr(float(value))


def plain(value: Any) -> Any:
    """A value that can be compared with another system's."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | str | None):
        return value
    if isinstance(value, float | Decimal):
        return number(value)
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((name, plain(each)) for name, each in value.items() if each is not None))
    return shown(value)


def same_rows(expected: Sequence[Row], *, ordered: bool) -> Check:
    """A check for these rows, by name; a column that a row lacks is null."""
    names = list(dict.fromkeys(name for row in expected for name in row))
    wanted = [tuple(plain(row.get(name)) for name in names) for row in expected]

    def check(rows: Sequence[Row]) -> str:
        if rows and set(rows[0]) != set(names) and expected:
            return f"columns {sorted(rows[0])} instead of {sorted(names)}"
        return difference(
            wanted, [tuple(plain(row.get(name)) for name in names) for row in rows], ordered=ordered
        )

    return check


def difference(wanted: Sequence[Any], found: Sequence[Any], *, ordered: bool) -> str:
    """What differs between two lists of rows; empty: nothing."""
    if ordered:
        for at, (a, b) in enumerate(zip(wanted, found, strict=False)):
            if a != b:
                return f"row {at} is {b} instead of {a}"
        return "" if len(wanted) == len(found) else f"{len(found)} rows instead of {len(wanted)}"
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return f"missing {list(missing)[:3]}, too many {list(more)[:3]}" if missing or more else ""


def token(text: str) -> Any:
    """One word of a result that was written as text."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return text
    return number(value) if value.is_finite() else str(value)
