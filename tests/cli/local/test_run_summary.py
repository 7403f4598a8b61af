"""What `elf run` says of its input."""

from __future__ import annotations

import pytest

from elfmesh.cli.local.run_summary import summary
from elfmesh.local.run_stats import RunStats


@pytest.mark.parametrize(
    ("stats", "late", "line"),
    [
        (RunStats(records=1), None, "elf: 1 record, 0 parse errors, 0 filtered, 0.00 s"),
        (RunStats(records=2, parse_errors=1), 0, "elf: 2 records, 1 parse error, 0 filtered, 0 late, 0.00 s"),
        (
            RunStats(records=9, filtered=3, function_errors=2, seconds=1.5),
            None,
            "elf: 9 records, 0 parse errors, 3 filtered, 2 function errors, 1.50 s",
        ),
        (
            RunStats(records=1, broken=2),
            None,
            "elf: 1 record, 0 parse errors, 0 filtered, 2 violations of ASSUME, 0.00 s",
        ),
        (
            RunStats(field_errors=1, undated=1, replaced=1),
            None,
            "elf: 0 records, 0 parse errors, 0 filtered, 1 value of another type than the column, read as"
            " null, 1 record without a time that can be read, 1 line with malformed UTF-8, 0.00 s",
        ),
    ],
)
def test_the_counts_are_one_line(stats: RunStats, late: int | None, line: str) -> None:
    assert list(summary(stats, late, verbose=False)) == [line]


def test_samples_losses_and_formats_follow() -> None:
    stats = RunStats(
        samples=["a:1: no JSON"], unseen={"x": ""}, gaps=["a: lines are lost"], formats={"a": "json"}
    )
    lines = list(summary(stats, verbose=True))[1:]
    assert lines == [
        "  a:1: no JSON",
        "  no record has a value in x: it is null everywhere.",
        "  a: lines are lost",
        "  a: json",
    ]
