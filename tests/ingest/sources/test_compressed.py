"""Files that may be compressed, told by their content; damage is an error, and bombs take constant memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from elfmesh.errors import DataError
from elfmesh.ingest.sources import read_blocks
from tests.hostile.memory import peak_bytes

TEXT = b"".join(b"line %d\n" % n for n in range(5000))


def whole(path: Path) -> bytes:
    return b"".join(block.data for block in read_blocks(str(path)))


@pytest.mark.parametrize("kind", ["plain", "gzip", "gzip members", "zstd", "zstd frames"])
def test_files_are_recognised_by_their_content_not_their_name(tmp_path: Path, kind: str) -> None:
    half = len(TEXT) // 2
    data = {
        "plain": TEXT,
        "gzip": gzip.compress(TEXT),
        "gzip members": gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:]),
        "zstd": zstandard.compress(TEXT),
        "zstd frames": zstandard.compress(TEXT[:half]) + zstandard.compress(TEXT[half:]),
    }[kind]
    path = tmp_path / "access.log"
    path.write_bytes(data)
    blocks = list(read_blocks(str(path), block_bytes=1000))
    assert b"".join(block.data for block in blocks) == TEXT
    assert all(block.data.endswith(b"\n") for block in blocks)
    assert len(blocks) > 10


@pytest.mark.parametrize(
    "data", [gzip.compress(TEXT)[:-9], zstandard.compress(TEXT)[:-3]], ids=["gzip", "zstd"]
)
def test_a_torn_compressed_file_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "torn"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"torn: the (gzip|zstd) file is cut off"):
        whole(path)


@pytest.mark.parametrize("data", [gzip.compress(TEXT), zstandard.compress(TEXT)], ids=["gzip", "zstd"])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad"
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(40) + data[middle + 40 :])
    with pytest.raises(DataError, match=r"damaged|cut off"):
        whole(path)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_gzip_members_and_padding_are_read_as_one(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log.gz"
    many = [b"", b"a\n", b"b" * 50_000 + b"\n", b"", b"c\n" * 1_000]
    path.write_bytes(b"".join(gzip.compress(part) + b"\0" * at for at, part in enumerate(many)))
    assert b"".join(block.data for block in read_blocks(str(path), block_bytes=size)) == b"".join(many)


def test_a_damaged_or_cut_gzip_file_is_an_error_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    good = gzip.compress(b"".join(b"%d\n" % number for number in range(20_000)))
    for damage in (good[:-1], good[:-9], good[:12], good[:3] + b"x", good + b"rubbish", good + good[:40]):
        path.write_bytes(damage)
        with pytest.raises(DataError, match=r"is cut off|is damaged"):
            list(read_blocks(str(path)))
    middle = bytearray(good)
    middle[len(good) // 2] ^= 0xFF
    path.write_bytes(middle)
    with pytest.raises(DataError, match="is damaged"):
        list(read_blocks(str(path)))


def test_a_gzip_bomb_unfolds_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress((b"x" * 999 + b"\n") * 200_000))

    def read() -> None:
        assert sum(len(block.data) for block in read_blocks(str(path))) == 200_000_000

    assert peak_bytes(read, 24 << 20) < 24 << 20
