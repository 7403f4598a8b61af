"""Random SELECTs over typed columns: aggregates, OVER, joins, subqueries, set operations, groupings, windows.

Every order is total but for rows that are alike, and no function depends on the order of arrival.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.properties.nodes import NOTHING, Node, listed, same, spare
from tests.properties.typed.calls import AGGREGATES, DISTANCES, FRAMES, OF_AGGREGATES, OVERS, RANKS, UNFRAMED
from tests.properties.typed.expressions import Scope, comparison, expression, form
from tests.properties.typed.rows import BIN, BOOL, DATE, DEC, INT, SCHEMAS, SORTS, TEXT, TIME

JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
SETS = (*("UNION", "UNION ALL") * 6, "INTERSECT", "EXCEPT")


@dataclass(slots=True)
class Query:
    """A query and the sorts of its columns, whose names are those of `names`."""

    text: Node
    names: tuple[str, ...]
    sorts: tuple[str, ...]


@dataclass(slots=True)
class Source:
    """What stands behind FROM, what is seen of it, and its unique columns."""

    text: Node
    leaves: list[Node]
    unique: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Maker:
    """Makes statements from the decisions of `rng`."""

    rng: random.Random
    features: set[str] = field(default_factory=set)
    _count: int = 0

    def name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    # -- FROM

    def stream(self) -> Source:
        name = self.rng.choice(list(SCHEMAS))
        alias = self.name("q")
        leaves = [same(sort, f"{alias}.{column}") for column, sort in SCHEMAS[name].items()]
        return Source(same("", f"{name} {alias}"), leaves, leaves[:1])

    def input(self, depth: int) -> Source:
        if depth > 1 and self.rng.random() < 0.4:
            self.features.add("derived")
            made, alias = self.query(depth - 1), self.name("q")
            leaves = [
                same(sort, f"{alias}.{name}") for name, sort in zip(made.names, made.sorts, strict=True)
            ]
            return Source(same("", f"({{0}}) {alias}", made.text), leaves)
        return self.stream()

    def source(self, depth: int) -> Source:
        first = self.input(depth)
        if depth < 2 or self.rng.random() < 0.6:
            return first
        self.features.add("join")
        other = self.input(depth - 1)
        word = self.rng.choice(JOINS)
        text = same("", f"{{0}} {word} {{1}} ON {{2}}", first.text, other.text, self.equation(first, other))
        if "SEMI" in word or "ANTI" in word:
            return Source(text, first.leaves, first.unique)
        unique = [*first.unique, *other.unique] if first.unique and other.unique else []
        return Source(text, [*first.leaves, *other.leaves], unique)

    def equation(self, one: Source, other: Source) -> Node:
        """A condition that joins rows."""
        sort = self.rng.choice((INT, TEXT, DATE, DEC, BOOL, TIME, BIN))
        left, right = Scope(one.leaves), Scope(other.leaves)
        made = same(
            BOOL, "{0} = {1}", expression(self.rng, left, sort, 0), expression(self.rng, right, sort, 0)
        )
        if self.rng.random() < 0.2:
            more = spare(same("", " AND {0}", comparison(self.rng, Scope([*one.leaves, *other.leaves]), 1)))
            return same(BOOL, "{0}{1}", made, more)
        return made

    def where(self, source: Source, depth: int) -> Node:
        shape = self.rng.random()
        if shape < 0.55:
            return NOTHING
        if shape < 0.8 or depth < 2:
            return spare(same("", " WHERE {0}", expression(self.rng, Scope(source.leaves), BOOL, 2)))
        return spare(same("", " WHERE {0}", self.subquery(source, depth)))

    def subquery(self, source: Source, depth: int) -> Node:
        """IN, EXISTS, or a comparison with one value of another query, so deep at most."""
        rng, other = self.rng, self.stream()
        inner, scope = Scope(other.leaves), Scope(source.leaves)
        self.features.add("subquery")
        condition = NOTHING
        if depth > 1 and rng.random() < 0.5:
            self.features.add("nested subquery")
            condition = spare(same("", " WHERE {0}", self.subquery(other, depth - 1)))
        elif rng.random() < 0.5:
            condition = spare(same("", " WHERE {0}", expression(rng, inner, BOOL, 1)))
        shape = rng.randrange(4)
        sort = rng.choice(SORTS)
        if shape == 0:
            word = rng.choice(("IN", "NOT IN"))
            value = expression(rng, inner, sort, 1, cast=0.1)
            return same(
                BOOL, f"{{0}} {word} (SELECT {{1}} AS {self.name('k')} FROM {{2}}{{3}})",
                expression(rng, scope, sort, 1, cast=0.1), value, other.text, condition,
            )  # fmt: skip
        if shape == 1:
            word = rng.choice(("EXISTS", "NOT EXISTS"))
            on = self.equation(source, other)
            if condition is NOTHING or rng.random() < 0.5:
                text = f"{word} (SELECT 1 AS {self.name('k')} FROM {{0}} WHERE {{1}})"
                return same(BOOL, text, other.text, on)
            return same(BOOL, f"{word} (SELECT * FROM {{0}}{{1}})", other.text, condition)
        on = condition
        if shape == 2:
            key = rng.choice((INT, TEXT, DATE))
            on = same(
                "",
                " WHERE {0} = {1}",
                rng.choice(inner.of(key)),
                expression(rng, Scope(source.leaves), key, 0),
            )
        value = self.aggregate(inner, sort)
        word = rng.choice(("=", "<", ">=", "<>"))
        return same(
            BOOL, f"{{0}} {word} (SELECT {{1}} AS {self.name('k')} FROM {{2}}{{3}})",
            expression(rng, scope, sort, 0), value, other.text, on,
        )  # fmt: skip

    # -- SELECT

    def aggregate(self, scope: Scope, sort: str) -> Node:
        text = self.rng.choice(AGGREGATES[sort])
        made = form(self.rng, scope, text, sort, self.rng.choice((1, 1, 2)))
        if self.rng.random() < 0.12 and text.split("(")[0] not in OF_AGGREGATES and " FILTER " not in text:
            return same(
                sort, "{0}{1}", made,
                spare(same("", " FILTER (WHERE {0})", expression(self.rng, scope, BOOL, 1))),
            )  # fmt: skip
        return made

    def over(self, source: Source, sort: str) -> Node:
        """A function OVER rows of a source that has unique columns."""
        rng, scope = self.rng, Scope(source.leaves)
        text = rng.choice(OVERS[sort])
        name = text.split("(", maxsplit=1)[0]
        call = form(rng, scope, text, sort, 1)
        inside: list[Node] = []
        if rng.random() < 0.6:
            inside.append(spare(same("", "PARTITION BY {0}", rng.choice(source.leaves))))
        if name in RANKS or name in UNFRAMED or "value" in name or rng.random() < 0.6:
            key = rng.choice(source.leaves)
            if rng.random() < 0.15 and key.sort in DISTANCES and name not in UNFRAMED and "value" not in name:
                one, other = rng.choice(DISTANCES[key.sort]), rng.choice(DISTANCES[key.sort])
                frame = (
                    f" RANGE BETWEEN {one} PRECEDING AND {rng.choice(('CURRENT ROW', f'{other} FOLLOWING'))}"
                )
                inside.append(same("", f"ORDER BY {{0}}{frame}", self.direction(key)))
            else:
                keys = [spare(self.direction(key))]
                keys += [] if name in RANKS else [self.direction(each) for each in source.unique]
                frame = "" if name in UNFRAMED else rng.choice(FRAMES)
                inside.append(same("", "ORDER BY {0}" + frame, listed(", ", keys)))
        return same(sort, "{0} OVER ({1})", call, listed(" ", inside))

    def direction(self, key: Node) -> Node:
        ends = ("", "", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST")
        return same("", "{0}" + self.rng.choice(ends), key)

    def sorts(self) -> list[str]:
        return [self.rng.choice(SORTS) for _ in range(self.rng.randint(1, 4))]

    def query(self, depth: int, sorts: Sequence[str] | None = None) -> Query:
        """A query of some columns."""
        sorts = sorts or self.sorts()
        shape = self.rng.random()
        if depth > 1 and shape < 0.15:
            return self.several(depth, sorts)
        if shape < 0.55:
            return self.grouped(depth, sorts)
        return self.plain(depth, sorts)

    def plain(self, depth: int, sorts: Sequence[str]) -> Query:
        """A SELECT without groups, perhaps with functions OVER rows."""
        source = self.source(depth)
        scope = Scope(source.leaves)
        items = []
        for sort in sorts:
            shape = self.rng.random()
            if shape < 0.25 and source.unique:
                self.features.add("over")
                items.append(self.over(source, sort))
            elif shape < 0.35 and depth > 1:
                items.append(self.scalar(source, sort))
            else:
                items.append(expression(self.rng, scope, sort, 2))
        word = "DISTINCT " if self.rng.random() < 0.15 else ""
        return self.written(word, items, source, depth, sorts)

    def scalar(self, source: Source, sort: str) -> Node:
        """A value that another query gives."""
        self.features.add("scalar")
        other = self.stream()
        on = NOTHING
        if self.rng.random() < 0.4:
            key = self.rng.choice((INT, TEXT, DATE))
            mine = Scope(source.leaves).of(key)
            if mine:
                on = same(
                    "",
                    " WHERE {0} = {1}",
                    self.rng.choice(Scope(other.leaves).of(key)),
                    self.rng.choice(mine),
                )
        value = self.aggregate(Scope(other.leaves), sort)
        return same(sort, f"(SELECT {{0}} AS {self.name('k')} FROM {{1}}{{2}})", value, other.text, on)

    def written(
        self, word: str, items: Sequence[Node], source: Source, depth: int, sorts: Sequence[str],
        tail: Node = NOTHING,
    ) -> Query:  # fmt: skip
        names = tuple(self.name("k") for _ in sorts)
        select = [same("", f"{{0}} AS {name}", item) for name, item in zip(names, items, strict=True)]
        text = same(
            "query " + " ".join(sorts), f"SELECT {word}{{0}} FROM {{1}}{{2}}{{3}}{{4}}", listed(", ", select),
            source.text, self.where(source, depth), tail, self.order(names),
        )  # fmt: skip
        return Query(text, names, tuple(sorts))

    def order(self, names: Sequence[str]) -> Node:
        """Now and then ORDER BY all columns, and LIMIT."""
        if self.rng.random() < 0.8:
            return NOTHING
        if self.rng.random() < 0.2:
            return spare(
                same("", " ORDER BY ALL" + self.rng.choice(("", " DESC", " NULLS LAST", " LIMIT 3")))
            )
        keys = [self.direction(same("", name)) for name in self.rng.sample(list(names), len(names))]
        limit = self.rng.choice(("", f" LIMIT {self.rng.randint(0, 5)}", " LIMIT 3 OFFSET 1"))
        return spare(same("", " ORDER BY {0}" + limit, listed(", ", keys)))

    def grouped(self, depth: int, sorts: Sequence[str]) -> Query:
        """A SELECT with groups, in one of the forms of GROUP BY."""
        rng, source = self.rng, self.source(depth)
        self.features.add("group")
        keys = [self.key(source) for _ in range(rng.choice((0, 1, 1, 2, 2)))]
        keys = list({key.texts()[0]: key for key in keys}.values())
        seen = Scope([*keys, *keys])
        items = []
        for sort in sorts:
            shape = rng.random()
            if shape < 0.35 and seen.of(sort):
                items.append(rng.choice(seen.of(sort)))
            elif shape < 0.5 and keys:
                items.append(expression(rng, seen, sort, 1))
            else:
                items.append(self.aggregate(Scope(source.leaves), sort))
        if not keys:
            return self.written("", items, source, depth, sorts)
        if not any(item.texts()[0] not in [key.texts()[0] for key in keys] for item in items):
            items[0] = self.aggregate(Scope(source.leaves), sorts[0])
        by = self.by(keys)
        held = NOTHING
        if rng.random() < 0.25:
            value = rng.choice(SORTS)
            held = spare(same("", " HAVING {0} IS NOT NULL", self.aggregate(Scope(source.leaves), value)))
        tail = same("", " GROUP BY {0}{1}", by, held)
        return self.written("", items, source, depth, sorts, tail)

    def key(self, source: Source) -> Node:
        if self.rng.random() < 0.7:
            return self.rng.choice(source.leaves)
        return expression(self.rng, Scope(source.leaves), self.rng.choice(SORTS), 1)

    def by(self, keys: list[Node]) -> Node:
        """What stands behind GROUP BY."""
        shape = self.rng.random()
        both = listed(", ", [*keys])
        if shape < 0.5:
            return both
        self.features.add("grouping")
        if shape < 0.65:
            return same("", "ROLLUP({0})", both)
        if shape < 0.8:
            return same("", "CUBE({0})", both)
        if len(keys) < 2:
            return same("", "GROUPING SETS (({0}), ())", keys[0])
        sets = self.rng.choice(
            ("(({0}), ({1}))", "(({0}, {1}), ({1}), ())", "(({0}, {1}), ({0}))", "(({0}), ())")
        )
        return same(
            "",
            ("{0}, {1} " if self.rng.random() < 0.3 and "{1}" in sets else "") + "GROUPING SETS " + sets,
            *keys,
        )

    def several(self, depth: int, sorts: Sequence[str]) -> Query:
        """UNION, INTERSECT, EXCEPT of queries."""
        self.features.add("set")
        branches = [self.query(depth - 1, sorts) for _ in range(self.rng.randint(2, 3))]
        parts = [same("", "({0})", branches[0].text)]
        parts += [
            spare(same("", f" {self.rng.choice(SETS)} ({{0}})", branch.text)) for branch in branches[1:]
        ]
        text = same("query " + " ".join(sorts), "".join(f"{{{at}}}" for at in range(len(parts))), *parts)
        return Query(text, branches[0].names, tuple(sorts))
