"""How an agent's log looks: a line an event, as text or as JSON, with nothing in it that opens a door.

Owns the formats and what is masked. Messages may carry text of logs, of peers and of configurations: control
characters are escaped, and what looks like a credential is masked whatever said it.

Paper: none.
"""

from __future__ import annotations

import json
import logging
import re
import time
from datetime import UTC, datetime

from elfmesh.text import printable

MASK = "***"
_SECRETS = (
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(
        r"""(?ix) ( ["']? \b [\w.-]* (?:password|passwd|secret|token|authorization|api[_-]?key) ["']?
        \s* [=:] \s* ) (?: "[^"]*" | '[^']*' | (?!\s*(?:bearer|basic)\s) [^\s,;&"']+ )"""
    ),
    re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
)
"""Group 1 stays: the scheme, the name of the setting, the user of an address."""


def masked(text: str) -> str:
    """The text without what looks like a credential."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


class TextLine(logging.Formatter):
    """`2026-05-17T10:05:00.123Z INFO elf.agent joined the overlay`, whatever the message holds."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = time.gmtime  # type: ignore[assignment]  # logging wants the function itself

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, unless it is a traceback of ours."""
        text = masked(super().format(record))
        return text if record.exc_info else printable(text)


class JsonLine(logging.Formatter):
    """`{"time": ..., "level": "info", "logger": "elf.agent", "event": "joined the overlay"}`: one line.

    `error` is the exception and `traceback` its lines, where there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        reported = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": masked(record.getMessage()),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            reported["error"] = masked(f"{type(error).__name__}: {error}")
            reported["traceback"] = masked(self.formatException(record.exc_info))
        return json.dumps(reported)
