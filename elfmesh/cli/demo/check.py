"""Compares the results of agents with the results of one process over the same files.

An interval that contains all agents must equal `elf run` over all files. An interval that names missing
agents must equal `elf run` over the files of the other agents. Intervals must follow each other without a
gap.

Paper: none. The module checks promise D-10 and the first sentence of the guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
Oracle = Callable[[Sequence[Path]], Mapping[int, Rows]]
"""Computes in one process the rows of each interval that has rows, by interval index, from these files."""

DIFFERENCES_SHOWN = 5


@dataclass(slots=True)
class JobComparison:
    """Result of comparing one job with the oracle.

    Attributes:
        compared: number of compared intervals by the agents that they name as missing, in order of
            occurrence.
        rows: number of compared rows.
        differences: one line for each interval that differs, is absent, or was not expected.
    """

    compared: dict[tuple[str, ...], int] = field(default_factory=dict)
    rows: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether at least one interval was compared and no interval differs."""
        return bool(self.compared) and not self.differences


def compare(records: Sequence[dict[str, Any]], logs: Mapping[str, Path], oracle: Oracle) -> JobComparison:
    """Compare the results of a job with those of the oracle.

    Args:
        records: records of consecutive intervals as JSON objects, in order.
        logs: log file of each agent, by name.
        oracle: called once for each distinct set of missing agents.
    """
    verdict = JobComparison()
    answers: dict[tuple[str, ...], Mapping[int, Rows]] = {}
    for record in records:
        missing = tuple(sorted(record["agents"]["missing"]))
        if missing not in answers:
            answers[missing] = oracle([path for name, path in logs.items() if name not in missing])
        index = record["interval"]["index"]
        expected = answers[missing].get(index, [])
        verdict.compared[missing] = verdict.compared.get(missing, 0) + 1
        verdict.rows += len(expected)
        if record["rows"] != expected:
            verdict.differences.append(_difference(index, missing, record["rows"], expected))
        if record["completeness"] == 1.0 and missing:
            verdict.differences.append(f"interval {index}: complete, and yet {', '.join(missing)} missing")
    indices = [record["interval"]["index"] for record in records]
    if indices:
        whole = answers.get(()) or oracle(list(logs.values()))
        due = {index for index, rows in whole.items() if rows and indices[0] <= index <= indices[-1]}
        verdict.differences += [
            f"interval {index}: not in the results" for index in sorted(due - set(indices))
        ]
    if indices != sorted(set(indices)):
        verdict.differences.append(f"intervals came twice or out of order: {indices}")
    return verdict


def _difference(index: int, missing: tuple[str, ...], got: Rows, expected: Rows) -> str:
    place = next(
        (at for at, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
        min(len(got), len(expected)),
    )
    mine = got[place] if place < len(got) else "no such row"
    right = expected[place] if place < len(expected) else "no such row"
    without = f" without {', '.join(missing)}" if missing else ""
    return f"interval {index}{without}, row {place + 1}: the agents say {mine}, one process says {right}"
