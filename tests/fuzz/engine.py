"""Runs a harness: many inputs, each within the limits of time and memory, each taken or refused as declared.

A harness turns dice into an input and gives it to the product. What is not one of its declared refusals,
makes more calls than an input of its length may, takes more than 64 MiB, or does not end within 5 s of
processor time is a finding, named by where it came from, with the input that shows it.

Calls are those of Python and C functions, which are the same on every machine; the time that is reported
decides nothing but which inputs are measured. Memory is what Python, numpy and Arrow have allocated at most.
Both are measured of every input in the slow mode; in the quick one of each 256th, of each that takes long,
and of all inputs since the last look when the process has grown.
"""

from __future__ import annotations

import gc
import random
import resource
import signal
import tempfile
import time
import traceback
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pyarrow as pa

from elfmesh.errors import ElfError
from tests.hostile.cost import calls

CALLS_MAX, CALLS_PER_BYTE_MAX = 20_000, 20.0
"""Functions that an input may call, whatever its length, and for each of its bytes."""
BYTES_MAX = 64 << 20
HANG_S = 5.0
"""Processor time after which an input is given up."""
LOOK_EVERY = 256
SLOW_S = 0.02
"""The calls and the memory of an input that takes so long are measured."""
FINDINGS_MAX = 20
WARM_UP = 30
DEAR = 20_000
"""Inputs of a harness each of whose inputs costs a millisecond, so that it takes as long as the others."""


class HangError(Exception):
    """An input took so long that it was given up."""


class Found(Exception):
    """Something was found where its traceback cannot come from: another process.

    Attributes:
        place: see `place_of`.
        text: its traceback.
    """

    def __init__(self, place: str, text: str) -> None:
        super().__init__(place)
        self.place, self.text = place, text


@dataclass(frozen=True, slots=True)
class Harness:
    """What is fuzzed, and how.

    Attributes:
        name: as the command line has it.
        about: what the inputs are.
        generate: dice to an input.
        run: gives an input to the product and checks what comes back; raises a refusal, or a finding.
        inputs: how many one run of it takes; `make test-all` takes a part of them, `make test-nightly` more.
        refusals: exceptions by which the product declares an input as bad.
        count: how many inputs the bytes are, where one call brings many.
        calls_per_byte: functions of Python and C that the product may call for each byte of an input.
        calls: and in addition, whatever the length of an input.
        around: entered before the first input, left after the last.
    """

    name: str
    about: str
    generate: Callable[[random.Random], bytes]
    run: Callable[[bytes], None]
    inputs: int = 100_000
    refusals: tuple[type[BaseException], ...] = (ElfError,)
    count: Callable[[bytes], int] = lambda data: 1
    calls_per_byte: float = CALLS_PER_BYTE_MAX
    calls: int = CALLS_MAX
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        inputs: how many there were.
        refused: how many calls were answered by a declared error.
        slowest_s: processor time of the slowest input.
        largest_bytes: the most that a measured input took.
        findings: by their place: what happened, and the input.
    """

    inputs: int = 0
    refused: int = 0
    calls: int = 0
    slowest_s: float = 0.0
    largest_bytes: int = 0
    seconds: float = 0.0
    findings: dict[str, tuple[str, bytes]] = field(default_factory=dict)


class Campaign:
    """One run of one harness.

    Args:
        harness: what is run.
        seed: of the dice.
        measure_all: the slow mode.
    """

    def __init__(self, harness: Harness, seed: int, *, measure_all: bool = False) -> None:
        self.harness, self.rng = harness, random.Random(f"{harness.name}/{seed}")
        self.outcome = Outcome()
        self._measure_all = measure_all
        self._recent: list[bytes] = []
        self._resident = 0

    def run(self, inputs: int) -> Outcome:
        """Run until so many inputs were there, or too many findings."""
        outcome, harness = self.outcome, self.harness
        began = time.thread_time()
        before = signal.signal(signal.SIGPROF, _give_up)
        try:
            with harness.around():
                for data in (harness.generate(self.rng) for _ in range(WARM_UP)):
                    self._attempt(data)  # caches and imports are no input's fault
                outcome.slowest_s, outcome.refused, outcome.findings = 0.0, 0, {}
                gc.collect()
                self._resident = _resident_bytes()
                while outcome.inputs < inputs and len(outcome.findings) < FINDINGS_MAX:
                    self.one(harness.generate(self.rng))
                self._look()
        finally:
            signal.signal(signal.SIGPROF, before)
            outcome.seconds += time.thread_time() - began
        return outcome

    def one(self, data: bytes) -> None:
        """One call, checked."""
        outcome = self.outcome
        outcome.calls += 1
        outcome.inputs += self.harness.count(data)
        spent = self._attempt(data)
        outcome.slowest_s = max(outcome.slowest_s, spent)
        self._recent.append(data)
        if self._measure_all or spent > SLOW_S:
            self._measure(data)
        if outcome.calls % LOOK_EVERY == 0:
            self._look()

    def _attempt(self, data: bytes) -> float:
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        began = time.thread_time()
        try:
            self.harness.run(data)
        except self.harness.refusals:
            self.outcome.refused += 1
        except HangError:
            self._found("hang", f"no end after {HANG_S:g} s", data)
            return 0.0
        except Found as found:
            self._found(found.place, found.text, data)
        except Exception as error:
            self._found(place_of(error), "".join(traceback.format_exception(error)), data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)  # it would end whatever the process does by then
        return time.thread_time() - began

    def _look(self) -> None:
        """Measure one input, and all since the last look if the process has grown by more than one may."""
        resident = _resident_bytes()
        grown = resident - self._resident
        for data in self._recent if grown > BYTES_MAX // 2 else self._recent[-1:]:
            self._measure(data)
        self._resident = max(resident, _resident_bytes())
        self._recent.clear()

    def _measure(self, data: bytes) -> None:
        most = self.harness.calls + self.harness.calls_per_byte * len(data)
        made = calls_of(self.harness, data)
        if made > most:
            self._found("slow", f"made {made} calls; {len(data)} bytes may make {most:.0f}", data)
        size = memory_of(self.harness, data)
        self.outcome.largest_bytes = max(self.outcome.largest_bytes, size)
        if size > BYTES_MAX:
            self._found("large", f"took {size >> 20} MiB", data)

    def _found(self, place: str, text: str, data: bytes) -> None:
        kept = self.outcome.findings.get(place)
        if kept is None or len(data) < len(kept[1]):
            self.outcome.findings[place] = (text, data)


def calls_of(harness: Harness, data: bytes) -> int:
    """How many functions of Python and C an input calls."""

    def work() -> None:
        with suppress(Exception):  # what it means was judged when it ran before
            harness.run(data)

    return calls(work)


def memory_of(harness: Harness, data: bytes) -> int:
    """The most bytes that an input had allocated at once, of Python, numpy and Arrow together."""
    pool = pa.default_memory_pool()
    held, most = pool.bytes_allocated(), pool.max_memory()
    tracemalloc.start()
    try:
        with suppress(Exception):  # what it means was judged when it ran before
            harness.run(data)
    finally:
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return python + (pool.max_memory() - held if pool.max_memory() > most else 0)


def memory_directory() -> str:
    """Where files cost no disk, if there is such a place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()


def place_of(error: BaseException) -> str:
    """The name of an exception and the innermost lines of ours that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "elfmesh" in frame.filename] or frames
    return f"{type(error).__name__} at " + " < ".join(
        f"{frame.filename.rsplit('elfmesh/', 1)[-1]}:{frame.name}" for frame in reversed(ours[-2:])
    )


def _give_up(number: int, frame: FrameType | None) -> None:
    raise HangError


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
