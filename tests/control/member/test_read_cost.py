"""What a job costs at an agent: the sums over its streams, the expected time, and the refusal of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.member.read_cost import cost_of, too_costly
from tests.control.contexts import new_context


def context(limit: int | None = None, **of: Any) -> Context:
    log: dict[str, Any] = {
        "files": 2,
        "bytes": 3000,
        "estimated": 1000,
        "read_bytes": 2_000_000,
        "read_lines": 20_000,
        "cpu_seconds": 2.0,
    }
    log |= {"cores": 0.5, "measured_on": "reads"} | of
    found = new_context(1)
    found.policy = replace(OPEN, query_bytes=limit)
    found.facts = lambda topic, *about: {"log": log, "other": log | {"bytes": 500}}
    return found


def manifest(*, leased: bool = True) -> Manifest:
    text = "CREATE JOB t.n AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    job, _ = read_job(text)
    return structs.replace(new_manifest(job, text, "me", created=0, incarnation="i1"), leased=leased)


def test_the_expected_time_is_that_of_one_reader() -> None:
    found = cost_of(context(), ["log", "other"], manifest())
    log, other = found.streams
    assert (log.bytes_per_second, log.seconds, log.lines) == (500_000, 0.006, 30)
    assert other.seconds == 0.001
    assert (found.bytes, found.lines, found.seconds) == (3500, 35, 0.007)
    assert (log.estimated, found.estimated) == (1000, 2000)
    assert (found.bytes_max, found.refusal) == (None, "")


@pytest.mark.parametrize(
    ("of", "lines", "seconds"),
    [
        ({"read_bytes": 0, "cpu_seconds": 0.0}, None, None),
        ({"cpu_seconds": 0.0}, 30, None),
        ({"bytes": 0, "read_bytes": 0, "cpu_seconds": 0.0}, 0, 0.0),
    ],
)
def test_what_is_not_measured_is_not_known(
    of: dict[str, Any], lines: int | None, seconds: float | None
) -> None:
    found = cost_of(context(**of), ["log"], manifest())
    assert (found.lines, found.seconds) == (lines, seconds)


def test_a_query_over_the_limit_is_refused_and_a_job_is_not() -> None:
    over = context(2999)
    text = "it would read 3.0 KB, and its limits.query_bytes allows 3.0 KB"
    assert too_costly(over, ["log"], manifest()) == text
    assert cost_of(over, ["log"], manifest()).refusal == text
    assert cost_of(over, ["log"], manifest(leased=False)).refusal == ""
    assert too_costly(context(3000), ["log"], manifest()) == ""
    assert too_costly(over, ["unknown"], manifest()) == ""
