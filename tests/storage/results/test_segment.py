"""The files of a results log: the two copies of its description."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.segment import META, META_COPY
from tests.storage.results.damage import (
    INDICES,
    damaged,
    flip,
    held,
    record,
    rows,
    written,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs with and without records that name the one before, and one of another job; written once."""
    root = tmp_path_factory.mktemp("logs")
    written(root / "chained")
    written(root / "old", chained=False)
    written(root / "other", job="shop/other")
    return root


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
