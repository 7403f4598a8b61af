"""The options of `elf query` over streams. `tests/e2e/jobs/test_ask_the_fleet.py` has its answers."""

from __future__ import annotations

import pytest

from elfmesh.api.client.stream_query import QueryProgress
from elfmesh.cli.jobs.stream_query import _progress_text, range_clause, times_clause
from elfmesh.ql import parse
from tests.api.client.test_live import api, backend
from tests.cli.remote import elf

__all__ = ["api", "backend"]

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("history_us", "until_us", "clause"),
    [
        (HOUR, None, "HISTORY '1 h' UNTIL HISTORY"),
        (HOUR, 1_500_000, "HISTORY '1 h' UNTIL '1500 ms'"),
        (None, 1_000_000, "UNTIL '1 s'"),
    ],
)
def test_the_options_are_clauses(history_us: int | None, until_us: int | None, clause: str) -> None:
    assert range_clause(history_us, until_us) == clause


@pytest.mark.parametrize(
    ("begin_us", "end_us", "clause"),
    [
        (
            HOUR,
            2 * HOUR + 1,
            "HISTORY TIMESTAMP '1970-01-01T01:00:00Z' UNTIL TIMESTAMP '1970-01-01T02:00:00.000001Z'",
        ),
        (HOUR, None, "HISTORY TIMESTAMP '1970-01-01T01:00:00Z' UNTIL HISTORY"),
        (None, HOUR, "HISTORY TIMESTAMP '1970-01-01T00:00:00Z' UNTIL TIMESTAMP '1970-01-01T01:00:00Z'"),
    ],
)
def test_times_are_clauses(begin_us: int | None, end_us: int | None, clause: str) -> None:
    assert times_clause(begin_us, end_us) == clause
    job = parse(f"CREATE JOB a.b AS SELECT count(*) AS n FROM s {clause}").job
    assert job is not None
    assert (job.history_us, job.until_us, job.dated) == (begin_us or 0, end_us or 0, True)


@pytest.mark.parametrize(
    ("waits_for", "text"),
    [
        ((), "2 of 2 agents have read their logs"),
        (("a", "b\x1b"), "2 of 4 agents have read their logs; waiting for a, b\\x1b"),
        (tuple("abcde"), "2 of 7 agents have read their logs; waiting for a, b, c and 2 more"),
    ],
)
def test_the_progress_names_some_agents(waits_for: tuple[str, ...], text: str) -> None:
    assert _progress_text(QueryProgress(2, waits_for)) == text


@pytest.mark.parametrize(
    ("options", "code", "reported"),
    [
        (("--history", "soon"), 2, "--history: 'soon' is not a duration"),
        (("--history", "-1 h"), 2, "--history: '-1 h' is not a duration"),
        (("--until", "soon"), 2, "--until"),
        (("--history", "1 h", "--tentative"), 2, "are for results of jobs"),
        (("--history", "1 h", "--at", "2026-11-27T12:00"), 2, "are for results of jobs"),
        (("--history", "1 h", "--min-fidelity", "1"), 2, "are for results of jobs"),
        (("--history", "9999999 d"), 65, "HISTORY takes at most 20000 d"),
        (("--from", "soon"), 2, "--from: 'soon' is not a time"),
        (("--from", "1 h", "--history", "1 h"), 2, "--from and --to exclude --history and --until"),
        (("--complete",), 2, "--complete is for queries over streams"),
    ],
)
def test_wrong_options_are_refused(api: str, options: tuple[str, ...], code: int, reported: str) -> None:
    ran = elf("query", "SELECT count(*) AS n FROM clicks", *options, "--api", api)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert reported in ran.stderr


def test_a_query_over_streams_reads_no_results_and_no_unknown_stream(api: str) -> None:
    ran = elf("query", "SELECT count(*) AS n FROM shop.top", "--history", "1 h", "--api", api)
    assert ran.exit_code != 0
    assert "results needs an interval" in ran.stderr
    ran = elf("query", "SELECT count(*) AS n FROM nothing", "--history", "1 h", "--api", api)
    assert ran.exit_code == 65
    assert "no agent has a stream nothing" in ran.stderr
