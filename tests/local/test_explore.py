"""Statements under several schedules: which rows differ, and which never do."""

from __future__ import annotations

import contextlib
import json
import random

import pyarrow as pa
import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.labels import Severity
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.errors import UsageError
from elfmesh.local.explore import Difference, Exploration
from elfmesh.ql import parse
from tests.exhaustive import few

RNG = random.Random(7)
SAMPLE = [
    json.dumps(
        {
            "ts": f"2026-01-01T00:00:{at % 20:02d}Z",
            "u": RNG.choice("abcde"),
            "n": RNG.randrange(100_000),
            "x": RNG.random() * 10 ** RNG.randint(-8, 8),
        }
    ).encode()
    for at in range(300)
]
FUNCTION = """WITH FUNCTION f(u STRING) RETURNS BIGINT LANGUAGE PYTHON AS $$
def f(u): return hash(u) % 1000
$$ SELECT f(u) AS h, count(*) AS n FROM log GROUP BY f(u)"""
LOOKUP = "SELECT l.a, count(*) AS n FROM log JOIN lookup.t l ON log.u = l.u GROUP BY l.a"
LIMIT = "CREATE JOB a.b EVERY '10 s' AS SELECT n, count(*) AS c FROM log GROUP BY n ORDER BY n LIMIT 3"


def table(name: str, columns: tuple[str, ...]) -> pa.Table:
    return pa.table({"u": list("abcde"), "a": list("ABCDE")}).select(columns)


def explored(text: str, sample: list[bytes] = SAMPLE) -> list[Difference]:
    work = Exploration(parse(text), sample, lookups=table, python=True)
    with contextlib.closing(work):
        return work.differences()


def label(text: str) -> Severity:
    (name, *_) = (found := analyse(dataflow(job_graph([parse(text)])))).graph.producers
    return found.label(name)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT u, sum(x) AS s, avg(x) AS m, stddev(n) AS d FROM log GROUP BY u",
        "SELECT u, min(x) AS a, max_by(u, n) AS b, first(n) AS f, last(x) AS l FROM log GROUP BY u",
        "SELECT count(DISTINCT u) AS d, approx_count_distinct(n) AS a, collect_set(u) AS c FROM log",
        "SELECT u, count(*) AS c FROM log WHERE n > 500 GROUP BY u ORDER BY c, u LIMIT 2",
    ],
)
def test_async_rows_are_equal_in_all_schedules(text: str) -> None:
    """Also sums of doubles, whose rounding does not depend on the tree."""
    assert label(text) is Severity.ASYNC
    assert explored(text) == []


AGGREGATES = (
    "count(*)", "sum(n)", "sum(x)", "avg(x)", "variance(x)", "min(u)", "max(x)", "first(u)", "last(n)",
    "count(DISTINCT u)", "approx_count_distinct(n)", "collect_set(u)", "collect_list(n)", "max_by(u, x)",
    "covar_pop(n, x)", "count_if(n > 9)", "bool_or(n > 99000)", "percentile(n, 0.5)",
)  # fmt: skip


def random_statement(rng: random.Random) -> str:
    keys = rng.sample(["u", "n % 3"], rng.randint(0, 2))
    values = rng.sample(AGGREGATES, rng.randint(1, 4))
    window = ["TUMBLE(ts, INTERVAL '5' SECOND)"] if rng.random() < 0.5 else []
    columns = [f"{each} AS c{at}" for at, each in enumerate([*keys, *values])]
    text = f"SELECT {', '.join(columns)} FROM log"
    text += f" WHERE n > {rng.randrange(50_000)}" if rng.random() < 0.4 else ""
    text += f" GROUP BY {', '.join([*window, *keys])}" if window or keys else ""
    text += f" HAVING {rng.choice(values[:1])} IS NOT NULL" if keys and rng.random() < 0.3 else ""
    return text + (" ORDER BY c0 DESC LIMIT 2" if keys and rng.random() < 0.3 else "")


@pytest.mark.parametrize("block", few(range(50), 1))
def test_no_random_statement_is_above_its_label(block: int) -> None:
    """A label of statements is checked as those of dataflows are: an anomaly above it is a bug."""
    for seed in range(6 * block, 6 * (block + 1)):
        text = random_statement(random.Random(seed))
        assert label(text) is Severity.ASYNC, text
        assert explored(text, SAMPLE[:60]) == [], text


@pytest.mark.parametrize("text", [FUNCTION, LOOKUP])
def test_run_is_shown_by_two_schedules(text: str) -> None:
    (found,) = explored(text)
    assert found.output == "final"
    assert found.first.lines < len(SAMPLE), "it was made smaller"
    assert found.first.rows["final"] != found.second.rows["final"]
    assert any(line.startswith("  {") for line in found.lines())


def test_a_sketch_beyond_its_exact_size_depends_on_the_tree() -> None:
    lines = [json.dumps({"n": RNG.randrange(1 << 40)}).encode() for _ in range(6_000)]
    (found,) = explored("SELECT approx_percentile(n, 0.5, 100) AS p FROM log", lines)
    assert found.output == "final"


def test_a_limit_of_tentative_rows_depends_on_the_members_that_have_arrived() -> None:
    (found,) = explored(LIMIT)
    assert found.output == "tentative"
    assert label(LIMIT) is Severity.ASYNC


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, count(*) AS n FROM ns.job GROUP BY a",
        "SELECT u, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '5' SECOND), u",
        "SELECT a.u FROM log a JOIN other b ON a.u = b.u",
    ],
)
def test_what_cannot_be_explored_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Exploration(parse(text), SAMPLE, lookups=None, python=False)


def test_a_sample_has_lines_and_not_too_many() -> None:
    for sample in ([], [b"{}"] * 20_001):
        with pytest.raises(UsageError):
            Exploration(parse("SELECT u FROM log"), sample, lookups=None, python=False)
