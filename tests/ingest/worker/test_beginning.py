from __future__ import annotations

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ingest.worker.beginning import wanted_times

TEXT = "CREATE JOB t.n AS SELECT count(*) AS n FROM log GROUP BY TUMBLE({}, INTERVAL '10' SECOND)"


def version(since_us: int | None = None, until_us: int | None = None, column: str = "ts") -> Manifest:
    text = TEXT.format(column)
    job = ql.parse(text).job
    assert job is not None
    manifest = new_manifest(job, text, "me", created=0, incarnation="i1")
    return replace(manifest, since_us=since_us, until_us=until_us)


def test_a_job_takes_the_times_of_its_manifest() -> None:
    assert wanted_times([version(5, 9)], "log") == WantedTimes("ts", 5, 9)
    assert wanted_times([version(5)], "log") == WantedTimes("ts", 5)
    assert wanted_times([version(until_us=9)], "log") == WantedTimes("ts", None, 9)
    assert wanted_times([version(column="at.time")], "log") is None


def test_a_job_with_several_versions_takes_what_any_of_them_takes() -> None:
    assert wanted_times([version(5, 9), version(7, 12)], "log") == WantedTimes("ts", 5, 12)
    assert wanted_times([version(), version(7)], "log") is None
    assert wanted_times([version(5), version(7, 12)], "log") == WantedTimes("ts", 5)
    assert wanted_times([version(5), version(7, column="at")], "log") is None
