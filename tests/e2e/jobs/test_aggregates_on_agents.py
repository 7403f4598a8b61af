"""Every kind of aggregate and of value, over real agents: the rows that one process gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet
from tests.e2e.live import PATIENT, oracle
from tests.e2e.test_agents import append, close, complete, records, without_closing

JOB = f"""CREATE JOB e2e.spread {PATIENT} AS SELECT k AS k,
       stddev(v) AS sd, var_pop(x) AS vp, first(v) AS f, last(x) AS l, max_by(k, x) AS best, median(v) AS m,
       percentile(x, array(0.1, 0.9)) AS p, sum(DISTINCT v) AS sv, approx_count_distinct(v) AS ac,
       approx_top_k(k, 2) AS top, array_agg(v, 5) AS vs, string_agg(k, ',', 3) AS ks, every(v > -900) AS low,
       theta_sketch_agg(v) AS th, sum(CAST(x AS DECIMAL(12, 4))) AS d, avg(CAST(x AS DECIMAL(12, 4))) AS a,
       count_if(v > 0) AS n
FROM log GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND), k ORDER BY k"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def test_all_aggregates_over_agents_give_what_one_process_gives(fleet: Fleet) -> None:
    fleet.start(3, options=",format=json,idle=1 h")
    fleet.apply(JOB, 1)
    lines = records(1500, 40)
    for number in range(3):
        append(fleet.log(number), lines[number::3])
    close(fleet, 900)
    expected = without_closing(oracle([fleet.log(number) for number in range(3)], JOB))
    assert len(expected) >= 10
    results = complete(fleet, "e2e/spread", expected, number=2)
    for index, result in expected.items():
        assert results[index]["rows"] == result["rows"]
        assert results[index]["completeness"] == 1.0
