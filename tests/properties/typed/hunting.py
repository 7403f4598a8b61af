"""A seed is some rows and random statements over them; a real Spark answers many in one of its jobs.

Columns that stand alone (expressions, aggregates, functions OVER rows) are asked for together and compared
one by one: each is a statement of its own here.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from elfmesh.errors import ElfError
from tests.compat.golden.ask import answer
from tests.compat.golden.compare import wrong_with
from tests.compat.golden.data import Golden, View
from tests.compat.golden.run import answer_of
from tests.properties.compare import (
    CRASHED,
    DIFFERENT,
    EQUAL,
    FINDINGS,
    NOT_COMPARED,
    REFUSED,
    Verdict,
    refusal,
)
from tests.properties.nodes import Node, same, shrink
from tests.properties.typed.expressions import Scope, expression
from tests.properties.typed.rows import SCHEMAS, SORTS, spark_view, table, views
from tests.properties.typed.statements import Maker, Source
from tests.properties.typed.windows import windowed

BATCHES = {"expression": 60, "aggregate": 24, "over": 24}
"""Of each class, so many columns that one statement of Spark asks for."""
STATEMENTS = {"select": 8, "window": 6}
SHRINK_TRIES = 60


@dataclass(slots=True)
class Finding:
    """A statement that is not answered as Spark answers it."""

    place: str
    verdict: Verdict
    statement: str
    spark: str
    case: Golden | None
    views: Mapping[str, View]

    def __str__(self) -> str:
        return (
            f"--- {self.place}: {self.verdict.state}: {self.verdict.why}\n  {self.statement}\n  {self.spark}"
        )

    def line(self) -> str:
        """As a line of kept.jsonl."""
        kept = {
            "why": self.verdict.why, "statement": self.statement,
            "views": {
                name: {"cols": view.columns, "rows": view.rows}
                for name, view in self.views.items()
                if f" {name} " in f" {self.statement} "
            },
            "cols": self.case.columns if self.case else [], "rows": self.case.rows if self.case else None,
        }  # fmt: skip
        return json.dumps(kept, ensure_ascii=False)


@dataclass(slots=True)
class Hunt:
    """What came of some seeds.

    Attributes:
        spark: the session that answers.
        shrinking: whether failing statements are made smaller.
        counts: statements by class and state.
        refusals: of ours, how often each was met; `examples`: one statement of each.
        findings: what failed.
    """

    spark: Any
    shrinking: bool = True
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _views: Mapping[str, View] = field(default_factory=dict)
    _tables: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """How many statements both answered."""
        return sum(count for (_, state), count in self.counts.items() if state in (EQUAL, DIFFERENT))

    def seed(self, seed: int) -> None:
        """All statements of a seed."""
        rng = random.Random(f"typed {seed}")
        self._views = views(rng)
        self._tables = {name: table(view) for name, view in self._views.items()}
        for name, view in self._views.items():
            self.spark.sql(spark_view(view)).createOrReplaceTempView(name)
        maker = Maker(rng)
        for kind, count in BATCHES.items():
            self._batch(f"{seed} {kind}", maker, kind, count)
        for kind, count in STATEMENTS.items():
            for number in range(count):
                maker.features.clear()
                made = windowed(maker) if kind == "window" else maker.query(rng.choice((1, 2, 2, 3)))
                self._record(f"{seed} {kind} {number}", made.text, self.verdict(made.text), maker.features)

    # -- Columns that stand alone

    def _batch(self, place: str, maker: Maker, kind: str, count: int) -> None:
        rng = maker.rng
        name = rng.choice(list(SCHEMAS))
        leaves = [same(sort, f"q.{column}") for column, sort in SCHEMAS[name].items()]
        source = Source(same("", f"{name} q"), leaves, leaves[:1])
        make: Callable[[str], Node] = {
            "expression": lambda sort: expression(
                rng, Scope(leaves), sort, rng.choice((1, 2, 2, 3)), cast=0.08
            ),
            "aggregate": lambda sort: maker.aggregate(Scope(leaves), sort),
            "over": lambda sort: maker.over(source, sort),
        }[kind]
        where = ""
        if rng.random() < 0.2:
            where = " WHERE " + rng.choice(
                ("f", "i > 0", "k IS NOT NULL", "false") if name == "t" else ("uf", "ui > 0")
            )
        items = []
        for number in range(count):
            item = make(rng.choice(SORTS))
            text = same("", f"SELECT {{0}} AS c FROM {name} q{where}", item)
            try:
                self.spark.sql(text.texts()[1])
            except Exception as error:
                self._record(f"{place} {number}", text, Verdict(NOT_COMPARED, str(error).split("\n")[0]), ())
                continue
            items.append((number, item, text))
        self._together(place, items, f" FROM {name} q{where}")

    def _together(self, place: str, items: Sequence[tuple[int, Node, Node]], tail: str) -> None:
        if not items:
            return
        listed = ", ".join(f"{item.texts()[1]} AS c{at}" for at, (_, item, _) in enumerate(items))
        try:
            found = answer(self.spark.sql(f"SELECT {listed}{tail}"))
        except Exception as error:
            if len(items) == 1:
                verdict = Verdict(NOT_COMPARED, str(error).split("\n")[0])
                self._record(f"{place} {items[0][0]}", items[0][2], verdict, ())
                return
            half = len(items) // 2
            self._together(place, items[:half], tail)
            self._together(place, items[half:], tail)
            return
        for at, (number, _, text) in enumerate(items):
            one = {"cols": [found["cols"][at]], "rows": [[row[at]] for row in found["rows"]]}
            self._record(f"{place} {number}", text, self._compared(text.texts()[0], one), ())

    # -- One statement

    def verdict(self, text: Node) -> Verdict:
        """What becomes of a statement here, by what Spark answers."""
        try:
            wanted = answer(self.spark.sql(text.texts()[1]))
        except Exception as error:
            return Verdict(NOT_COMPARED, str(error).split("\n")[0])
        return self._compared(text.texts()[0], wanted)

    def _compared(self, elf: str, wanted: Mapping[str, Any]) -> Verdict:
        try:
            found = answer_of(elf, self._tables)
        except ElfError as error:
            return refusal(error)
        except Exception as error:
            return Verdict(CRASHED, f"{type(error).__name__}: {str(error)[:200]}")
        if not found.num_columns and not wanted["rows"]:
            return Verdict(EQUAL)
        if not wanted["rows"] and not found.num_rows:
            return Verdict(EQUAL)  # what a column without values is, is not known from records
        why = wrong_with(self._case(elf, wanted), found)
        if "typeof(" in elf and re.search(r"\b(void|double)\b.* instead of .*decimal", why):
            return Verdict(REFUSED, "the type of an aggregate over no records is void")
        if " UNION " in elf and re.search(
            r"the type of \w+ is (int64|double) instead of (decimal|double)", why
        ):
            return Verdict(REFUSED, "a branch of UNION without rows does not widen the type")
        return Verdict(DIFFERENT, why) if why else Verdict(EQUAL)

    def _case(self, elf: str, wanted: Mapping[str, Any]) -> Golden:
        columns, rows = tuple(map(tuple, wanted["cols"])), tuple(map(tuple, wanted["rows"]))
        return Golden("typed", 0, elf, self._views, columns, rows, True, "")

    def _record(self, place: str, text: Node, verdict: Verdict, features: Any) -> None:
        self.counts[place.split()[1], verdict.state] += 1
        if verdict.state == EQUAL:
            self.features.update(features)
        elif verdict.state in FINDINGS:
            if self.shrinking:
                text = shrink(text, lambda less: _alike(self.verdict(less), verdict), SHRINK_TRIES)
                verdict = self.verdict(text)
            elf, spark = text.texts()
            try:
                case = self._case(elf, answer(self.spark.sql(spark)))
            except Exception:
                case = None
            self.findings.append(Finding(place, verdict, elf, spark, case, self._views))
        else:
            why = f"{verdict.state}: {without_names(verdict.why)}"
            self.refusals[why] += 1
            elf = text.texts()[0]
            self.examples[why] = min(self.examples.get(why, elf), elf, key=len)


def _alike(one: Verdict, other: Verdict) -> bool:
    if one.state != other.state or one.state == DIFFERENT:
        return one.state == other.state
    return without_names(one.why)[:60] == without_names(other.why)[:60]


def without_names(why: str) -> str:
    """The first line of a reason, with # for what is only of this statement."""
    return re.sub(r"\b[kqc]\d+\b|'[^']*'|\"[^\"]*\"|\d+(:\d+)?", "#", why.split("\n")[0])[:160]
