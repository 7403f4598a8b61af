"""A seed is some rows and a number of random statements over them: each compared, what fails made smaller."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from tests.properties import windows
from tests.properties.compare import DIFFERENT, EQUAL, FINDINGS, Bench, Verdict, oracle
from tests.properties.nodes import Node, shrink
from tests.properties.rows import (
    NESTED,
    PLAIN_TEXTS,
    SCHEMAS,
    UNTYPED,
    Table,
    table,
    tables,
    write_json,
    write_logfmt,
    write_nested,
    write_separated,
)
from tests.properties.statements import Maker, Query

STATEMENTS = {"plain": 12, "job": 2, "window": 3, "session": 2, "path": 2, "format": 1}
"""Of each class, so many for each seed."""

FORMATS: dict[str, Callable[[Table, Path], None]] = {
    "json": write_json,
    "csv": write_separated,
    "tsv": partial(write_separated, separator="\t"),
    "logfmt": write_logfmt,
}
SHRINK_TRIES = 300


@dataclass(slots=True)
class Finding:
    """A statement that does not do what it should, as small as it could be made.

    Attributes:
        place: seed, class and number, as `python -m tests.properties --seed` takes the first.
        verdict: what became of it.
        elf: the statement.
        duck: the oracle's text.
        tables: the rows.
    """

    place: str
    verdict: Verdict
    elf: str
    duck: str
    tables: Sequence[Table]

    def __str__(self) -> str:
        return (
            f"--- {self.place}: {self.verdict.state}: {self.verdict.why}\n  {self.elf}\n  oracle: {self.duck}"
        )


@dataclass(slots=True)
class Hunt:
    """What came of some seeds.

    Attributes:
        counts: statements by class and state.
        features: of the statements that were equal: how many had a join, a grouping and so on.
        refusals: how often each was met, without the names in it.
        examples: the shortest statement of each.
        findings: what failed.
    """

    shrinking: bool = True
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    connection: duckdb.DuckDBPyConnection = field(default_factory=oracle)

    def seed(self, seed: int) -> None:
        """All statements of a seed."""
        rng = random.Random(f"properties {seed}")
        made = tables(rng)
        with tempfile.TemporaryDirectory() as root:
            bench = Bench(made, Path(root), self.connection)
            maker = Maker(rng, {name: each.columns for name, each in made.items()})
            for number in range(STATEMENTS["plain"]):
                query = maker.statement(rng.choice((1, 2, 2, 3)))
                self._check(
                    f"{seed} plain {number}", maker, query.text, _plainly(bench, query), made.values()
                )
            for kind, number in _numbered("job", "window", "session"):
                asked = _windowed(rng, maker, kind)
                judge = partial(windows.judged(kind), bench, asked)
                self._check(f"{seed} {kind} {number}", maker, asked.query.text, judge, made.values())
        self._formats(seed, rng)
        self._paths(seed, rng)

    def _formats(self, seed: int, rng: random.Random) -> None:
        """The same rows in several formats give the same rows."""
        made = {"t": table(rng, "t", SCHEMAS["t"], rng.randint(2, 10), PLAIN_TEXTS)}
        maker = Maker(rng, {"t": made["t"].columns}, UNTYPED)
        for number in range(STATEMENTS["format"]):
            query = maker.statement(rng.choice((1, 2)))
            for name, write in FORMATS.items():
                with tempfile.TemporaryDirectory() as root:
                    bench = Bench(made, Path(root), self.connection, write, name)
                    place = f"{seed} format-{name} {number}"
                    self._check(place, maker, query.text, _plainly(bench, query), made.values())

    def _paths(self, seed: int, rng: random.Random) -> None:
        """Columns that lie deep in an object are found by their paths."""
        made = {"t": table(rng, "t", SCHEMAS["t"], rng.randint(1, 10))}
        maker = Maker(rng, {"t": made["t"].columns}, NESTED)
        with tempfile.TemporaryDirectory() as root:
            bench = Bench(made, Path(root), self.connection, write_nested)
            for number in range(STATEMENTS["path"]):
                query = maker.statement(rng.choice((1, 2)))
                self._check(f"{seed} path {number}", maker, query.text, _plainly(bench, query), made.values())

    def _check(
        self,
        place: str,
        maker: Maker,
        text: Node,
        judge: Callable[[Node], Verdict],
        rows: Iterable[Table],
    ) -> None:
        verdict = judge(text)
        self.counts[place.split()[1], verdict.state] += 1
        if verdict.state == EQUAL:
            self.features.update(maker.features)
        elif verdict.state in FINDINGS:
            if self.shrinking:
                text = shrink(text, lambda less: alike(judge(less), verdict), SHRINK_TRIES)
                verdict = judge(text)
            self.findings.append(Finding(place, verdict, *text.texts(), list(rows)))
        else:
            why = f"{verdict.state}: {without_names(verdict.why)}"
            self.refusals[why] += 1
            self.examples[why] = min(self.examples.get(why, text.texts()[0]), text.texts()[0], key=len)


def alike(one: Verdict, other: Verdict) -> bool:
    """Whether two statements fail in the same way."""
    if one.state != other.state or one.state == DIFFERENT:
        return one.state == other.state
    return without_names(one.why)[:60] == without_names(other.why)[:60]


def without_names(why: str) -> str:
    """The first line of a reason, with # for what is only of this statement."""
    return re.sub(r"\b[kqc]\d+\b|'[^']*'|\"[^\"]*\"|\d+(:\d+)?", "#", why.split("\n")[0])[:160]


def _plainly(bench: Bench, query: Query) -> Callable[[Node], Verdict]:
    return lambda text: bench.verdict(*text.texts(), ordered=query.ordered)


def _numbered(*kinds: str) -> Iterator[tuple[str, int]]:
    return ((kind, number) for kind in kinds for number in range(STATEMENTS[kind]))


def _windowed(rng: random.Random, maker: Maker, kind: str) -> windows.Windowed:
    if kind == "job":
        return windows.job(rng, maker, rng.choice((1, 2)))
    if kind == "window":
        return windows.windowed(rng, maker, rng.choice((0, 1, 2)))
    return windows.sessions(rng, maker)
