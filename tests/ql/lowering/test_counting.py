"""GROUP BY ROWS(n[, step]): the part that agents send, and the refusals with their places."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import FieldRef
from elfmesh.ql.plan.relation import TIME, WINDOW, Counted, Derived
from elfmesh.ql.plan.render import text_of

JOB = "CREATE JOB a.b EVERY '1 s' AS "


def test_agents_send_the_group_the_time_and_the_fields_in_use() -> None:
    text = (
        "SELECT lower(k) AS key, max(v) AS most FROM s WHERE z > 1 GROUP BY ROWS(3, 2), key HAVING min(w) > 0"
    )
    statement = ql.parse(JOB + text)
    (part,) = statement.parts
    assert [text_of(key) for key in part.plan.keys] == ["lower(k)", "event time(ts)", "k", "v", "w", "0"]
    assert part.fields == ("k", "ts", "v", "w", "z")
    assert [table.name for table in statement.tables] == ["main@0"]
    assert isinstance(statement.relation, Derived)
    assert isinstance(statement.relation.source, Counted)
    assert statement.relation.source.columns == ("k", "v", "w", TIME, WINDOW)
    assert (statement.relation.source.rows, statement.relation.source.step) == (3, 2)


def test_the_window_has_the_width_of_every() -> None:
    window = ql.parse(JOB + "SELECT count(*) AS n FROM s GROUP BY ROWS(5)").window
    assert window is not None
    assert (window.kind, window.size_us, window.rows, window.step) == ("rows", 1_000_000, 5, 5)
    assert window.spans_intervals


def test_an_alias_of_a_key_is_no_field() -> None:
    statement = ql.parse("SELECT k + 1 AS d, count(*) AS n FROM s GROUP BY ROWS(2), d")
    assert "d" not in statement.fields
    assert FieldRef("d", True) not in statement.parts[0].plan.keys


REFUSED = {
    "CREATE JOB a.b AS SELECT count(*) AS n FROM s GROUP BY ROWS(3)": (1, 56, "ROWS needs EVERY"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS()": (1, 38, "ROWS takes one or two numbers, not 0"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(1, 2, 3)": (1, 38, "ROWS takes one or two numbers, not 3"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(0)": (1, 43, "numbers from 1 to 1000000, not 0"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(2, -1)": (1, 47, "numbers from 1 to 1000000, not -1"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(n)": (1, 43, "numbers of records, which are constants"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(1.5)": (1, 43, "numbers of records, which are constants"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(3), TUMBLE(ts, '1 s')": (1, 47, "a statement has one window"),
    "SELECT count(*) AS n FROM s JOIN t ON s.a = t.a GROUP BY ROWS(3)": (1, 1, "one stream alone"),
    "SELECT count(*) AS n FROM s JOIN lookup.t ON s.a = t.a GROUP BY ROWS(3)": (1, 1, "one stream alone"),
    "SELECT n FROM (SELECT count(*) AS n FROM s GROUP BY ROWS(3)) x": (1, 1, "one stream alone"),
    "SELECT count(*) AS n FROM s GROUP BY ROWS(3) UNION ALL SELECT 1 AS n FROM s": (1, 8, "one stream alone"),
    "SELECT sum(count(*)) OVER () AS n FROM s GROUP BY ROWS(3)": (1, 1, "one stream alone"),
    "SELECT ROWS(3) AS w FROM s": (1, 8, "this window is not in GROUP BY"),
    "SELECT * FROM s GROUP BY ROWS(3)": (1, 8, "* cannot be grouped"),
    "SELECT v FROM s GROUP BY ROWS(3), k": (1, 8, "v must be in GROUP BY or in an aggregate"),
    "CREATE JOB a.b EVERY '1 s' EARLY '1 s' AS SELECT count(*) AS n FROM s GROUP BY ROWS(3)": (
        1, 43, "EARLY",
    ),
    "CREATE JOB a.b EVERY '1 s' STANDBY ALL AS SELECT count(*) AS n FROM s GROUP BY ROWS(3)": (
        1, 28, "STANDBY",
    ),
    "CREATE JOB a.b EVERY '1 s' KEEP PARTIALS AS SELECT count(*) AS n FROM s GROUP BY ROWS(3)": (
        1, 1, "KEEP PARTIALS is for a SELECT",
    ),
    "CREATE JOB a.b EVERY '1 s' AS SELECT count(*) AS n FROM s HISTORY '1 h' GROUP BY ROWS(3)": (
        1, 59, "HISTORY and UNTIL are for windows of a fixed size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(text: str) -> None:
    line, column, message = REFUSED[text]
    with pytest.raises(QueryError) as caught:
        ql.parse(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["SELECT rows FROM s", "SELECT max(rows) AS rows FROM s GROUP BY ROWS(2)"])
def test_rows_is_still_a_name(text: str) -> None:
    assert "rows" in ql.parse(text).fields
