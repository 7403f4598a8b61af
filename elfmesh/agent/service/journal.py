"""Log lines for the systemd journal, which reads the level from a prefix <N>: sd-daemon(3)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from elfmesh.agent.runtime.log_lines import masked
from elfmesh.text import printable

VARIABLE = "JOURNAL_STREAM"
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


def is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether a descriptor is the journal, by device and inode, because it may be redirected."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get(VARIABLE) == f"{found.st_dev}:{found.st_ino}"


class JournalLine(logging.Formatter):
    """Journal format: `<6>elf.agent joined the overlay`. Each line of a traceback has the prefix."""

    def __init__(self) -> None:
        super().__init__("%(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = masked(super().format(record))
        lines = text.splitlines() if record.exc_info else [printable(text)]
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return "\n".join(f"<{priority}>{line}" for line in lines)
