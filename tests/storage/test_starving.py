"""A lack of descriptors or memory is no property of the bytes that were being parsed."""

from __future__ import annotations

import errno
import logging
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.errors import DataError
from elfmesh.ingest.parsers import Parsed, Parser, StreamFormat
from elfmesh.ingest.sources import reader as reader_module
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.reader import StreamReader
from elfmesh.storage import starving
from tests.patience import PATIENCE_S


def no_descriptor() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def wrapped(error: BaseException) -> Exception:
    try:
        try:
            raise error
        except type(error):
            raise ImportError("cannot import name 'zones'")  # noqa: B904 - the context is what is tested
    except ImportError as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "lack"),
    [
        (MemoryError(), True),
        (pa.ArrowMemoryError("malloc of size 64 failed"), True),
        (no_descriptor(), True),
        (OSError(errno.ENOMEM, ""), True),
        (RuntimeError("can't start new thread"), True),
        (wrapped(no_descriptor()), True),
        (OSError(errno.ENOENT, ""), False),
        (ValueError("bad"), False),
        (DataError("bad"), False),
        (RuntimeError("dictionary changed size"), False),
    ],
    ids=repr,
)
def test_only_a_lack_of_resources_counts_as_one(error: Exception, lack: bool) -> None:
    assert starving.is_lack(error) is lack


def reader_over(path: Path, text: str) -> StreamReader:
    path.write_text(text)
    reader = StreamReader(str(path), StreamFormat("json"))
    reader.add("job", ["v"])
    return reader


def test_a_block_waits_for_descriptors_and_none_of_its_lines_is_a_parse_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    waits: list[float] = []
    monkeypatch.setattr(reader_module, "retried", partial(starving.retried, sleep=waits.append))
    reader = reader_over(tmp_path / "a.log", '{"v":1}\n{"v":2}\n')
    attempts = iter((no_descriptor(), wrapped(no_descriptor()), MemoryError()))

    def starved(parser: Parser, block: Block, columns: Sequence[str]) -> Parsed:
        for error in attempts:
            raise error
        return parse_block(parser, block, columns)

    monkeypatch.setattr(reader_module, "parse_block", starved)
    with caplog.at_level(logging.INFO, "elf.worker"):
        (delivery,) = reader.poll()
    assert (delivery.parsed.rows, delivery.parsed.errors) == (2, 0)
    assert waits == [starving.AGAIN_S] * 3
    reported = [record.getMessage() for record in caplog.records]
    assert (
        sum(
            f"lacks a resource: the process has no file descriptor left (RLIMIT_NOFILE is {soft}): [Errno 24]"
            in line
            for line in reported
        )
        == 1
    )
    assert any("continues after 1.5 s" in line for line in reported)


def test_a_follower_holds_a_quarter_of_the_descriptors_at_most() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert starving.files_max(512) == 64
        assert starving.files_max(10) == 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thread_waits_for_a_descriptor_and_the_main_one_gets_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    monkeypatch.setattr(starving, "AGAIN_S", 0.01)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ThreadPoolExecutor(1, thread_name_prefix="elf-store") as threads:
        threads.submit(int).result()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                starving.content(path)
            read = threads.submit(starving.content, path)
            end = time.monotonic() + PATIENCE_S
            while not starving.problem("elf-store"):
                assert time.monotonic() < end
                time.sleep(0.01)
            assert not starving.problem("elf-bulk")
            assert not read.done()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert read.result() == b"x"
    assert not starving.problem()


def test_a_process_that_may_open_no_more_files_reports_it() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert not starving.exhausted()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        assert starving.exhausted() == "the process has no file descriptor left (RLIMIT_NOFILE is 3)"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
