from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import pytest

from elfmesh.ql.expressions.nodes import Call, FieldRef, Literal, PythonCall, Star
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.values.compared import PartlyCompared


class _Named(PartlyCompared, frozen=True):
    aside: ClassVar[frozenset[str]] = frozenset({"at", "note"})
    name: str
    at: int = 0
    note: str = ""


class _Other(_Named, frozen=True):
    size: int = 0


class _Nothing(PartlyCompared, frozen=True):
    pass


def test_fields_that_are_set_aside_do_not_count() -> None:
    one, same = _Named("a", 1, "x"), _Named("a", 2, "y")
    assert one == same
    assert not one != same  # noqa: SIM202 - a struct answers `!=` by itself
    assert hash(one) == hash(same)
    assert {one: 5}[same] == 5


def test_every_other_field_and_the_class_count() -> None:
    assert _Named("a") != _Named("b")
    assert not _Named("a") == _Named("b")  # noqa: SIM201 - a struct answers `==` by itself
    assert _Named("a") != _Other("a")
    assert _Other("a", size=1) != _Other("a", size=2)
    assert _Other("a", 1, size=1) == _Other("a", 2, size=1)
    assert _Named("a") != "a"
    assert (_Nothing(), hash(_Nothing())) == (_Nothing(), hash(_Nothing()))


def test_a_value_survives_copies_and_pickling() -> None:
    call = Call("+", (FieldRef("a", quoted=True, at=TextPosition(1, 2)), Literal("bigint", 1)))
    for again in (copy.copy(call), copy.deepcopy(call), pickle.loads(pickle.dumps(call))):
        assert again == call
        field = again.args[0]
        assert isinstance(field, FieldRef)
        assert (field.at, field.quoted) == (TextPosition(1, 2), True)


def test_expressions_compare_by_meaning() -> None:
    assert FieldRef("a", True, at=TextPosition(1, 2)) == FieldRef("a")
    assert FieldRef("a") != FieldRef("b")
    assert Literal("double", 0.0) != Literal("double", -0.0)
    assert Literal("double", 0.0, at=TextPosition(1, 2)) == Literal("double", 0.0)
    assert Star(("a",)) != Star()
    assert "function" in PythonCall.__struct_fields__


def test_a_value_with_a_field_that_has_no_hash_has_none() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Call("f", [FieldRef("a")]))  # type: ignore[arg-type]  # a list in place of a tuple
