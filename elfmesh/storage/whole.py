"""Writes files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from elfmesh.storage.results.segment import sync_directory
from elfmesh.storage.starving import opened_file


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file under another name; at the end of the block it is durable and gets its name.

    After an error of the block the new file is deleted. A StorageError means that the file has its name, but
    this may not be durable.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        with opened_file(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    sync_directory(path.parent)
