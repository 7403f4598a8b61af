"""Names of streams and jobs that do not exist, as commands meet them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.remote import TEXT, api, backend, elf, job
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend", "job"]


def test_a_job_over_a_stream_that_no_agent_has_gets_a_warning_and_is_refused_when_strict(
    api: str, job: Path, backend: FakeBackend
) -> None:
    job.write_text(TEXT.replace("FROM clicks", "FROM cliks"))
    ran = elf("apply", "-f", str(job), "--api", api)
    assert ran.exit_code == 0
    assert "no agent has a stream cliks; did you mean clicks?" in ran.stderr
    backend.asked.clear()
    ran = elf("apply", "-f", str(job), "--api", api, "--strict")
    assert ran.exit_code == 65
    assert "no agent has a stream cliks" in ran.stderr
    assert "apply" not in [verb for verb, _ in backend.asked]
    job.write_text(TEXT)
    assert "no agent has" not in elf("apply", "-f", str(job), "--api", api, "--strict").stderr


def test_delete_refuses_a_name_that_no_job_has(api: str, backend: FakeBackend) -> None:
    ran = elf("delete", "shop/tap", "--api", api)
    assert ran.exit_code == 1
    assert "there is no such job" in ran.stderr
    assert "shop/top" in ran.stderr
    assert "delete" not in [verb for verb, _ in backend.asked]


def test_a_query_over_a_stream_is_refused_because_it_is_no_job(api: str) -> None:
    ran = elf("query", "SELECT * FROM access", "--api", api)
    assert ran.exit_code == 1
    assert "access is a stream, not a job" in ran.stderr


def test_results_with_a_limit_report_which_they_are(api: str) -> None:
    assert "oldest 2" in elf("results", "shop/top", "--limit", "2", "--api", api).stderr
    assert "--from 2 shows" in elf("results", "shop/top", "--limit", "2", "--api", api).stderr
    assert "oldest 2" in elf("results", "shop/top", "--limit", "2", "-o", "json", "--api", api).stderr
    assert "oldest" not in elf("results", "shop/top", "--limit", "9", "--api", api).stderr
    assert "oldest" not in elf("results", "shop/top", "--from", "0", "--limit", "2", "--api", api).stderr
