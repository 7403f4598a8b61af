"""Which scanner reads blocks: the C module where it was built, else the slow path in every parser.

The scanner only answers for lines it is certain of, so the choice changes the speed and never the result.
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
"""Of the C module: what its functions take and give."""

BLOCK_BYTES_MAX = 2**31 - 1
"""A larger block, which no reader makes, goes the slow path: cells say where a text begins in 32 bits."""

active: Any = None
"""The C module, or None. Looked up at every block, so that tests and start-up can swap it."""

fallback_reason = ""
"""Why there is no C module although no setting asked for that; "" otherwise."""


REFUSED_SHARE = 8
"""If the scanner refuses more than one line of so many, the slow path takes the whole block, faster."""

REFUSED_FREE = 16
"""Refused lines of any block, however short, that the slow path takes one by one."""


def refused_room(lines: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.empty(REFUSED_FREE + lines // REFUSED_SHARE, np.int64)


def choose(wanted: str) -> None:
    """Take the scanner that was asked for; with "" the best there is."""
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
