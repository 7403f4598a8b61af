"""STANDBY with its budget, its label and its LAG."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from elfmesh.ql.expressions.standby_budget import StandbyBudget
from tests.ql.refusals import refusing

STREAM = "SELECT k, count(*) AS n FROM s GROUP BY k"

test_a_wrong_standby_is_refused_where_it_is_wrong = refusing(
    (f"CREATE JOB j EVERY '5 s' STANDBY AS {STREAM}", 1, 34, "fidelity, not `AS`", "STANDBY '25 %'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY 0 AS {STREAM}", 1, 34, "fidelity, not `0`", "STANDBY 12"),
    (f"CREATE JOB j EVERY '5 s' STANDBY -3 AS {STREAM}", 1, 34, "fidelity, not `-`", "STANDBY 12"),
    (f"CREATE JOB j EVERY '5 s' STANDBY '0 %' AS {STREAM}", 1, 34, "above 0 %", "STANDBY '25 %'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY '101 %' AS {STREAM}", 1, 34, "up to 100 %", "STANDBY '25 %'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY '25' AS {STREAM}", 1, 34, "", ""),
    (f"CREATE JOB j EVERY '5 s' STANDBY '2 MB' AS {STREAM}", 1, 34, "bytes per second", "'2 MB/s'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY '0 KB/s' AS {STREAM}", 1, 34, "at least 1 B/s", "'2 MB/s'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY '2/s' AS {STREAM}", 1, 34, "bytes per second, or", "'2 MB/s'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY KEEPS AS {STREAM}", 1, 34, "above 0 and up to 1", "KEEPS 0.95"),
    (f"CREATE JOB j EVERY '5 s' STANDBY KEEPS 0 AS {STREAM}", 1, 34, "above 0 and up to 1", "KEEPS 0.95"),
    (f"CREATE JOB j EVERY '5 s' STANDBY KEEPS 1.5 AS {STREAM}", 1, 34, "up to 1", "KEEPS 0.95"),
    (f"CREATE JOB j EVERY '5 s' STANDBY 3 ACROSS floor AS {STREAM}", 1, 43, "region or rack", "labels.rack"),
    (f"CREATE JOB j EVERY '5 s' LAG '1 s' AS {STREAM}", 1, 36, "LAG is an option of STANDBY", "LAG '1 s'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY ALL LAG '99 ms' AS {STREAM}", 1, 42, "at least 100 ms", "LAG '1 s'"),
    (f"CREATE JOB j EVERY '5 s' STANDBY ALL LAG '1' AS {STREAM}", 1, 42, "is not a duration", ""),
    (f"CREATE JOB j EVERY '5 s' STANDBY ALL STANDBY ALL AS {STREAM}", 1, 38, "given twice", "Remove"),
    (
        "CREATE JOB j STANDBY ALL AS SELECT k, count(*) n FROM s GROUP BY k, SESSION(ts, INTERVAL 1 DAY)",
        1, 14, "windows of a fixed size, not SESSION", "TUMBLE or HOP",
    ),
    ("CREATE JOB j EVERY '5 s' STANDBY ALL AS SELECT n FROM a.b", 1, 26, "no open windows", "is read"),
    ("CREATE TOPIC t DELIVERY UNORDERED STANDBY ALL", 1, 46, "a topic has no STANDBY", "Leave it out"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "lag_us", "replicas"),
    [
        ("STANDBY ALL", 1_000_000, 1),
        ("STANDBY ALL LAG '100 ms' REPLICAS 2", 100_000, 2),
        ("STANDBY ALL REPLICAS 0", 1_000_000, 0),
        ("", None, 0),
    ],
)
def test_standby_has_a_lag_and_implies_a_replica(options: str, lag_us: int | None, replicas: int) -> None:
    job = parse(f"CREATE JOB j EVERY '5 s' {options} AS {STREAM}").job
    assert job is not None
    assert (job.standby_us, job.replicas) == (lag_us, replicas)


@pytest.mark.parametrize(
    ("options", "budget", "shown", "across"),
    [
        ("STANDBY ALL", StandbyBudget("all"), "ALL", "rack"),
        ("STANDBY 12 ACROSS region", StandbyBudget("members", 12), "12", "region"),
        ("STANDBY '25 %'", StandbyBudget("share", 0.25), "'25 %'", "rack"),
        ("STANDBY '2 MB/s'", StandbyBudget("rate", 2e6), "'2 MB/s'", "rack"),
        ("STANDBY '1.5kib / s' ACROSS region", StandbyBudget("rate", 1536), "'1536 B/s'", "region"),
        ("STANDBY KEEPS 0.95 ACROSS rack", StandbyBudget("keeps", 0.95), "KEEPS 0.95", "rack"),
        ("PATHS 1 ACROSS region STANDBY keeps 1", StandbyBudget("keeps", 1), "KEEPS 1", "rack"),
    ],
)
def test_a_budget_of_standbys(options: str, budget: StandbyBudget, shown: str, across: str) -> None:
    job = parse(f"CREATE JOB j EVERY '5 s' {options} LAG '2 s' AS {STREAM}").job
    assert job is not None
    assert (job.standbys, str(job.standbys), job.standby_across) == (budget, shown, across)
    assert (job.standby_us, job.replicas) == (2_000_000, 1)


@pytest.mark.parametrize(
    ("options", "replicas", "across"),
    [
        ("REPLICAS 2", 2, ("", "rack")),
        ("REPLICAS 2 ACROSS region", 2, ("region", "rack")),
        ("STANDBY ALL ACROSS region REPLICAS 1 ACROSS rack", 1, ("rack", "region")),
        ("STANDBY ALL ACROSS region", 1, ("", "region")),
    ],
)
def test_copies_and_standbys_have_a_failure_domain_each(
    options: str, replicas: int, across: tuple[str, str]
) -> None:
    job = parse(f"CREATE JOB j EVERY '5 s' {options} AS {STREAM}").job
    assert job is not None
    assert (job.replicas, (job.replicas_across, job.standby_across)) == (replicas, across)
