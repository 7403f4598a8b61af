"""Live output of `elf run`: windows as they close, until the input ends or Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from elfmesh.errors import UsageError
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.sources.blocks import is_compressed, is_pipe
from elfmesh.local.run_output import AnswerWriter


def check_followed(paths: Sequence[str], statements: int) -> None:
    """Raise UsageError if the input cannot be followed."""
    if statements > 1:
        raise UsageError("--follow runs one job", hint="Run a command for each job.")
    for path in paths:
        if is_pipe(path):
            raise UsageError(
                f"--follow: {path} is not a file", hint="A pipe is read until it ends; use --live."
            )
        if is_compressed(path):
            raise UsageError(f"--follow: {path} is compressed, and does not grow")


def is_live(paths: Sequence[str]) -> bool:
    """Return whether a run is live without --live: if a terminal shows what a pipe brings."""
    return sys.stdout.isatty() and any(map(is_pipe, paths))


@contextlib.contextmanager
def interrupt_ends(stop: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C set `stop`, so that the open windows are printed; a second one interrupts.

    The first one also ends the writer of a pipe, which the shell started together with this process.
    """

    def interrupted(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class LiveOutput:
    """Writes windows when they are due.

    Args:
        new_writer: makes the writer, when the columns are known.
    """

    def __init__(self, new_writer: Callable[[], AnswerWriter]) -> None:
        self._new_writer = new_writer
        self._writer: AnswerWriter | None = None

    @property
    def writer(self) -> AnswerWriter:
        if self._writer is None:
            self._writer = self._new_writer()
        return self._writer

    def window(self, result: IntervalResult) -> None:
        self.writer.interval(result)
        self.flush()

    def flush(self) -> None:
        self.writer.end(None)
        sys.stdout.flush()
