"""Where a job begins and ends by HISTORY and UNTIL, and which jobs a savepoint cannot contain."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest, new_manifest, updated
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.resuming import why_not, within_range
from elfmesh.errors import QueryError

MINUTE = 60_000_000
NOW = 1_000_000 * MINUTE + 17


def manifest(clauses: str, window: str = "EVERY '1 min'") -> Manifest:
    text = f"CREATE JOB a.b {window} AS SELECT count(*) AS n FROM s {clauses}"
    job = ql.parse(text).job
    assert job is not None
    return new_manifest(job, text, "me", created=0, incarnation="i")


@pytest.mark.parametrize(
    ("clauses", "first", "since_us", "until_us"),
    [
        ("", FIRST, None, None),
        ("HISTORY '10 min'", 999_990, 999_990 * MINUTE, None),
        ("HISTORY '0 s'", 1_000_001, 1_000_001 * MINUTE, None),
        ("HISTORY '10 min' UNTIL HISTORY", 999_990, 999_990 * MINUTE, NOW),
        ("UNTIL '1 min'", FIRST, None, NOW + MINUTE),
        (
            "HISTORY TIMESTAMP '1970-01-01 00:02:30' UNTIL TIMESTAMP '1970-01-01 00:09'",
            2,
            2 * MINUTE,
            9 * MINUTE,
        ),
        ("HISTORY TIMESTAMP '1970-01-01' UNTIL HISTORY", 0, 0, NOW),
    ],
)
def test_the_first_interval_contains_the_time(
    clauses: str, first: int, since_us: int | None, until_us: int | None
) -> None:
    found, at = within_range(manifest(clauses), NOW, leased=False)
    assert (at, found.since_us, found.until_us) == (first, since_us, until_us)
    assert found.resumed is (since_us is not None)


def test_a_job_with_one_interval_begins_at_the_time_itself() -> None:
    found, first = within_range(manifest("HISTORY '10 min' UNTIL HISTORY", ""), NOW, leased=True)
    assert (first, found.since_us, found.until_us, found.leased) == (0, NOW - 10 * MINUTE, NOW, True)
    found, first = within_range(manifest("HISTORY '0 s' UNTIL '10 min'", ""), NOW, leased=True)
    assert (first, found.since_us, found.until_us) == (0, NOW, NOW + 10 * MINUTE)


def test_a_leased_job_has_an_end() -> None:
    with pytest.raises(QueryError, match="needs an end"):
        within_range(manifest("HISTORY '10 min'"), NOW, leased=True)


def test_the_next_version_keeps_the_beginning_and_the_end() -> None:
    old, _ = within_range(manifest("HISTORY '10 min' UNTIL HISTORY"), NOW, leased=False)
    later, _ = within_range(manifest("HISTORY '10 min' UNTIL HISTORY"), NOW + 9 * MINUTE, leased=False)
    found = updated(old, later)
    assert (found.since_us, found.until_us, found.version) == (old.since_us, old.until_us, 2)


def test_added_fields_do_not_change_the_bytes_of_other_manifests() -> None:
    assert b"until_us" not in manifest("").canonical()
    assert b"leased" not in manifest("").canonical()
    assert b"until_us" in within_range(manifest("UNTIL '1 s'"), NOW, leased=False)[0].canonical()


@pytest.mark.parametrize("clauses", ["HISTORY '1 h'", "UNTIL '1 h'"])
def test_a_savepoint_does_not_contain_a_job_with_a_range(clauses: str) -> None:
    assert "state where it begins" in why_not(read_plan(manifest(clauses).text))
