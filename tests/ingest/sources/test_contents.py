"""What is in a file, plain or compressed: whether it holds what was read, and whether it is a copy."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.sources.contents import (
    SAMPLE_BYTES,
    Inflated,
    common_bytes,
    ends_at,
    expected_size,
    holds,
    is_compressed,
    is_copy_of,
    last_line_start,
    place_at_end,
)
from elfmesh.ingest.sources.position import FINISHED, HEAD_BYTES, MARK_BYTES, FilePosition, digest, mark_of

TEXT = b"".join(b"line %d\n" % number for number in range(2000))


def place(offset: int, text: bytes = TEXT) -> FilePosition:
    """Where a reader of a text stands after so many bytes."""
    head = text[:HEAD_BYTES]
    mark = mark_of(text[max(0, offset - MARK_BYTES) : offset])
    return FilePosition("log", 1, 2, digest(head), len(head), offset, mark)


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "offset", "held"),
    [
        (TEXT, 5000, True),
        (TEXT + b"more\n", len(TEXT), True),
        (TEXT, 0, True),
        (TEXT[:4999], 5000, False),  # shorter than what was read
        (b"Line" + TEXT[4:], 5000, False),  # another beginning
        (TEXT[:4990] + b"X" + TEXT[4991:], 5000, False),  # another line before the offset
        (TEXT[:6000] + b"X" + TEXT[6001:], 5000, True),  # what comes behind says nothing
    ],
)
def test_a_file_holds_what_was_read(
    packed: bool, content: bytes, offset: int, held: bool, tmp_path: Path
) -> None:
    path = written(tmp_path / "log", gzip.compress(content, mtime=0) if packed else content)
    assert is_compressed(path) is packed
    assert holds(path, place(offset)) is held


def test_a_file_that_is_not_there_or_damaged_holds_nothing(tmp_path: Path) -> None:
    assert not holds(str(tmp_path / "none"), place(0))
    assert not is_compressed(str(tmp_path / "none"))
    packed = bytearray(gzip.compress(TEXT, mtime=0))
    packed[200] ^= 0xFF
    assert not holds(written(tmp_path / "bad", bytes(packed)), place(len(TEXT) - 10))


@pytest.mark.parametrize(
    ("data", "offset", "ends"),
    [
        (gzip.compress(TEXT, mtime=0), len(TEXT), True),
        (gzip.compress(TEXT, mtime=0), len(TEXT) - 1, False),
        (TEXT, len(TEXT), False),
    ],
    ids=["at its end", "before it", "plain"],
)
def test_a_gzip_file_shows_how_long_it_is(data: bytes, offset: int, ends: bool, tmp_path: Path) -> None:
    assert ends_at(written(tmp_path / "x", data), place(offset)) is ends


@pytest.mark.parametrize(
    ("copy", "is_one"),
    [
        (TEXT, True),
        (TEXT[:3000], True),
        (TEXT + b"more", False),  # a copy is never longer
        (b"other" + TEXT, False),
        (TEXT[:2990] + b"X" * 10, False),
        (b"", False),
        (gzip.compress(TEXT, mtime=0), True),
        (gzip.compress(b"other", mtime=0), False),
        (gzip.compress(TEXT, mtime=0)[:20], None),  # it does not say enough yet
    ],
)
def test_a_copy_is_recognised(copy: bytes, is_one: bool | None, tmp_path: Path) -> None:
    original = written(tmp_path / "log", TEXT)
    assert is_copy_of(written(tmp_path / "copy", copy), original) is is_one


def test_a_compressed_file_has_no_copies(tmp_path: Path) -> None:
    original = written(tmp_path / "log.gz", gzip.compress(TEXT, mtime=0))
    assert is_copy_of(written(tmp_path / "copy", TEXT), original) is False
    assert is_copy_of(original, str(tmp_path / "none")) is False


@given(st.integers(0, len(TEXT)), st.booleans())
def test_how_far_two_files_agree(agreed: int, longer: bool) -> None:
    one, other = os.memfd_create("one"), os.memfd_create("other")
    try:
        os.write(one, TEXT)
        os.write(other, TEXT[:agreed] + (b"\0" * 5000 if longer else b""))
        common = common_bytes(one, other)
        assert common == (agreed if agreed >= HEAD_BYTES or not longer else 0)
    finally:
        os.close(one)
        os.close(other)


@pytest.mark.parametrize(
    ("data", "line_bytes_max", "start"),
    [(b"a\nbc", 10, 2), (b"a\nbc\n", 10, 5), (b"abc", 10, 0), (b"a\nbcdef", 3, 4), (b"", 10, 0)],
)
def test_where_the_last_line_begins(data: bytes, line_bytes_max: int, start: int, tmp_path: Path) -> None:
    with Path(written(tmp_path / "x", data)).open("rb") as file:
        assert last_line_start(file.fileno(), len(data), line_bytes_max) == start


def test_a_finished_file_is_known_behind_its_last_whole_line(tmp_path: Path) -> None:
    with Path(written(tmp_path / "x", b"a\nbc")).open("rb") as file:
        found = place_at_end("x", file.fileno(), FINISHED, 100)
    assert (found.offset, found.mark, found.head) == (2, mark_of(b"a\n"), 4)


def test_a_compressed_file_is_read_forward_in_any_pieces(tmp_path: Path) -> None:
    inflated = Inflated(written(tmp_path / "x.gz", gzip.compress(TEXT, mtime=0)))
    try:
        assert inflated.take(5) == TEXT[:5]
        passed, last = inflated.skip(1000)
        assert (passed, last) == (1000, TEXT[:1005][-MARK_BYTES:])
        assert inflated.take(1 << 20) == TEXT[1005:]
        assert (inflated.read(10), inflated.finished) == (b"", True)
    finally:
        inflated.close()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain" * 9, (45, False)),
        (b"", (0, False)),
        (gzip.compress(b"x" * 500, mtime=0) + gzip.compress(b"y" * 300, mtime=0), (800, False)),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 900), (900, False)),
        (b"\x1f\x8bdamaged", (9, False)),
        (b"\x28\xb5\x2f\xfddamaged", (11, False)),
    ],
)
def test_a_short_file_has_the_size_that_it_unfolds_to(
    tmp_path: Path, data: bytes, expected: tuple[int, bool]
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(data)
    assert expected_size(str(path), len(data)) == expected
    assert expected_size(str(tmp_path / "missing"), 7) == (7, False)


def test_a_file_that_unfolds_without_end_is_not_unfolded(tmp_path: Path) -> None:
    data = gzip.compress(bytes(200 << 20), 9)
    path = tmp_path / "a.log.gz"
    for parts, least in (data, 200 << 20), (data + gzip.compress(b"x"), 40 << 20):
        path.write_bytes(parts)
        found, guessed = expected_size(str(path), len(parts))
        assert found >= least
        assert guessed is (parts != data)
    assert len(data) > SAMPLE_BYTES
