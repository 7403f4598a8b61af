"""Every example of the reference runs, and gives the rows it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.control.ql import parse_many
from elfmesh.control.ql.registry import FUNCTIONS

DOCUMENT = Path(__file__).parents[3] / "docs" / "elf-ql.md"
EXAMPLE = re.compile(r"^```sql\n(.*?)^```\n(?:```json\n(.*?)^```\n)?", re.M | re.S)
EXAMPLES = EXAMPLE.findall(DOCUMENT.read_text(encoding="utf-8"))


def _clicks() -> pa.Table:
    """A small click stream, as its source would deliver it: 24 records, five seconds apart."""
    start_us = 1_431_857_100 * 1_000_000  # 2015-05-17 10:05:00
    products = ["ant", "bee", "cat", "duck"]
    count = range(24)
    return pa.table(
        {
            "ts": pa.array([start_us + 5_000_000 * at for at in count], pa.timestamp("us", "UTC")),
            "product": [products[at % 4] for at in count],
            "directory": ["Video Games" if at % 3 else "Books" for at in count],
            "clicks": [at % 4 + at % 5 for at in count],
            "user.id": [at % 7 for at in count],
            "user.location": [None if at % 6 == 0 else ("eu", "us", "test")[at % 3] for at in count],
            "url": [f"/{'shop' if at % 2 else 'blog'}/item?id={at % 3}" for at in count],
            "_host": ["web1"] * 24,
        }
    )


@pytest.mark.parametrize(("text", "rows"), EXAMPLES, ids=lambda given: given.strip()[:30])
def test_an_example_of_the_reference_runs(
    text: str, rows: str, run_query: Callable[..., dict[int, pa.Table]]
) -> None:
    for statement in parse_many(text):
        results = run_query(statement.text, _clicks())
        assert results
        assert any(table.num_rows for table in results.values())
    if rows:
        (table,) = results.values()
        assert table.to_pylist() == [json.loads(line) for line in rows.splitlines()]


def test_the_reference_names_every_function_and_no_other() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Functions")[1].split("```")[0]
    named = set(re.findall(r"`([a-z_0-9]+)", section))
    assert set(FUNCTIONS) <= named
    assert named - set(FUNCTIONS) == set()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
