"""Lines for the journal carry a level and no time; elsewhere they carry both."""

from __future__ import annotations

import logging
import os
import sys

import pytest

from elfmesh.agent.service.journal import JournalLine, is_journal


def record(level: int, message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("elf.agent", level, "x.py", 1, message, (), info)


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_a_level_is_a_number_in_front(level: int, priority: int) -> None:
    assert JournalLine().format(record(level, "joined")) == f"<{priority}>elf.agent joined"


def test_a_message_cannot_begin_a_line_of_its_own() -> None:
    assert "\n" not in JournalLine().format(record(logging.INFO, "path /a\n<2>forged"))


def test_every_line_of_a_traceback_has_the_level() -> None:
    lines = JournalLine().format(record(logging.ERROR, "failed", ValueError("x"))).splitlines()
    assert len(lines) > 1
    assert all(line.startswith("<3>") for line in lines)


def test_standard_error_is_the_journal_only_if_it_still_leads_there() -> None:
    found = os.fstat(sys.__stderr__.fileno() if sys.__stderr__ else 2)
    here = f"{found.st_dev}:{found.st_ino}"
    assert is_journal(2, {"JOURNAL_STREAM": here})
    assert not is_journal(2, {"JOURNAL_STREAM": f"{found.st_dev}:0"})
    assert not is_journal(2, {})
    assert not is_journal(9999, {"JOURNAL_STREAM": here})
