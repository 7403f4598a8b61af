"""Files of annotations are hostile: each mistake is one line with file and line."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from elfmesh.api.annotation_files import DEPTH_MAX, parse_document, read_document
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import read_annotations
from elfmesh.errors import DataError, NotInstalled, RuntimeFailure
from tests.control.coordination.papers import AD_NETWORK


def test_yaml_and_json_are_the_same_values() -> None:
    yaml = parse_document(b"A:\n  Rep: true\n  annotation: {from: '1', to: b, label: CR}\n", "f.yaml")
    other = parse_document(
        b'{"A": {"Rep": true, "annotation": {"from": "1", "to": "b", "label": "CR"}}}', "f.json"
    )
    assert yaml.values == other.values
    assert yaml.lines["A", "Rep"] == 2
    assert yaml.lines["A", "annotation", "to"] == 3


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("A: &x {b: c}\nC: *x\n", "f.yaml:1", "aliases and anchors"),
        ("A: !!python/object:os.system x\n", "f.yaml:1", "tags"),
        ("A: b\nA: c\n", "f.yaml:2", "the key 'A' occurs twice"),
        ("A: [\n", "f.yaml:2", "not YAML"),
        ("A: b\n---\nC: d\n", "f.yaml:2", "more than one document"),
        ("A: " + "[" * 17 + "]" * 17, "f.yaml:1", f"nested deeper than {DEPTH_MAX}"),
        ("? [a]\n: b\n", "f.yaml:1", "a key must be a text"),
        ("a: \x07\n", "f.yaml:1", "not YAML"),
    ],
)
def test_hostile_yaml(text: str, where: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse_document(text.encode(), "f.yaml")
    assert caught.value.where == where
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b'{"A": 1,\n"A": 2}', "f.json", "a key occurs twice"),
        (b"{\n\n]", "f.json:3", "not JSON"),
        (b"[" * 100_000, "f.json", "nested deeper"),
        (b"1" * 5000, "f.json", "a number that is too long"),
        (b'{"a":\n"\xff"}', "f.json:2", "not UTF-8 at byte 7"),
        (b" " * (2 << 20), "f.json:1", "more than 1 MiB"),
    ],
)
def test_hostile_json(data: bytes, where: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse_document(data, "f.json")
    assert caught.value.where == where


def test_mutated_files_are_read_or_refused() -> None:
    """No other exception leaves the readers, whatever the bytes are."""
    read = 0
    for seed in range(3_000):
        rng = random.Random(seed)
        data = bytearray(AD_NETWORK.encode())
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            choice = rng.choice([b"", b"\x00", b"{", b"]", b"*", b"&a ", b": ", b"\n", b"- ", b"\xff", b"'"])
            data[at : at + rng.randint(0, 3)] = choice
        with contextlib.suppress(DataError):
            read_annotations(parse_document(bytes(data), "f.yaml")).graphs({})
            read += 1
    assert 100 < read < 2_500


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="No such file"):
        read_document(str(tmp_path / "none.yaml"))


def test_yaml_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(NotInstalled, match="pyyaml"):
        parse_document(b"A: b", "f.yaml")
    assert parse_document(b'{"A": "b"}', "f.json").values == {"A": "b"}


def test_a_ring_of_ten_thousand_components_is_read_and_labelled() -> None:
    size = 10_000
    text = "".join(
        f"c{at}: {{annotation: {{from: x{at}, to: x{(at + 1) % size}, label: OW}}}}\n" for at in range(size)
    )
    (graph,) = read_annotations(parse_document(text.encode(), "f.yaml")).graphs({}).values()
    found = analyse(graph)
    assert {str(label.severity) for label in found.labels.values()} == {"Run"}
