"""Random expressions of every type, with implicit casts: one text that Spark and ELF-QL take alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.properties.nodes import Node, raw, same
from tests.properties.typed.rows import (
    BIN,
    BOOL,
    DATE,
    DEC,
    DOCUMENTS,
    INT,
    JSON,
    LIST,
    NUM,
    NUMBERS,
    SORTS,
    TEXT,
    TEXTS,
    TIME,
    WIDE,
)

SHORT = {
    "i": INT, "n": NUM, "d": DEC, "e": WIDE, "t": TEXT, "y": BIN, "a": DATE, "w": TIME, "b": BOOL,
    "g": JSON, "l": LIST, "m": NUMBERS,
}  # fmt: skip

FORMS: dict[str, tuple[str, ...]] = {
    INT: (
        "({i} + {i})", "({i} - {i})", "({i} * {i})", "(-{i})", "({i} div {i})", "({i} % {i})",
        "pmod({i}, 5L)",
        "abs({i})", "({i} & {i})", "({i} | {i})", "({i} ^ {i})", "(~{i})", "length({t})", "length({y})",
        "octet_length({y})", "bit_length({t})", "octet_length({t})", "instr({t}, {t})", "locate('b', {t})",
        "CAST({n} AS BIGINT)", "CAST({t} AS BIGINT)", "CAST({d} AS BIGINT)", "CAST({b} AS BIGINT)",
        "CAST({w} AS BIGINT)", "floor({n})", "ceil({n})", "year({a})", "month({a})", "day({a})",
        "quarter({w})",
        "hour({w})", "minute({w})", "dayofweek({a})", "weekday({a})", "dayofyear({w})", "weekofyear({a})",
        "unix_seconds({w})", "unix_date({a})", "datediff({a}, {a})", "datediff({w}, {a})",
        "greatest({i}, {i})",
        "least({i}, {i})", "ascii({t})", "sign({i})", "extract(DOW FROM {a})", "extract(WEEK FROM {w})",
        "extract(YEAROFWEEK FROM {a})", "unix_micros({w})",
        "crc32({y})", "bit_count({i})",
        "shiftleft({i}, 2)",
        "levenshtein({t}, {t})", "find_in_set({t}, 'a,b,ab')",
        "json_array_length({g})", "size(json_object_keys({g}))", "size({l})", "array_size({m})",
        "array_position({l}, {t})", "element_at({m}, 1)", "try_element_at({m}, -1)", "array_max({m})",
        "array_min({m})", "size(map('a', {i}, 'b', {i}))", "element_at(map('a', {i}, 'b', {i}), {t})",
        "CAST(get_json_object({g}, '$.a') AS BIGINT)", "{m}[0]", "shiftright({i}, 1)",
        "shiftrightunsigned({i}, 3)", "bit_get({i}, 1)", "regexp_count({t}, '[ab]')",
        "regexp_instr({t}, 'b')", "position('a', {t}, 1)", "unix_timestamp({t}, 'yyyy-MM-dd')",
        "unix_millis({w})", "second({w})",
    ),
    NUM: (
        "({n} + {n})", "({n} - {i})", "({n} * {n})", "(-{n})", "({i} / 4L)", "({n} / {n})", "({i} / {i})",
        "abs({n})",
        "round({n}, 1)", "bround({n})", "CAST({i} AS DOUBLE)", "CAST({d} AS DOUBLE)", "CAST({t} AS DOUBLE)",
        "sqrt(abs({n}))", "greatest({n}, {n})", "least({n}, {i})", "({n} % 3D)", "({d} * {n})",
        "({t} + {i})", "({t} * {n})",
        "({e} / {n})", "months_between({w}, {a})", "CAST({w} AS DOUBLE)", "signum({d})",
        "nanvl({n}, {n})", "({t} / {t})", "try_divide({n}, {i})",
        "power({n}, 2D)", "rint({n})", "CAST(get_json_object({g}, '$.a') AS DOUBLE)",
        "({n} % {n})", "pmod({n}, 4D)",
    ),
    DEC: (
        "CAST(({d} + {d}) AS DECIMAL(8,2))", "CAST({i} AS DECIMAL(8,2))", "CAST({n} AS DECIMAL(8,2))",
        "CAST({t} AS DECIMAL(8,2))", "CAST({e} AS DECIMAL(8,2))", "CAST(-{d} AS DECIMAL(8,2))", "abs({d})",
        "greatest({d}, {d})", "least({d}, {d})", "(-{d})", "CAST(({d} * {d}) AS DECIMAL(8,2))",
        "CAST({b} AS DECIMAL(8,2))",
    ),
    WIDE: (
        "CAST(({d} * {e}) AS DECIMAL(20,4))", "CAST(({e} / {d}) AS DECIMAL(20,4))",
        "CAST(({e} % {d}) AS DECIMAL(20,4))",
        "CAST({t} AS DECIMAL(20,4))", "CAST({n} AS DECIMAL(20,4))", "CAST(({e} - {i}) AS DECIMAL(20,4))",
        "CAST(round({e}, 1) AS DECIMAL(20,4))", "greatest({e}, {e})", "(-{e})", "abs({e})",
        "CAST(floor({e}) AS DECIMAL(20,4))", "CAST(bround({e}, 2) AS DECIMAL(20,4))",
        "CAST(({d} + {e}) AS DECIMAL(20,4))",
    ),
    TEXT: (
        "({t} || {t})", "concat({t}, {t})", "upper({t})", "lower({t})", "trim({t})", "substring({t}, 1, 1)",
        "substring({t}, CAST({i} AS INT), 2)", "left({t}, 2)", "right({t}, 1)", "replace({t}, 'a', 'xy')",
        "reverse({t})",
        "lpad({t}, 4, '.')", "rpad({t}, 3, 'ab')", "CAST({i} AS STRING)", "CAST({b} AS STRING)",
        "CAST({n} AS STRING)",
        "CAST({d} AS STRING)", "CAST({e} AS STRING)", "CAST({a} AS STRING)", "CAST({w} AS STRING)",
        "hex({y})",
        "CAST({y} AS STRING)", "date_format({w}, 'yyyy-MM-dd HH:mm:ss')", "date_format({a}, 'E d MMM')",
        "split_part({t}, 'b', 1)",
        "greatest({t}, {t})", "base64({y})", "md5({y})", "sha1({t})", "hex({i})", "concat({t}, {i})",
        "({t} || {d})", "({a} || {t})",
        "translate({t}, 'ab', '1')", "initcap({t})", "ltrim('a', {t})", "concat_ws('-', {t}, {i}, {t})",
        "repeat({t}, 2)",
        "regexp_replace({t}, '[0-9]', '#')", "overlay({t} PLACING '_' FROM 2)", "soundex({t})",
        "format_number({n}, 2)",
        "format_number({d}, 1)", "dayname({a})", "typeof({d} + {e})", "typeof({a})", "nullif({t}, {i})",
        "get_json_object({g}, '$.a')", "get_json_object({g}, '$.b.c')", "get_json_object({g}, '$.d[0]')",
        "get_json_object({g}, '$.d')", "get_json_object({g}, '$.b.c.f[1]')", "get_json_object({g}, '$')",
        "get_json_object({g}, '$[1]')", "get_json_object({g}, '$.d[0].g')", "get_json_object({t}, '$.a')",
        "get_json_object({g}, '$[''a'']')", "array_join({l}, '-')", "array_join({l}, '-', '?')",
        "element_at({l}, 2)", "try_element_at({l}, -1)", "{l}[0]", "array_min({l})", "array_max({l})",
        "array_join({m}, ' ')", "array_join(map_keys(str_to_map({t}, '_', 'a')), ';')",
        "element_at(str_to_map('a:1,b:2'), {t})", "array_join(json_object_keys({g}), '/')",
        "to_json(from_json({g}, 'ARRAY<BIGINT>'))", "to_json(from_json({g}, 'MAP<STRING, STRING>'))",
        "to_json({l})", "to_json({m})", "regexp_extract({t}, '([a-z])([0-9_]?)', 1)", "bin({i})",
        "regexp_substr({t}, '[0-9]+')", "substring_index({t}, 'a', 1)", "sha2({y}, 256)", "conv({t}, 10, 16)",
        "format_string('%s:%d', {t}, {i})", "from_unixtime({i})", "monthname({a})", "trim(BOTH 'a' FROM {t})",
        "btrim({t})", "rtrim({t}, ' ')", "date_format({w}, 'MM/dd/yy HH:mm:ss.SSS')", "chr({i})", "space(2)",
        "date_format({a}, 'EEEE, D, Q')", "regexp_replace({t}, '(a)(b)?', '<$1>')", "hex({t})", "ucase({t})",
        "to_json(map('k', {i}))", "url_encode({t})", "url_decode({t})", "string({d})", "sha1({y})",
        "typeof({i} / {i})", "typeof({d} * {d})", "typeof({t} || {y})",
    ),
    BIN: (
        "CAST({t} AS BINARY)", "unhex(hex({y}))", "({y} || {y})", "concat({y}, {y})",
        "substring({y}, 1, 1)", "left({y}, 1)",
        "unhex({t})", "unbase64(base64({y}))", "greatest({y}, {y})", "least({y}, {y})",
        "overlay({y} PLACING X'00' FROM 1)", "lpad({y}, 3, X'01')", "right({y}, 1)",
    ),
    DATE: (
        "({a} + INTERVAL 1 MONTH)", "({a} - INTERVAL '2' DAY)", "date_add({a}, 3)",
        "date_sub({a}, CAST({i} AS INT))",
        "add_months({a}, 1)", "add_months({a}, CAST({i} AS INT))", "last_day({a})", "CAST({w} AS DATE)",
        "CAST({t} AS DATE)", "to_date({t})",
        "trunc({a}, 'MM')", "trunc({a}, 'QUARTER')", "trunc({a}, 'YEAR')", "trunc({a}, 'WEEK')",
        "next_day({a}, 'MON')", "greatest({a}, {a})",
        "least({a}, {a})", "make_date(CAST({i} AS INT), 2, 28)", "({a} + INTERVAL '1' YEAR)", "({a} - 1)",
        "({a} + CAST({i} AS INT))", "trunc({w}, 'MM')", "date_from_unix_date(CAST({i} AS INT))",
        "to_date({t}, 'yyyy-MM-dd')", "date({w})", "next_day({w}, 'fri')",
        "CAST(get_json_object({g}, '$.a') AS DATE)", "last_day({w})", "date_add({w}, 1)",
    ),
    TIME: (
        "({w} + INTERVAL '3' SECOND)", "({w} - INTERVAL '2' MINUTE)", "({w} + INTERVAL 1 MONTH)",
        "date_trunc('minute', {w})",
        "date_trunc('DAY', {a})", "least({w}, {w})", "CAST({a} AS TIMESTAMP)", "CAST({t} AS TIMESTAMP)",
        "to_timestamp({t})",
        "date_trunc('QUARTER', {w})", "timestamp_seconds({i})", "({a} + INTERVAL '5' HOUR)",
        "CAST({i} AS TIMESTAMP)", "greatest({w}, {a})",
        "({w} + INTERVAL '26' HOUR)", "({w} - INTERVAL 14 MONTHS)",

        "make_timestamp(2024, 2, CAST({i} AS INT), 1, 2, 3.5D)", "to_timestamp({t}, 'yyyy-MM-dd HH:mm:ss')",
        "to_utc_timestamp({w}, 'Europe/Paris')", "timestamp_millis({i})", "timestamp_micros({i})",
        "date_trunc('HOUR', {w})", "date_trunc('YEAR', {a})",
        "from_utc_timestamp({w}, 'Asia/Tokyo')",
        "coalesce({w}, {a})", "date_trunc('WEEK', {w})",
    ),
    BOOL: (
        "({b} AND {b})", "({b} OR {b})", "(NOT {b})", "({b} IS TRUE)", "({b} IS NOT FALSE)",
        "({b} IS UNKNOWN)", "({t} LIKE 'a%')",
        "({t} NOT LIKE '%b_')", "({t} RLIKE '^[a-b]+$')", "({t} ILIKE 'B%')", "startswith({t}, {t})",
        "contains({t}, 'b')", "endswith({t}, {t})",
        "({i} BETWEEN {i} AND {i})", "({n} NOT BETWEEN {i} AND {n})", "({i} < {n})", "({d} = {n})",
        "({d} >= {i})", "({d} < {e})",
        "({t} IN ('1', 'a', '10'))", "({i} IN (1L, 2L, 3L))", "({i} IN (1L, NULL))",
        "({i} NOT IN (2L, 3L))",
        "({t} NOT IN ('a', NULL))", "({t} IN (1, 7, 10))", "({i} IN ({i}, {i}))", "({d} IN ({d}, {e}))",
        "({a} IN ({a}, {w}))",
        "({y} IN ({y}, X'FF'))", "equal_null({t}, {t})", "({t} = {i})", "({t} < {n})", "({a} = {t})",
        "({w} > {t})", "({a} < {w})", "({w} = {a})",
        "({t} = {d})", "({t} <=> {a})", "({t} > {y})", "({b} = {i})", "({b} = {t})", "({y} = {t})",
        "CAST({t} AS BOOLEAN)", "CAST({i} AS BOOLEAN)", "CAST({n} AS BOOLEAN)",
        "({d} BETWEEN {i} AND {t})", "({a} BETWEEN {t} AND {w})", "isnan({n})", "({t} IN ({i}, {t}))",
        "({a} IN ({t}, {a}))", "({b} <=> {b})",
        "array_contains({l}, {t})", "array_contains({m}, {i})", "({t} LIKE ANY ('a%', '%b'))",
        "({t} NOT LIKE ALL ('a%', '%1'))", "({t} LIKE {t})", "map_contains_key(map('a', 1), {t})",
        "(get_json_object({g}, '$.a') = {i})", "(get_json_object({g}, '$.d[0]') IS NULL)",
        "regexp_like({t}, '^.$')",
        "(({i}, {t}) = ({i}, {t}))", "({i} BETWEEN {t} AND {n})",
    ),
    JSON: ("coalesce({g}, {g})", "get_json_object({g}, '$.b')", "get_json_object({g}, '$.d')", "trim({g})"),
    LIST: (
        "split({t}, '')", "split({t}, 'b')", "split({t}, 'a', 2)", "array({t}, {t})", "array({t}, NULL)",
        "sort_array({l})", "sort_array({l}, false)", "array_distinct({l})", "array_compact({l})",
        "slice({l}, 1, 2)", "slice({l}, -1, 1)", "regexp_extract_all({t}, '[a-z]', 0)",
        "json_object_keys({g})",
        "from_json({g}, 'ARRAY<STRING>')", "map_values(map('a', {t}, 'b', {t}))",
        "from_json(get_json_object({g}, '$.d'), 'ARRAY<STRING>')",
    ),
    NUMBERS: (
        "array({i}, {i})", "array({i}, {i}, NULL)", "sort_array({m})", "sort_array({m}, false)",
        "array_distinct({m})", "array_compact({m})", "slice({m}, 2, 2)", "from_json({g}, 'ARRAY<BIGINT>')",
        "from_json(get_json_object({g}, '$.d'), 'ARRAY<BIGINT>')", "map_values(map('a', {i}, 'b', 5L))",
    ),
}  # fmt: skip
"""By the type of the result; {i} and so on: an argument of that type."""

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
CASTS = {
    INT: (TEXT, NUM, DEC, BOOL), NUM: (TEXT, INT, DEC, WIDE), DEC: (WIDE, TEXT, INT), WIDE: (DEC, INT, TEXT),
    TEXT: (INT, DATE, TIME, BIN, NUM, DEC, BOOL), BIN: (TEXT,),
    DATE: (TEXT, TIME), TIME: (TEXT, DATE), BOOL: (TEXT, INT),
}  # fmt: skip
"""By type: others that may stand in its place, because Spark casts them, or refuses the whole."""


@dataclass(slots=True)
class Scope:
    """Columns that an expression may use."""

    leaves: list[Node] = field(default_factory=list)

    def of(self, sort: str) -> list[Node]:
        return [leaf for leaf in self.leaves if leaf.sort == sort]


def constant(rng: random.Random, sort: str) -> Node:
    """A literal, seldom NULL."""
    if rng.random() < 0.05 and sort in _KINDS:
        return same(sort, f"CAST(NULL AS {_KINDS[sort]})" if rng.random() < 0.7 else "NULL")
    return same(sort, raw(_literal(rng, sort)))


def _literal(rng: random.Random, sort: str) -> str:
    if sort == INT:
        number = rng.randint(-3, 9)
        return f"{number}L" if number >= 0 else f"({number}L)"
    if sort == NUM:
        return f"({rng.randint(-3, 20) / 4!r}D)"
    if sort == DEC:
        return f"CAST('{rng.randint(-99, 500) / 100:.2f}' AS DECIMAL(8,2))"
    if sort == WIDE:
        return f"CAST('{rng.randint(-9999, 50000) / 10000:.4f}' AS DECIMAL(20,4))"
    if sort == TEXT:
        return f"'{rng.choice(TEXTS)}'"
    if sort == JSON:
        return "'" + rng.choice(DOCUMENTS).replace("\\", "\\\\") + "'"
    if sort == LIST:
        return rng.choice(("array('a', 'b')", "array('b', NULL, 'a')", "split('', 'x')"))
    if sort == NUMBERS:
        return rng.choice(("array(1L, 2L)", "array(3L, NULL, 1L)", "array(7L)"))
    if sort == BIN:
        return rng.choice(("X''", "X'61'", "X'FF'", "X'6162'"))
    if sort == DATE:
        return f"DATE '{rng.choice(('2024-02-29', '2024-01-31', '2023-12-31'))}'"
    if sort == TIME:
        times = ("2024-02-28 23:59:45", "2024-02-29 00:00:00", "1969-12-31 23:59:59.5")
        return f"TIMESTAMP '{rng.choice(times)}'"
    return rng.choice(("true", "false"))


_KINDS = {
    INT: "BIGINT", NUM: "DOUBLE", DEC: "DECIMAL(8,2)", WIDE: "DECIMAL(20,4)", TEXT: "STRING", BIN: "BINARY",
    DATE: "DATE", TIME: "TIMESTAMP", BOOL: "BOOLEAN", JSON: "STRING",
}  # fmt: skip
_NESTED = (JSON, LIST, NUMBERS)
"""Only functions take and give them."""


def expression(rng: random.Random, scope: Scope, sort: str, depth: int, *, cast: float = 0.04) -> Node:
    """A random expression of a type, so deep at most; with the chance `cast` one that Spark casts to it."""
    if sort not in _NESTED and rng.random() < cast:
        sort = rng.choice(CASTS[sort])
    leaves = scope.of(sort)
    if depth <= 0 or rng.random() < 0.25:
        return rng.choice(leaves) if leaves and rng.random() < 0.85 else constant(rng, sort)
    shape = rng.random()
    if shape < 0.2 and sort not in _NESTED:
        return choice(rng, scope, sort, depth)
    if sort == BOOL and shape < 0.5:
        return comparison(rng, scope, depth)
    return form(rng, scope, rng.choice(FORMS[sort]), sort, depth)


def form(rng: random.Random, scope: Scope, text: str, sort: str, depth: int) -> Node:
    """A form with arguments; {=} is the first one again."""
    parts: list[Node] = []
    pieces = text.split("{")
    made = pieces[0]
    for piece in pieces[1:]:
        letter, _, rest = piece.partition("}")
        if letter == "=":  # the first argument again
            made += "{0}" + rest
            continue
        made += f"{{{len(parts)}}}{rest}"
        parts.append(expression(rng, scope, SHORT[letter], depth - 1))
    return same(sort, made, *parts)


def comparison(rng: random.Random, scope: Scope, depth: int) -> Node:
    """Two values of one type, compared, or one that may be null."""
    sort = rng.choice(SORTS)
    left = expression(rng, scope, sort, depth - 1)
    shape = rng.random()
    if shape < 0.15:
        return same(BOOL, "({0} IS NULL)" if rng.random() < 0.5 else "({0} IS NOT NULL)", left)
    right = expression(rng, scope, sort, depth - 1, cast=0.15)
    if shape < 0.25:
        return same(BOOL, "({0} <=> {1})", left, right)
    if shape < 0.3:
        return same(BOOL, "({0} IS DISTINCT FROM {1})", left, right)
    return same(BOOL, f"({{0}} {rng.choice(COMPARISONS)} {{1}})", left, right)


def choice(rng: random.Random, scope: Scope, sort: str, depth: int) -> Node:
    """CASE in its forms, coalesce, nullif, if, nvl2."""

    def some(kind: str) -> Node:
        return expression(rng, scope, kind, depth - 1)

    kind = rng.choice((INT, TEXT, DATE, DEC))
    shapes: Sequence[tuple[str, tuple[str, ...]]] = (
        ("CASE WHEN {0} THEN {1} ELSE {2} END", (BOOL, sort, sort)),
        ("CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END", (BOOL, sort, BOOL, sort)),
        ("CASE {0} WHEN {1} THEN {2} ELSE {3} END", (kind, kind, sort, sort)),
        ("if({0}, {1}, {2})", (BOOL, sort, sort)),
        ("nullif({0}, {1})", (sort, sort)),
        ("nvl2({0}, {1}, {2})", (kind, sort, sort)),
        ("coalesce({0}, {1})", (sort, sort)),
        ("nvl({0}, {1})", (sort, sort)),
    )
    text, sorts = rng.choice(shapes)
    return same(sort, text, *(some(each) for each in sorts))
