from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from elfmesh.cli.demo.jobs import DemoJob, demo_jobs, early_text
from elfmesh.ql import parse


@pytest.mark.parametrize("job", demo_jobs(), ids=lambda job: str(job.name))
def test_the_text_is_a_job_of_that_name_and_interval(job: DemoJob) -> None:
    statement = parse(job.text)
    assert statement.job is not None
    assert statement.window is not None
    assert (statement.job.qualified, statement.window.slide_us) == (job.name, job.slide_us)
    assert (job.state == "early") == (statement.job.early_us is not None)


def test_early_rows_are_printed_with_the_time_that_was_left() -> None:
    end = datetime.fromtimestamp(time.time(), UTC) + timedelta(seconds=60)
    window = {"start": "2026-11-27T10:00:00Z", "end": end.isoformat()}
    line = {"job": "shop/hot", "interval": window, "rows": [{"product": "Kart", "clicks": 10}]}
    text = early_text(line)
    assert text.startswith("shop/hot 10:00:00-")
    assert text.endswith("s before its end: Kart 10")
