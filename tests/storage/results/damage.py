"""A results log of three segments, what may happen to a file of it, and what must be true then."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.control.jobs.pages import decode_page, frames
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage.results import salvage
from elfmesh.storage.results.log import ResultsLog

INDICES = (-5, 0, 3, 4, 9, 10, 11, 15, 16, 17, 20, 22)
"""Of three segments with four records each; some intervals have none."""

Change = Callable[[bytes], bytes]


def record(index: int, before: int | None, job: str = "shop/top") -> ResultRecord:
    return ResultRecord(job=job, index=index, epoch=2, counts={"contributed": 9}, before=before)


def rows(value: int) -> bytes:
    return table_to_ipc(pa.table({"x": [value]}))


def written(directory: Path, *, chained: bool = True, job: str = "shop/top") -> ResultsLog:
    log = ResultsLog(directory, "a", segment_records=4)
    before = None
    for index in INDICES:
        log.append(record(index, before if chained else None, job), rows(index))
        before = index
    return log


def held(log: ResultsLog) -> list[tuple[ResultRecord, bytes]]:
    """All that can be read, from the first record on and behind each hole."""
    found: list[tuple[ResultRecord, bytes]] = []
    following: int | None = None
    while True:
        page, after, hole, ended = log.read(following, None, 5)
        found += decode_page(page)
        if hole is None and ended:
            return found
        following = hole[1] if hole is not None else after


def lacking(log: ResultsLog) -> set[int]:
    """The indices that are in a hole or behind the end."""
    held_last = log.latest if log.latest is not None else -100
    return {
        each for each in INDICES if each > held_last or any(low <= each < stop for low, stop in log.holes)
    }


def spans(data: bytes) -> list[tuple[int, int]]:
    ends = [end for _, _, end in frames(data)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def in_frame(place: int, offset: int) -> Change:
    """One bit, so many bytes behind the beginning of a frame; -1: in its last byte."""

    def change(data: bytes) -> bytes:
        start, end = spans(data)[place]
        return flip(data, start + offset if offset >= 0 else end - 1)

    return change


def cut_at(place: int, more: int) -> Change:
    return lambda data: data[: spans(data)[place][0] + more]


FRAMES = {"first": 0, "middle": 2, "last": -1}

PARTS = {"length": 3, "checksum": 5, "header's length": 11, "header": 30, "rows": -1}

CHANGES: dict[str, Change] = {
    f"{part} of the {frame} record": in_frame(place, offset)
    for frame, place in FRAMES.items()
    for part, offset in PARTS.items()
} | {
    "cut within a record": cut_at(2, 20),
    "cut between two records, as an older version is": cut_at(2, 0),
    "cut within the first head": lambda data: data[:7],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "zeros at its end": lambda data: data[:-40] + bytes(40),
    "zeros in front": lambda data: bytes(40) + data[40:],
    "noise in the middle": lambda data: (
        data[: len(data) // 2] + b"\xa3job\xff\0\0" * 9 + data[len(data) // 2 :]
    ),
    "two records twice": lambda data: data + data[: spans(data)[1][1]],
}


def damaged(whole: Path, tmp_path: Path, kind: str, at: int) -> tuple[Path, Path]:
    directory = tmp_path / "log"
    shutil.copytree(whole / kind, directory)
    return directory, salvage.segment_paths(directory)[at]


def check_filled(directory: Path, whole: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is there is right, what lacks is known and logged; filled from another copy, it is all there."""
    full = held(ResultsLog(whole / kind, "a"))
    before = {each.index: (each, data) for each, data in full}
    log = ResultsLog(directory, "a", segment_records=4)
    for opened in (log, ResultsLog(directory, "a", segment_records=4)):
        there = held(opened)
        assert all(before[each.index] == (each, data) for each, data in there)
        assert {each.index for each, _ in there} | lacking(opened) == set(INDICES)
        assert not {each.index for each, _ in there} & lacking(opened)
    reported = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert any(str(directory) in text for text in reported) or INDICES[-1] > (log.latest or 0)
    for hole in list(log.holes):
        log.mend(*hole, [each for each in full if hole[0] <= each[0].index < hole[1]])
    for index in INDICES:
        log.append(*before[index])
    for opened in (log, ResultsLog(directory, "a", segment_records=4)):
        assert opened.holes == []
        assert held(opened) == full
    caplog.clear()
    ResultsLog(directory, "a", segment_records=4)
    assert not caplog.records, "the damage is gone"
