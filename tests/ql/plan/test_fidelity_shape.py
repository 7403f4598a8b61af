"""From a statement to its shape, and from the shares of inputs to the share of the result."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.ql.plan.fidelity_shape import FidelityShape
from elfmesh.ql.plan.relation import fidelity_shape

SHARES, WEIGHTS = (0.5, 0.8, 0.4), (10.0, 30.0, 60.0)
"""What is inside of the first, second and third input of a text, and their usual records."""

JOIN = "a JOIN b ON a.id = b.id"
UNION = "SELECT id FROM a UNION ALL SELECT id FROM b"
SELF = "a x JOIN a y ON x.id = y.id"


def shape_of(text: str) -> FidelityShape:
    statement = ql.parse(f"CREATE JOB shop.j EVERY '10 s' AS {text}")
    apart = {at for at, part in enumerate(statement.parts) if part.stream in statement.latest}
    return fidelity_shape(statement.relation, apart)


@pytest.mark.parametrize(
    ("text", "fidelity"),
    [
        ("SELECT count(*) n FROM a", 0.5),
        ("SELECT id, sum(v) s FROM a WHERE v > 1 GROUP BY id", 0.5),
        (f"SELECT count(*) n FROM {JOIN}", 0.5 * 0.8),
        ("SELECT count(*) n FROM a LEFT JOIN b ON a.id = b.id", 0.5 * 0.8),
        ("SELECT count(*) n FROM a RIGHT JOIN b ON a.id = b.id", 0.5 * 0.8),
        ("SELECT count(*) n FROM a FULL JOIN b ON a.id = b.id", 0.5 * 0.8),
        ("SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id", 0.5 * 0.8),
        ("SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id", 0.5 * 0.8),
        (f"SELECT count(*) n FROM {SELF}", 0.5 * 0.5),  # both sides read the same part
        ("SELECT count(*) n FROM a JOIN b ON a.id = b.id JOIN c ON a.id = c.id", 0.5 * 0.8 * 0.4),
        (UNION, (10 * 0.5 + 30 * 0.8) / 40),
        (f"{UNION} UNION ALL SELECT id FROM c", (10 * 0.5 + 30 * 0.8 + 60 * 0.4) / 100),
        (f"SELECT id, count(*) n FROM ({UNION}) u GROUP BY id", (10 * 0.5 + 30 * 0.8) / 40),
        (f"SELECT count(*) n FROM ({UNION}) u JOIN c ON u.id = c.id", (10 * 0.5 + 30 * 0.8) / 40 * 0.4),
        (
            "SELECT a.id FROM a JOIN b ON a.id = b.id UNION ALL SELECT id FROM c",
            (40 * 0.5 * 0.8 + 60 * 0.4) / 100,
        ),
        ("SELECT max(n) m FROM (SELECT id, count(*) n FROM a GROUP BY id) t", 0.5),
        ("SELECT id, v, rank() OVER (ORDER BY v) r FROM a", 0.5),
        ("SELECT id, v, sum(v) OVER (PARTITION BY id) s FROM a", 0.5),
        ("SELECT a.id FROM a WHERE a.id IN (SELECT b.id FROM b)", 0.5 * 0.8),
        ("SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)", 0.5 * 0.8),
        ("SELECT a.id, t.n FROM a JOIN LATEST shop.top t ON a.id = t.id", 0.5),
    ],
)
def test_the_fidelity_of_a_statement_is_that_of_the_formula(text: str, fidelity: float) -> None:
    assert shape_of(text).share(SHARES, WEIGHTS) == pytest.approx(fidelity)


def test_bounds_hold_whichever_records_belong_together() -> None:
    shape = shape_of(f"SELECT count(*) n FROM {JOIN}")
    assert shape.bounds(SHARES, WEIGHTS) == pytest.approx((0.5 + 0.8 - 1, 0.5))
    assert shape.bounds((0.2, 0.3, 1.0), WEIGHTS) == (0.0, 0.2)
    union = shape_of(UNION)
    assert union.bounds(SHARES, WEIGHTS) == pytest.approx((union.share(SHARES, WEIGHTS),) * 2)


def test_a_union_of_silent_inputs_is_weighted_by_heads() -> None:
    assert shape_of(UNION).share(SHARES, (0.0, 0.0, 0.0)) == pytest.approx(0.65)


def test_results_of_other_jobs_beside_are_judged_elsewhere() -> None:
    shape = shape_of("SELECT a.id, t.n FROM a JOIN LATEST shop.top t ON a.id = t.id")
    assert shape.inputs == (0,)
    assert {each.kind for each in shape.sources} == {"input", "whole"}
