"""One open file of a stream: where it is read, and when it is no longer what was read before."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.ingest.sources.file import SETTLED_S, OpenFile, open_file

LINES = [b"line %d\n" % number for number in range(300)]
TEXT = b"".join(LINES)


def opened(path: Path, text: bytes, *, packed: bool = False) -> OpenFile:
    path.write_bytes(gzip.compress(text) if packed else text)
    status = path.stat()
    file = open_file(str(path), (status.st_dev, status.st_ino), lambda: LineCutter(1 << 16))
    file.learn_head()
    return file


def read_all(file: OpenFile, room: int = 100) -> bytes:
    data = b""
    while True:
        block, nbytes = file.read(room)
        data += b"" if block is None else bytes(block.data)
        if not nbytes:
            return data


@pytest.mark.parametrize("packed", [False, True])
def test_only_whole_lines_are_read_and_the_offset_stays_before_an_unfinished_one(
    packed: bool, tmp_path: Path
) -> None:
    file = opened(tmp_path / "x", TEXT + b"unfinished", packed=packed)
    try:
        assert read_all(file) == TEXT
        assert (file.offset, file.pending) == (len(TEXT), len(b"unfinished"))
    finally:
        file.close()


@pytest.mark.parametrize("packed", [False, True])
def test_reading_goes_on_at_a_stored_place(packed: bool, tmp_path: Path) -> None:
    file = opened(tmp_path / "x", TEXT, packed=packed)
    file.read(1000)
    place = file.position
    file.close()
    again = opened(tmp_path / "x", TEXT, packed=packed)
    try:
        again.resume(place)
        assert again.position == place
        assert read_all(again) == TEXT[place.offset :]
    finally:
        again.close()


def truncate(path: Path) -> None:
    os.truncate(path, 5)


def rewrite(path: Path) -> None:
    path.write_bytes(b"other" * 2000)


def change_what_was_read(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(TEXT) - 3] ^= 1
    path.write_bytes(bytes(data))


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def nothing(path: Path) -> None: ...


@pytest.mark.parametrize(
    ("change", "replaced"),
    [(truncate, True), (rewrite, True), (change_what_was_read, True), (append, False), (nothing, False)],
)
def test_a_file_that_is_not_what_was_read_is_replaced(
    change: Callable[[Path], None], replaced: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    file = opened(path, TEXT)
    try:
        read_all(file)
        assert not file.replaced(0.0)
        change(path)
        assert file.replaced(0.0) is replaced
    finally:
        file.close()


def test_a_file_that_has_not_changed_for_a_while_is_not_read_again_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path / "x", TEXT)
    try:
        read_all(file)
        assert not file.replaced(0.0)
        monkeypatch.setattr(os, "pread", None)
        assert not file.replaced(SETTLED_S + 0.1)
    finally:
        file.close()


def test_a_compressed_file_has_more_until_its_end_is_met(tmp_path: Path) -> None:
    file = opened(tmp_path / "x", TEXT, packed=True)
    try:
        assert file.size() > len(TEXT)
        read_all(file)
        assert file.size() == len(TEXT)
        assert not file.replaced(0.0)
    finally:
        file.close()
