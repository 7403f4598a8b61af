"""The select list: the columns of `*`, without those of EXCEPT, and their names."""

from __future__ import annotations

import pytest

from tests.ql.conftest import run
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT * EXCEPT (c) FROM (SELECT a, b FROM s) q", 1, 8, "no column of this name", "There are a, b"),
    ("SELECT * EXCEPT (a, A) FROM (SELECT a, b FROM s) q", 1, 8, "twice", ""),
    ("SELECT * EXCEPT (a, b) FROM (SELECT a, b FROM s) q", 1, 8, "leaves no column", ""),
    ("SELECT * AS x FROM s", 1, 8, "cannot have a name", "* alone"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("* EXCEPT (b)", ["a", "c"]),
        ("s.* EXCEPT (a, C)", ["b"]),
        ("* EXCEPT (s.a)", ["b", "c"]),
        ("a + 1 AS d, * EXCEPT (a)", ["d", "b", "c"]),
        ("* EXCEPT (`a`), a", ["b", "c", "a"]),
    ],
)
@pytest.mark.parametrize("source", ["s", "(SELECT a, b, c FROM s) AS s"])
def test_except_leaves_columns_out(items: str, names: list[str], source: str) -> None:
    (table,) = run(f"SELECT {items} FROM {source}", {"a": [1], "b": [2], "c": [3]}).values()
    assert table.column_names == names
