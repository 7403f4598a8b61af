"""Formats of plug-ins: columns, types, bad lines, and what they declare wrongly."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import Parsed
from elfmesh.ingest.parsers.plugin_formats import PluginParser, types_of, usable_formats
from elfmesh.ingest.parsers.text_fields import TextOptions
from elfmesh.plugins import FORMATS, plugins, refused
from tests.plugins.packages import Install, install

__all__ = ["install"]

TEXT = """
class Pairs:
    api_version = 1
    columns = {"ts": "string", "a": "int", "b": "string"}
    argument = "?"
    def __init__(self, argument):
        if len(argument) > 1:
            raise ValueError("one character")
        self.separator = argument or ";"
    def parse(self, line):
        if line == "number":
            return 7
        if line == "fail":
            raise KeyError("x")
        parts = line.split(self.separator)
        return dict(zip(self.columns, parts)) if len(parts) == 3 else None

class Bare:
    api_version = 1
class Odd(Pairs):
    columns = {"a": "complex"}
class Choosy(Pairs):
    argument = "maybe"
"""


def parsed(text: str, *, argument: str = "", **declared: pa.DataType) -> Parsed:
    plugin = usable_formats({})["pairs"]
    parser = PluginParser("f.log", "h", TextOptions(declared), plugin=plugin, argument=argument)
    return parser.parse(text.encode(), ("ts", "a", "b", "_source", "c"))


def test_lines_become_typed_columns(install: Install) -> None:
    install("formatp", TEXT, formats={"pairs": "formatp:Pairs"})
    found = parsed("2015-05-17T10:00:00Z;1;x\n\n2015-05-17T10:00:01Z;y;z\n")
    rows = found.batch.to_pylist()
    assert [(row["a"], row["b"], row["_source"], row["c"]) for row in rows] == [
        (1, "x", "f.log", None),
        (None, "z", "f.log", None),
    ]
    assert rows[0]["ts"].isoformat() == "2015-05-17T10:00:00+00:00"
    assert (found.lines, found.rows, found.errors, found.unfit) == (2, 2, 0, [1])
    assert types_of(plugins(FORMATS)["pairs"]) == {"a": pa.int64(), "b": pa.string()}


def test_declared_types_of_the_stream_come_first(install: Install) -> None:
    install("formatp", TEXT, formats={"pairs": "formatp:Pairs"})
    assert parsed("t,1,2", argument=",", b=pa.float64()).batch.to_pylist()[0]["b"] == 2.0


def test_bad_lines_are_counted_with_their_reason(install: Install) -> None:
    install("formatp", TEXT, formats={"pairs": "formatp:Pairs"})
    found = parsed("short\nfail\nt;1;2\nnumber\n")
    assert (found.lines, found.rows, found.errors) == (4, 1, 3)
    assert found.samples == [
        "not pairs: short",
        "pairs: KeyError: 'x': fail",
        "pairs returned int, not a mapping: number",
    ]


def test_an_argument_that_the_format_refuses_is_one_line(install: Install) -> None:
    install("formatp", TEXT, formats={"pairs": "formatp:Pairs"})
    with pytest.raises(ConfigError, match="the format pairs of formatp refuses 'xx': one character"):
        parsed("", argument="xx")


@pytest.mark.parametrize(
    ("name", "place", "reason"),
    [
        ("json", "Pairs", "elfmesh has a format of this name"),
        ("auto", "Pairs", "elfmesh has a format of this name"),
        ("x", "Bare", "it declares no columns"),
        ("x", "Odd", "it declares the type 'complex', which is none of "),
        ("x", "Choosy", "it declares argument = 'maybe', which is none of "),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(install: Install, name: str, place: str, reason: str) -> None:
    install("formatp", TEXT, formats={name: f"formatp:{place}"})
    assert usable_formats({"json": None}) == {}
    (found,) = refused()
    assert found.reason.startswith(reason)
