"""Declared paths of programs: from what a callback receives to what it causes, with an annotation.

A program declares them with `elfmesh.path`. The decorator checks its arguments and returns the callback as it
is. `elf lint` and `elf blazes` read declarations from the syntax tree, without running the program.

Paper: Blazes IV-A (grey box: annotations by authors).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from elfmesh.errors import UsageError
from elfmesh.text import suggest

Callback = TypeVar("Callback", bound=Callable[..., Any])

CALLBACKS = {
    "on_start": "start",
    "on_master": "start",
    "on_timer": "timer",
    "on_result": "results",
    "on_early": "early",
    "on_recv": "recv",
    "on_multicast": "multicast",
    "on_route": "route",
}
"""Callbacks of a program, with the names of the inputs that they handle."""

LABELS = ("CR", "CW", "OR", "OW")
TARGETS = "multicast, send_to:GROUP, route:PROGRAM, insert:STREAM, answer, outside"
_TARGET = re.compile(r"multicast|answer|outside|(?:send_to|insert):[\w*-]{1,128}|route:[\w./*-]{1,200}")


@dataclass(frozen=True, slots=True)
class ProgramPath:
    """Declared path.

    Attributes:
        source: what the callback receives: a value of `CALLBACKS`.
        target: what it causes: one of `TARGETS`.
        label: CR, CW, OR or OW.
        by: columns of the partitions over which an order-sensitive path works; none: unknown.
        idempotent: a message that arrives twice changes nothing.
        why: reason of the annotation, for display.

    Raises:
        UsageError: a name is unknown, or a confluent path has partitions.
    """

    source: str
    target: str
    label: str
    by: tuple[str, ...] = ()
    idempotent: bool = False
    why: str = ""

    def __post_init__(self) -> None:
        inputs = tuple(dict.fromkeys(CALLBACKS.values()))
        if self.source not in inputs:
            hint = suggest(self.source, inputs) or f"There are {', '.join(inputs)}."
            raise UsageError(f"a program has no input {self.source!r}", hint=hint)
        if not _TARGET.fullmatch(self.target):
            raise UsageError(f"a program has no output {self.target!r}", hint=f"There are {TARGETS}.")
        if self.label not in LABELS:
            raise UsageError(f"unknown label {self.label!r}", hint=f"There are {', '.join(LABELS)}.")
        if self.by and self.label.startswith("C"):
            raise UsageError(f"a confluent path ({self.label}) has no partitions", hint="Leave `by` out.")


def path(
    source: str, target: str, label: str, *, by: Sequence[str] = (), idempotent: bool = False, why: str = ""
) -> Callable[[Callback], Callback]:
    """Declare a path of a program's callback; see `ProgramPath`. A callback may have several.

    Raises:
        UsageError: the declaration is wrong, or belongs to another callback.

    Example:
        >>> import elfmesh
        >>> class Coupons(elfmesh.Job):
        ...     name = "shop/coupons"
        ...     @elfmesh.path("results", "multicast", "CW", idempotent=True, why="one message per batch")
        ...     async def on_result(self, result):
        ...         await self.multicast(result.rows)
    """
    declared = ProgramPath(source, target, label, tuple(by), idempotent, why)

    def decorated(callback: Callback) -> Callback:
        check_callback(declared, callback.__name__)
        return callback

    return decorated


def check_callback(declared: ProgramPath, callback: str) -> None:
    """Raise UsageError if a path does not begin at the input that a callback handles."""
    if CALLBACKS.get(callback) != declared.source:
        raise UsageError(f"{callback} does not handle {declared.source}")
