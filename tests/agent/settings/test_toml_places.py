"""Where in a TOML text each key stands, so that a message names line and column."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.agent.settings.toml_places import TextPlace, find_keys, place_of


@pytest.mark.parametrize(
    ("text", "path", "line", "column"),
    [
        ("a = 1", ("a",), 1, 1),
        ("\n  a = 1", ("a",), 2, 3),
        ("[t]\na = 1", ("t", "a"), 2, 1),
        ("[t.u]\na = 1", ("t", "u"), 1, 2),
        ("t.u = 1", ("t", "u"), 1, 1),
        ("a = 1\n[t.u]\nb = 1", ("t",), 2, 2),
        ('["a b"]\n"c.d" = 1', ("a b", "c.d"), 2, 1),
        ("t = { a = 1, b = { c = 2 } }", ("t", "b", "c"), 1, 20),
        ("t = [ { a = 1 }, { b = 2 } ]", ("t", "b"), 1, 20),
        ("# a = 0\na = 1 # b = 2\nb = 3", ("b",), 3, 1),
        ('a = """\nb = 1\n"""\nb = 2', ("b",), 4, 1),
        ("a = [\n 1,\n 2,\n]\nb = 2", ("b",), 5, 1),
        ("a = 'x = 1'\nx = 2", ("x",), 2, 1),
        ("[[s]]\na = 1\n[[s]]\na = 2", ("s", "a"), 2, 1),
    ],
)
def test_a_key_is_found_where_it_stands(text: str, path: tuple[str, ...], line: int, column: int) -> None:
    tomllib.loads(text)
    assert find_keys(text)[path] == TextPlace(line, column)


def test_a_key_that_is_not_there_is_placed_by_what_is_around_it() -> None:
    places = find_keys("[t]\na = 1")
    assert place_of(places, ("t", "b", "c")) == TextPlace(1, 2)
    assert place_of(places, ("x", "y")) is None
    assert place_of(places, ()) is None


NAMES = st.sampled_from(["a", "b", "c-d", '"e f"', "'g.h'"])
VALUES = st.sampled_from(["1", "'x'", '"y = 2"', "[1, 2]", "{}", "2024-01-01", "[\n1,\n]", "true # no = 1"])
LINES = st.lists(
    st.one_of(
        st.tuples(NAMES, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
        NAMES.map(lambda name: f"[t.{name}]"),
    ),
    max_size=8,
).map("\n".join)


@given(LINES)
def test_every_key_that_toml_reads_has_a_place(text: str) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        find_keys(text)
        return
    places = find_keys(text)
    todo: list[tuple[tuple[str, ...], Any]] = [((name,), value) for name, value in table.items()]
    while todo:
        path, value = todo.pop()
        assert path in places
        todo += [((*path, name), inner) for name, inner in value.items()] if isinstance(value, dict) else []


@given(st.text(alphabet="a=[]{}.,\"'#\n\\ 1", max_size=40))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for place in find_keys(text).values():
        assert place.line >= 1
        assert place.column >= 1
