"""Errors about INTERVAL, TRUE, FALSE and NULL are at the keyword, also behind WITH."""

from __future__ import annotations

from tests.ql.refusals import refusing

ASOF = "takes equations and one comparison"

test_an_error_is_at_the_keyword = refusing(
    ("SELECT s.a FROM s ASOF JOIN t ON true", 1, 34, ASOF, "a.ts >= b.ts"),
    ("SELECT s.a FROM s ASOF JOIN t ON s.k = t.k AND s.ts >= t.ts AND FALSE", 1, 65, ASOF, ""),
    ("WITH q AS (SELECT a FROM s WHERE true) SELECT s.a FROM q s ASOF JOIN t ON true", 1, 75, ASOF, ""),
    ("SELECT true AS a, s.a AS b FROM s ASOF JOIN t ON true WHERE true", 1, 50, ASOF, ""),
    ("SELECT first(a, null) AS x FROM s", 1, 17, "whether to ignore nulls", "first"),
    (
        "WITH q AS (SELECT ts + INTERVAL '1' SECOND AS t FROM s) SELECT t + INTERVAL '1' FROM q",
        1, 68, "INTERVAL '1' is not a duration", "SECOND",
    ),
)  # fmt: skip
