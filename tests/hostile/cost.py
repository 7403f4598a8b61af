"""What hostile input costs: the processor time of all threads, and an alarm for what would never end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CUT_S = 20.0
STEP = 8
ROOM = 4.0
LEAST_S = 0.02
"""What is done within this is not slow, whatever its growth: clocks and caches blur it."""


class TooSlow(AssertionError):
    """It was cut off."""


@contextmanager
def cut_off(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not done after {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def spent_s(work: Callable[[], object]) -> float:
    """The best of three, as other processes share this machine."""

    def once() -> float:
        before = time.process_time()
        work()
        return time.process_time() - before

    return min(once() for _ in range(3))


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Eight times the size may cost eight times as much, and some; quadratic cost would be 64 times as much.

    The bound is a ratio within one run, of processor time; only what never ends is cut off.
    """
    with cut_off(CUT_S):
        small = max(spent_s(lambda: work(size)), LEAST_S / STEP)
        large = spent_s(lambda: work(STEP * size))
    assert large < LEAST_S or large < ROOM * STEP * small, (
        f"{large / small:.0f} times for {STEP} times the size"
    )
