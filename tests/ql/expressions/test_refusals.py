"""A wrong query is refused at the token that is wrong, with what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse, parse_many

# (text, line, column, part of the message, part of the hint)
WRONG = [
    # nothing, or no query
    ("", 1, 1, "no query", "SELECT"),
    ("   -- only a comment\n", 1, 1, "no query", "SELECT"),
    ("SELEC a FROM s", 1, 1, "begins with SELECT", "Did you mean SELECT?"),
    ("a FROM s", 1, 1, "begins with SELECT", "CREATE JOB"),
    ("WITH x AS (SELECT 1) SELECT a FROM s", 1, 19, "does not say FROM", "FROM stream"),
    ("WITH RECURSIVE x AS (SELECT a FROM s) SELECT a FROM x", 1, 0, "RECURSIVE", "a job of its own"),
    ("SELECT a FROM s; SELECT b FROM s", 1, 18, "second statement", "one statement"),
    ("SELECT a", 1, 9, "FROM", "FROM stream"),
    ("SELECT FROM s", 1, 1, "selects nothing", "columns"),
    # broken text
    ("SELECT 'abc FROM s", 1, 8, "quote is not terminated", "Close it"),
    ("SELECT a /* b\nFROM s", 1, 10, "comment is not terminated", "*/"),
    ("SELECT `a FROM s", 1, 8, "quote is not terminated", "`"),
    ("SELECT (a FROM s", 1, 8, "has no matching `)`", "Add a `)`"),
    ("SELECT a) FROM s", 1, 9, "has no matching `(`", "("),
    ("SELECT a FROM s WHERE", 1, 17, "nothing stands behind WHERE", "a = 1"),
    ("SELECT a FROM s WHERE b >\nGROUP BY a", 2, 1, "", ""),
    ("SELECT s.a FROM s JOIN SAME b x ON s.a = x.a", 1, 31, "read at `x`", "JOIN SAME namespace.job"),
    ("SELECT s.a FROM s JOIN LATEST b/c x ON s.a = x.a", 1, 32, "read at `/`", "JOIN LATEST namespace.job"),
    ("SELECT a b c FROM s", 1, 12, "cannot be read at `c`", "comma"),
    ("SELECT a FROM s ORDER a", 1, 17, "ORDER needs BY", "ORDER BY a, b"),
    ("SELECT a\n  FROM s\n WHERE upper(a) = = 'x'", 3, 17, "`==` has no blank in it", "x = y"),
    # FROM and labels
    ("SELECT a FROM", 1, 14, "expected the name of a stream", ""),
    ("SELECT a FROM shop.top ON (role = 'web')", 1, 0, "results have no labels", "agents of a stream"),
    ("SELECT a FROM LATEST shop.top", 1, 1, "only be joined to a", "JOIN LATEST namespace.job"),
    ("SELECT a FROM SAME shop.top", 1, 1, "only be joined to a", "JOIN LATEST namespace.job"),
    ("SELECT s.a FROM s JOIN SAME b.c x ON s.a = x.a", 1, 1, "SAME needs intervals", "TUMBLE"),
    ("SELECT s.a FROM s RIGHT JOIN LATEST b.c x ON s.a = x.a", 1, 1, "only be joined to a", "JOIN LATEST"),
    ("SELECT a FROM s UNION ALL SELECT a FROM LATEST b.c", 1, 0, "only be joined to a", "JOIN LATEST"),
    ("SELECT a FROM s, t", 1, 8, "a column of several inputs", "Write s.a or t.a"),
    ("SELECT a FROM (SELECT b FROM s)", 1, 8, "no column a", "There are b"),
    ("SELECT t.a FROM (SELECT b FROM s) t", 1, 10, "t has no column a", "There are b"),
    ("SELECT a FROM s JOIN t ON s.a = t.a", 1, 8, "a column of several inputs", "Write s.a or t.a"),
    ("SELECT s.a FROM s JOIN s ON s.a = s.b", 1, 24, "two inputs are called s", "AS other"),
    ("CREATE JOB j EVERY '5 s' AS SELECT * FROM s JOIN t ON s.a = t.a", 1, 36, "cannot SELECT *", "Name the"),
    ("SELECT s.a FROM s NATURAL JOIN t", 1, 19, "NATURAL JOIN", "ON a.x = b.x"),
    ("SELECT s.a FROM s CROSS JOIN t ON s.a = t.a", 1, 30, "takes no ON", "JOIN other ON"),
    ("SELECT s.a FROM s JOIN t ON s.a = t.a AND sum(t.b) > 3", 1, 43, "ON cannot contain an aggregate", ""),
    ("SELECT x.a FROM s x SEMI JOIN t y ON x.a = y.a WHERE y.b = 3", 1, 56, "after this join", "left side"),
    ("SELECT a FROM STREAM s", 1, 15, "STREAM is not an ELF-QL keyword", "FROM name"),
    ("SELECT a FROM s ON role = 'web'", 1, 20, "labels in parentheses", "ON (role"),
    ("SELECT a FROM s ON (role 'web')", 1, 26, "expected `=`", "ON (role"),
    ("SELECT a FROM s ON (role = web)", 1, 28, "'string'", "ON (role"),
    ("SELECT a FROM s ON (role = 'web' zone = 'x')", 1, 34, "expected `)`", ""),
    ("SELECT a FROM s ON (role = 'a', role = 'b')", 1, 40, "two values", ""),
    ("SELECT a FROM s EVERY '5 s'", 1, 17, "option of a job", "CREATE JOB"),
    # jobs
    ("CREATE TABLE t AS SELECT a FROM s", 1, 8, "only jobs", "CREATE JOB"),
    ("CREATE JOB AS SELECT a FROM s", 1, 15, "", ""),
    ("CREATE JOB a.b.c EVERY '5 s' AS SELECT x FROM s", 1, 18, "at most two parts", "namespace.name"),
    ("CREATE JOB 'a b' AS SELECT x FROM s", 1, 12, "name of the job", "letters"),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "a job needs an interval", "EVERY '30 s'"),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "a job needs an interval", "TUMBLE(ts"),
    ("CREATE JOB j EVRY '5 s' AS SELECT a FROM s", 1, 14, "option of the job", "Did you mean EVERY?"),
    ("CREATE JOB j EVERY '5 s' EVERY '6 s' AS SELECT a FROM s", 1, 26, "twice", ""),
    ("CREATE JOB j EVERY AS SELECT a FROM s", 1, 20, "takes a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY 'soon' AS SELECT a FROM s", 1, 20, "not a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY '0 s' AS SELECT a FROM s", 1, 20, "greater than zero", "30 s"),
    ("CREATE JOB j EVERY '5 s' ON STRAGGLER LEAP AS SELECT a FROM s", 1, 39, "CORRECT, SKIP", "WAIT"),
    ("CREATE JOB j EVERY '5 s' PARTITIONS 0 AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    ("CREATE JOB j EVERY '5 s' PARTITIONS x AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    (
        "CREATE JOB j\nEVERY '5 s' AS SELECT count(*) FROM s\nGROUP BY TUMBLE(ts, '30 s')",
        2, 1, "differs from the window", "Leave EVERY out",
    ),
    ("CREATE JOB j EVERY '5 s' AS SELECT * FROM s", 1, 36, "cannot SELECT *", "Name the fields"),
    # windows
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts)", 1, 33, "does not take these", "INTERVAL '30' SECOND"),
    ("SELECT count(*) FROM s GROUP BY HOP(ts, '30 s')", 1, 33, "does not take these", "slide, then size"),
    ("SELECT count(*) FROM s GROUP BY HOP(ts, '30 s', '10 s')", 1, 33, "slides by 30 s", "at most the size"),
    ("SELECT count(*) FROM s GROUP BY window(ts, '1 month')", 1, 33, "not a duration", "30 seconds"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, INTERVAL 1 MONTH)", 1, 0, "no fixed length", "SECOND"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, x)", 1, 33, "lengths are constants", "TUMBLE(ts"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '0 s')", 1, 33, "greater than zero", "TUMBLE"),
    ("SELECT count(*) FROM s GROUP BY SESSION(ts, '5 s', '9 s')", 1, 33, "does not take", "SESSION(ts, INT"),
    ("SELECT count(*) FROM s GROUP BY SESSION(ts)", 1, 33, "does not take these", "'5' MINUTE"),
    ("SELECT count(*) FROM s GROUP BY session_window(ts, v)", 1, 33, "lengths are constants", "session_w"),
    ("SELECT session_window, count(*) FROM s GROUP BY SESSION('5 s')", 1, 8, "not a value", "window_start"),
    ("SELECT a FROM s GROUP BY SESSION('5 s'), TUMBLE('5 s'), a", 1, 42, "one window", "one job"),
    ("SELECT s.a FROM s JOIN u ON s.a = u.b GROUP BY SESSION('5 s'), s.a", 1, 1, "one stream", "TUMBLE"),
    ("SELECT a FROM s WHERE window_end > ts GROUP BY SESSION('5 s'), a", 1, 23, "use the", "Use the"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '1 s'), TUMBLE(ts, '2 s')", 1, 52, "one window", "job"),
    ("SELECT window_start, a FROM s", 1, 8, "window_start needs a window", "TUMBLE"),
    ("SELECT window, count(*) FROM s GROUP BY window(ts, '5 s')", 1, 8, "not a value", "window_start"),
    ("SELECT window(ts, '5 s'), count(*) FROM s", 1, 8, "not in GROUP BY", "Add it"),
    (
        "SELECT a FROM s GROUP BY TUMBLE(ts, '5 s'), a UNION SELECT b FROM s GROUP BY TUMBLE(ts, '6 s'), b",
        1, 78, "one window, in all", "one job for each",
    ),
    (
        "SELECT a FROM s GROUP BY TUMBLE(ts, '5 s'), a UNION SELECT b FROM s GROUP BY TUMBLE(t, '5 s'), b",
        1, 0, "by ts and by t", "one time column",
    ),
    (
        "SELECT count(*) FROM (SELECT et + INTERVAL 1 SECOND AS t FROM s) GROUP BY TUMBLE(t, '5 s')",
        1, 75, "computed in a query below", "TUMBLE over a field",
    ),
    ("SELECT count(*) FROM s WHERE window_start > 0 GROUP BY TUMBLE(ts, '5 s')", 1, 30, "WHERE cannot", ""),
    ("SELECT count(*) FROM s GROUP BY HOPPING(ts, '30 s')", 1, 33, "no function HOPPING", "HOP(ts, INTER"),
    ("SELECT count(*) FROM s GROUP BY SLIDING(ts, '30 s')", 1, 33, "no function SLIDING", "HOP(ts, INTER"),
    ("SELECT count(*) FROM s GROUP BY CUMULATE(ts, '1 s')", 1, 33, "no function CUMULATE", "HOP(ts, INTER"),
    ("SELECT count(*) FROM s GROUP BY time_bucket(ts)", 1, 33, "no function time_bucket", "TUMBLE(ts"),
    ("SELECT count(*) FROM s WINDOW TUMBLING (SIZE 30 SECONDS)", 1, 24, "gives a name", "WINDOW w AS"),
    ("SELECT count(*) FROM TABLE(TUMBLE(TABLE s, ts, '1 s'))", 1, 22, "has no TABLE(...)", "GROUP BY TUMBLE"),
    ("SELECT count(*) FROM s WINDOW 3", 1, 24, "gives a name to a window", "WINDOW w AS (PARTITION"),
    ("SELECT INTERVAL '1' DAY FROM s", 1, 0, "INTERVAL is no value of its own", "ts + INTERVAL"),
    ("SELECT max(INTERVAL '1' DAY) FROM s", 1, 0, "INTERVAL is no value of its own", "ts + INTERVAL"),
    ("SELECT CASE WHEN a THEN INTERVAL '1' DAY END FROM s", 1, 0, "INTERVAL is no value", "ts + INTERVAL"),
    ("SELECT tumble_start(ts) FROM s GROUP BY TUMBLE(ts, '5 s')", 1, 8, "no function tumble", "window_start"),
    # names
    ("SELECT a + 1 AS b FROM s WHERE b > 3", 1, 32, "b is an alias", "Repeat the expression"),
    ("SELECT a, count(*) FROM s", 1, 8, "must be in GROUP BY or in an aggregate", "GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY b", 1, 8, "must be in GROUP BY or in an aggregate", "min(a)"),
    ("SELECT count(*) FROM s HAVING a > 1", 1, 31, "must be in GROUP BY or in an aggregate", ""),
    ("SELECT a, count(*) AS n FROM s GROUP BY a ORDER BY m", 1, 52, "be in GROUP BY", "columns are a, n."),
    (
        "SELECT a, count(*) AS hits FROM s GROUP BY a ORDER BY hit",
        1,
        55,
        "must be in GROUP BY",
        "Did you mean hits?",
    ),
    ("SELECT case FROM s", 1, 8, "cannot be read at `case`", "is written `case`"),
    ("SELECT count(*) AS n FROM s WHERE from = 'a'", 1, 40, "the name of a stream", "written `from`"),
    ("SELECT count(*) AS n FROM s WHERE a > 1 AND having = 2", 1, 45, "before `having`", "write `having`"),
    ("SELECT from FROM s", 1, 1, "selects nothing", "written `from`"),
    ("SELECT $request_time FROM s", 1, 8, "the column `$request_time` does not exist", "write request_time"),
    ("SELECT strftime(ts, '%Y') FROM s", 1, 8, "no function strftime", "date_format(ts"),
    ("SELECT a AS x, b AS x FROM s", 1, 16, "two columns are called x", "AS other_name"),
    ("SELECT a FROM s GROUP BY 2", 1, 26, "no column 2", "1 column."),
    ("SELECT a FROM s ORDER BY 3", 1, 26, "no column 3", "1 column."),
    ("SELECT count(*) AS n FROM s GROUP BY n", 1, 38, "GROUP BY cannot contain an aggregate", "fields"),
    ("SELECT DISTINCT a FROM s ORDER BY b", 1, 35, "its own columns only", "Select"),
    ("SELECT *, count(*) FROM s", 1, 8, "* cannot be grouped", "count(*)"),
    ("SELECT x.* FROM s", 1, 10, "on the stream only", "name the fields"),
    (
        "SELECT path AS a, lower(path) AS path, count(*) FROM s GROUP BY path HAVING path = 'x'",
        1, 77, "both", "AS other_name",
    ),
    # functions
    ("SELECT uper(a) FROM s", 1, 8, "unknown function uper", "Did you mean upper?"),
    ("SELECT a,\n       zzz(b) FROM s", 2, 8, "unknown function", "The page on ELF-QL"),
    ("SELECT upper(a, b) FROM s", 1, 8, "does not take 2 arguments", "upper(x)"),
    ("SELECT sum(a, b) FROM s", 1, 8, "does not take 2 arguments", "sum(x)"),
    ("SELECT sum(*) FROM s", 1, 8, "makes no sense", "sum(x)"),
    ("SELECT upper(*) FROM s", 1, 8, "makes no sense", "upper(x)"),
    ("SELECT count() FROM s", 1, 8, "does not take 0 arguments", "count(*)"),
    ("SELECT stddev(DISTINCT a) FROM s", 1, 8, "stddev(DISTINCT) is not supported", "stddev(x)"),
    ("SELECT first(DISTINCT a) FROM s", 1, 8, "first(DISTINCT) is not supported", "first(x"),
    ("SELECT sum(a) IGNORE NULLS FROM s", 1, 8, "IGNORE NULLS belongs to", "always ignore"),
    ("SELECT percentile_cont(0.5) FROM s", 1, 8, "needs WITHIN GROUP", "WITHIN GROUP (ORDER BY x)"),
    ("SELECT sum(a) WITHIN GROUP (ORDER BY a) FROM s", 1, 8, "cannot be ordered so", "listagg"),
    ("SELECT percentile(a, 1.5) FROM s", 1, 22, "share from 0 to 1", "percentile(x, 0.99)"),
    ("SELECT percentile(a, b) FROM s", 1, 22, "share from 0 to 1", "percentile(x, 0.99)"),
    ("SELECT array_agg(a, 0) FROM s", 1, 21, "from 1 to 10000, not 0", ""),
    ("SELECT approx_top_k(a, 50, 10) FROM s", 1, 28, "cannot name 50 values", ""),
    ("SELECT approx_percentile(a, 0.5, 10000) FROM s", 1, 34, "from 1 to 1240", ""),
    ("SELECT hll_sketch_agg(a, 10) FROM s", 1, 26, "from 12 to 12", ""),
    ("SELECT string_agg(a, b) FROM s", 1, 22, "separator of string_agg must be a constant", "string_agg(x"),
    ("SELECT sum(count(*)) FROM s", 1, 12, "cannot contain an aggregate", ""),
    ("SELECT a FROM s WHERE count(*) > 1", 1, 23, "WHERE cannot contain an aggregate", "HAVING"),
    ("SELECT current_timestamp(), a FROM s", 1, 8, "clock", "event time"),
    ("SELECT current_timestamp FROM s", 1, 8, "clock", "event time"),
    ("SELECT now() FROM s", 1, 8, "ELF-QL has no function now", "when it is computed"),
    ("SELECT rand() FROM s", 1, 8, "ELF-QL has no function rand", "every agent"),
    ("SELECT a FROM s WHERE ts > DATE '2020-02-30'", 1, 33, "'2020-02-30' is not a DATE", "2015-05-17"),
    ("SELECT count_min_sketch(a) FROM s", 1, 8, "ELF-QL has no function count_min_sketch", "approx_top_k"),
    ("SELECT kurtosis(a) FROM s", 1, 8, "ELF-QL has no function kurtosis", "stddev"),
    ("SELECT sum(a) OVER (ROWS 2 PRECEDING) FROM s", 1, 8, "ROWS without ORDER BY", "ROWS BETWEEN"),
    ("SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN c PRECEDING AND CURRENT ROW) FROM s", 1, 0, "constant", ""),
    ("SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1.5 PRECEDING AND 1 FOLLOWING) FROM s", 1, 8, "whole", "2"),
    ("SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM s", 1, 8, "end of", ""),
    ("SELECT sum(a) OVER (ORDER BY b, c RANGE 2 PRECEDING) FROM s", 1, 8, "one ORDER BY item", "ROWS"),
    ("SELECT first(a) FILTER (WHERE b) OVER (ORDER BY b) FROM s", 1, 8, "FILTER of first", ""),
    ("SELECT ntile(0) OVER (ORDER BY b) FROM s", 1, 8, "does not take these", "ntile(n)"),
    ("SELECT row_number() OVER (PARTITION BY b) FROM s", 1, 8, "without ORDER BY", "ORDER BY b"),
    ("SELECT row_number() FROM s", 1, 8, "needs OVER", "OVER (PARTITION BY"),
    ("SELECT upper(a) OVER () FROM s", 1, 8, "OVER can be used only with aggregates", "row_number()"),
    ("SELECT lag(a, b) OVER (ORDER BY b) FROM s", 1, 8, "does not take these", "lag(x[, n[, default]])"),
    ("SELECT a FROM s WHERE row_number() OVER (ORDER BY b) < 3", 1, 23, "select list", "Filter outside"),
    ("SELECT rank() OVER (ORDER BY b ROWS UNBOUNDED PRECEDING) FROM s", 1, 8, "does not support a frame", ""),
    ("SELECT upper(a) FILTER (WHERE b) FROM s", 1, 8, "FILTER belongs to an aggregate", "sum(x) FILTER"),
    ("SELECT transform(a, x -> x + 1) FROM s", 1, 0, "", ""),
    ("SELECT a + explode(b) FROM s", 1, 12, "must be the only item", "FROM (SELECT explode"),
    ("SELECT a FROM s WHERE explode(b) = 1", 1, 23, "must be the only item", "FROM (SELECT explode"),
    ("SELECT explode(a), explode(b) FROM s", 1, 20, "one explode", "FROM (SELECT explode"),
    ("SELECT explode(a) FROM s GROUP BY b", 1, 8, "without GROUP BY", "FROM (SELECT explode"),
    ("SELECT explode(a), sum(b) FROM s", 1, 20, "plain expressions", "FROM (SELECT explode"),
    ("SELECT explode(a) AS e FROM s ORDER BY b", 1, 40, "columns of the select list", "FROM (SELECT"),
    ("SELECT stack(2, a, b) FROM s", 1, 8, "ELF-QL has no function stack", "explode(array(x, y))"),
    ("SELECT posexplode(a, b) FROM s", 1, 8, "posexplode takes one list or map", "LATERAL VIEW"),
    ("SELECT posexplode(a) AS (n, k, v, x) FROM s", 1, 8, "need 2 or 3 names", "AS a, b"),
    ("SELECT posexplode(a) AS (n, e), count(*) AS c FROM s GROUP BY 1", 1, 8, "one generator", "LATERAL"),
    # other syntax
    ("SELECT a FROM s UNION ALL SELECT b, c FROM t", 1, 34, "UNION of 1 and 2 columns", "equally many"),
    ("SELECT a FROM s EXCEPT SELECT b FROM t", 1, 17, "EXCEPT", "ANTI JOIN"),
    ("SELECT * EXCEPT (a) FROM s", 1, 10, "EXCEPT", "name the columns"),
    ("SELECT a FROM s GROUP BY DISTINCT a", 1, 17, "ELF-QL has no GROUP BY DISTINCT", "GROUP BY a, b"),
    ("SELECT a FROM s ORDER BY ALL, a", 1, 31, "ORDER BY ALL stands alone", "ORDER BY 1, 2"),
    ("SELECT rank() OVER (ORDER BY ALL) FROM s", 1, 8, "ORDER BY ALL belongs to a whole query", "ORDER BY a"),
    ("SELECT a FROM s LIMIT ALL", 1, 17, "ELF-QL has no LIMIT ALL", "Leave it out"),
    ("SELECT a FROM s FOR UPDATE", 1, 17, "ELF-QL has no FOR UPDATE", "no row is locked"),
    ("SELECT a FROM s VERSION AS OF 3", 1, 17, "ELF-QL has no AS OF", "WHERE"),
    ("SELECT a FROM s UNION ALL BY NAME SELECT a FROM t", 1, 0, "BY NAME is not supported", "one order"),
    ("SELECT count(*) FROM s GROUP BY CUBE(a, b, c, d, e, f, g)", 1, 0, "64 groupings", "several jobs"),
    ("SELECT a, grouping(a) FROM s GROUP BY a", 1, 11, "grouping needs", "0 in every row"),
    ("SELECT (SELECT a, b FROM s) FROM s", 1, 16, "one column, not 2", ""),
    ("SELECT (SELECT a FROM t WHERE t.b = s.b) FROM s", 1, 16, "must select aggregates", "LEFT JOIN (SELECT"),
    ("SELECT a FROM s WHERE a IN (SELECT b FROM t) OR a = 1", 1, 23, "joined by AND", "SEMI"),
    ("SELECT a IN (SELECT b FROM t) FROM s", 1, 8, "joined by AND", "SEMI"),
    ("SELECT a FROM s WHERE a IN (SELECT b, c FROM t)", 1, 23, "query with 1 column", ""),
    ("SELECT a FROM s WHERE (a, b) NOT IN (SELECT b, c FROM t)", 1, 24, "several columns", "NOT EXISTS"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a) OR a = 1", 1, 38, "EXISTS", "SEMI"),
    ("SELECT a FROM s WHERE EXISTS (SELECT t.a FROM t WHERE t.a = s.a GROUP BY 1)", 1, 40, "GROUP", "JOIN"),
    ("SELECT a FROM s WHERE EXISTS (SELECT max(t.b) FROM t WHERE t.a = s.a)", 1, 0, "an aggregate", "JOIN"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t JOIN u ON t.a = s.a)", 1, 65, "only in WHERE", "JOIN"),
    ("SELECT a FROM s WHERE a IN (SELECT max(b) FROM t WHERE t.c = s.c)", 1, 23, "an aggregate", "LEFT"),
    ("SELECT a FROM s WHERE b = (SELECT max(b) FROM t WHERE t.c < s.c)", 1, 57, "only by equality", "LEFT"),
    ("SELECT a FROM s WHERE b = (SELECT hll_sketch_agg(a) FROM t WHERE t.c = s.c)", 1, 35, "sketch", "LEFT"),
    ("SELECT a, (SELECT max(b) FROM t WHERE t.c = s.a) FROM s GROUP BY a", 1, 19, "after GROUP BY", "LEFT"),
    ("SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.x = s.a LIMIT 0)", 1, 42, "LIMIT in", "JOIN"),
    ("SELECT a FROM s JOIN LATERAL (SELECT 1) t", 1, 22, "LATERAL (SELECT ...)", "LATERAL VIEW explode"),
    ("SELECT a FROM s LATERAL VIEW upper(b) t AS c", 1, 30, "takes explode", "LATERAL VIEW [OUTER]"),
    ("SELECT a FROM s LATERAL VIEW explode(b) t AS k, v, w", 1, 30, "need 1 or 2 names", "AS a, b"),
    ("SELECT a FROM s LATERAL VIEW explode(b, c) t AS d", 1, 30, "one list or map", "LATERAL VIEW"),
    ("SELECT a FROM s RIGHT JOIN UNNEST(b) AS t(c) ON TRUE", 1, 35, "CROSS JOIN", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s LEFT JOIN UNNEST(b) AS t(c) ON a = c", 1, 34, "CROSS JOIN", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s CROSS JOIN UNNEST(b, c) AS t(d)", 1, 35, "one list or map", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s CROSS JOIN UNNEST(b) AS t", 1, 35, "need names", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s GROUP", 1, 17, "GROUP needs BY", "GROUP BY a, b"),
    ("SELECT a FROM s x ORDER", 1, 19, "ORDER", ""),
    ("SELECT 1_000 AS a FROM s", 1, 8, "1_000 is not a number", "Write 1000, or the name `1_000`"),
    ("SELECT max(rank() OVER (ORDER BY a)) AS m FROM s", 1, 8, "a window function", "in brackets"),
    ("SELECT sum(a) OVER v AS x FROM s WINDOW w AS (ORDER BY b)", 1, 8, "no window v", "There are w"),
    ("SELECT a FROM s QUALIFY b > 1", 1, 25, "needs a window function", "HAVING"),
    ("SELECT rank() OVER (ORDER BY a) AS n FROM s WHERE n = 1", 1, 51, "alias", "backquotes"),
    ("SELECT explode(a) AS e FROM s WHERE e = 1", 1, 37, "alias", "backquotes"),
    ("SELECT grouping(a) AS g, a AS b FROM s WHERE g = 1 GROUP BY ROLLUP(a)", 1, 46, "alias", "backquotes"),
    ("SELECT a FROM s SORT BY a", 1, 17, "SORT BY", "ORDER BY"),
    ("SELECT a FROM s LIMIT 10 OFFSET x", 1, 33, "whole number", "OFFSET 10"),
    ("SELECT a FROM s LIMIT x", 1, 23, "whole number", "LIMIT 10"),
    ("SELECT a FROM s LIMIT ALL", 1, 0, "", ""),
    ("SELECT /*+ BROADCAST(s) */ a FROM s", 1, 8, "hints", "Remove"),
    ("SELECT a:b FROM s", 1, 9, "", ""),
    ("SELECT a LIKE ANY (SELECT b FROM t) FROM s", 1, 8, "LIKE takes patterns, and no query", "LIKE ANY"),
    ("SELECT CAST(a AS DECIMAL(50, 2)) FROM s", 1, 13, "DECIMAL", "DOUBLE"),
    ("SELECT CAST(a AS FLOAT) FROM s", 1, 18, "no type FLOAT", "DOUBLE"),
    ("SELECT CAST(a AS ARRAY<INT>) FROM s", 1, 18, "no type ARRAY", "from_json(text"),
    ("SELECT 99999999999999999999 FROM s", 1, 8, "64 bits", "decimal"),
    ("SELECT extract(epoch FROM a) FROM s", 1, 0, "EXTRACT does not know", "unix_seconds(ts)"),
    ("SELECT DISTINCT ON (a) a FROM s", 1, 0, "", ""),
    ("SELECT x FROM s AS t (a, b)", 1, 23, "the columns of s have no order", "FROM (SELECT x AS a"),
    ("SELECT x FROM s VERSION AS OF 1", 1, 17, "AS OF", ""),
    ("SELECT * EXCEPT (a) FROM s", 1, 0, "", ""),
    ("SELECT count(x ORDER BY y) FROM s", 1, 0, "", ""),
    ("SELECT max(x) IGNORE NULLS FROM s", 1, 0, "", ""),
    ("SELECT CAST(x AS TIMESTAMP FORMAT 'yyyy') FROM s", 1, 0, "", ""),
    ("SELECT a AS (x, y) FROM s", 1, 0, "", ""),
    ("SELECT a COLLATE UTF8_LCASE FROM s", 1, 0, "", ""),
    ("SELECT a FROM s ORDER BY a ASC NULLS", 1, 0, "", ""),
    ("SELECT a FROM s FETCH FIRST 3 ROWS ONLY", 1, 0, "", ""),
    ("SELECT TOP 3 a FROM s", 1, 0, "", ""),
    ("SELECT a FROM s LIMIT 10 PERCENT", 1, 0, "", ""),
    ("SELECT a FROM s FOR UPDATE", 1, 0, "", ""),
    ("SELECT a INTO t FROM s", 1, 0, "", ""),
    ("SELECT a FROM s TABLESAMPLE (10 PERCENT)", 1, 17, "TABLESAMPLE", "WHERE"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"), WRONG, ids=lambda given: str(given)[:50]
)
def test_a_wrong_query_is_refused_where_it_is_wrong(
    text: str, line: int, column: int, message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column if column else 0) == (line, column)
    assert "\n" not in error.message
    assert "Token" not in str(error)
    assert "sqlglot" not in str(error)
    assert "elf_" not in str(error)


BATCH = pa.record_batch(
    {"i": [1], "s": ["x"], "b": [True], "ts": pa.array([0], pa.timestamp("us", "UTC")), "l": [[1]]}
)

# Wrong for these types only: found when data comes (or the format is known).
WRONG_TYPES = [
    ("SELECT i FROM s WHERE i", 23, "a condition must be BOOLEAN", "Write a comparison"),
    ("SELECT i FROM s WHERE s AND b", 23, "a condition must be BOOLEAN", "Write a comparison"),
    ("SELECT sum(b) FROM s", 8, "sum and avg do not work on BOOLEAN", "FILTER"),
    ("SELECT b + 1 FROM s", 8, "`+` does not work on BOOLEAN", "CAST"),
    ("SELECT ts - ts FROM s", 8, "TIMESTAMP and TIMESTAMP", "unix_timestamp(a) - unix_timestamp(b)"),
    ("SELECT coalesce(i, b) FROM s", 20, "COALESCE mixes BIGINT and BOOLEAN", "CAST"),
    ("SELECT i, if(b, ts, b) FROM s", 21, "IF mixes", "CAST"),
    ("SELECT year(i) FROM s", 13, "argument 1 of year is BIGINT, not DATE", "CAST"),
    ("SELECT CAST(i AS DATE) FROM s", 13, "BIGINT cannot be cast to DATE", ""),
    ("SELECT slice(split(s, ','), 0, 1) FROM s", 8, "slice counts from 1", ""),
    ("SELECT slice(split(s, ','), i, -1) FROM s", 8, "takes no negative length", ""),
    ("SELECT date(i) FROM s", 8, "BIGINT cannot be cast to DATE", ""),
    ("SELECT bigint(split(s, ',')) FROM s", 8, "cannot be cast to BIGINT", ""),
    ("SELECT boolean(unhex(s)) FROM s", 8, "BINARY cannot be cast to BOOLEAN", ""),
    ("SELECT s LIKE s FROM s", 15, "must be a constant", "'string'"),
    ("SELECT i FROM s GROUP BY i, split(s, ',')", 29, "ARRAY<STRING> cannot be grouped", "array_join"),
    ("SELECT array(i)[b] FROM s", 17, "BOOLEAN, not BIGINT", "CAST"),
    ("SELECT i[0] FROM s", 8, "takes a list, not BIGINT", "array(...)"),
    ("SELECT format_string('%d', s) FROM s", 22, "cannot format STRING", "%s"),
    ("SELECT b & 3 FROM s", 8, "works on integers", ""),
    ("SELECT element_at(array(i), 0) FROM s", 29, "counts from 1", "x[0]"),
    ("SELECT s + INTERVAL '1' MONTH FROM s", 8, "cannot be added to STRING", "CAST"),
    ("SELECT l FROM s", 8, "cannot be grouped, selected or aggregated", "x[0]"),
    ("SELECT upper(INTERVAL 1 DAY) FROM s", 0, "INTERVAL", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"), WRONG_TYPES, ids=lambda given: str(given)[:50]
)
def test_types_that_make_no_sense_are_refused_when_they_are_met(
    text: str, column: int, message: str, hint: str
) -> None:
    query = Query(parse(text))
    with pytest.raises(QueryError) as caught:
        query.finalise({"main": _reduced(query)}, None)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.line == 1
    assert error.column == (column or error.column)


def _reduced(query: Query) -> pa.Table:
    """What the batch reduces to, good enough for constants to be finalised."""
    prepared = query.prepare(BATCH)
    return pa.Table.from_batches([prepared.tables["main"]]).append_column("a0", pa.array([1]))


def test_places_in_a_file_count_from_its_first_line() -> None:
    with pytest.raises(QueryError) as caught:
        parse_many("SELECT a FROM s;\n\n-- the second\nSELECT b, uper(c)\nFROM s;\n", source="jobs.elfql")
    assert (caught.value.line, caught.value.column) == (4, 11)
    assert str(caught.value).startswith("jobs.elfql:4:11: unknown function uper")


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(QueryError):
        parse("SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM s")
    with pytest.raises(QueryError, match="longer than"):
        parse("SELECT a FROM s -- " + "x" * 300_000)


WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT CREATE JOB AS EVERY ON ( ) , . * = 'x' 1 a b s count( "
    "sum( upper( TUMBLE( ts '5 s' INTERVAL SECOND AND OR NOT NULL IS CASE WHEN THEN END IN BETWEEN LIKE ; "
    "-- \n ' ` [ ] :: -> ? @ DISTINCT FILTER CAST( BIGINT window_start"
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS.split(" ")),
        max_size=25,
    ).map(" ".join)
    | st.text(max_size=40)
)
def test_any_text_parses_or_is_a_query_error_with_a_place(text: str) -> None:
    refusal: QueryError | None = None
    try:
        parse(text)
    except QueryError as error:
        refusal = error
    assert refusal is None or (refusal.line >= 1 and refusal.column >= 1)


def test_joins_that_wait_for_their_conditions_are_counted_before_they_are_parsed() -> None:
    with pytest.raises(QueryError, match="more than 8 joins follow without ON"):
        parse("SELECT c.x FROM c " + "JOIN SAME " * 60 + "a.b t ON c.x = t.x")
