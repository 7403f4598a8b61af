"""Logs damage in the files of one results log, each place once."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger("elf.results")


class LogReport:
    """Report of one results log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reported: set[tuple[Path, int]] = set()

    def lacking(self, low: int, stop: int) -> None:
        if (self._directory, stop) not in self._reported:
            self._reported.add((self._directory, stop))
            log.error("%s lacks records of intervals %d to %d", self._directory, low, stop - 1)

    def damaged(self, path: Path, offset: int, what: str, *, torn: bool = False) -> None:
        if (path, offset) not in self._reported:
            self._reported.add((path, offset))
            if torn:
                log.warning("%s: a write was not finished at byte %d: %s", path, offset, what)
            else:
                log.error("%s is damaged at byte %d: %s", path, offset, what)
