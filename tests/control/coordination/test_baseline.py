"""Labels are compared with those of an earlier output, which may be any file."""

from __future__ import annotations

import json

import pytest

from elfmesh.control.coordination.baseline import labels_of, read_baseline, worse
from elfmesh.errors import DataError


def output(name: str, label: str, otherwise: str | None = None, **more: object) -> dict[str, object]:
    return {"name": name, "label": label, "otherwise": otherwise, "provisional": False, **more}


def text(*outputs: dict[str, object], variant: str = "") -> str:
    return json.dumps({"outputs": outputs, **({"variant": variant} if variant else {})})


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (("Async", None), ("Async", None), []),
        (("Async", None), ("Run", None), ["x was Async and is Run"]),
        (("Run", None), ("Async", None), []),
        (("Async", None), ("Async", "Run"), ["x was Async and is Async | Run"]),
        (("Async", "Run"), ("Run", None), ["x was Async | Run and is Run"]),
        (("Async", "Run"), ("Async", None), []),
        (("Inst", None), ("Diverge", None), ["x was Inst and is Diverge"]),
    ],
)
def test_a_label_that_rises_in_a_case_is_worse(
    old: tuple[str, str | None], new: tuple[str, str | None], lines: list[str]
) -> None:
    before = read_baseline(text(output("x", *old)), "old.json")
    assert list(worse(before, labels_of({"outputs": [output("x", *new)]}))) == lines


def test_outputs_are_compared_by_variant_and_name() -> None:
    lines = [text(output("x", "Async"), variant="A"), text(output("x", "Run"), variant="B"), ""]
    before = read_baseline("\n".join(lines), "old.json")
    now = {"variant": "B", "outputs": [output("x", "Run"), output("y", "Diverge")]}
    assert list(worse(before, labels_of(now))) == []
    assert list(worse(before, labels_of(now | {"variant": "A"}))) == ["x (variant A) was Async and is Run"]


def test_provisional_outputs_do_not_count() -> None:
    now = {"outputs": [output("x", "Run", provisional=True)]}
    assert labels_of(now) == {}


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", "3", "null", '{"outputs": 3}', '{"outputs": [3]}', '{"outputs": [{"label": "Async"}]}',
        text(output("x", "Sync")), '{"outputs": [{"label": [], "otherwise": null, "provisional": false}]}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_another_file_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DataError, match="not an output of `elf blazes -o json`") as caught:
        read_baseline(f"{text()}\n{line}", "old.json")
    assert caught.value.where == "old.json:2"
