"""The inputs of a query: their labels, LATEST and SAME, HISTORY and UNTIL."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("FROM s ON (role = 'web', zone = 'a')", (("role", "web"), ("zone", "a"))),
        ("FROM s ON (role = 'web' AND role = 'web') WHERE a = 1", (("role", "web"),)),
        ("FROM s AS x ON (role = 'web') GROUP BY a", (("role", "web"),)),
        ("FROM s WHERE extract(year FROM ts) = 1 AND a IS DISTINCT FROM b", ()),
    ],
)
def test_labels_of_a_stream(text: str, labels: tuple[tuple[str, str], ...]) -> None:
    statement = parse(f"SELECT a {text}")
    assert (statement.stream, statement.labels) == ("s", labels)


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("FROM s JOIN LATEST n.j AS j ON s.a = j.a", ["latest n/j", "s"]),
        ("FROM s JOIN n.j AS j ON s.a = j.a", ["n/j", "s"]),
        ("FROM s JOIN latest AS j ON s.a = j.a", ["latest", "s"]),  # a stream of that name
    ],
)
def test_latest_and_same_belong_to_a_job(text: str, streams: list[str]) -> None:
    assert sorted(part.stream for part in parse(f"SELECT s.a {text}").parts) == streams


@pytest.mark.parametrize(
    ("clauses", "history_us", "until_us"),
    [
        ("HISTORY '1 h'", 3_600_000_000, None),
        ("AS x ON (role = 'web') HISTORY '1 min' UNTIL HISTORY WHERE x.a = 1", 60_000_000, 0),
        ("x HISTORY 5 min UNTIL INTERVAL 10 SECONDS", 300_000_000, 10_000_000),
        ("UNTIL '1 s'", None, 1_000_000),
        ("HISTORY '0 s'", 0, None),
        ("HISTORY TIMESTAMP '1970-01-01' UNTIL HISTORY", 0, 0),
        (
            "HISTORY TIMESTAMP '1970-01-01T01:00:01+01:00' UNTIL TIMESTAMP '1970-01-02'",
            1_000_000,
            86_400_000_000,
        ),
        ("UNTIL TIMESTAMP '1970-01-01 00:00:02'", None, 2_000_000),
        ("history", None, None),
        ("until WHERE until.history = 1", None, None),
        ("HISTORY '1 h', t HISTORY '1 h'", 3_600_000_000, None),
    ],
)
def test_history_and_until_of_a_job(clauses: str, history_us: int | None, until_us: int | None) -> None:
    job = parse(f"CREATE JOB j EVERY '5 s' AS SELECT count(*) AS n FROM s {clauses}").job
    assert job is not None
    assert (job.history_us, job.until_us) == (history_us, until_us)
    assert job.dated is ("TIMESTAMP" in clauses)
