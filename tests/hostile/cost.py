"""What hostile input costs in calls, which all machines count alike, and an alarm for what never ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

HANG_S = 5.0
"""Processor time. Linear work on `HANG_SIZE` bytes takes a twentieth, quadratic work a hundred times."""
HANG_SIZE = 500_000
DOUBLINGS = 3
GROWTH_MAX = 20.0
"""Of the calls over three doublings: linear work makes 8 times as many, quadratic work 64 times."""


class TooSlow(AssertionError):
    """It was cut off."""


@contextmanager
def cut_off(seconds: float = HANG_S) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not done after {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def calls(work: Callable[[], object]) -> int:
    """How many functions of Python and C the work calls in this thread."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def assert_linear(work: Callable[[int], object], size: int, hang_size: int = HANG_SIZE) -> None:
    """The calls grow as the size does over three doublings; what C does in one call ends at a large size."""
    with cut_off():
        work(size)  # caches and imports are no input's fault
    counted = []
    for doubling in range(DOUBLINGS + 1):
        with cut_off():
            counted.append(calls(lambda: work(size << doubling)))  # noqa: B023 - called at once
    assert counted[-1] <= GROWTH_MAX * counted[0], f"calls at doubled sizes: {counted}"
    with cut_off():
        work(hang_size)
