"""Runs a statement over a sample under several schedules, and compares the rows.

A schedule assigns the lines of the sample to agents. It chooses the order in which an agent reads its lines,
the shape of the tree, the order of merges, and the version of a lookup file that each agent holds: as given,
or without its last row. Agents, trees and the root are the code of the fleet. The tentative rows of a job are
those of the agents that have arrived at a deadline.

An output whose rows differ between schedules is Run. Equal rows prove nothing.

Paper: Blazes V-A (labels that are believed there are checked here).
"""

from __future__ import annotations

import contextlib
import io
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from elfmesh.cbt import finish_blocks, merge_partials, merged_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.errors import UsageError
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.local.embedded import MEMORY_BYTES, LogRun
from elfmesh.ql import Query, job_read
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.plan.statement import Statement
from elfmesh.storage.spill import SpillStore

AGENTS_MAX = 4
SCHEDULES = 8
LINES_MAX = 20_000
PROCESSES = 2
"""Processes of Python functions, each of which hashes texts in its own way; an agent has one of them."""

ROWS_SHOWN = 3
FINAL, TENTATIVE = "final", "tentative"

Rows = dict[int, list[dict[str, Any]]]
"""Rows of each interval."""


@dataclass(frozen=True)
class Schedule:
    """One schedule and its rows, by output: "final" or "tentative"."""

    number: int
    agents: int
    lines: int
    rows: dict[str, Rows] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"schedule {self.number}: {self.lines} lines at {self.agents} agents"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two schedules with different rows of an output, in an interval."""

    output: str
    interval: int
    first: Schedule
    second: Schedule

    def lines(self) -> Iterator[str]:
        """Yield both schedules, each with some rows that the other does not have."""
        for one, other in ((self.first, self.second), (self.second, self.first)):
            theirs = {repr(row) for row in other.rows[self.output].get(self.interval, [])}
            own = [row for row in one.rows[self.output].get(self.interval, []) if repr(row) not in theirs]
            yield f"{one}, {self.output} rows of interval {self.interval}"
            yield from (f"  {row}" for row in own[:ROWS_SHOWN])
            if not own:
                yield "  no row that the other schedule lacks"


class Exploration:
    """Schedules of one statement.

    Args:
        statement: a statement over one stream, without SESSION and SEALED.
        sample: lines of a log without a header.
        lookups: tables that the statement joins.
        python: whether its Python functions may run.

    Raises:
        UsageError: the statement cannot be explored.
    """

    def __init__(
        self, statement: Statement, sample: Sequence[bytes], *, lookups: LookupSource | None, python: bool
    ) -> None:
        if statement.spans_intervals or len(statement.streams) > 1 or any(map(job_read, statement.streams)):
            raise UsageError("only statements over one stream, without SESSION and SEALED, can be explored")
        if not sample or len(sample) > LINES_MAX:
            raise UsageError(f"a sample has 1 to {LINES_MAX} lines, and this one has {len(sample)}")
        self._statement, self._sample = statement, list(sample)
        self._lookups = lookups
        count = PROCESSES if statement.functions and python else 0
        self._functions = [local_evaluator(statement) for _ in range(count)]

    def close(self) -> None:
        """End the processes of functions."""
        for each in self._functions:
            each.close()

    def differences(self, schedules: int = SCHEDULES) -> list[Difference]:
        """Return for each output two schedules with different rows, over as few lines as were found."""
        found = self._compared(self._sample, schedules)
        sample = self._sample
        while found and len(sample) > 1:
            sample = sample[: len(sample) // 2]
            smaller = self._compared(sample, schedules)
            if {each.output for each in smaller} != {each.output for each in found}:
                break
            found = smaller
        return found

    def _compared(self, sample: Sequence[bytes], schedules: int) -> list[Difference]:
        found: dict[str, Difference] = {}
        first: Schedule | None = None
        for number in range(schedules):
            each = self._run(sample, number)
            first = first or each
            for output, rows in each.rows.items():
                intervals = sorted(rows.keys() | first.rows[output].keys())
                for at in intervals if output not in found else ():
                    if repr(rows.get(at, [])) != repr(first.rows[output].get(at, [])):
                        found[output] = Difference(output, at, first, each)
                        break
        return list(found.values())

    def _run(self, sample: Sequence[bytes], number: int) -> Schedule:
        rng = random.Random(number)
        agents = 1 + number % AGENTS_MAX
        lines: list[list[bytes]] = [[] for _ in range(agents)]
        for line in sample:
            rng.choice(lines).append(line)
        sent = [self._sent(each, rng) for each in lines]
        arrived = [each for each in sent if rng.random() < 0.5] or sent[:1]
        rows = {FINAL: self._finished(sent, rng)}
        job = self._statement.job
        if job is not None and job.on_straggler.lower() == "correct":
            rows[TENTATIVE] = self._finished(arrived, rng)
        return Schedule(number, agents, len(sample), rows)

    def _sent(self, lines: list[bytes], rng: random.Random) -> dict[int, bytes]:
        """Return the contribution of one agent to each interval."""
        rng.shuffle(lines)
        shorter = rng.random() < 0.5

        def held(name: str, columns: tuple[str, ...]) -> pa.Table:
            assert self._lookups is not None
            table = self._lookups(name, columns)
            return table.slice(0, max(table.num_rows - 1, 0)) if shorter else table

        run = LogRun(
            self._statement, ["-"], stdin=io.BytesIO(b"".join(each + b"\n" for each in lines)),
            lookups=held if self._lookups else None,
            functions=rng.choice(self._functions) if self._functions else None,
        )  # fmt: skip
        with contextlib.closing(SpillStore(None)) as store:
            worker = run.read(MemoryBudget(MEMORY_BYTES, store, new_lock=threading.Lock))
            return {each.index: each.payloads[0] for each in worker.seal(worker.end_index) if each.payloads}

    def _finished(self, sent: Sequence[dict[int, bytes]], rng: random.Random) -> Rows:
        """Merge contributions in a tree of any shape, and return the rows of each interval."""
        query, window = Query(self._statement, lookup=self._lookups), self._statement.window
        found: Rows = {}
        for index in sorted({index for each in sent for index in each}):
            parts = [each[index] for each in sent if each.get(index)]
            rng.shuffle(parts)
            while len(parts) > 1 and rng.random() < 0.7:
                cut = rng.randrange(2, len(parts) + 1)
                parts = [*parts[cut:], merge_partials(parts[:cut])]
            bounds = None
            if window is not None:
                bounds = (index * window.slide_us, index * window.slide_us + window.size_us)
            tables = dict(finish_blocks(merged_parts(parts, {})))
            found[index] = query.finalise_parts(tables, bounds).to_pylist()
        return found
