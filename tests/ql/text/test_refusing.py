"""What other SQL has and ELF-QL lacks is refused by its own name, at its place, with what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.expressions.refusals import FOREIGN_TYPES, UNKNOWN_NODES

# (text, line, column, part of the message, part of the hint)
FOREIGN = [
    # functions, as they are written
    ("SELECT to_csv(a) FROM s", 1, 8, "ELF-QL has no function to_csv", "split(text, ',')"),
    ("SELECT a,\n  IsoWeek(b) FROM s", 2, 3, "ELF-QL has no function IsoWeek", "weekofyear(ts)"),
    ("SELECT list_filter(a, x -> x > 1) FROM s", 1, 8, "no function list_filter", "filter(x, e -> e > 1)"),
    ("SELECT a, x -> 1 FROM s", 1, 11, "`->` stands behind the parameters", "transform(x, e -> e + 1)"),
    ("SELECT struct_pack(a := 1) FROM s", 1, 8, "ELF-QL has no function struct_pack", "named_struct('a', x"),
    ("SELECT udaf(a) FROM s", 1, 8, "ELF-QL has no function udaf", "WITH FUNCTION"),
    ("SELECT kll_sketch_agg_bigint(a) FROM s", 1, 8, "no function kll_sketch_agg_bigint", "agg_double(x)"),
    ("SELECT current_user() FROM s", 1, 8, "ELF-QL has no function current_user", "write the value"),
    ("SELECT real(a) FROM s", 1, 8, "ELF-QL has no function real", "double(x)"),
    ("SELECT frobnicate(a) FROM s", 1, 8, "unknown function frobnicate", "The page on ELF-QL"),
    ("SELECT vol(a) FROM s", 1, 8, "unknown function vol", "The page on ELF-QL"),
    # what Spark reads, and what cannot be read
    ("SELECT a /* b /* c */ FROM s", 1, 10, "comment is not terminated", "*/"),
    ("SELECT a /* b /* c */ */ FROM s WHERE a = 'x", 1, 43, "quote is not terminated", "'"),
    ("SELECT a >>> 2 FROM s", 1, 10, "no `>>>`", "shiftrightunsigned(x, n)"),
    ("SELECT a >> > 2 FROM s", 1, 10, "no `>>>`", "shiftrightunsigned(x, n)"),
    ("SELECT a > > 2 FROM s", 1, 10, "`>>` has no blank in it", "x >> n"),
    ("SELECT a >/* b */> (2) FROM s", 1, 10, "`>>` has no blank in it", "x > y"),
    ("SELECT a < < 2 FROM s", 1, 10, "`<<` has no blank in it", "x << n"),
    ("SELECT a > = 2 FROM s", 1, 10, "`>=` has no blank in it", "x >= y"),
    ("SELECT a < = 2 FROM s", 1, 10, "`<=` has no blank in it", "x <= y"),
    ("SELECT a < > 2 FROM s", 1, 10, "`<>` has no blank in it", "x <> y"),
    ("SELECT a < => 2 FROM s", 1, 10, "`<=>` has no blank in it", "x <=> y"),
    ("SELECT a <= > 2 FROM s", 1, 10, "`<=>` has no blank in it", "x <=> y"),
    ("SELECT a < = > 2 FROM s", 1, 10, "`<=>` has no blank in it", "x <=> y"),
    ("SELECT a ! = 2 FROM s", 1, 10, "`!=` has no blank in it", "x != y"),
    ("SELECT a = = 2 FROM s", 1, 10, "`==` has no blank in it", "x = y"),
    ("SELECT a | | b FROM s", 1, 10, "`||` has no blank in it", "x || y"),
    ("SELECT a : : BIGINT FROM s", 1, 10, "`::` has no blank in it", "x::BIGINT"),
    ("SELECT a !> 2 FROM s", 1, 10, "no `!>`", "x <= y"),
    ("SELECT CAST(a AS ARRAY<ARRAY<INT> >) FROM s", 1, 18, "no type ARRAY", "from_json(text"),
    ("SELECT * FROM s, LATERAL explode(s.l) q", 1, 18, "LATERAL only after JOIN", "JOIN LATERAL explode(x)"),
    ("SELECT * FROM posexplode(l)", 1, 15, "no posexplode(...) in FROM", "LATERAL VIEW posexplode(x)"),
    ("WITH t() AS (SELECT a FROM s) SELECT * FROM t", 1, 6, "columns of t must be names", "WITH t(a, b)"),
    ("WITH t(x) AS (VALUES (1)) SELECT x FROM t", 1, 15, "ELF-QL has no VALUES", "into a file"),
    ("SELECT * FROM json_tuple('{}', 'a')", 1, 15, "no json_tuple(...) in FROM", "get_json_object(text"),
    ("SELECT * FROM s JOIN explode(l)", 1, 22, "FROM and JOIN take the name", "LATERAL VIEW explode(x)"),
    ("SELECT a FROM s JOIN (SELECT a FROM t) ON s.b = a", 1, 49, "several inputs", "AS q, and write q.a"),
    ("SELECT a FROM (s JOIN t ON s.a = t.a)", 1, 16, "a join or a name in parentheses", "AS t."),
    ("SELECT a FROM s WHERE a IN (SELECT * FROM (SELECT b, c FROM t) q)", 1, 36, "2 columns, but", "as many"),
    ("SELECT a, t.* FROM (SELECT a FROM s) t", 1, 13, "two columns are called a", "In place of `*` name"),
    ("SELECT q.*, A FROM (SELECT a FROM s) q", 1, 13, "two columns are called a", "a AS other_name"),
    ("SELECT grouping__id FROM s GROUP BY CUBE(a)", 1, 8, "must be in GROUP BY", "grouping_id()"),
    ("SELECT corr(DISTINCT a, b) FROM s", 1, 8, "corr(DISTINCT) is not supported", "SELECT DISTINCT k, x"),
    ("SELECT a + FROM s", 1, 12, "something is missing before `FROM`", "a value"),
    ("SELECT a FROM s WHERE (a > )", 1, 28, "something is missing before `)`", "a value"),
    ("SELECT a FROM s WHERE a >", 1, 25, "something is missing after `>`", "ends too early"),
    ("SELECT \"f\"(a) FROM s", 1, 8, "no name of a function", "without quotes"),
    ("SELECT * FROM s JOIN f(1) AS f(x) ON s.a = f.x", 1, 22, "no f(...) in JOIN", "the name of a stream"),
    ("SELECT a FROM IDENTIFIER('s')", 1, 15, "no IDENTIFIER(...)", "Write the name itself"),
    ("SELECT dateadd(a.b, 5, a) FROM s", 1, 8, "dateadd does not take 3", "dateadd(date"),
    ("SELECT a IS NOT NULL = true FROM s", 1, 22, "an operator follows IS", "(a IS NULL) = b"),
    ("SELECT a IS NULL :: string FROM s", 1, 18, "an operator follows IS", "(a IS NULL) = b"),
    ("SELECT a IN (1) = true FROM s", 1, 8, "an operator follows a condition", "(a IS NULL) = b"),
    ("SELECT a LIKE 'x' LIKE 'y' FROM s", 1, 8, "an operator follows a condition", "in brackets"),
    ("SELECT a FROM s WHERE b BETWEEN 1 AND 2 IS NULL", 1, 23, "an operator follows", "in brackets"),
    ("SELECT all, a FROM s", 1, 8, "ALL before a comma selects nothing", "is written `all`"),
    # types
    ("SELECT TIME '10:00' FROM s", 1, 8, "ELF-QL has no type TIME", "hour(ts) and minute(ts)"),
    ("SELECT CAST(CAST(a AS INT) AS VARIANT) FROM s", 1, 31, "ELF-QL has no type VARIANT", "from_json(text"),
    ("SELECT timestamp_ntz'2020-01-01' FROM s", 1, 8, "ELF-QL has no type TIMESTAMP_NTZ", "write TIMESTAMP"),
    ("SELECT a::float8 FROM s", 1, 11, "ELF-QL has no type FLOAT8", "Write DOUBLE"),
    ("SELECT CAST(a AS INTERVAL DAY) FROM s", 1, 18, "ELF-QL has no type INTERVAL", "end - start"),
    ("SELECT TRY_CAST(a AS GEOMETRY) FROM s", 1, 22, "ELF-QL has no type GEOMETRY", "longitude"),
    # statements
    ("INSERT INTO t SELECT a FROM s", 1, 1, "ELF-QL has no statement INSERT", "CREATE JOB name AS SELECT"),
    ("EXPLAIN EXTENDED SELECT a FROM s", 1, 1, "ELF-QL has no statement EXPLAIN", "elf explain"),
    ("describe s", 1, 1, "ELF-QL has no statement DESCRIBE", "elf describe stream NAME"),
    ("SET x = 1", 1, 1, "ELF-QL has no statement SET", "elf schema"),
    ("SHOW TABLES", 1, 1, "ELF-QL has no statement SHOW", "elf get jobs"),
    ("DROP TABLE t", 1, 1, "ELF-QL has no statement DROP", "elf delete NAME"),
    ("VALUES (1), (2)", 1, 1, "ELF-QL has no statement VALUES", "rows.json"),
    ("FROM s SELECT a", 1, 1, "ELF-QL has no statement FROM", "SELECT comes first"),
    ("CREATE TEMPORARY VIEW v AS SELECT a FROM s", 1, 8, "topics can be created", "WITH name AS (SELECT"),
    # what stands behind FROM
    ("SELECT * FROM VALUES (1), (2) AS t(a)", 1, 15, "ELF-QL has no VALUES", "t.json"),
    ("SELECT * FROM range(10)", 1, 15, "ELF-QL has no range(...) in FROM", "reads records"),
    ("SELECT * FROM explode(a) t", 1, 15, "ELF-QL has no explode(...) in FROM", "LATERAL VIEW explode(x)"),
    ("SELECT s.a FROM s JOIN u ON TRUE, v FULL JOIN x ON 1 = 1", 1, 37, "no FULL JOIN after a", "CROSS"),
    ("SELECT a FROM s |> WHERE a > 1", 1, 17, "ELF-QL has no `|>`", "subqueries"),
    ("SELECT a FROM s PIVOT (max(b) FOR c IN (1))", 1, 17, "ELF-QL has no PIVOT", "FILTER (WHERE"),
    ("SELECT a FROM s TABLESAMPLE (10 ROWS)", 1, 17, "ELF-QL has no TABLESAMPLE", "hash(x) % 10"),
    # forms
    ("SELECT (a, b) FROM s", 1, 9, "a row of values in parentheses is not a value", "a = 1 AND b = 2"),
    ("SELECT a COLLATE UNICODE FROM s", 1, 8, "ELF-QL has no COLLATE", "lower(x)"),
    ("SELECT a FROM s WHERE b > ANY (SELECT c FROM t)", 1, 0, "ELF-QL has no ANY (SELECT ...)", "IN (SELECT"),
    ("SELECT a FROM s WHERE b LIKE ALL ()", 1, 23, "LIKE takes patterns, at least one", "LIKE ANY ('a%'"),
    ("SELECT sum(a) OVER w AS n FROM s", 1, 0, "no window has the name after OVER", "WINDOW w AS"),
    ("SELECT\n interval 2 month * 2 AS n FROM s", 2, 2, "an INTERVAL of MONTH has no fixed length", "SECOND"),
    ("SELECT ts + INTERVAL '1-12' YEAR TO MONTH FROM s", 1, 13, "no length from YEAR TO MONTH", "'1-2' YEAR"),
    ("SELECT INTERVAL '1 24:00' DAY TO MINUTE FROM s", 1, 8, "no length from DAY TO MINUTE", "DAY TO SECOND"),
    ("SELECT INTERVAL '1' SECOND TO DAY FROM s", 1, 8, "no length from SECOND TO DAY", "DAY TO SECOND"),
    ("SELECT a FROM s WHERE a > 1 FROM t", 1, 29, "cannot be read at `FROM`", "WHERE, GROUP BY"),
    ("SELECT x.b FROM (SELECT a FROM s) x JOIN (SELECT b FROM s) y ON TRUE", 1, 10, "no column b", "y.b."),
    ("SELECT a + b FROM s GROUP BY CUBE(c)", 1, 8, "must be in GROUP BY or in an aggregate", "max(a)."),
    # phrases
    ("SELECT truncate(a, 2) FROM s", 1, 8, "ELF-QL has no function truncate", "floor(x) or ceil(x)"),
    ("SELECT safe_cast(a AS BIGINT) FROM s", 1, 8, "no function safe_cast", "CAST(x AS BIGINT)"),
    ("SELECT\n TOP 3 a FROM s", 2, 2, "ELF-QL has no TOP", "LIMIT 10 at the end"),
    ("SELECT a FROM s FETCH FIRST 3 ROWS ONLY", 1, 17, "ELF-QL has no FETCH", "LIMIT 10 OFFSET 20"),
    ("SELECT a FROM s OFFSET 2 ROWS", 1, 26, "ELF-QL has no OFFSET n ROWS", "OFFSET 20"),
    ("SELECT a FROM s LIMIT 2, 3", 1, 24, "LIMIT takes one number", "LIMIT 10 OFFSET 20"),
    ("SELECT a FROM s LIMIT 1 BY a", 1, 25, "ELF-QL has no LIMIT n BY", "QUALIFY row_number()"),
    ("SELECT * EXCLUDE (a) FROM s", 1, 10, "`*` names all columns", "Name the columns"),
    ("SELECT a, * REPLACE (a + 1 AS a) FROM s", 1, 13, "`*` names all columns", "Name the columns"),
    ("SELECT a FROM s PREWHERE a > 1", 1, 17, "ELF-QL has no PREWHERE", "WHERE"),
    ("SELECT a FROM s EMIT CHANGES", 1, 17, "ELF-QL has no EMIT", "EVERY"),
    ("SELECT a FROM s WITH (NOLOCK)", 1, 17, "ELF-QL has no WITH (hint)", "Leave it out"),
    ("SELECT a FROM s FOR UPDATE", 1, 17, "ELF-QL has no FOR UPDATE", "Leave it out"),
    ("SELECT a FROM s VERSION AS OF 1", 1, 17, "ELF-QL has no AS OF", "Choose times with WHERE"),
    ("SELECT a FROM s FOR SYSTEM_TIME AS OF '2024-01-01'", 1, 17, "no AS OF", "Choose times"),
    ("SELECT a FROM s CROSS APPLY f(a)", 1, 17, "ELF-QL has no APPLY", "LATERAL VIEW"),
    ("SELECT a FROM s INNER u ON s.a = u.a", 1, 17, "JOIN is missing here", "JOIN other ON"),
    ("SELECT a FROM s WHERE s.a(+) = 1", 1, 26, "ELF-QL has no (+)", "LEFT JOIN"),
    ("SELECT a FROM s WHERE a ~ 'x'", 1, 25, "ELF-QL has no `~` for patterns", "RLIKE"),
    ("SELECT a FROM s WHERE a !~ 'x'", 1, 25, "ELF-QL has no `!~` for patterns", "NOT RLIKE"),
    ("SELECT a FROM s WHERE a SIMILAR TO 'x'", 1, 25, "ELF-QL has no SIMILAR TO", "RLIKE"),
    ("SELECT a MOD 2 FROM s", 1, 10, "ELF-QL has no operator MOD", "x % y"),
    ("SELECT a ** 2 FROM s", 1, 10, "ELF-QL has no `**`", "power(x, y)"),
    ("SELECT a // 2 FROM s", 1, 10, "ELF-QL has no `//`", "x div y"),
    ("SELECT a FROM s WHERE a > 1 && b", 1, 29, "ELF-QL has no `&&`", "a AND b"),
    ("SELECT a->'b' FROM s", 1, 9, "ELF-QL has no operators for JSON", "get_json_object"),
    ("SELECT a->>'b' FROM s", 1, 9, "ELF-QL has no operators for JSON", "get_json_object"),
    ("SELECT {'a': 1} FROM s", 1, 8, "a struct is written as a call", "struct(x AS a"),
    ("SELECT a FROM s WHERE b = :b", 1, 27, "ELF-QL has no parameters", "Write the value"),
    ("SELECT a FROM s WHERE b = $1", 1, 27, "ELF-QL has no parameters", "Write the value"),
    ("SELECT @x FROM s", 1, 8, "ELF-QL has no variables", "Write the value"),
    ("SELECT if a > 1 THEN 'b' END FROM s", 1, 8, "ELF-QL has no IF ... THEN", "CASE WHEN"),
    # calls with words in them
    ("SELECT upper(a ORDER BY b) FROM s", 1, 0, "ORDER BY is allowed only in", "array_agg(x ORDER BY y)"),
    ("SELECT any_value(a HAVING MAX b) FROM s", 1, 18, "an aggregate has no HAVING", "max_by(x, y)"),
    ("SELECT EXTRACT(EPOCH FROM ts) FROM s", 1, 27, "EXTRACT does not know epoch", "unix_seconds(ts)"),
    ("SELECT CAST(a AS foo) FROM s", 1, 18, "ELF-QL has no type foo", "BIGINT, INT"),
    ("SELECT CAST(a AS BIT) FROM s", 1, 13, "ELF-QL has no type BIT", "BOOLEAN"),
    ("SELECT CAST(a, INT) FROM s", 1, 16, "CAST takes a value and a type", "CAST(x AS BIGINT)"),
    # what is incomplete
    ("SELECT CASE WHEN a > 1 THEN 'b' FROM s", 1, 8, "this CASE has no END", "CASE WHEN"),
    ("SELECT CASE a WHEN 1 END FROM s", 1, 22, "CASE lacks WHEN or THEN here", "CASE WHEN"),
    ("SELECT CASE a > 1 THEN 'b' END FROM s", 1, 19, "THEN must follow WHEN", "CASE WHEN"),
    ("SELECT a FROM s GROUP BY", 1, 17, "nothing follows GROUP BY", "GROUP BY a, b"),
    ("SELECT a FROM s WHERE", 1, 17, "nothing follows WHERE", "WHERE a = 1"),
    ("SELECT a FROM s JOIN u ON", 1, 24, "nothing follows ON", "ON a.x = b.y"),
    ("SELECT a,, b FROM s", 1, 9, "this comma has nothing on one side", "Remove it"),
    ("SELECT a FROM s WERE a = 1", 1, 17, "the query cannot be read at `WERE`", "mean WHERE?"),
    ("SELECT a FROM s GROUP a", 1, 17, "GROUP needs BY", "GROUP BY a, b"),
    ("SELECT 1e FROM s", 1, 8, "1e is not a number", "1.5e10"),
    ("SELECT a FROM s WHERE *", 1, 23, "* is not a value", "name a field"),
    # column lists of aliases
    ("WITH t(a, b) AS (SELECT x FROM s) SELECT a FROM t", 1, 8, "t has 1 columns, and 2 names", "column"),
    ("WITH t(a, A) AS (SELECT x, y FROM s) SELECT a FROM t", 1, 8, "two columns of one name", "its own"),
    ("WITH t AS (SELECT x FROM s), t AS (SELECT y FROM s) SELECT x FROM t", 1, 0, "defines t twice", "name"),
    ("SELECT a FROM s JOIN u AS v(a) ON s.a = v.a", 1, 29, "the columns of u have no order", "SELECT x AS a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"), FOREIGN, ids=lambda given: str(given)[:50]
)
def test_sql_of_others_is_refused_where_it_stands_with_what_to_write(
    text: str, line: int, column: int, message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column if column else 0) == (line, column)


def test_every_type_of_the_table_is_refused_by_its_name() -> None:
    for name in FOREIGN_TYPES:
        with pytest.raises(QueryError, match=f"^query:1:18: ELF-QL has no type {name}"):
            parse(f"SELECT CAST(k AS {name}) FROM s")


def test_every_form_of_the_table_is_one_that_the_parser_knows() -> None:
    assert set(UNKNOWN_NODES) <= {name.lower() for name in vars(exp)}


ACCEPTED = [
    ("WITH t(a, b) AS (SELECT k, v FROM s) SELECT a, sum(b) AS n FROM t GROUP BY a", [("a", 11), ("b", 7)]),
    ("SELECT x.a, x.b + 1 AS z FROM (SELECT k, v FROM s) AS x(a, b) WHERE b > 6", [("b", 8)]),
    ("WITH t AS (SELECT k, v FROM s) SELECT q.m FROM t q(l, m) WHERE l = 'b'", [(7,)]),
    ("WITH t(a) AS (SELECT v FROM s UNION ALL SELECT v FROM s) SELECT count(a) AS n FROM t", [(6,)]),
    ("WITH t AS (SELECT k FROM s) SELECT * FROM (WITH t AS (SELECT 3 n FROM s) SELECT n FROM t)", [(3,)] * 3),
    ("SELECT s.k, t.v FROM s, s AS t WHERE s.v = t.v AND t.v > 5", [("a", 6), ("b", 7)]),
    ("SELECT count(*) AS n FROM s, (SELECT v FROM s) t", [(9,)]),
    ("SELECT v FROM s WHERE k LIKE ANY ('x%', 'b')", [(7,)]),
    ("SELECT v FROM s WHERE k NOT LIKE ALL ('a%', 'x')", [(7,)]),
    ("SELECT v FROM s WHERE k NOT LIKE ANY ('a%', 'x') AND v < 6", [(5,)]),
    ("SELECT v FROM s WHERE k ILIKE ALL ('B', 'b%')", [(7,)]),
    ("SELECT hex(X'0aF') AS h FROM s WHERE v = 7", [("00AF",)]),
    ("SELECT k, any(v > 6) AS y FROM s GROUP BY k", [("a", False), ("b", True)]),
    ("SELECT smallint('7') AS a, tinyint(v) AS b FROM s WHERE v = decimal('7')", [(7, 7)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rows"), ACCEPTED, ids=lambda given: str(given)[:60])
def test_sql_of_spark_that_costs_nothing_to_accept_means_what_it_means_there(
    text: str, rows: list[tuple[object, ...]], rows_of: Callable[..., list[tuple[Any, ...]]]
) -> None:
    given = {"ts": [1, 2, 3], "k": ["a", "a", "b"], "v": [5, 6, 7]}
    assert sorted(rows_of(text, given)) == rows
