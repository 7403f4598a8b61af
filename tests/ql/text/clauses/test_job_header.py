"""CREATE JOB with its options."""

from __future__ import annotations

from elfmesh.ql import parse


def test_all_options_of_a_job() -> None:
    job = parse(
        "CREATE JOB n.j EVERY '5 s' LATENESS 2 MINUTES DEADLINE INTERVAL '1 m' ON STRAGGLER WAIT "
        "PARTITIONS 4 REPLICAS 2 HORIZON 1.5 DAYS KEEP PARTIALS AS SELECT count(*) FROM s"
    ).job
    assert job is not None
    assert (job.namespace, job.name, job.on_straggler, job.partials) == ("n", "j", "wait", True)
    assert (job.partitions, job.replicas) == (4, 2)
    seconds = [job.every_us, job.lateness_us, job.deadline_us, job.horizon_us]
    assert [(each or 0) // 1_000_000 for each in seconds] == [5, 120, 60, 129_600]


def test_a_job_without_options_has_the_defaults() -> None:
    job = parse("CREATE JOB j AS SELECT count(*) FROM s GROUP BY TUMBLE(ts, '5 s')").job
    assert job is not None
    assert (job.namespace, job.name, job.every_us, job.lateness_us) == ("default", "j", None, 0)
    assert (job.on_straggler, job.partitions, job.replicas, job.horizon_us) == ("correct", 1, 0, None)
    assert not job.partials
