"""Other systems' cases as jobs: each over streams of its own, whose records are dealt out among the agents.

A case without a window asks about all its records: as a job it answers `EVERY '1 d'`, and its records, where
they have no time of their own, get one (`ts`) within a day. One more record of each agent, long after the
others, closes what was before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from elfmesh.ql import Statement, parse
from elfmesh.ql.values.row_json import encode_json
from elfmesh.spark_bridge.history.compare import EQUAL, compare
from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.compat.cases import Case, Row, written
from tests.spark_bridge.history.engines import Asked, Intervals, by_run

AGENTS = 4
DAY_US = 86_400_000_000
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TIMES = ("date_time", "bidtime", "created_at", "timestamp", "ts")
"""Where the records of the cases have their time."""

ALL_COLUMNS = {"samples": ("id", "word1", "word2", "word3", "word5", "word6", "bytes", "bool", "usage")}
"""What `SELECT *` is as a job, which names what it returns."""

NO_RECORD = "asks about no record at all: `elf run` has one interval then, a job none"


def left_out(case: Case, text: str) -> str:
    """Why agents are not asked a case; "": they are."""
    return "" if any(map(lines_of, (case.inputs[name] for name in parse(text).streams))) else NO_RECORD


def lines_of(records: Sequence[Row] | Path) -> list[str]:
    """The records of a stream as lines, in the order of their time if they have one."""
    if isinstance(records, Path):
        lines = records.read_text().splitlines()
    else:
        lines = [json.dumps(record) for record in records]
    lines = [line for line in lines if line.strip()]
    time = time_of(lines)
    return sorted(lines, key=lambda line: str(json.loads(line)[time])) if time else lines


def time_of(lines: Sequence[str]) -> str:
    """The column of the records' time; "": they have none."""
    return next((name for name in TIMES if lines and all(name in json.loads(line) for line in lines)), "")


@dataclass
class Stream:
    """The records of one input, for all cases that read the same."""

    name: str
    lines: list[str]
    end: str = field(init=False)
    types: dict[str, str] = field(init=False)
    """Fields with values of several kinds: agents, each of which sees some, are told what they are."""

    def __post_init__(self) -> None:
        kinds: dict[str, set[type]] = {}
        for line in self.lines:
            for name, value in json.loads(line).items():
                kinds.setdefault(name, set()).update(() if value is None else (type(value),))
        self.types = {name: "string" for name, found in kinds.items() if len(found) > 1}
        time = time_of(self.lines)
        ends: dict[str, Any] = {name: (BEGIN + timedelta(days=60)).isoformat() for name in TIMES}
        if time:
            newest = json.loads(self.lines[-1])[time]
            later = timedelta(days=60)
            if isinstance(newest, int):  # milliseconds
                ends[time] = newest + int(later.total_seconds() * 1000)
            else:
                ends[time] = (datetime.fromisoformat(newest) + later).isoformat()
        if time != "ts":  # in front, so that the rest of the line stays as it was
            self.lines = [
                f'{{"ts": "{(BEGIN + timedelta(seconds=at)).isoformat()}", {line.lstrip()[1:]}'
                for at, line in enumerate(self.lines)
            ]
        self.end = json.dumps({name: ends[name] for name in {"ts", time or "ts"}})

    def settings(self, path: Path) -> dict[str, Any]:
        """The stream as an agent's configuration has it."""
        return {"path": str(path), "format": "json", "types": self.types}

    def share(self, number: int) -> str:
        """The log of one of the agents."""
        return "".join(f"{line}\n" for line in [*self.lines[number::AGENTS], self.end])

    def end_us(self, column: str) -> int:
        """The time of the last record, as a column has it."""
        value = json.loads(self.end)[column]
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is None:
            return int(value) * 1000
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)


class Streams:
    """All streams of some cases: what several cases read is there once."""

    def __init__(self) -> None:
        self.all: dict[tuple[str, ...], Stream] = {}

    def of(self, records: Sequence[Row] | Path) -> Stream:
        lines = lines_of(records)
        return self.all.setdefault(tuple(lines), Stream(f"in{len(self.all)}", lines))


class Job:
    """A case as a job, and what is right."""

    def __init__(self, number: int, case: Case, text: str, streams: Streams) -> None:
        self.case, self.plain = case, text
        self.name = f"peers/case{number}"
        statement = parse(text)
        self.streams: dict[str, Stream] = {}
        for name in statement.streams:
            stream = self.streams[name] = streams.of(case.inputs[name])
            text = re.sub(rf"\b(FROM|JOIN) {name}\b", rf"\1 {stream.name}", text)
            if text.startswith("SELECT * "):
                text = text.replace("*", ", ".join(ALL_COLUMNS[name]), 1)
        every = "" if statement.window is not None else "EVERY '1 d' "
        self.text = f"CREATE JOB peers.case{number} {every}HORIZON '300 s' ON STRAGGLER WAIT AS {text}"
        self.statement: Statement = parse(self.text)

    def last(self) -> int:
        """The first interval that one of the records at the end is in."""
        window = self.statement.window
        assert window is not None
        ends = (
            stream.end_us(self.statement.time_of(stream.name) or window.column)
            for stream in self.streams.values()
        )
        return (min(ends) - window.size_us) // window.slide_us + 1

    def asked(self, root: Path) -> Asked:
        """The job's text over all logs in one."""
        inputs = {}
        for stream in self.streams.values():
            path = root / f"{stream.name}.ndjson"
            inputs[stream.name] = stream.settings(path)
            if not path.exists():
                path.write_text("".join(map(stream.share, range(AGENTS))))
        return Asked(self.text, given_inputs(inputs))

    def oracle(self, root: Path) -> dict[int, list[dict[str, Any]]]:
        """What one process says of the job, but for the end of the logs."""
        (answers,) = by_run(self.asked(root))
        return {index: as_json(rows) for index, rows in answers if index < self.last()}

    def expected(self, root: Path) -> list[str]:
        """The rows of the case itself, which `test_peers.py` holds to what the other system expects."""
        root = root / self.case.name.replace("/", "_").replace(" ", "_")
        root.mkdir()
        paths = {name: written(self.case.inputs[name], root / f"{name}.json") for name in self.streams}
        asked = Asked(self.plain, given_inputs({name: (str(path), "json") for name, path in paths.items()}))
        return self.listed(by_run(asked)[0])

    def listed(self, intervals: Intervals | Iterable[tuple[int, list[dict[str, Any]]]]) -> list[str]:
        """All rows as text, in the query's order if it says one; what is null may be left out."""
        rows = [
            encode_json({name: value for name, value in sorted(row.items()) if value is not None}).decode()
            for _, found in intervals
            for row in as_json(found)
        ]
        return rows if "ORDER BY" in self.plain.rpartition(")")[2] else sorted(rows)

    def wrong(self, published: dict[int, dict[str, Any]], root: Path) -> str:
        """How what agents have published differs from what one process says; empty: not at all."""
        oracle = self.oracle(root)
        compared = compare(published, oracle, min(oracle), self.last() - 1, 1)
        if not compared or any(one.state != EQUAL for one in compared):
            return f"{self.case.name}: {self.text}\n  {compared}"
        rows = [(index, each["rows"]) for index, each in sorted(published.items()) if index < self.last()]
        found, expected = self.listed(rows), self.expected(root)
        if found != expected:
            return f"{self.case.name}: {self.text}\n  {found}\n  instead of {expected}"
        return ""


def as_json(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a client of the API reads them."""
    return [json.loads(encode_json(row)) for row in rows]
