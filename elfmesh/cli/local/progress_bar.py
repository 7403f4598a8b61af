"""The progress bar of `elf run`, which counts the bytes that were read from the files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BAR_AFTER_S = 1.0


class ProgressBar:
    """Progress bar on standard error, which appears when reading takes longer than a second."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.enabled = False
        self._paths = paths
        self._began = time.monotonic()
        self._read = 0
        self._progress: Any = None

    def advance(self, count: int) -> None:
        self._read += count
        if self._progress is not None:
            self._progress.update(self._task, completed=self._read)
        elif self.enabled and time.monotonic() - self._began > BAR_AFTER_S:
            self._show()

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.finish()

    def finish(self) -> None:
        self.enabled = False
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        sizes = [Path(path).stat().st_size for path in self._paths if path != "-"]
        total = sum(sizes) if len(sizes) == len(self._paths) else None
        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("reading", total=total, completed=self._read)
        self._progress.start()
