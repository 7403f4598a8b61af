"""Tokens before the parser: strings are joined, signs marked, literals checked."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.hostile.cost import calls
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT (a FROM s", 1, 8, "has no matching `)`", "Add a `)`"),
    ("SELECT a) FROM s", 1, 9, "has no matching `(`", "("),
    ("SELECT 128Y FROM s", 1, 8, "128Y does not fit into a TINYINT", "Write a wider one: 128L."),
    ("SELECT -129Y FROM s", 1, 9, "-129Y does not fit into a TINYINT", "129L"),
    ("SELECT a -128Y FROM s", 1, 11, "128Y does not fit into a TINYINT", "128L"),
    ("SELECT 32768S FROM s", 1, 8, "32768S does not fit into a SMALLINT", "32768L"),
    ("SELECT 9223372036854775808L FROM s", 1, 8, "into a BIGINT", "Write a decimal"),
    ("SELECT 0x1F FROM s", 1, 8, "0x1F is not a number", "Write 31, or X'1F' for bytes."),
    ("SELECT (a, (b) FROM s", 1, 8, "this `(` has no matching `)`", "Add a `)`"),
    ("SELECT " + "(" * 2_001 + "1", 1, 2_008, "more than 2000 parentheses are open", "Reduce the nesting"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("'it''s'", ("it's",)),
        ("'a' 'b'", ("ab",)),
        ("'a'\"b\"", ("ab",)),
        ("r'a\\b' 'c'", ("a\\bc",)),
        ("+a, a + +b, (+1), -a", ("positive(a)", "(a + positive(b))", "positive(1)", "(- a)")),
        ("-128Y", ("CAST(-128 AS TINYINT)",)),
        ("127Y", ("CAST(127 AS TINYINT)",)),
        ("-9223372036854775808L", ("CAST(-9223372036854775808 AS BIGINT)",)),
        ("trim(BOTH 'x' FROM a), position('x' IN a)", ("btrim(a, x)", "locate(x, a)")),
    ],
)  # fmt: skip
def test_a_text_is_read(text: str, columns: tuple[str, ...]) -> None:
    assert parse(f"SELECT {text} FROM s").columns == columns


def test_the_refusal_of_a_deep_text_reads_no_token_of_it() -> None:
    def refused() -> None:
        with pytest.raises(QueryError):
            parse("SELECT " + "(" * 200_000 + "1")

    assert calls(refused) < 100_000


def test_many_parentheses_beside_each_other_are_no_nesting() -> None:
    assert parse("SELECT a FROM s WHERE b IN (" + ", ".join(["(1)"] * 2_100) + ")").columns == ("a",)
