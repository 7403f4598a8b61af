from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.sources import read_blocks
from elfmesh.ingest.sources.blocks import LineCutter
from tests.hostile.memory import peak_bytes

TEXT = b"".join(b"line %d\n" % n for n in range(5000))


def whole(path: Path) -> bytes:
    return b"".join(block.data for block in read_blocks(str(path)))


def test_a_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb")
    assert whole(path) == b"a\nb"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="nothing: no such file"):
        whole(tmp_path / "nothing")
    with pytest.raises(RuntimeFailure, match="is a directory"):
        whole(tmp_path)


def test_standard_input_may_be_closed(tmp_path: Path) -> None:
    closed = io.BytesIO(b"")
    closed.close()
    for stdin in (None, closed):
        with pytest.raises(RuntimeFailure, match="standard input is closed"):
            list(read_blocks("-", stdin=stdin))
    piped = io.BytesIO(gzip.compress(TEXT))
    assert b"".join(block.data for block in read_blocks("-", stdin=piped)) == TEXT


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(TEXT))
    read: list[int] = []
    list(read_blocks(str(path), on_bytes=read.append))
    assert sum(read) == path.stat().st_size


def test_a_hundred_megabyte_line_is_one_error_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.write(b"before\n")
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b"\nafter\n")
    blocks = list(read_blocks(str(path)))
    assert b"".join(block.data for block in blocks) == b"before\nafter\n"
    assert sum(block.overlong for block in blocks) == 1
    assert any(block.overlong_sample.startswith(b"xxx") for block in blocks)
    assert peak_bytes(lambda: list(read_blocks(str(path))), 16 << 20) < 16 << 20


def lines_up_to(data: bytes, limit: int) -> bytes:
    whole, _, _ = data.rpartition(b"\n")
    lines = whole.split(b"\n") if b"\n" in data else []
    return b"".join(line + b"\n" for line in lines if len(line) <= limit)


@settings(max_examples=300)
@given(st.lists(st.text(st.sampled_from("a\n"), max_size=40).map(str.encode), max_size=8), st.integers(1, 12))
def test_blocks_are_all_whole_lines_within_the_limit(chunks: list[bytes], limit: int) -> None:
    cutter, data = LineCutter(limit), b"".join(chunks)
    found = b"".join(map(cutter.push, chunks))
    assert found == lines_up_to(data, limit)
    overlong, _ = cutter.take_overlong()
    ended = data[: data.rfind(b"\n") + 1]
    unfinished = len(data) - len(ended)
    assert overlong == sum(len(line) > limit for line in ended.split(b"\n"))
    assert (cutter.taken, cutter.pending) == (len(ended), unfinished)
    assert len(cutter.finish()) == (unfinished if unfinished <= limit else 0)
    assert cutter.take_overlong()[0] == (unfinished > limit)
