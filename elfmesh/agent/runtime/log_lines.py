"""Formats of an agent's log, one line per event, as text or as JSON.

The module owns the formats and the masking of credentials. Messages may contain text of logs, peers and
configurations. Therefore control characters are escaped, and text that looks like a credential is masked.

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
        r"""(?i)(\bauthorization["']?\s*[=:]\s*["']?(?:digest|token|apikey|negotiate)\s+)[^"'\r\n]+"""
    ),
    re.compile(r"""(?i)(\b(?:set-)?cookie["']?\s*:\s*["']?)[^"'\r\n]+"""),
    re.compile(
        r"""(?ix) ( ["']? \b [\w.-]* (?:password|passwd|passphrase|secret|token|authorization
        |(?:api|access|private|secret)[_-]?key) ["']?
        \s* [=:] \s* ) (?: "(?:[^"\\]|\\.)*" | '[^']*' | (?!\s*(?:bearer|basic)\s) [^\s,;&"']+ )"""
    ),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/]+(?=@)"),
)
"""Patterns of credentials. Group 1 is kept: the scheme, the name of the setting, the user of an address."""


def masked(text: str) -> str:
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


class TextLine(logging.Formatter):
    """Text format: `2026-05-17T10:05:00.123Z INFO elf.agent joined the overlay`."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = time.gmtime  # type: ignore[assignment]  # logging requires the plain function

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, unless it contains a traceback."""
        text = masked(super().format(record))
        return text if record.exc_info else printable(text)


class JsonLine(logging.Formatter):
    """JSON format: `{"time": ..., "level": "info", "logger": "elf.agent", "event": "joined the overlay"}`.

    `error` is the exception and `traceback` its lines, if there is one.
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
