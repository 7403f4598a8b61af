"""Keywords, statements and types that ELF-QL does not have, each with a replacement for the error's hint."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.ql.expressions.foreign_functions import CLOCK_HINT, FOREIGN_FUNCTIONS, LAMBDA_HINT

MARK = "elf_"
"""Prefix of the names of ELF-QL's functions in the tokens, so that sqlglot passes the calls through
unchanged."""

WINDOWS = ("tumble", "hop", "window", "session", "session_window", "sealed", "rows")
OVER_FUNCTIONS = {
    "row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "percent_rank": (0, 0), "cume_dist": (0, 0),
    "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3), "nth_value": (2, 2),
}  # fmt: skip
"""Functions that exist only with OVER, with the least and greatest number of arguments."""

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer")
"""Functions that return a row for each element of a list or map."""

GROUPING = ("grouping", "grouping_id")
"""Functions that return whether a row of GROUPING SETS is a total over a column; `grouping_id` returns the
bits of all columns."""

ROLLUP, CUBE, SETS, SETS_OF = "rollup", "cube", "grouping_sets", "grouping_sets_of"
"""Calls in GROUP BY that make several groupings. SETS_OF is GROUPING SETS after a list of keys."""

GROUPINGS = (ROLLUP, CUBE, SETS, SETS_OF)

SPECIAL_FORMS = ("trim", "position", "substring", "substr", "overlay")
"""Functions that allow keywords between the arguments; sqlglot parses these forms."""


PLAIN_FORMS = ("cast", "try_cast", "extract", "group", "exists")
"""Calls that always have keywords between the arguments, and the GROUP ( of WITHIN GROUP."""


class Refusal(Struct, frozen=True):
    """Refused keyword. `following` limits the refusal to positions before one of these tokens."""

    message: str
    hint: str
    following: tuple[str, ...] | None = None


_SORT = Refusal("ELF-QL has no SORT BY", "Write ORDER BY.")
_CLOCK = Refusal("ELF-QL has no clock", CLOCK_HINT)

_FILE = "Put the rows into a file: elf run 'SELECT ... FROM t' t.json; or into a TABLE of the job."

UNSUPPORTED_WORDS: dict[str, Refusal] = {
    "VALUES": Refusal("ELF-QL has no VALUES", _FILE, ("(",)),
    "LATERAL": Refusal(
        "ELF-QL has no LATERAL (SELECT ...)",
        "Write LATERAL VIEW explode(x) t AS e, or JOIN (SELECT ...) ON.",
        ("(",),
    ),
    "PIVOT": Refusal("ELF-QL has no PIVOT", "Write sum(x) FILTER (WHERE key = 'a') AS a, ...", ("(",)),
    "UNPIVOT": Refusal(
        "ELF-QL has no UNPIVOT",
        "Write SELECT 'a' AS name, a AS value ... UNION ALL SELECT 'b', b ...",
        ("(", "INCLUDE", "EXCLUDE"),
    ),
    "TABLESAMPLE": Refusal("ELF-QL has no TABLESAMPLE", "Write WHERE hash(x) % 10 = 0."),
    "MATCH_RECOGNIZE": Refusal(
        "ELF-QL has no MATCH_RECOGNIZE",
        "Write lag(x) OVER (PARTITION BY k ORDER BY ts), and compare.",
        ("(",),
    ),
    "WITH": Refusal(
        "ELF-QL has no WITH RECURSIVE", "Feed results back with a job of its own.", ("RECURSIVE",)
    ),
    "CLUSTER BY": Refusal("ELF-QL has no CLUSTER BY", "Write ORDER BY."),
    "SORT BY": _SORT,
    "DISTRIBUTE BY": Refusal("ELF-QL has no DISTRIBUTE BY", "Write PARTITIONS n after CREATE JOB name."),
    "GROUP BY": Refusal("ELF-QL has no GROUP BY DISTINCT", "Write GROUP BY a, b.", ("DISTINCT",)),
    "LIMIT": Refusal("ELF-QL has no LIMIT ALL", "Leave it out: all rows are shown without LIMIT.", ("ALL",)),
    "TABLE": Refusal(
        "ELF-QL has no TABLE(...)", "Write FROM stream GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).", ("(",)
    ),
    "|>": Refusal(
        "ELF-QL has no `|>`", "Write SELECT ... FROM stream WHERE ... GROUP BY ..., and subqueries."
    ),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP"), _CLOCK),
    ":": Refusal("ELF-QL has no paths with `:`", "Write a.b."),
    "?": Refusal("ELF-QL has no parameters", "Write the value."),
}

FILE_HINT = "Write FROM log, and name the file after the query: elf run '... FROM log' a.log."

_STORED = "Results are kept and written on by sinks: write CREATE JOB name AS SELECT ..."
_NO_TABLES = "ELF-QL reads streams and stores no tables."
_FLAGS = "Settings are flags of `elf` and keys of agent.toml; `elf schema` lists the keys."
_LISTED = "Use `elf get jobs`, `elf get agents` or `elf get streams`."
_DESCRIBED = "Use `elf describe job NAME` or `elf describe stream NAME`."

FOREIGN_STATEMENTS: dict[str, str] = {
    **dict.fromkeys(("INSERT", "MERGE", "COPY", "LOAD", "REPLACE"), _STORED),
    **dict.fromkeys(("UPDATE", "TRUNCATE", "UPSERT"), f"{_NO_TABLES} A job is changed by `elf update FILE`."),
    "DELETE": f"{_NO_TABLES} A job is ended by `elf delete NAME`.",
    "DROP": "End a job with `elf delete NAME`.",
    "ALTER": "Change a job with `elf update FILE`.",
    **dict.fromkeys(("SET", "RESET", "USE", "PRAGMA", "DECLARE"), _FLAGS),
    **dict.fromkeys(("SHOW", "LIST"), _LISTED),
    **dict.fromkeys(("DESCRIBE", "DESC"), _DESCRIBED),
    "EXPLAIN": "Use `elf explain 'SELECT ...'`.",
    **dict.fromkeys(
        ("ANALYZE", "CACHE", "UNCACHE", "REFRESH", "REPAIR", "MSCK", "CLEAR", "ADD", "COMMENT", "VACUUM"),
        f"{_NO_TABLES} Write SELECT ... FROM stream.",
    ),
    **dict.fromkeys(
        ("BEGIN", "START", "COMMIT", "ROLLBACK", "CALL", "EXECUTE", "IF", "LOOP", "WHILE", "FOR"),
        "ELF-QL has no scripts and no transactions: write SELECT ..., or CREATE JOB name AS SELECT ...",
    ),
    **dict.fromkeys(("GRANT", "REVOKE"), "Roles come with certificates: use `elf ca issue`."),
    **dict.fromkeys(("ATTACH", "DETACH", "INSTALL", "EXPORT", "IMPORT"), FILE_HINT),
    **dict.fromkeys(("SUMMARIZE", "SUMMARISE"), "Write SELECT count(*), min(x), max(x), avg(x) FROM stream."),
    **dict.fromkeys(("PIVOT", "UNPIVOT"), "Write SELECT sum(x) FILTER (WHERE key = 'a') AS a FROM stream."),
    "VALUES": "Put the rows into a file: elf run 'SELECT * FROM t' rows.json.",
    "TABLE": "Write SELECT * FROM stream.",
    "FROM": "Write SELECT ... FROM stream: SELECT comes first.",
}  # fmt: skip
"""Statements of other SQL by their first word, with a replacement."""

_PUT = "Write CREATE JOB name AS SELECT ..., or name a query with WITH name AS (SELECT ...)."
FOREIGN_CREATIONS: dict[str, str] = {
    **dict.fromkeys(
        ("TABLE", "VIEW", "TEMPORARY", "TEMP", "MATERIALIZED", "OR", "GLOBAL", "STREAM", "SINK"), _PUT
    ),
    "FUNCTION": "Write WITH FUNCTION name(x BIGINT) RETURNS STRING LANGUAGE PYTHON AS $$ ... $$ SELECT ...",
}
"""Objects that other SQL can create, with a replacement."""

FOREIGN_RELATIONS: dict[str, str] = {
    "VALUES": _FILE,
    "RANGE": "A query reads records and makes none: FROM takes the name of a stream.",
    **dict.fromkeys(("EXPLODE", "EXPLODE_OUTER"), "Write FROM stream LATERAL VIEW explode(x) t AS e."),
    **dict.fromkeys(("POSEXPLODE", "POSEXPLODE_OUTER"), "Write FROM s LATERAL VIEW posexplode(x) t AS i, e."),
    **dict.fromkeys(("INLINE", "INLINE_OUTER"), "Write FROM s LATERAL VIEW inline(x) t AS a, b."),
    "STACK": "Write SELECT ... UNION ALL SELECT ..., or explode(array(x, y)) after SELECT.",
    "JSON_TUPLE": "Write get_json_object(text, '$.a') after SELECT.",
    "UNNEST": "Write FROM stream CROSS JOIN UNNEST(x) AS t(e).",
}
"""Inputs that other SQL has after FROM, with a replacement."""

_DOUBLE = "Write DOUBLE."
_UTC = "ELF-QL has one TIMESTAMP, an instant in UTC: write TIMESTAMP."
_JSON = "Keep the text, and write get_json_object(text, '$.a') or from_json(text, 'STRUCT<a: BIGINT>')."
_NESTED = "Write from_json(text, 'ARRAY<BIGINT>'), array(x, y) or map('a', x)."
FOREIGN_TYPES: dict[str, str] = {
    **dict.fromkeys(("FLOAT4", "FLOAT8"), _DOUBLE),
    **dict.fromkeys(("TIMESTAMP_NTZ", "DATETIME", "DATETIME2", "SMALLDATETIME", "DATETIMEOFFSET"), _UTC),
    **dict.fromkeys(("SIGNED", "UNSIGNED", "MEDIUMINT", "UBIGINT", "UINTEGER", "SERIAL"), "Write BIGINT."),
    **dict.fromkeys(("MONEY", "SMALLMONEY"), "Write DECIMAL(18, 2)."),
    **dict.fromkeys(("BYTEA", "BLOB", "VARBINARY", "BYTES"), "Write BINARY."),
    **dict.fromkeys(("NVARCHAR", "NCHAR", "CLOB", "ENUM", "XML"), "Write STRING."),
    "TIME": "Write TIMESTAMP, and hour(ts) and minute(ts) of it; or keep the text.",
    "INTERVAL": "Write end - start for two times, or x * INTERVAL '1' SECOND.",
    **dict.fromkeys(("VARIANT", "JSON", "JSONB", "OBJECT"), _JSON),
    **dict.fromkeys(("ARRAY", "MAP", "STRUCT"), _NESTED),
    **dict.fromkeys(("GEOMETRY", "GEOGRAPHY"), "Keep longitude and latitude as DOUBLE."),
    **dict.fromkeys(("UUID", "INET", "CHARACTER"), "Write STRING."),
    "HUGEINT": "Write DECIMAL(38, 0).",
}
"""Types that ELF-QL does not have, with a replacement."""

OTHER_EXTRACTS: dict[str, str] = {
    "epoch": "Write unix_seconds(ts), unix_millis(ts) or unix_micros(ts).",
    "isodow": "Write EXTRACT(DAYOFWEEK_ISO FROM ts).",
    **dict.fromkeys(("milliseconds", "millisecond"), "Write unix_millis(ts) % 60000."),
    **dict.fromkeys(("microseconds", "microsecond"), "Write unix_micros(ts) % 60000000."),
}
"""Fields that EXTRACT does not have, with a replacement."""

UNKNOWN_NODES: dict[str, tuple[str, str]] = {
    "tuple": (
        "a row of values in parentheses is not a value",
        "Compare each: a = 1 AND b = 2; count(DISTINCT a, b).",
    ),
    "collate": ("ELF-QL has no COLLATE", FOREIGN_FUNCTIONS["collate"]),
    "any": ("ELF-QL has no ANY (SELECT ...)", "Write x IN (SELECT y ...), or x > (SELECT min(y) ...)."),
    "all": ("ELF-QL has no ALL (SELECT ...)", "Write x > (SELECT max(y) ...)."),
    "lambda": ("a lambda function is not a value", LAMBDA_HINT),
    "placeholder": ("ELF-QL has no parameters", "Write the value."),
    "aliases": ("several names are for explode, posexplode and inline", "Write posexplode(x) AS (n, e)."),
    "window": (
        "no window has the name after OVER",
        "Write OVER (PARTITION BY a ORDER BY b), or WINDOW w AS (...).",
    ),
    "bytestring": ("ELF-QL has no text of bytes", "Write X'0aff'."),
    "bitstring": ("ELF-QL has no text of bits", "Write X'0aff'."),
    "national": ("ELF-QL has no N'...'", "Write the text without N: '...'."),
    "slice": ("ELF-QL has no x[a:b]", "Write slice(x, start, length)."),
    "struct": ("a struct is written as a call", FOREIGN_FUNCTIONS["row"]),
    "array": ("a list is written as a call", "Write array(a, b)."),
    "comprehension": ("ELF-QL has no [... FOR ... IN ...]", LAMBDA_HINT),
    "unnest": (
        "UNNEST returns rows and is not a value",
        "Write SELECT explode(x), or FROM stream CROSS JOIN UNNEST(x) AS t(e).",
    ),
    "order": (
        "ORDER BY is allowed only in OVER, WITHIN GROUP and aggregates of lists",
        "Write array_agg(x ORDER BY y), or sort_array(x).",
    ),
    "limit": ("a call has no LIMIT", "Write the limit as an argument: array_agg(x, 3 ORDER BY y)."),
    "havingmax": ("an aggregate has no HAVING", "Write max_by(x, y) or min_by(x, y)."),
    "overlaps": ("ELF-QL has no OVERLAPS", "Write a < y AND x < b for [a, b) and [x, y)."),
    "if": ("ELF-QL has no IF ... THEN", "Write CASE WHEN condition THEN a ELSE b END."),
    "jsonextract": ("`->` stands behind the parameters of a lambda function", LAMBDA_HINT),
}
"""Classes of sqlglot's nodes that ELF-QL does not have: their name for the user, and a replacement."""

SELECTS_NOTHING = "Name columns after SELECT; one with the name of a word of SQL is written `from`."
STREAM_NAME = "the name of a stream"

CLAUSES: dict[str, tuple[str, str]] = {
    "locks": ("FOR UPDATE", "Nothing is locked here: leave it out."),
    "version": ("VERSION AS OF", "Choose times with WHERE."),
    "when": ("VERSION AS OF", "Choose times with WHERE."),
    "catalog": (
        "a name of three parts",
        "Write FROM stream, or FROM namespace.job for the results of a job.",
    ),
    "hints": ("WITH (hint)", "Leave it out: a query is planned in one way only."),
    "kind": ("SELECT AS STRUCT", "Select each field as a column."),
    "global_": ("GLOBAL JOIN", "Write JOIN other ON a.x = b.y."),
    "operation_modifiers": ("a modifier after SELECT", "Leave it out."),
    "only": ("FROM ONLY", "Write FROM stream."),
    "ordinality": ("WITH ORDINALITY", "Write posexplode(x) AS (n, e)."),
    "partition": ("PARTITION in FROM", "Choose records with WHERE."),
    "match": ("MATCH_RECOGNIZE", "Write lag(x) OVER (PARTITION BY k ORDER BY ts), and compare."),
    "settings": ("SETTINGS", "Settings are flags of `elf` and keys of agent.toml."),
    "format": ("FORMAT", "Write elf run -o json, -o csv or -o table."),
    "for_": ("FOR", "Write elf run -o json, -o csv or -o table."),
    "options": ("OPTION", "Leave it out: a query is planned in one way only."),
    "by_name": ("UNION BY NAME", "Select the columns in one order: they go by position."),
    "sample": ("SAMPLE", "Filter with WHERE, or read less with `elf run --sample N`."),
    "joins": ("a join in parentheses", "Write the joins one after the other: a JOIN b ON ... JOIN c ON ..."),
    "into": ("INTO", "Read results with `elf results`, or write them on with a sink."),
}
"""Clauses by sqlglot's name: their name for the user, and a replacement."""
