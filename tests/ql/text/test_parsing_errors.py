"""What the SQL parser says, in our words and at the token that is wrong."""

from __future__ import annotations

from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT 'abc FROM s", 1, 8, "quote is not terminated", "Close it"),
    ("SELECT a /* b\nFROM s", 1, 10, "comment is not terminated", "*/"),
    ("SELECT `a FROM s", 1, 8, "quote is not terminated", "`"),
    ("SELECT a FROM s WHERE b >\nGROUP BY a", 2, 1, "", ""),
    ("SELECT s.a FROM s JOIN SAME b x ON s.a = x.a", 1, 31, "read at `x`", "JOIN SAME namespace.job"),
    (
        "SELECT s.a FROM s JOIN LATEST b/c x ON s.a = x.a",
        1, 32, "read at `/`", "JOIN LATEST namespace.job",
    ),
    ("SELECT a b c FROM s", 1, 12, "cannot be read at `c`", "comma"),
    ("SELECT a\n  FROM s\n WHERE upper(a) = = 'x'", 3, 17, "`==` has no blank in it", "x = y"),
    ("SELECT case FROM s", 1, 8, "cannot be read at `case`", "is written `case`"),
    (
        "SELECT count(*) AS n FROM s WHERE a > 1 AND having = 2",
        1, 45, "before `having`", "write `having`",
    ),
    ("SELECT a FROM s ORDER BY a ASC NULLS", 1, 0, "", ""),
    ("SELECT CAST(a AS FOO) FROM s", 1, 18, "ELF-QL has no type FOO", "There are BIGINT"),
    ("SELECT CAST(a) FROM s", 1, 14, "CAST takes a value and a type", "CAST(x AS BIGINT)"),
    ("SELECT a FROM s WERE a = 1", 1, 17, "cannot be read at `WERE`", "Did you mean WHERE?"),
    ("SELECT a FROM s WHERE a = 1 GROUP a", 1, 29, "GROUP needs BY", "GROUP BY a, b"),
    ("SELECT CASE WHEN a THEN 1 FROM s", 1, 8, "this CASE has no END", "CASE WHEN condition"),
    ("SELECT CASE WHEN a THEN CASE WHEN b THEN 1 END FROM s", 1, 8, "this CASE has no END", ""),
    ("SELECT CASE THEN 1 END FROM s", 1, 8, "CASE lacks WHEN or THEN here", "CASE WHEN condition"),
    (
        "SELECT a FROM s WHERE a BETWEEN 1",
        1, 33, "something is missing after `1`", "The text ends too early.",
    ),
    ("SELECT x'ZZ' FROM s", 1, 1, "the text cannot be tokenized", "stray quote"),
    ("SELECT a -- it's\n, 'b FROM s", 2, 3, "quote is not terminated", "Close it with '."),
    ("SELECT a /* b /* c */ FROM s", 1, 10, "comment is not terminated", "*/"),
)  # fmt: skip
