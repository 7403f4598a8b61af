"""Durable renames and deletions of spool files; a failed operation may be repeated."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
