"""Phrases of other SQL."""

from __future__ import annotations

import pytest
from sqlglot import Dialect

from elfmesh.ql import parse
from elfmesh.ql.expressions.foreign_phrases import foreign_phrase
from tests.compat.golden.data import cases

LEGAL = [
    "SELECT v * replace(k, 'a', '1') AS x FROM s",
    "SELECT top, mod, emit FROM s",
    "SELECT version AS of FROM s",
    "SELECT if a FROM s",
    "SELECT ~v AS x, -1 AS y FROM s WHERE NOT ~v = 1",
    "SELECT k FROM s watermark",
    "SELECT mod(v, 2) AS x FROM s mod",
    "SELECT count(*) AS n, v FROM s GROUP BY v WITH ROLLUP",
    "SELECT e FROM s WHERE e = 'a' AND safe.x = 1",
]


@pytest.mark.parametrize("text", LEGAL)
def test_words_of_phrases_are_names_elsewhere(text: str) -> None:
    parse(text)


def test_no_phrase_stands_in_a_statement_that_spark_accepts() -> None:
    dialect = Dialect.get_or_raise("spark")
    accepted = [case.text for case in cases() if case.accepted]
    assert len(accepted) > 300
    found = [text for text in accepted if foreign_phrase(dialect.tokenize(text)) is not None]
    assert not found
