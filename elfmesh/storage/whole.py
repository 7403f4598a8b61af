"""Files that are there whole or not at all."""

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
    """Write a file beside its name; durable, it gets the name at the end of the block.

    OSError: nothing is left of it. StorageError: it has the name, and that may not be durable.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        with opened_file(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    sync_directory(path.parent)
