"""The boundary to C: no size or position that is not right gets past it."""

from __future__ import annotations

import struct
import sys
import types

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import scanner
from elfmesh.ingest.parsers.cells import TEXT, CellField, Grid


def test_wrong_buffers_are_refused() -> None:
    scan, eight, kind = scanner.active, np.zeros(8, np.int64), np.full(1, TEXT, np.uint8)
    one, none, three = eight[:1], eight[:0], np.full(1, 3)
    with pytest.raises(ValueError, match="more lines"):
        scan.split(b"a\nb\n", np.zeros(1, np.int64), np.zeros(9, np.int64))
    for starts, ends in ((one, three + 1), (three, one), (one - 1, three), (eight, three)):
        with pytest.raises(ValueError, match="lines of the block"):
            scan.access(True, b"abc", starts, ends, b"", np.zeros(0, np.uint8), none, one)
    with pytest.raises(ValueError, match="no such field"):
        scan.access(True, b"abc", one, three, b"\x63", kind, one, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="row per slot"):
        scan.access(True, b"abc", one, three, b"\x01\x02", kind, one, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="offsets"):
        scan.offsets(b"", b"", np.full(2, TEXT, np.uint8), eight[:2], np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="room"):
        scan.texts(b"abc", b"", kind, three, np.zeros(2, np.int32), bytearray(2))
    with pytest.raises(ValueError, match="differ"):
        scan.times(b"", b"", np.zeros(2, np.uint8), eight[:1], eight[:2], np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="PyCapsule"):
        scan.project(object(), b"", eight[:0], eight[:0], np.zeros(0, np.uint8), eight[:0], eight)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_no_description_of_a_plan_crashes(text: bytes) -> None:
    sound = struct.pack("=IIIIII", 2, 1, 0, 1, 1, 1) + b"a" + struct.pack("=II", 1, 0)
    assert scanner.active.plan(sound)
    for wrong in (text, sound[: len(text)], sound + text[:1] + b"x"):
        if wrong != sound:
            with pytest.raises(ValueError, match="plan"):
                scanner.active.plan(wrong)


@pytest.mark.parametrize("room", [0, 1, 15, 16, 31, 32, 33, 47, 48, 70])
def test_texts_stay_within_the_room_they_are_given(room: int) -> None:
    block = bytes(range(65, 91)) * 8
    kinds, words = (
        np.full(4, TEXT, np.uint8),
        np.array([0, 3, 5, 40], np.int64) << 32 | np.array([16, 1, 20, 33]),
    )
    out, offsets = bytearray(b"#" * 200), np.zeros(5, np.int32)
    need = scanner.active.offsets(block, b"", kinds, words, offsets)
    for give in (need, room):
        view = memoryview(out)[:give]
        if give < need:
            with pytest.raises(ValueError, match="room"):
                scanner.active.texts(block, b"", kinds, words, offsets, view)
        else:
            assert scanner.active.texts(block, b"", kinds, words, offsets, view) == need
        assert out[max(give, need) :] == b"#" * (200 - max(give, need))
    short = bytearray(b"#" * 64)
    assert scanner.active.texts(block, b"", kinds[:1], words[1:2], offsets[:2], memoryview(short)[:1]) == 1
    assert short[1:] == b"#" * 63


def test_text_cells_outside_of_the_block_are_empty() -> None:
    grid = Grid(scanner.active, b"abc", 1, 0)
    words = np.array([1 << 32 | 2, 2 << 32 | 2, 3 << 32, 2**62, -1], np.int64)
    assert CellField(grid, np.full(5, TEXT, np.uint8), words).column(pa.string()).to_pylist() == [
        "bc",
        "",
        "",
        "",
        "",
    ]


def test_a_scanner_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="ELF_SCANNER"):
        scanner.choose("fast")


def test_a_scanner_built_from_other_sources_is_not_taken_and_that_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = types.ModuleType("elfmesh.ingest.parsers._scan")
    monkeypatch.setitem(sys.modules, old.__name__, old)
    monkeypatch.setattr(scanner, "fallback_reason", "")
    with pytest.raises(ConfigError, match="other sources"):
        scanner.choose("native")
    scanner.choose("")
    assert scanner.active is None
    assert "built from other sources: 1, not 2" in scanner.fallback_reason
