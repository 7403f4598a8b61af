"""The formats of rows: headings, values, escapes."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.local.row_formats import ROW_FORMATS, row_format

ROW = ["a|b", None, True, 1.5, [1, "x"], "\x1b[2J\ty\nz"]
COLUMNS = ["k", "n", "t", "d", "l", "s"]


def written(kind: str, *calls: tuple[Sequence[str], Sequence[Sequence[Any]]]) -> str:
    out = io.StringIO()
    formats = row_format(kind, out)
    for columns, rows in calls:
        formats.write(columns, rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("csv", 'k,n,t,d,l,s\na|b,,true,1.5,"[1,""x""]","\x1b[2J\ty\nz"\n'),
        ("tsv", 'k\tn\tt\td\tl\ts\na|b\t\ttrue\t1.5\t"[1,""x""]"\t"\x1b[2J\ty\nz"\n'),
        (
            "markdown",
            "| k | n | t | d | l | s |\n|---|---|---|---|---|---|\n"
            '| a\\|b |  | true | 1.5 | [1,"x"] | \\x1b[2J\\x09y\\x0az |\n',
        ),
        (
            "vertical",
            '-[ 1 ]-\nk | a|b\nn | NULL\nt | true\nd | 1.5\nl | [1,"x"]\ns | \\x1b[2J\\x09y\\x0az\n',
        ),
        ("jsonl", '{"k":"a|b","n":null,"t":true,"d":1.5,"l":[1,"x"],"s":"\\u001b[2J\\ty\\nz"}\n'),
    ],
)
def test_a_row(kind: str, text: str) -> None:
    assert written(kind, (COLUMNS, [ROW])) == text


@pytest.mark.parametrize("kind", ROW_FORMATS)
def test_a_heading_is_written_once_and_again_for_other_columns(kind: str) -> None:
    text = written(kind, (["first"], [[1]]), (["first"], [[2]]), (["second"], [[3]]))
    headings = {"vertical": (2, 1), "jsonl": (2, 1)}.get(kind, (1, 1))
    assert (text.count("first"), text.count("second")) == headings


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_csv_and_json_keep_every_text(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(written("csv", (["a", "b"], rows)), newline="")))
    assert read == [["a", "b"], *rows]
    lines = written("jsonl", (["a", "b"], rows)).split("\n")[:-1]
    assert [[*json.loads(line).values()] for line in lines] == rows


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_what_people_read_has_no_control_characters(row: list[str]) -> None:
    columns = [f"c{number}" for number in range(len(row))]
    for kind in ("markdown", "vertical"):
        text = written(kind, (columns, [row]))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", text)
        assert text.count("\n") == (3 if kind == "markdown" else 1 + len(row))
