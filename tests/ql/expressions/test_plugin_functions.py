"""Functions of plug-ins in queries: results, what they return wrongly, and what they declare wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import elfmesh
from elfmesh.control.coordination.relations import expression_steps
from elfmesh.errors import ElfError
from elfmesh.plugins import refused
from elfmesh.ql.expressions import plugin_functions
from elfmesh.ql.expressions.nodes import Call, FieldRef
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.text import refusing
from tests.plugins.packages import Install, install

__all__ = ["install"]

TEXT = """
import pyarrow as pa
import pyarrow.compute as pc

class Twice:
    api_version, takes, gives, label = 1, ("BIGINT",), "BIGINT", "CR"
    def __call__(self, numbers):
        return pc.multiply(numbers, 2)

class Wide(Twice):
    takes, gives, label = ("STRING", "DOUBLE"), "STRING", "OR"
    def __call__(self, texts, numbers):
        return pc.binary_join_element_wise(texts, pc.cast(numbers, pa.string()), "-")

class Short(Twice):
    def __call__(self, numbers):
        return numbers[:1]

class Lists(Twice):
    def __call__(self, numbers):
        return [1, 2]

class Texts(Twice):
    def __call__(self, numbers):
        return pa.array(["x"] * len(numbers))

class Fails(Twice):
    def __call__(self, numbers):
        raise ValueError("no luck")

class Untyped(Twice):
    gives = "NUMBER"

class Empty(Twice):
    takes = ()

class Labelled(Twice):
    label = "fine"

class Unmade(Twice):
    def __init__(self):
        raise RuntimeError("no room")
"""
ENTRIES = {
    name.lower(): f"functionp:{name}" for name in ("Twice", "Wide", "Short", "Lists", "Texts", "Fails")
}


@pytest.fixture
def registered(install: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    before = dict(FUNCTIONS)
    monkeypatch.setattr(plugin_functions, "UNCONFLUENT", plugin_functions.UNCONFLUENT)

    def register(**entries: str) -> None:
        install("functionp", TEXT, functions=entries)
        plugin_functions.register()
        monkeypatch.setattr(refusing, "OURS", (*refusing.OURS, *entries))

    yield register
    for name in FUNCTIONS.keys() - before.keys():
        del FUNCTIONS[name]
        plugin_functions.UNCONFLUENT.pop(name, None)


def rows(query: str) -> list[dict[str, Any]]:
    given = pa.table({"n": [1, 2, None], "t": ["a", "b", "c"]})
    found: list[dict[str, Any]] = elfmesh.run(query, given).to_arrow().to_pylist()
    return found


def test_a_function_computes_columns_with_conversions(registered: Any) -> None:
    registered(**ENTRIES)
    found = rows("SELECT twice(n) AS d, twice('4') AS four, wide(t, n) AS w, twice(n) + 1 AS more FROM log")
    assert [(row["d"], row["four"], row["w"], row["more"]) for row in found] == [
        (2, 8, "a-1", 3), (4, 8, "b-2", 5), (None, 8, None, None),
    ]  # fmt: skip
    assert rows("SELECT sum(twice(n)) AS s FROM log WHERE twice(n) > 2") == [{"s": 4}]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("short(n)", "the function short of functionp returned 1 values for 3 rows"),
        ("lists(n)", "the function lists of functionp returned list, not a pyarrow array"),
        ("texts(n)", "the function texts of functionp returned string, not BIGINT"),
        ("fails(n)", "the function fails of functionp raised ValueError: no luck"),
        ("twice()", "twice does not take 0 arguments"),
        ("wide(t, t, t)", "wide does not take 3 arguments"),
        ("twice(array(1))", "argument 1 of twice is ARRAY<BIGINT>, not BIGINT"),
    ],
)
def test_a_wrong_call_or_result_is_one_line(registered: Any, call: str, line: str) -> None:
    registered(**ENTRIES)
    with pytest.raises(ElfError) as caught:
        rows(f"SELECT {call} AS x FROM log")
    assert line in caught.value.message


@pytest.mark.parametrize(
    ("name", "place", "reason"),
    [
        ("upper", "Twice", "ELF-QL has a function of this name"),
        ("count", "Twice", "ELF-QL has a function of this name"),
        ("Twice", "Twice", "its name is not of lower-case letters, digits and _"),
        ("x", "Untyped", "it declares the type 'NUMBER', which is none of "),
        ("x", "Empty", "it declares no list of types in takes"),
        ("x", "Labelled", "it declares the label 'fine', which is neither CR nor OR"),
        ("x", "Unmade", "it cannot be made: RuntimeError: no room"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(registered: Any, name: str, place: str, reason: str) -> None:
    registered(**{name: f"functionp:{place}"})
    (found,) = refused()
    assert found.name == name
    assert found.reason.startswith(reason)


def test_a_function_without_the_label_cr_is_order_sensitive(registered: Any) -> None:
    registered(**ENTRIES)
    steps = {name: list(expression_steps(Call(name, (FieldRef("n"),)))) for name in ("twice", "wide")}
    assert steps["twice"] == []
    (step,) = steps["wide"]
    assert step.gate is None
    assert step.why == "the function wide of functionp does not declare the label CR"
