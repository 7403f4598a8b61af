"""Every example of the reference runs, and gives the rows it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.control.jobs.plan import read_job
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.ingest.job_rows import JobRows
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse_many
from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.values.row_json import rows_to_json

DOCUMENT = Path(__file__).parents[2] / "docs" / "elf-ql.md"
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


def _line(record: dict[str, Any]) -> str:
    """The record as a line of its log; its host is the agent's to say."""
    user = {"id": record.pop("user.id"), "location": record.pop("user.location")}
    return json.dumps({**record, "user": user, "ts": record["ts"].isoformat()}) + "\n"


@pytest.mark.parametrize(("text", "rows"), EXAMPLES, ids=lambda given: given.strip()[:30])
def test_an_example_of_the_reference_runs(
    text: str, rows: str, run_query: Callable[..., dict[int, pa.Table]], tmp_path: Path
) -> None:
    jobs, log = JobRows(), tmp_path / "clicks.ndjson"
    log.write_text("".join(map(_line, _clicks().to_pylist())))
    for statement in parse_many(text):
        if statement.job is None:
            results = run_query(statement.text, _clicks())
        else:  # a job may read those before it
            functions = local_evaluator(statement) if statement.functions else None
            answers = LogRun(statement, [str(log)], format="json", jobs=jobs, functions=functions).answers()
            if functions is not None:
                functions.close()
            jobs.begin(statement)
            for answer in answers:
                jobs.add(statement, answer)
            results = {answer.record.index: answer.table for answer in answers}
        assert results
        assert any(table.num_rows for table in results.values())
    if rows:
        shown = [row for _, table in sorted(results.items()) for row in rows_to_json(table)]
        assert shown == [json.loads(line) for line in rows.splitlines()]


@pytest.mark.parametrize("text", [text for text, _ in EXAMPLES], ids=lambda given: given.strip()[:30])
def test_an_agent_accepts_an_example_as_a_job(text: str) -> None:
    for statement in parse_many(text):
        every = "" if statement.window is not None else " EVERY '1 min'"
        begun = "" if statement.job is not None else f"CREATE JOB ref.example{every} AS\n"
        names, _ = read_job(begun + statement.text)
        assert names.name


def test_the_reference_names_every_function_and_no_other() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Functions")[1].split("```")[0]
    named = set(re.findall(r"`([a-z_0-9]+)", section))
    assert set(FUNCTIONS) <= named
    assert named - set(FUNCTIONS) == set()


def test_the_reference_names_every_aggregate() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Aggregates")[1].split("```")[0]
    assert set(AGGREGATES) - set(re.findall(r"`([a-z_0-9]+)", section)) == set()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
