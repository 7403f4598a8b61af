"""A row for each element of a list or map: numbers, rows without elements, texts that are no list."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql.engine.exploding import exploded, untaken
from elfmesh.ql.expressions.nodes import FieldRef
from elfmesh.ql.expressions.text_source import NOWHERE, SourceText, TextPosition
from elfmesh.ql.plan.elements import ElementOrder, Elements
from elfmesh.ql.plan.relation import Exploded, StatementPart, made

LISTS = pa.table({"a": [1, 2, 3], "l": [["x", "y"], [], None]})
TEXTS = pa.table({"a": [1, 2, 3], "l": ['["x","y"]', "x", None]})
MAPS = pa.table({"a": [1], "l": pa.array([[("k", 1), ("m", 2)]], pa.map_(pa.string(), pa.int64()))})


def elements(
    name: str = "explode", count: int = 1, order: ElementOrder = ElementOrder.NONE, **flags: bool
) -> Elements:
    given = {"fields": False, "outer": False, **flags}
    return Elements(name, count, order, given["fields"], given["outer"], TextPosition(1, 8))


def rows(call: Elements, source: pa.Table, limit: int = 100) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """The rows with the column `a` and what the elements give; and the texts that `notified` was given."""
    names = tuple(made(at) for at in range(call.count))
    relation = Exploded(
        ("a", *names), NOWHERE, StatementPart((), NOWHERE, 0), FieldRef("l", True), call, ("a", *names)
    )
    texts: list[Any] = []

    def check(count: int) -> None:
        if count > limit:
            raise OverflowError(count)

    done = exploded(relation, source, {}, SourceText("SELECT x"), check, lambda _, text: texts.append(text))
    return [tuple(row.values()) for row in done.to_pylist()], texts


@pytest.mark.parametrize(
    ("call", "source", "expected"),
    [
        (elements(), LISTS, [(1, "x"), (1, "y")]),
        (elements(outer=True), LISTS, [(1, "x"), (1, "y"), (2, None), (3, None)]),
        (elements("posexplode", 2, ElementOrder.FIRST), LISTS, [(1, 0, "x"), (1, 1, "y")]),
        (elements("unnest", 2, ElementOrder.LAST), LISTS, [(1, "x", 1), (1, "y", 2)]),
        (elements("posexplode", 2, ElementOrder.FIRST, outer=True), LISTS,
         [(1, 0, "x"), (1, 1, "y"), (2, None, None), (3, None, None)]),
        (elements(count=2), MAPS, [(1, "k", 1), (1, "m", 2)]),
        (elements(), TEXTS, [(1, "x"), (1, "y")]),
        (elements(), pa.table({"a": [1], "l": pa.nulls(1)}), []),
        (elements(outer=True), pa.table({"a": [1], "l": pa.nulls(1)}), [(1, None)]),
        (
            elements("inline", 2, fields=True),
            pa.table({"a": [1], "l": [[{"b": 1, "c": "x"}]]}), [(1, 1, "x")],
        ),
    ],
)  # fmt: skip
def test_rows_of_elements(call: Elements, source: pa.Table, expected: list[tuple[Any, ...]]) -> None:
    assert rows(call, source)[0] == expected


@pytest.mark.parametrize(
    ("texts", "notified"),
    [(["x", None], "x"), (["x", "[1]"], None), ([None], None), (["[]"], None)],
)
def test_a_text_is_reported_where_none_was_a_list(texts: list[str | None], notified: str | None) -> None:
    source = pa.table({"a": [1] * len(texts), "l": pa.array(texts, pa.string())})
    assert rows(elements(), source)[1] == [notified]


def test_too_many_rows_are_refused_before_they_are_made() -> None:
    with pytest.raises(OverflowError, match="2"):
        rows(elements(), LISTS, limit=1)
    assert len(rows(elements(), LISTS, limit=2)[0]) == 2


@pytest.mark.parametrize(
    ("call", "source", "message"),
    [
        (elements(count=2), pa.table({"a": [1], "l": [[1]]}), "an element has 1 column, not 2"),
        (elements(), MAPS, "an element has 2 columns, not 1"),
        (elements("inline", fields=True), LISTS, "inline takes a list of structs, not of STRING"),
    ],
)
def test_names_that_do_not_fit_are_refused(call: Elements, source: pa.Table, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        rows(call, source)
    assert caught.value.column == 8


@pytest.mark.parametrize(
    ("call", "text", "found"),
    [
        (
            elements(),
            "a,b",
            "no text there is a JSON array, as 'a,b'. Make lists of other texts: explode(split(",
        ),
        (elements(), ' {"k": 1}', "Name the keys and the values of objects: AS k, v."),
        (
            elements(count=2),
            "k=v",
            "no text there is a JSON object, as 'k=v'. Make maps of other texts: str_to",
        ),
        (elements(), "x" * 50, f"as '{'x' * 40}...'"),
    ],
)
def test_what_people_read_where_no_text_was_a_list(call: Elements, text: str, found: str) -> None:
    assert untaken(call, text).startswith("explode at line 1, column 8 gave nothing: ")
    assert found in untaken(call, text)
