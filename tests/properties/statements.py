"""Random statements: joins, queries in brackets, set operations, groupings, OVER, in both languages.

Every query names its inputs and its columns with names that nothing else has, so that no name can mean two
things. Rows that ELF-QL orders by rules of its own (ties of ORDER BY by the output columns) are ordered by
the same rules in the oracle's text.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.properties.aggregates import aggregate, direction, over
from tests.properties.expressions import SORTS, Scope, comparison, condition, conjunction, expression
from tests.properties.inputs import Input, Joined, equations, uses
from tests.properties.nodes import NOTHING, Node, listed, same, spare, two
from tests.properties.rows import BOOL, DEC, INT, NUM, TEXT, TIME, Column

JOINS = (
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "CROSS JOIN",
)
OTHER_SETS = ("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
HALF = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")


@dataclass(slots=True)
class Query:
    """A query and the columns of its rows; `ordered`: their order is part of the answer."""

    text: Node
    columns: tuple[Column, ...]
    ordered: bool = False


@dataclass(slots=True)
class Maker:
    """Makes statements over some streams.

    Attributes:
        rng: decides.
        streams: their columns by name.
        paths: how a column of a stream is written that is no field of its own.
        features: what the last statement has in it.
    """

    rng: random.Random
    streams: Mapping[str, tuple[Column, ...]]
    paths: Mapping[str, str] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    _named: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    _count: int = 0

    def statement(self, depth: int = 3) -> Query:
        """A whole statement."""
        self.begin()
        before: list[Node] = []
        if self.rng.random() < 0.2:
            for _ in range(self.rng.randint(1, 2)):
                made = self.query(depth - 1)
                name = self.name("c")
                before.append(spare(same("", f"{name} AS ({{0}})", made.text)))
                self._named[name] = made.columns
            self.features.add("cte")
        query = self.query(depth)
        if before:
            with_ = spare(same("", "WITH {0} ", listed(", ", before)))
            return Query(same("", "{0}{1}", with_, query.text), query.columns, query.ordered)
        return query

    def begin(self) -> None:
        """Forget the statement before."""
        self._named, self._count, self.features = {}, 0, set()

    def source(self, depth: int) -> tuple[Node, Scope, Node]:
        """FROM, what is seen of it, and WHERE."""
        inputs = self._inputs(depth)
        scope = self._scope(inputs)
        return inputs.text, scope, self._where(depth, scope)

    def one_stream(self, alias: str) -> tuple[str, Scope]:
        """A stream under this name, and what is seen of it."""
        name = self.rng.choice(list(self.streams))
        return name, Scope(
            self._all([Input(NOTHING, alias, self.streams[name], stream=True, paths=self.paths)])
        )

    def ordered(self, text: Node, columns: tuple[Column, ...]) -> Query:
        """The query with ORDER BY over its columns, and perhaps LIMIT."""
        return self._ordered(text, columns, [column.sort for column in columns])

    def query(self, depth: int, sorts: Sequence[str] | None = None, *, inner: bool = False) -> Query:
        """A query of these types of columns, or of any."""
        if depth > 1 and self.rng.random() < 0.15:
            return self.several(depth, sorts or self._sorts())
        return self.select(depth, sorts or self._sorts(), inner=inner)

    def several(self, depth: int, sorts: Sequence[str]) -> Query:
        """UNION, INTERSECT, EXCEPT of queries."""
        self.features.add("set")
        branches = [self.select(depth - 1, sorts, plain=True) for _ in range(self.rng.randint(2, 3))]
        parts = [branches[0].text]
        for branch in branches[1:]:
            word = self.rng.choice(("UNION", "UNION ALL") if self.rng.random() < 0.95 else OTHER_SETS)
            parts.append(spare(same("", f" {word} {{0}}", branch.text)))
        text = same("query " + " ".join(sorts), "".join(f"{{{at}}}" for at in range(len(parts))), *parts)
        columns = branches[0].columns
        if self.rng.random() < 0.3:
            return self._ordered(text, columns, sorts)
        return Query(text, columns)

    def select(self, depth: int, sorts: Sequence[str], *, plain: bool = False, inner: bool = False) -> Query:
        """One SELECT; `plain`: without ORDER BY and LIMIT."""
        inputs = self._inputs(depth)
        scope = self._scope(inputs)
        where = self._where(depth, scope)
        grouped = self.rng.random() < 0.4
        group, having, seen = NOTHING, NOTHING, scope
        total = list(scope.leaves)
        if grouped:
            group, seen, keys = self._grouping(scope)
            total = keys
            having = self._having(group, seen)
        items, columns, windows = self._items(depth, sorts, seen, total, grouped=grouped)
        distinct = NOTHING
        if not windows and self.rng.random() < 0.12:
            distinct = spare(same("", "DISTINCT "))
            self.features.add("distinct")
        parts = (distinct, listed(", ", items), inputs.text, where, group, having)
        text = same("query " + " ".join(sorts), "SELECT {0}{1} FROM {2}{3}{4}{5}", *parts)
        if not plain and self.rng.random() < (0.25 if inner else 0.4):
            return self._ordered(text, columns, sorts)
        return Query(text, columns)

    # -- Parts of a SELECT

    def _items(
        self, depth: int, sorts: Sequence[str], seen: Scope, total: Sequence[Node], *, grouped: bool
    ) -> tuple[list[Node], tuple[Column, ...], bool]:
        items, columns, windows = [], [], False
        for sort in sorts:
            name = self.name("k")
            shape = self.rng.random()
            if shape < (0.01 if "grouping" in seen.marks else 0.15) and total and not windows:
                # Of rows that are alike, two functions in different orders make rows in any combination.
                value, windows = over(self.rng, seen, sort, total), True
                self.features.add("over")
            elif shape < 0.2 and depth > 0:
                value = self.scalar(depth - 1, sort)
                self.features.add("scalar")
            else:
                value = expression(self.rng, seen, sort, self.rng.randint(0, 2))
            items.append(same("", f"{{0}} AS {name}", value))
            columns.append(Column(name, sort))
        if grouped:
            self.features.add("group")
        return items, tuple(columns), windows

    def _grouping(self, scope: Scope) -> tuple[Node, Scope, list[Node]]:
        """GROUP BY, what is seen behind it, and the keys."""
        rng = self.rng
        keys: list[Node] = []
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
            key = rng.choice(scope.leaves)
            if rng.random() < 0.35:
                if keys and rng.random() < 0.4:  # a key that is made of another one
                    nearer = Scope(list(keys))
                    key = expression(rng, nearer, rng.choice(SORTS), 1)
                else:
                    key = expression(rng, scope, rng.choice(SORTS), 1)
                if not uses(key, scope):
                    key = rng.choice(scope.leaves)
            if key.texts() not in [each.texts() for each in keys]:
                keys.append(key)
        aggregates = [aggregate(rng, scope, rng.choice(SORTS)) for _ in range(rng.randint(1, 4))]
        seen = Scope([*keys, *keys, *aggregates])
        if not keys:
            self.features.add("global")
            return NOTHING, seen, []
        shape = rng.random()
        written = [spare(key) for key in keys]
        if shape < 0.55:
            return same("", " GROUP BY {0}", listed(", ", written)), seen, keys
        self.features.add("grouping")
        seen.marks.add("grouping")
        seen.leaves += [same(INT, "grouping({0})", rng.choice(keys))]
        if shape < 0.7:
            return same("", " GROUP BY ROLLUP({0})", listed(", ", written)), seen, keys
        if shape < 0.85:
            return same("", " GROUP BY CUBE({0})", listed(", ", written)), seen, keys
        sets = []
        for _ in range(rng.randint(1, 3)):
            some = rng.sample(keys, rng.randint(0, len(keys)))
            sets.append(spare(same("", "({0})", listed(", ", list(some)))) if some else spare(same("", "()")))
        sets.append(same("", "({0})", listed(", ", list(keys))))
        return same("", " GROUP BY GROUPING SETS ({0})", listed(", ", sets)), seen, keys

    def _having(self, group: Node, seen: Scope) -> Node:
        """HAVING, where it is needed too: without keys it says that the rows are one group.

        No rows have no grouping sets in Spark, and in the oracle the set without keys.
        """
        parts = []
        if self.rng.random() < 0.3:
            self.features.add("having")
            parts.append(spare(condition(self.rng, seen, 1)))
        if group is NOTHING:
            parts.append(same(BOOL, "count(*) >= 0"))
        elif group.elf.startswith((" GROUP BY R", " GROUP BY C", " GROUP BY GROUPING SETS")):
            if not parts:
                return two("", "", " HAVING count(*) > 0")
            return two("", " HAVING {0}", " HAVING count(*) > 0 AND {0}", replace(parts[0], spare=False))
        return same("", " HAVING {0}", conjunction(parts)) if parts else NOTHING

    def _where(self, depth: int, scope: Scope) -> Node:
        parts: list[Node] = []
        while self.rng.random() < (0.5, 0.3, 0)[len(parts)]:
            made = self._subcondition(depth - 1, scope) if depth > 0 and self.rng.random() < 0.3 else None
            parts.append(spare(made or condition(self.rng, scope)))
        if not parts:
            return NOTHING
        self.features.add("where")
        return spare(same("", " WHERE {0}", conjunction(parts)))

    def _subcondition(self, depth: int, scope: Scope) -> Node:
        """[NOT] IN, [NOT] EXISTS, or a comparison with a query in brackets; often about rows outside."""
        rng = self.rng
        shape = rng.random()
        negation = rng.choice(("", "NOT "))
        if shape < 0.15:
            self.features.add("in-mixed")
            query = self.query(depth, [INT], inner=True)
            theirs = f"SELECT CAST({query.columns[0].name} AS VARCHAR) FROM ({{0}}) {self.name('q')}"
            within = two("", "{0}", theirs, query.text)
            return same(BOOL, f"({{0}} {negation}IN ({{1}}))", expression(rng, scope, TEXT, 1), within)
        if shape < 0.45:
            self.features.add("in")
            sort = rng.choice((INT, INT, TEXT, NUM))
            if rng.random() < 0.5:
                query = self.query(depth, [sort], inner=True)
                return same(
                    BOOL, f"({{0}} {negation}IN ({{1}}))", expression(rng, scope, sort, 1), query.text
                )
            source, inner, outside = self._correlation(scope)
            value = expression(rng, inner, sort, 1)
            name = self.name("k")
            return same(
                BOOL,
                f"({{0}} {negation}IN (SELECT {{1}} AS {name} FROM {{2}} WHERE {{3}}))",
                expression(rng, scope, sort, 1),
                value,
                source,
                outside,
            )
        if shape < 0.75:
            self.features.add("exists")
            source, _, outside = self._correlation(scope)
            return same(BOOL, f"{negation}EXISTS (SELECT 1 AS one FROM {{0}} WHERE {{1}})", source, outside)
        self.features.add("scalar")
        sort = rng.choice((INT, NUM, TEXT, TIME))
        left = expression(rng, scope, sort, 1)
        if rng.random() < 0.5:
            return same(
                BOOL, f"({{0}} {rng.choice(('=', '<', '>=', '<>'))} {{1}})", left, self.scalar(depth, sort)
            )
        source, inner, outside = self._correlation(scope, only_equal=True)
        name = self.name("k")
        return same(
            BOOL,
            f"({{0}} {rng.choice(('=', '<', '>=', '<>'))} (SELECT {{1}} AS {name} FROM {{2}} WHERE {{3}}))",
            left,
            aggregate(rng, inner, sort),
            source,
            outside,
        )

    def _correlation(self, scope: Scope, *, only_equal: bool = False) -> tuple[Node, Scope, Node]:
        """An input of a query in brackets, what is seen of it alone, and conditions on rows outside."""
        rng = self.rng
        item = self._stream()
        inner, scope = self._scope(item), Scope(scope.outside or scope.leaves)
        sort = rng.choice(
            [each for each in (INT, TEXT, TEXT, TIME) if scope.of(each) and inner.of(each)] or [INT]
        )
        here, there = inner.of(sort), scope.of(sort)
        parts = []
        if here and there:
            equation = "{0} = {1}" if rng.random() < 0.8 else "({0} = {1})"
            parts.append(same(BOOL, equation, rng.choice(here), rng.choice(there)))
        if rng.random() < 0.4:
            parts.append(spare(condition(rng, inner, 1)))
        if not only_equal and rng.random() < 0.3:
            both = Scope([*inner.leaves, *scope.leaves])
            parts.append(spare(comparison(rng, both, 1)))
        return item.text, inner, conjunction(parts or [same(BOOL, "true")])

    def scalar(self, depth: int, sort: str) -> Node:
        """A query in brackets that gives one value."""
        item = self._input(depth)
        scope = self._scope(item)
        where = self._where(0, scope)
        name = self.name("k")
        value = aggregate(self.rng, scope, sort)
        if self.rng.random() < 0.3:
            value = same(sort, "coalesce({0}, {1})", value, expression(self.rng, Scope(), sort, 0))
        return same(sort, f"(SELECT {{0}} AS {name} FROM {{1}}{{2}})", value, item.text, where)

    # -- FROM

    def _inputs(self, depth: int) -> Input:
        """One input, or several that are joined; their columns are written with their names."""
        first = self._input(depth)
        count = self.rng.choice((0, 0, 0, 1, 1, 2)) if depth > 0 else 0
        if not count:
            return first
        self.features.add("join")
        text, seen = first.text, [first]
        for _ in range(count):
            other = self._input(depth - 1)
            word = self.rng.choice(JOINS)
            if word == "CROSS JOIN":
                joined = same("", f" {word} {{0}}", other.text)
            else:
                on = equations(self.rng, Scope(self._all(seen)), Scope(self._all([other])))
                joined = same(
                    "",
                    f" {word} {{0}} ON {{1}}",
                    other.text,
                    on,
                )
            if word in HALF:
                joined = two("", joined.elf, joined.duck.replace("LEFT ", "", 1), *joined.parts)
            else:
                seen.append(other)
            text = same("", "{0}{1}", text, spare(joined))
        return Joined(text, "", (), stream=False, seen=tuple(seen))

    def _input(self, depth: int) -> Input:
        if self._named and self.rng.random() < 0.4:
            name, columns = self.rng.choice(list(self._named.items()))
            alias = self.name("q")
            return Input(same("", f"{name} {alias}"), alias, columns, stream=False)
        if depth > 0 and self.rng.random() < 0.3:
            made = self.query(depth - 1, inner=True)
            alias = self.name("q")
            self.features.add("derived")
            return Input(same("", f"({{0}}) {alias}", made.text), alias, made.columns, stream=False)
        return self._stream()

    def _stream(self) -> Input:
        name = self.rng.choice(list(self.streams))
        alias = self.name("q")
        return Input(same("", f"{name} {alias}"), alias, self.streams[name], stream=True, paths=self.paths)

    def _all(self, inputs: Sequence[Input]) -> list[Node]:
        return [each.leaf(column) for each in inputs for column in each.columns]

    def _scope(self, item: Input) -> Scope:
        if isinstance(item, Joined):
            return Scope(self._all(item.seen))
        bare = self.rng.random() < 0.3
        return Scope([item.leaf(column, bare=bare) for column in item.columns], self._all([item]))

    # -- Order, names

    def _ordered(self, text: Node, columns: tuple[Column, ...], sorts: Sequence[str]) -> Query:
        rng = self.rng
        self.features.add("order")
        keys = [
            direction(rng, same("", column.name))
            for column in rng.sample(columns, rng.randint(1, len(columns)))
        ]
        ties = "".join(f", {column.name} NULLS FIRST" for column in columns)
        order = listed(", ", [spare(key) for key in keys[:-1]] + keys[-1:])
        parts = [text, order]
        limit = ""
        if rng.random() < 0.5:
            self.features.add("limit")
            limit = "{2}"
            more = f" OFFSET {rng.randint(1, 3)}" if rng.random() < 0.3 else ""
            parts.append(spare(same("", f" LIMIT {rng.randint(0, 6)}{more}")))
        elf, duck = "{0} ORDER BY {1}" + limit, "{0} ORDER BY {1}" + ties + limit
        return Query(two("query " + " ".join(sorts), elf, duck, *parts), columns, ordered=True)

    def _sorts(self) -> list[str]:
        return [
            self.rng.choice((INT, INT, NUM, TEXT, TEXT, DEC, TIME, BOOL))
            for _ in range(self.rng.randint(1, 4))
        ]

    def name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"
