"""Choice of the scanner of blocks: the C module if it was built, else the slow path of every parser.

The scanner only reads lines of which it is certain, so the choice affects the speed and never the result.
ELF_SCANNER=native|python forces one.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from elfmesh.errors import ConfigError

CHOICES = ("native", "python")
_INTERFACE = 2
"""Version of the C module's interface."""

BLOCK_BYTES_MAX = 2**31 - 1
"""Largest block for the scanner, because cells have 32-bit positions; no reader makes a larger one."""

active: Any = None
"""The C module, or None. Read for every block, so that tests and the start-up can replace it."""

fallback_reason = ""
"""Why the C module is missing although no setting requested that; "" otherwise."""


REFUSED_SHARE = 8
"""If the scanner refuses more than one line of this many, the slow path reads the whole block, which is
faster."""

REFUSED_FREE = 16
"""Refused lines of any block, however short, that the slow path reads one by one."""


def refused_room(lines: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.empty(REFUSED_FREE + lines // REFUSED_SHARE, np.int64)


def choose(wanted: str) -> None:
    """Select a scanner; "" selects the fastest one available."""
    global active, fallback_reason
    if wanted and wanted not in CHOICES:
        raise ConfigError(
            f"ELF_SCANNER is {wanted!r}", hint=f"One of {', '.join(CHOICES)}, or leave it unset."
        )
    active, fallback_reason = None, ""
    if wanted == "python":
        return
    try:
        _scan = importlib.import_module("elfmesh.ingest.parsers._scan")
        if (built := getattr(_scan, "INTERFACE", 1)) != _INTERFACE:
            raise ImportError(f"it was built from other sources: {built}, not {_INTERFACE}")
    except ImportError as error:
        if wanted:
            raise ConfigError(
                f"ELF_SCANNER is native, but the scanner was not built ({error})",
                hint="Install elfmesh where there is a C compiler, or from a wheel.",
            ) from None
        fallback_reason = f"logs are read by the slower path: the native scanner was not built ({error})"
    else:
        active = _scan


def for_block(data: bytes) -> Any:
    return active if len(data) <= BLOCK_BYTES_MAX else None


choose(os.environ.get("ELF_SCANNER", ""))
