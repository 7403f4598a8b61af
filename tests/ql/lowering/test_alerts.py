"""ALERT in the text of a job: what is read, and what is refused."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import compare, parse

SELECT = "SELECT host, count(*) AS n, avg(ms) AS m FROM access GROUP BY host"


def job(clause: str) -> str:
    return f"CREATE JOB web.errors EVERY '10 s' {clause} AS {SELECT}"


def test_an_alert_is_read() -> None:
    text = job(
        "ALERT hot WHEN n > 100 AND n >= 2 FOR 3 INTERVALS RESOLVE AFTER 5 INTERVALS LATENESS '1 s'"
        " ALERT odd WHEN substring(host, 1, 2) = 'FOR' FOR 1 INTERVAL ON PARTIAL EVALUATE"
    )
    found = parse(text).job
    assert found is not None
    hot, odd = found.alerts
    assert (hot.name, hot.condition, hot.lasting, hot.resolve, hot.partial) == (
        "hot", "n > 100 AND n >= 2", 3, 5, False,
    )  # fmt: skip
    assert (hot.compared, odd.compared) == (("n", "n"), None)
    assert (odd.condition, odd.lasting, odd.resolve, odd.partial) == (
        "substring(host, 1, 2) = 'FOR'",
        1,
        1,
        True,
    )
    assert found.lateness_us == 1_000_000


@pytest.mark.parametrize(
    ("clause", "reported"),
    [
        ("ALERT", "`AS` is not|is not the name|expected WHEN"),
        ("ALERT hot IF n > 1 FOR 1 INTERVALS", "expected WHEN"),
        ("ALERT hot WHEN FOR 1 INTERVALS", "needs a condition and FOR"),
        ("ALERT hot WHEN n > 1", "needs a condition and FOR"),
        ("ALERT hot WHEN n > 1 FOR 0 INTERVALS", "from 1 to 60"),
        ("ALERT hot WHEN n > 1 FOR 61 INTERVALS", "from 1 to 60"),
        ("ALERT hot WHEN n > 1 FOR 3 ROWS", "expected INTERVALS"),
        ("ALERT hot WHEN n > 1 FOR 3 INTERVALS RESOLVE AFTER soon", "RESOLVE AFTER takes"),
        ("ALERT hot WHEN n > FOR 1 INTERVALS", "the condition of hot"),
        ("ALERT hot WHEN n > 1) OR (n < 0 FOR 1 INTERVALS", "needs a condition and FOR|the condition of hot"),
        ("ALERT hot WHEN n > 1 GROUP BY n FOR 1 INTERVALS", "the condition of hot"),
        ("ALERT hot WHEN sum(n) > 1 FOR 1 INTERVALS", "the condition of hot"),
        ("ALERT hot WHEN status > 1 FOR 1 INTERVALS", "hot reads status, no column of the result"),
        ("ALERT hot WHEN n > 1 FOR 1 INTERVALS ALERT hot WHEN n > 2 FOR 1 INTERVALS", "is duplicated"),
    ],
)
def test_a_wrong_alert_is_refused(clause: str, reported: str) -> None:
    with pytest.raises(QueryError, match=reported) as error:
        parse(job(clause))
    assert error.value.line == 1


def test_a_topic_has_no_alert() -> None:
    with pytest.raises(QueryError, match="no ALERT"):
        parse("CREATE TOPIC web.t DELIVERY SEQUENCED ALERT hot WHEN n > 1 FOR 1 INTERVALS")


def test_another_alert_keeps_the_state() -> None:
    found = compare(job(""), job("ALERT hot WHEN n > 1 FOR 1 INTERVALS"))
    assert (found.state, found.same_records) == ("keep", True)
