"""Files of row pages: whole under the name of their checksum, kept as long as a record needs them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import pytest

from elfmesh.control.jobs.row_pages import digest_of
from elfmesh.storage.results.page_files import NAME, PageFiles

ONE, OTHER = b"one page", b"another page"


def indices(directory: Path) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[0]) for path in (directory / NAME).glob("*.page"))


def kept(directory: Path, *numbers: int, data: bytes = ONE) -> PageFiles:
    files = PageFiles(directory)
    for number in numbers:
        files.keep(number, data)
    return files


def test_a_page_comes_back_and_no_other(tmp_path: Path) -> None:
    files = kept(tmp_path, 5)
    assert files.read(5, digest_of(ONE)) == ONE
    assert files.read(5, digest_of(OTHER)) is None
    assert files.read(6, digest_of(ONE)) is None
    assert not list(tmp_path.rglob("*.new"))


def test_a_damaged_page_is_none_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = kept(tmp_path, 5, 6)
    path = min((tmp_path / NAME).iterdir())
    path.write_bytes(b"One page")
    assert files.damaged() == [path]
    assert files.read(5, digest_of(ONE)) is None
    assert files.read(6, digest_of(ONE)) == ONE
    (record,) = caplog.records
    assert (record.levelno, str(path) in record.getMessage()) == (logging.ERROR, True)


@pytest.mark.parametrize(
    ("latest", "needed", "holes", "left", "ahead"),
    [
        (None, (), (), [1, 2, 3], [1, 2, 3]),
        (2, (), (), [3], [3]),
        (2, (digest_of(ONE),), (), [1, 2, 3], [3]),
        (2, (digest_of(OTHER),), (), [3], [3]),
        (3, (), ((2, 3),), [2], []),  # the record of a hole comes again
        (9, (), (), [], []),
    ],
)
def test_pages_that_no_record_needs_are_removed_when_a_log_is_opened(
    latest: int | None,
    needed: Collection[bytes],
    holes: Collection[tuple[int, int]],
    left: list[int],
    ahead: list[int],
    tmp_path: Path,
) -> None:
    kept(tmp_path, 1, 2, 3)
    (tmp_path / NAME / f"{4:+020d}-{digest_of(ONE).hex()}.new").write_bytes(ONE)
    files = PageFiles(tmp_path)
    files.open(latest, needed, holes)
    assert indices(tmp_path) == left
    assert [index for index, _ in files.ahead] == ahead
    assert not list(tmp_path.rglob("*.new"))


def test_pages_of_records_that_were_not_chosen_go_when_the_log_has_passed_them(tmp_path: Path) -> None:
    files = kept(tmp_path, 1, 2, 3)
    files.keep(2, OTHER)
    files.passed(2, [digest_of(OTHER)])
    assert indices(tmp_path) == [2, 3]
    assert files.read(2, digest_of(OTHER)) == OTHER
    assert files.ahead == ((3, digest_of(ONE)),)


def test_pages_go_with_their_records(tmp_path: Path) -> None:
    files = kept(tmp_path, -1, 1, 2, 3)
    files.expire(1)
    assert indices(tmp_path) == [2, 3]
    files.clear()
    assert (indices(tmp_path), files.ahead) == ([], ())
