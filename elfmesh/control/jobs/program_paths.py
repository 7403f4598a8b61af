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
from elfmesh.ql.plan.delivery import TopicDelivery
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
    "on_post": "post",
}
"""Callbacks of a program, with the names of the inputs that they handle."""

POST = "post:"
"""Prefix of the input and of the output that are a topic."""

LABELS = ("CR", "CW", "OR", "OW")
TARGETS = "multicast, send_to:GROUP, route:PROGRAM, insert:STREAM, post:TOPIC, answer, outside"
_TARGET = re.compile(
    r"multicast|answer|outside|(?:send_to|insert):[\w*-]{1,128}|(?:route|post):[\w./*-]{1,257}"
)
_TOPIC = re.compile(r"post:[\w./*-]{1,257}")
_PATHS = "elfmesh_paths"


@dataclass(frozen=True, slots=True)
class ProgramPath:
    """Declared path.

    Attributes:
        source: what the callback receives: a value of `CALLBACKS`; a topic is "post:namespace/name".
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
        if self.source not in inputs and not _TOPIC.fullmatch(self.source):
            hint = suggest(self.source, inputs) or f"There are {', '.join(inputs)}."
            raise UsageError(f"a program has no input {self.source!r}", hint=hint)
        if self.source == CALLBACKS["on_post"]:
            raise UsageError("the input post names no topic", hint="Write post:NAMESPACE/NAME.")
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
        setattr(callback, _PATHS, (*getattr(callback, _PATHS, ()), declared))
        return callback

    return decorated


def check_callback(declared: ProgramPath, callback: str) -> None:
    """Raise UsageError if a path does not begin at the input that a callback handles."""
    if CALLBACKS.get(callback) != declared.source.partition(":")[0]:
        raise UsageError(f"{callback} does not handle {declared.source}")


def declared_paths(callback: object) -> tuple[ProgramPath, ...]:
    """Return the paths that a callback of a class declares."""
    found: tuple[ProgramPath, ...] = getattr(callback, _PATHS, ())
    return found


def handles(declared: ProgramPath, topic: str) -> bool:
    """Return whether a path begins at a topic, "namespace/name"."""
    return declared.source.removeprefix(POST).replace(".", "/", 1) in ("*", topic)


_ORDERS = (TopicDelivery.SEQUENCED, TopicDelivery.ORDERED)


def least_delivery(confluent: Sequence[bool]) -> TopicDelivery:
    """Return the delivery that paths from a topic need; without any, an order."""
    return TopicDelivery.UNORDERED if confluent and all(confluent) else TopicDelivery.SEQUENCED


def unmet_need(paths: Sequence[ProgramPath], delivery: TopicDelivery, keys: Sequence[str]) -> str:
    """Return what the paths of a topic need and its delivery does not give; "" if there is nothing.

    A partition that has ended is whole, so its order does not matter. It serves the partitions of a path if
    each key is one of their columns.
    """
    for each in paths:
        whole = delivery is TopicDelivery.SEALED and each.by and set(keys) <= set(each.by)
        if each.label.startswith("O") and delivery not in _ORDERS and not whole:
            over = f" over {', '.join(each.by)}" if each.by else ""
            sealed = f" on {', '.join(keys)}" if keys else ""
            return (
                f"{each.source} -> {each.target} is {each.label}{over}, and the topic is {delivery}{sealed}"
            )
    return ""
