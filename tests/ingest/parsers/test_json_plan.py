"""Dotted paths of JSON: nested objects first, then keys that contain the dots."""

from __future__ import annotations

import json

import pyarrow as pa

from elfmesh.ingest.parsers.json_lines import JsonParser


def column(block: bytes, name: str, parser: JsonParser | None = None) -> pa.Array:
    return (parser or JsonParser()).parse(block, [name]).batch.column(0)


def test_nested_fields_are_reached_by_dots() -> None:
    block = b'{"a":{"b":{"c":1}}}\n{"a":{"b":7}}\n{"a":null}\n{"x":1}\n{"a":{"b":{"c":2}}}\n'
    assert column(block, "a.b.c").to_pylist() == [1, None, None, None, 2]


def test_a_key_with_dots_is_taken_where_the_path_leads_nowhere() -> None:
    block = b'{"log.level":"warn"}\n{"log":{"level":"info"}}\n'
    assert column(block, "log.level").to_pylist() == ["warn", "info"]


def test_a_key_with_dots_is_found_at_any_depth_behind_the_nested_one() -> None:
    block = (
        b'{"zones":{"a.example.org":{"codes":{"5xx":1}}}}\n'
        b'{"zones.a":{"example":{"org":{"codes":{"5xx":2}}}}}\n'
        b'{"zones":{"a":{"example":{"org":{"codes":{"5xx":3}}}},"a.example.org":{"codes":{"5xx":9}}}}\n'
        b'{"zones":{"a.example":{"org.codes":{"5xx":4}}}}\n'
    )
    parsed = JsonParser().parse(block, ["zones.a.example.org.codes.5xx"])
    assert parsed.batch.column(0).to_pylist() == [1, 2, 3, None], "one key with dots, not two"
    both = JsonParser().parse(block, ["zones.a.example.org.codes.5xx", "zones"])
    assert both.batch.column(0).to_pylist() == [1, 2, 3, None]


def test_a_very_long_path_is_nested_or_one_key() -> None:
    path = ".".join("abcdefghijklmnopqrst")
    assert column(b'{"%s":1}\n' % path.encode(), path).to_pylist() == [1]


def test_a_field_and_its_parent_can_be_asked_together() -> None:
    parsed = JsonParser().parse(b'{"u":{"n":"x","k":[1, 2]}}\n{"u":3}\n', ["u.n", "u", "u.k"])
    assert parsed.batch.to_pylist() == [
        {"u.n": "x", "u": '{"n":"x","k":[1,2]}', "u.k": "[1,2]"},
        {"u.n": None, "u": "3", "u.k": None},
    ]


def test_a_key_may_have_any_character() -> None:
    """A line of a log must not end a query that reads all columns."""
    keys = ['a"b', "c\\d", "e\nf", "\x1f"]
    block = json.dumps({key: number for number, key in enumerate(keys)} | {"plain": 9}).encode() + b"\n"
    parsed = JsonParser().parse(block + b'{"plain":8}\n[1]\n', [*keys, "plain"])
    assert [column.to_pylist() for column in parsed.batch.columns] == [
        *([number, None] for number in range(len(keys))),
        [9, 8],
    ]
    assert parsed.errors == 1
    nested = b'{"k":{"c\\\\d":{"e":2},"n":3}}\n{"k":5}\n'
    found = JsonParser().parse(nested, ["k.n", "k.c\\d.e", "k"]).batch
    assert [found.column(at).to_pylist() for at in (0, 1)] == [[3, None], [2, None]]
