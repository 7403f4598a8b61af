"""Random expressions of a type, in both languages.

What the two mean differently is written so that they mean the same: each pair of templates below is one
expression of Spark's meaning (ANSI off) and the oracle's text for that meaning.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.properties.nodes import Node, listed, raw, same, two
from tests.properties.rows import BOOL, DEC, INT, NUM, TEXT, TEXTS, TIME, literal, moment

SORTS = (INT, NUM, DEC, TEXT, TIME, BOOL)
SHORT = {"i": INT, "n": NUM, "d": DEC, "t": TEXT, "w": TIME, "b": BOOL}

FORMS: dict[str, tuple[tuple[str, str, str], ...]] = {
    INT: (
        ("({0} + {1})", "", "ii"),
        ("({0} - {1} * {2})", "", "iii"),
        ("({0} * {1})", "", "ii"),
        ("(-{0})", "", "i"),
        ("({0} div {1})", "({0} // {1})", "ii"),
        ("({0} % {1})", "", "ii"),
        ("pmod({0}, 5)", "((({0} % 5) + 5) % 5)", "i"),
        ("abs({0})", "", "i"),
        ("({0} & {1})", "", "ii"),
        ("length({0})", "", "t"),
        ("instr({0}, 'a')", "", "t"),
        ("CAST({0} AS BIGINT)", "CAST(trunc({0}) AS BIGINT)", "n"),
        ("CAST({0} AS INT)", "", "b"),
        ("floor({0})", "CAST(floor({0}) AS BIGINT)", "n"),
        ("ceil({0})", "CAST(ceil({0}) AS BIGINT)", "n"),
        ("year({0})", "", "w"),
        ("day({0})", "", "w"),
        ("hour({0})", "", "w"),
        ("minute({0})", "", "w"),
        ("dayofweek({0})", "(dayofweek({0}) + 1)", "w"),
        ("unix_seconds({0})", "CAST(floor(epoch({0})) AS BIGINT)", "w"),
        ("datediff({0}, {1})", "date_diff('day', CAST({1} AS DATE), CAST({0} AS DATE))", "ww"),
        ("greatest({0}, {1})", "", "ii"),
        ("least({0}, {1})", "", "ii"),
    ),
    NUM: (
        ("({0} + {1})", "", "nn"),
        ("({0} - {1})", "", "ni"),
        ("({0} * {1})", "", "nn"),
        ("(-{0})", "", "n"),
        ("({0} / 4)", "(CAST({0} AS DOUBLE) / 4)", "i"),
        ("({0} / {1})", "(CAST({0} AS DOUBLE) / nullif(CAST({1} AS DOUBLE), 0))", "nn"),
        ("abs({0})", "", "n"),
        ("round({0}, 1)", "", "n"),
        ("CAST({0} AS DOUBLE)", "", "i"),
        ("CAST({0} AS DOUBLE)", "", "d"),
        ("sqrt(abs({0}))", "", "n"),
        ("greatest({0}, {1})", "", "nn"),
        ("least({0}, {1})", "", "nn"),
    ),
    DEC: (
        ("({0} + {1})", "", "dd"),
        ("({0} - {1})", "", "dd"),
        ("(-{0})", "", "d"),
        ("abs({0})", "", "d"),
        ("CAST({0} AS DECIMAL(12,2))", "", "i"),
        ("greatest({0}, {1})", "", "dd"),
    ),
    TEXT: (
        ("({0} || {1})", "", "tt"),
        ("concat({0}, {1})", "({0} || {1})", "tt"),
        ("upper({0})", "", "t"),
        ("lower({0})", "", "t"),
        ("trim({0})", "", "t"),
        ("substring({0}, 1, 1)", "", "t"),
        ("substring({0}, 2)", "", "t"),
        ("left({0}, 2)", "", "t"),
        ("replace({0}, 'a', 'xy')", "", "t"),
        ("reverse({0})", "", "t"),
        ("lpad({0}, 4, '.')", "", "t"),
        ("CAST({0} AS STRING)", "CAST({0} AS VARCHAR)", "i"),
        ("CAST({0} AS STRING)", "CAST({0} AS VARCHAR)", "b"),
        ("date_format({0}, 'yyyy-MM-dd HH:mm:ss')", "strftime({0}, '%Y-%m-%d %H:%M:%S')", "w"),
        ("split_part({0}, 'b', 1)", "", "t"),
        ("greatest({0}, {1})", "", "tt"),
    ),
    TIME: (
        ("({0} + INTERVAL '3' SECOND)", "", "w"),
        ("({0} - INTERVAL '2' MINUTE)", "", "w"),
        ("({0} + INTERVAL 1 MONTH)", "", "w"),
        ("date_trunc('minute', {0})", "", "w"),
        ("date_trunc('DAY', {0})", "CAST(date_trunc('day', {0}) AS TIMESTAMP)", "w"),
        ("least({0}, {1})", "", "ww"),
    ),
    BOOL: (
        ("({0} AND {1})", "", "bb"),
        ("({0} OR {1})", "", "bb"),
        ("(NOT {0})", "", "b"),
        ("({0} IS TRUE)", "", "b"),
        ("({0} IS NOT FALSE)", "", "b"),
        ("({0} LIKE 'a%')", "", "t"),
        ("({0} NOT LIKE '%b_')", "", "t"),
        ("startswith({0}, {1})", "starts_with({0}, {1})", "tt"),
        ("contains({0}, 'b')", "", "t"),
        ("({0} BETWEEN {1} AND {2})", "", "iii"),
        ("({0} NOT BETWEEN {1} AND {2})", "", "nin"),
        ("({0} < {1})", "", "in"),
        ("({0} = {1})", "", "dn"),
        ("({0} >= {1})", "", "di"),
        ("({0} IN (1, 7, 10))", "({0} IN ('1', '7', '10'))", "t"),
        ("({0} IN (1, 2.5, 3))", "", "i"),
        ("({0} IN (1, NULL))", "", "i"),
        ("({0} NOT IN (2, 3))", "", "i"),
        ("({0} NOT IN ('a', NULL))", "", "t"),
        ("({0} IN ('a', 'b', '10'))", "", "t"),
        ("({0} IN ({1}, {2}))", "", "iii"),
        ("({0} IN ({1}, {2}))", "", "ttt"),
        ("equal_null({0}, {1})", "({0} IS NOT DISTINCT FROM {1})", "tt"),
    ),
}
"""By type of the result: ELF-QL, the oracle's text ("" if it is the same), the types of its arguments."""

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(slots=True)
class Scope:
    """What an expression may use: columns that are seen, and how each is written.

    Attributes:
        leaves: as the query itself writes them.
        outside: as a query in brackets inside of it has to write them; none: alike.
        marks: what is special about it.
    """

    leaves: list[Node] = field(default_factory=list)
    outside: list[Node] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)

    def of(self, sort: str) -> list[Node]:
        return [leaf for leaf in self.leaves if leaf.sort == sort]


def constant(rng: random.Random, sort: str) -> Node:
    """A literal, seldom NULL."""
    if rng.random() < 0.04:
        kind = {INT: "BIGINT", NUM: "DOUBLE", DEC: "DECIMAL(8,2)", TEXT: "STRING", TIME: "TIMESTAMP"}.get(
            sort, "BOOLEAN"
        )
        return two(sort, f"CAST(NULL AS {kind})", f"CAST(NULL AS {kind})")
    if sort == INT:
        number = rng.randint(-2, 9)
        return same(sort, str(number) if number >= 0 else f"({number})")
    if sort == NUM:
        quarters = rng.randint(-3, 20) / 4
        return two(sort, f"({quarters!r}D)", f"CAST({quarters!r} AS DOUBLE)")
    if sort == DEC:
        text = f"CAST('{rng.randint(-99, 500) / 100:.2f}' AS DECIMAL(8,2))"
        return same(sort, text)
    if sort == TEXT:
        return same(sort, raw(literal(rng.choice(TEXTS))))
    if sort == TIME:
        return same(sort, raw(f"TIMESTAMP '{moment(rng).replace(tzinfo=None):%Y-%m-%d %H:%M:%S}'"))
    return same(sort, rng.choice(("true", "false")))


def expression(rng: random.Random, scope: Scope, sort: str, depth: int) -> Node:
    """A random expression of a type, so deep at most."""
    leaves = scope.of(sort)
    if depth <= 0 or rng.random() < 0.3:
        return rng.choice(leaves) if leaves and rng.random() < 0.85 else constant(rng, sort)
    shape = rng.random()
    if shape < 0.3:
        return choice(rng, scope, sort, depth)
    if sort == BOOL and shape < 0.6:
        return comparison(rng, scope, depth)
    forms = [form for form in FORMS[sort] if set(form[2]) <= {"i", "n", "d", "t", "w", "b"}]
    elf, duck, takes = rng.choice(forms)
    parts = [expression(rng, scope, SHORT[each], depth - 1) for each in takes]
    return two(sort, elf, duck or elf, *parts)


def comparison(rng: random.Random, scope: Scope, depth: int) -> Node:
    """Two values of one type, compared, or one that may be null."""
    sort = rng.choice(SORTS)
    left = expression(rng, scope, sort, depth - 1)
    shape = rng.random()
    if shape < 0.15:
        return same(BOOL, "({0} IS NULL)" if rng.random() < 0.5 else "({0} IS NOT NULL)", left)
    right = expression(rng, scope, sort, depth - 1)
    if shape < 0.25:
        return two(BOOL, "({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})", left, right)
    if shape < 0.3:
        return same(BOOL, "({0} IS DISTINCT FROM {1})", left, right)
    return same(BOOL, f"({{0}} {rng.choice(COMPARISONS)} {{1}})", left, right)


def choice(rng: random.Random, scope: Scope, sort: str, depth: int) -> Node:
    """CASE in its forms, coalesce, nullif, if, nvl2."""

    def some(kind: str) -> Node:
        return expression(rng, scope, kind, depth - 1)

    shape = rng.randrange(8)
    if shape == 0:
        return same(sort, "CASE WHEN {0} THEN {1} ELSE {2} END", some(BOOL), some(sort), some(sort))
    if shape == 1:
        four = (some(BOOL), some(sort), some(BOOL), some(sort))
        return same(sort, "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END", *four)
    if shape == 2:
        kind = rng.choice((INT, TEXT))
        four = (some(kind), some(kind), some(sort), some(sort))
        return same(sort, "CASE {0} WHEN {1} THEN {2} ELSE {3} END", *four)
    if shape == 3:
        return two(
            sort,
            "if({0}, {1}, {2})",
            "CASE WHEN {0} THEN {1} ELSE {2} END",
            some(BOOL),
            some(sort),
            some(sort),
        )
    if shape == 4:
        return same(sort, "nullif({0}, {1})", some(sort), some(sort))
    if shape == 5:
        parts = (some(rng.choice(SORTS)), some(sort), some(sort))
        return two(sort, "nvl2({0}, {1}, {2})", "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END", *parts)
    return same(sort, "coalesce({0}, {1})", some(sort), some(sort))


def condition(rng: random.Random, scope: Scope, depth: int = 2) -> Node:
    """What filters rows: often an equation or a bound, so that some rows pass."""
    if rng.random() < 0.5:
        return comparison(rng, scope, min(depth, 2))
    return expression(rng, scope, BOOL, depth)


def conjunction(parts: Sequence[Node]) -> Node:
    """All conditions, of which each may be left out but one."""
    return listed(" AND ", list(parts))
