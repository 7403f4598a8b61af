"""Reads texts of jobs and queries from files and from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from elfmesh.errors import DataError, RuntimeFailure


def read_text(path: str) -> tuple[str, str]:
    """Return the text of a UTF-8 file or of standard input, and its name in errors."""
    source = "stdin" if path == "-" else path
    if path == "-" and sys.stdin is None:
        raise RuntimeFailure("standard input is closed", hint="Name the job's file after -f.")
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig"), source
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=source, hint="Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8 at byte {error.start}", where=source, hint="Save the text as UTF-8."
        ) from None
