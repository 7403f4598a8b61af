"""The file of a savepoint is whole or refused; what a savepoint cannot hold is refused, too."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from elfmesh.cli.jobs.savepoint import _renamed
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.resuming import resumed_at
from elfmesh.errors import DataError, QueryError

TEXT = "CREATE JOB shop.top AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


def manifest(text: str = TEXT) -> Manifest:
    return Manifest(namespace="shop", name="top", creator="local", text=text, version=1, job_id=b"j" * 20)


def test_a_job_goes_on_at_the_interval_of_its_savepoint() -> None:
    found, first = resumed_at(manifest(), 7)
    assert (first, found.since_us, found.resumed) == (7, 70_000_000, True)
    assert msgspec.msgpack.decode(found.canonical(), type=Manifest) == found
    assert b"resumed" not in manifest().canonical()


@pytest.mark.parametrize("first", ["7", True, 7.0, FIRST, 1 << 60, [], None])
def test_what_is_no_interval_is_refused(first: object) -> None:
    with pytest.raises(QueryError):
        resumed_at(manifest(), first)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE JOB a.b AS SELECT k, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '10' SECOND), k",
        "CREATE JOB a.b AS SELECT sum(n) AS n FROM shop.top GROUP BY TUMBLE(ts, INTERVAL '60' SECOND)",
    ],
)
def test_jobs_whose_state_is_in_no_log_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="no savepoint of this job"):
        resumed_at(manifest(text), 7)


def test_only_the_name_of_a_job_is_changed(tmp_path: Path) -> None:
    text = TEXT.replace("count(*)", "count(*) FILTER (WHERE k = 'CREATE JOB shop.top')")
    assert _renamed(text, "shop/next", tmp_path) == text.replace("JOB shop.top AS", "JOB shop.next AS", 1)
    with pytest.raises(DataError, match="cannot be changed"):
        _renamed("-- CREATE JOB old\n" + text, "shop.next", tmp_path)
