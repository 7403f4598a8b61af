"""What a worker tells about input that it cannot use."""

from __future__ import annotations

from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.worker.problems import SAMPLES_MAX, InputProblems


def parsed(*samples: str, unfit: int = 0, replaced: int = 0) -> Parsed:
    return Parsed({}, 0, 0, 0, list(samples), unfit=range(unfit), replaced=replaced)


def test_a_worker_keeps_the_first_reasons_of_its_parser_and_of_its_own() -> None:
    problems = InputProblems()
    problems.parsed(parsed("a", "b"))
    for reason in ("c", "d"):
        problems.sample(reason)
    problems.parsed(parsed("e"))
    assert problems.samples == ["a", "b", "c"]
    assert len(problems.samples) == SAMPLES_MAX


def test_repaired_values_and_lines_are_counted_over_all_blocks() -> None:
    problems = InputProblems()
    for _ in range(2):
        problems.parsed(parsed(unfit=2, replaced=3))
    assert (problems.field_errors, problems.replaced) == (4, 6)
