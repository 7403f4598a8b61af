"""What Tab offers at each place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.sql.completion import ShellNames, completions
from elfmesh.errors import Unreachable


class Tables:
    """Two tables, which count how often they are read; or a fleet that does not answer."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent, self.listed, self.read = silent, 0, 0

    def run(self, text: str, source: str, output: str, output_file: Path | None) -> None:
        raise AssertionError("a completion runs nothing")

    def history(self, duration: str) -> str:
        raise AssertionError("a completion sets nothing")

    def listing(self) -> list[dict[str, Any]]:
        self.listed += 1
        if self.silent:
            raise Unreachable("no answer")
        return [{"name": "access", "kind": "stream"}, {"name": "shop.top", "kind": "job"}]

    def columns(self, name: str) -> list[tuple[str, str]]:
        self.read += 1
        return {"access": [("status", "BIGINT"), ("path", "STRING")], "shop.top": [("product", "STRING")]}[
            name
        ]


@pytest.mark.parametrize(
    ("before", "word", "offered", "missing"),
    [
        (".", ".", {".tables", ".quit"}, {"SELECT"}),
        (".mo", ".mo", {".mode"}, {".quit"}),
        (".mode ", "", {"json", "parquet", "table"}, set()),
        (".schema sh", "sh", {"shop.top"}, {"access"}),
        (".timing o", "o", {"on", "off"}, set()),
        (".tables x", "x", set(), {"xxhash64"}),
        ("SELECT st", "st", {"status", "stddev", "straggler"}, {"path"}),
        ("SELECT ST", "ST", {"status", "stddev", "STRAGGLER"}, {"straggler"}),
        ("SELECT count(*) FROM a", "a", {"access"}, {"abs", "AND"}),
        ("SELECT 1 FROM a JOIN shop.", "shop.", {"shop.top"}, {"access"}),
        ("SELECT 1 FROM shop.top WHERE p", "p", {"product", "pmod"}, {"path"}),
        ("SELECT _", "_", {"_raw", "_source", "_host"}, {"status"}),
        ("SELECT 's", "", set(), {"status"}),
        ("SELECT s -- s", "", set(), {"status"}),
        ("SELECT ", "", set(), {"status"}),
    ],
)
def test_the_words_that_fit(before: str, word: str, offered: set[str], missing: set[str]) -> None:
    found = completions(before, before, ShellNames(Tables()))
    assert found[0] == word
    assert offered <= {*found[1]}
    assert not missing & {*found[1]}
    assert len(found[1]) == len({*found[1]})


def test_a_table_behind_the_cursor_counts() -> None:
    text = "SELECT p FROM access"
    _, found = completions(text[:8], text, ShellNames(Tables()))
    assert "path" in found
    assert "product" not in found


def test_names_are_read_once_until_a_statement_was_run() -> None:
    tables = Tables()
    names = ShellNames(tables)
    for _ in range(3):
        completions("SELECT p", "SELECT p", names)
    assert (tables.listed, tables.read) == (1, 2)
    names.forget()
    completions("SELECT p", "SELECT p", names)
    assert (tables.listed, tables.read) == (2, 2)


def test_a_fleet_that_does_not_answer_offers_keywords() -> None:
    _, found = completions("SELECT p", "SELECT p", ShellNames(Tables(silent=True)))
    assert "partition" in found
