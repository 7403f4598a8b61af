"""Kernel: the hot operations of the tree, as a module with the functions of `protocol.Kernel`.

There are two with equal results: `native` in C, and `numpy_twin` if that was not built. The environment
variable ELF_KERNEL (`native` or `numpy`) forces one. The rest of the room calls `kernel.active.<function>`,
which is looked up at each call, so that a test can replace the kernel.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, cast

from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.kernel.protocol import (
    ANY_FLOAT,
    FLIPS,
    Field,
    FieldKind,
    HotTable,
    IntPart,
    Kernel,
    KeyColumn,
    KeyOverflow,
    Keys,
    Run,
    ShortSums,
)
from elfmesh.errors import ConfigError

__all__ = [
    "ANY_FLOAT",
    "FLIPS",
    "Field",
    "FieldKind",
    "HotTable",
    "IntPart",
    "Kernel",
    "KeyColumn",
    "KeyOverflow",
    "Keys",
    "Run",
    "ShortSums",
    "active",
    "fallback_reason",
]

VARIABLE = "ELF_KERNEL"

if TYPE_CHECKING:
    from elfmesh.cbt.kernel import native

    _native_is_one: Kernel = native


def choose(wish: str | None) -> tuple[Kernel, str]:
    """Return the kernel to use, and why it is not the native one ("" if it is, or if numpy was requested).

    Raises:
        ConfigError: `wish` is neither `native`, `numpy` nor empty, or the native kernel is not available.
    """
    if wish == "numpy":
        return numpy_twin, ""
    if wish not in {"native", "", None}:
        hint = "Set it to native or numpy, or not at all."
        raise ConfigError(f"there is no kernel {wish!r}", where=VARIABLE, hint=hint)
    try:
        return cast(Kernel, import_module("elfmesh.cbt.kernel.native")), ""
    except ImportError as missing:
        reason = str(missing)
    if wish == "native":
        raise ConfigError(
            f"the native kernel cannot be loaded: {reason}",
            where=VARIABLE,
            hint="Install a wheel for this platform, or build with a C compiler.",
        )
    return numpy_twin, f"the native kernel cannot be loaded, numpy takes its place, slower: {reason}"


active, fallback_reason = choose(os.environ.get(VARIABLE))
"""The kernel in use, and a message for the user if it is not the fast one."""
