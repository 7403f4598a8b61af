from __future__ import annotations

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Stage
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ingest.worker.beginning import wanted_times

TEXT = "CREATE JOB t.n AS SELECT count(*) AS n FROM log GROUP BY TUMBLE({}, INTERVAL '10' SECOND)"


def stage(since_us: int | None = None, until_us: int | None = None, column: str = "ts") -> Stage:
    text = TEXT.format(column)
    job = ql.parse(text).job
    assert job is not None
    manifest = new_manifest(job, text, "me", created=0, incarnation="i1")
    return Stage(FIRST, replace(manifest, since_us=since_us, until_us=until_us), 1)


def test_a_job_takes_the_times_of_its_manifest() -> None:
    assert wanted_times([stage(5, 9)], "log") == WantedTimes("ts", 5, 9)
    assert wanted_times([stage(5)], "log") == WantedTimes("ts", 5)
    assert wanted_times([stage(until_us=9)], "log") == WantedTimes("ts", None, 9)
    assert wanted_times([stage(column="at.time")], "log") is None


def test_a_job_with_several_versions_takes_what_any_of_them_takes() -> None:
    assert wanted_times([stage(5, 9), stage(7, 12)], "log") == WantedTimes("ts", 5, 12)
    assert wanted_times([stage(), stage(7)], "log") is None
    assert wanted_times([stage(5), stage(7, 12)], "log") == WantedTimes("ts", 5)
    assert wanted_times([stage(5), stage(7, column="at")], "log") is None
