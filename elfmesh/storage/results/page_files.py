"""The files of the row pages of one job's results.

  DIR/<index>-<digest>.page    one page of the rows of an interval (see row_pages.py)

A page is written before a vote for its record, and exists while the record is in the log. A file is complete
and durable. Its name is its checksum, which is verified at each read and, for a page that no record needs
yet, when the log is opened. A damaged page is logged and fetched from another agent. See guarantees D-1,
D-17.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from pathlib import Path

from elfmesh.control.jobs.row_pages import digest_of
from elfmesh.storage.results.segment import sync_directory, sync_file
from elfmesh.storage.starving import content, listed, opened_file

log = logging.getLogger("elf.results")
NAME = "pages"


class PageFiles:
    """The pages of one job, in a directory that is created with the first page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / NAME
        self._ahead: dict[tuple[int, bytes], None] = {}

    def open(
        self, latest: int | None, needed: Collection[bytes], holes: Collection[tuple[int, int]] = ()
    ) -> None:
        """Delete pages that no record needs, neither one in the log, up to `latest`, nor one that may follow.

        `holes` are ranges of missing records, from the first index up to the second, which will be filled.
        """
        for path, index, digest in self._all():
            if any(start <= index < stop for start, stop in holes):
                continue
            if path.suffix != ".page" or (
                latest is not None and index <= latest and digest not in needed
            ):  # an incomplete file, or the page of a record that was never chosen
                path.unlink()
            elif (latest is None or index > latest) and self._sound(path, digest) is not None:
                self._ahead[index, digest] = None

    @property
    def ahead(self) -> tuple[tuple[int, bytes], ...]:
        """Index and digest of the pages after the log's last record."""
        return tuple(self._ahead)

    def keep(self, index: int, data: bytes) -> None:
        """Write a page durably. After an OSError nothing has changed."""
        digest = digest_of(data)
        path = self._path(index, digest)
        if not self._directory.exists():
            self._directory.mkdir(parents=True)
            sync_directory(self._directory.parent)
        beside = path.with_suffix(".new")
        try:
            with opened_file(beside, "wb") as file:
                file.write(data)
                file.flush()
                sync_file(file.fileno(), beside)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        beside.replace(path)
        sync_directory(self._directory)
        self._ahead[index, digest] = None

    def read(self, index: int, digest: bytes) -> bytes | None:
        path = self._path(index, digest)
        return self._sound(path, digest) if path.exists() else None

    def passed(self, index: int, needed: Collection[bytes]) -> None:
        """Delete pages that are useless after the log has got the record with this index."""
        for known in [each for each in self._ahead if each[0] <= index]:
            del self._ahead[known]
            if known[0] < index or known[1] not in needed:
                self._path(*known).unlink(missing_ok=True)

    def expire(self, index: int) -> None:
        for path, known, _ in self._all():
            if known <= index:
                path.unlink()

    def clear(self) -> None:
        self._ahead.clear()
        for path, *_ in self._all():
            path.unlink()

    def damaged(self) -> list[Path]:
        """Return the files whose content does not match their name. Cost: reads all files."""
        return [path for path, _, digest in self._all() if digest_of(content(path)) != digest]

    def _all(self) -> Iterator[tuple[Path, int, bytes]]:
        for path in sorted(listed(self._directory)) if self._directory.exists() else []:
            index, _, digest = path.stem.rpartition("-")
            with contextlib.suppress(ValueError):
                yield path, int(index), bytes.fromhex(digest)

    def _path(self, index: int, digest: bytes) -> Path:
        return self._directory / f"{index:+020d}-{digest.hex()}.page"

    def _sound(self, path: Path, digest: bytes) -> bytes | None:
        data = content(path)
        if digest_of(data) == digest:
            return data
        log.error("a page of results is damaged, and fetched from another agent if one has it: %s", path)
        return None
