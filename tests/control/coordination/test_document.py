"""Values of an annotation file: where each stands, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.coordination.annotations import read_annotations
from elfmesh.control.coordination.document import NAME_CHARS_MAX, Document, Where, unknown
from elfmesh.errors import DataError
from tests.control.coordination.test_annotations import component

DOCUMENT = Document("f.yaml", None, {("C",): 3})


def test_a_mistake_has_the_line_of_the_nearest_value_that_has_one() -> None:
    lines: dict[Where, int] = {(): 1, ("C",): 2, ("C", "annotation"): 3}
    with pytest.raises(DataError) as caught:
        read_annotations(Document("f.yaml", component(label="XX"), lines))
    assert caught.value.where == "f.yaml:3"


@pytest.mark.parametrize("value", ["", "  ", None, 5, ["a"], "a\nb", "x" * (NAME_CHARS_MAX + 1)])
def test_a_name_is_a_printable_text_of_limited_length(value: Any) -> None:
    with pytest.raises(DataError, match=r"^f\.yaml:3: "):
        DOCUMENT.name(("C", "from"), value)
    assert DOCUMENT.name(("C", "from"), "a b") == "a b"


def test_one_name_is_a_list_of_names() -> None:
    assert DOCUMENT.names(("C",), "a ") == DOCUMENT.names(("C",), ["a"]) == {"a"}
    with pytest.raises(DataError, match="an empty list of columns"):
        DOCUMENT.names(("C",), [])


def test_a_flag_is_no_number() -> None:
    assert DOCUMENT.flag(("C", "rep"), True)
    with pytest.raises(DataError, match="rep is true or false"):
        DOCUMENT.flag(("C", "rep"), 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("lable", "unknown key 'lable'; Did you mean label?"),
        ({"a": 1}, "unknown key 'dict'; there are from, label"),
        ("x" * 1000, f"unknown key {repr('x' * 1000)[:NAME_CHARS_MAX]}; there are from, label"),
    ],
)
def test_what_is_unknown_is_named_with_the_nearest_known_one(value: Any, message: str) -> None:
    assert unknown(value, ("from", "label"), "key") == message
