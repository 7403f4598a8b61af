"""Whatever happens to a file of a results log: what is good stays, what lacks is known, and can be filled."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.pages import decode_page, frames
from elfmesh.control.jobs.records import ResultRecord, table_to_ipc
from elfmesh.storage.results import salvage
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.segment import META, META_COPY

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
}
CHANGES |= {
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


CASES = [
    (kind, at, name)
    for kind in ("chained", "old")
    for at in range(3)
    for name in CHANGES
    if not (kind == "old" and at < 2 and name.startswith("cut between"))  # nothing says that there was more
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs with and without records that name the one before, and one of another job; written once."""
    root = tmp_path_factory.mktemp("logs")
    written(root / "chained")
    written(root / "old", chained=False)
    written(root / "other", job="shop/other")
    return root


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


@pytest.mark.parametrize(("kind", "at", "name"), CASES)
def test_a_damaged_segment_costs_what_was_in_it_and_can_be_filled(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, at: int, name: str
) -> None:
    directory, path = damaged(whole, tmp_path, kind, at)
    path.write_bytes(CHANGES[name](path.read_bytes()))
    check_filled(directory, whole, kind, caplog)


@pytest.mark.parametrize("at", range(3))
def test_a_segment_that_is_gone_is_a_hole(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    path.unlink()
    check_filled(directory, whole, "chained", caplog)


@pytest.mark.parametrize("at", range(3))
def test_records_of_another_job_are_damage(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    shutil.copy(salvage.segment_paths(whole / "other")[at], path)
    check_filled(directory, whole, "chained", caplog)
    assert path.with_name(path.name + ".damaged").exists()


@pytest.mark.parametrize("name", ["rows of the middle record", "zeros", "empty", "cut within a record"])
@pytest.mark.parametrize("at", range(3))
def test_damage_under_a_log_that_is_open_is_found_by_the_next_read(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, name: str
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    log = ResultsLog(directory, "a", segment_records=4)
    path.write_bytes(CHANGES[name](path.read_bytes()))
    there = held(log)
    assert log.latest == INDICES[-1]
    assert {each.index for each, _ in there} | lacking(log) == set(INDICES)
    assert any(each.levelno >= logging.WARNING and str(path) in each.getMessage() for each in caplog.records)
    log.append(record(30, INDICES[-1]), rows(30))
    full = held(ResultsLog(whole / "chained", "a"))
    for hole in list(log.holes):
        log.mend(*hole, [each for each in full if hole[0] <= each[0].index < hole[1]])
    assert [each.index for each, _ in held(log)] == [*INDICES, 30]
    again = ResultsLog(directory, "a", segment_records=4)
    assert (again.holes, [each.index for each, _ in held(again)]) == ([], [*INDICES, 30])


def test_damage_under_a_log_that_is_written_does_not_hide_what_comes(whole: Path, tmp_path: Path) -> None:
    directory, path = damaged(whole, tmp_path, "chained", 2)
    log = ResultsLog(directory, "a", segment_records=9)
    path.write_bytes(path.read_bytes()[:-30])
    log.append(record(30, INDICES[-1]), rows(30))
    assert [each.index for each, _ in held(log)] == [*INDICES[:-1], 30]
    assert log.holes == [(INDICES[-2] + 1, INDICES[-1] + 1)]
    assert ResultsLog(directory, "a").holes == log.holes


def test_a_hole_is_filled_from_its_beginning_and_what_is_left_survives_a_restart(
    whole: Path, tmp_path: Path
) -> None:
    full = {each.index: (each, data) for each, data in held(ResultsLog(whole / "old", "a"))}
    directory, path = damaged(whole, tmp_path, "old", 1)
    path.write_bytes(bytes(path.stat().st_size))
    log = ResultsLog(directory, "a", segment_records=4)
    assert log.holes == [(5, 16)]
    log.mend(5, 10, [full[9]])
    assert log.holes == [(10, 16)]
    log = ResultsLog(directory, "a", segment_records=4)
    assert log.holes == [(10, 16)]
    log.mend(10, 16, [full[10], full[11], full[15]])
    assert held(ResultsLog(directory, "a")) == [full[index] for index in INDICES]


def test_a_declared_loss_is_a_record_of_the_epoch_before_it(whole: Path, tmp_path: Path) -> None:
    directory, path = damaged(whole, tmp_path, "chained", 1)
    path.unlink()
    log = ResultsLog(directory, "a")
    ((start, stop),) = log.holes
    reported = replace(record(stop - 1, None), state="SKIPPED", reason="lost: so", since=start, epoch=0)
    log.mend(start, stop, [(reported, b"")])
    again = ResultsLog(directory, "a")
    assert again.holes == []
    assert again.describe(1).lost == ((5, 15),)
    (found,) = [each for each, _ in held(again) if each.lost]
    assert (found.index, found.first, found.epoch) == (15, 5, 2)


@pytest.mark.parametrize("name", [META, META_COPY])
@pytest.mark.parametrize("change", ["flip", "empty", "zeros", "cut", "gone", "other", "older"])
def test_one_copy_of_the_description_is_enough(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, change: str
) -> None:
    directory, _ = damaged(whole, tmp_path, "chained", 0)
    path = directory / name
    data = path.read_bytes()
    older = ResultsLog(tmp_path / "older", "a")
    older.append(record(-5, None), rows(1))
    other = (whole / "other" / META).read_bytes()
    changed = {
        "flip": flip(data, len(data) // 2),
        "empty": b"",
        "zeros": bytes(len(data)),
        "cut": data[:-10],
        "other": other,
        "older": (tmp_path / "older" / META).read_bytes(),
    }
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(changed[change])
    for _ in range(2):
        log = ResultsLog(directory, None)
        assert (log.incarnation, [each.index for each, _ in held(log)]) == ("a", [*INDICES])
    assert path.read_bytes() == (directory / META).read_bytes() == (directory / META_COPY).read_bytes()
    errors = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert bool(errors) == (change not in ("gone", "older"))
    assert all(str(directory) in error for error in errors)


def test_a_log_without_a_description_is_set_aside_and_not_taken_for_another(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", 0)
    (directory / META).write_bytes(b"")
    (directory / META_COPY).write_bytes(b"\x93")
    log = ResultsLog(directory, "a")
    assert (log.latest, log.holes) == (None, [])
    assert path.with_name(path.name + ".damaged").exists()
    assert any("set aside" in each.getMessage() for each in caplog.records)


def test_a_description_of_an_earlier_release_is_read_and_gets_a_copy(whole: Path, tmp_path: Path) -> None:
    directory, _ = damaged(whole, tmp_path, "old", 0)
    log = ResultsLog(directory, "a")
    (directory / META_COPY).unlink()
    old = {"incarnation": "a", "schema": log.describe(1).schema, "expired": None, "partials": b""}
    (directory / META).write_bytes(msgspec.msgpack.encode(old))
    log = ResultsLog(directory, "a")
    assert [each.index for each, _ in held(log)] == [*INDICES]
    assert (directory / META).read_bytes() == (directory / META_COPY).read_bytes()
