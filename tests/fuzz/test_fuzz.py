"""Every harness, in other processes: a crash is a finding. `make test-all` gives each one its own process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from elfmesh.errors import DataError
from tests.exhaustive import nightly
from tests.fuzz import engine
from tests.fuzz.catalog import NAMES, build
from tests.fuzz.engine import BYTES_MAX, CALLS_MAX, Campaign, Found, HangError, Harness
from tests.fuzz.mutate import changed, mutated, of
from tests.hostile.cost import DOUBLINGS, assert_linear

pytestmark = pytest.mark.apart

SEED = os.environ.get("ELF_FUZZ_SEED", "0")


QUICK_INPUTS = 60
QUICK_PROCESSES = 4
ALL_TIMES, NIGHTLY_TIMES = 0.15, 5
"""How many times the inputs that a harness states `make test-all` and `make test-nightly` take."""
BLOCK_BYTES = 8 << 10


def fuzz(keep: Path, names: Sequence[str], *options: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", *names, "--seed", SEED, "--keep", str(keep), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES[first::QUICK_PROCESSES] for first in range(QUICK_PROCESSES)])
def test_some_hostile_input_is_taken_or_refused_within_its_limits(names: list[str], tmp_path: Path) -> None:
    fuzz(tmp_path, names, "--inputs", str(QUICK_INPUTS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_hostile_input_is_taken_or_refused_within_its_limits(name: str, tmp_path: Path) -> None:
    fuzz(tmp_path, [name], "--times", str(ALL_TIMES))


@nightly
@pytest.mark.parametrize("name", NAMES)
def test_much_hostile_input_is_taken_or_refused_within_its_limits(name: str, tmp_path: Path) -> None:
    fuzz(tmp_path, [name], "--times", str(NIGHTLY_TIMES))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("lines-")])
def test_the_calls_for_a_block_of_lines_double_with_it(name: str) -> None:
    harness, rng, data = build(name), random.Random(name), bytearray()
    while len(data) < BLOCK_BYTES << DOUBLINGS:
        data += harness.generate(rng)
    assert_linear(lambda size: harness.run(bytes(data[:size])), BLOCK_BYTES, len(data))


def outcome(run: object, inputs: int = 50, **options: bool) -> set[str]:
    """The places of the findings of a harness that calls `run`."""
    assert callable(run)
    harness = Harness("probe", "", of([b"abc"]), run)
    return set(Campaign(harness, 1, **options).run(inputs).findings)


def test_what_is_not_declared_is_found_by_its_place() -> None:
    def refuses(data: bytes) -> None:
        raise DataError("no")

    def breaks(data: bytes) -> None:
        raise KeyError(data)

    assert outcome(refuses) == set()
    assert {place.split(" at ")[0] for place in outcome(breaks)} == {"KeyError"}


def test_a_slow_input_is_found_by_its_calls_and_not_by_the_clock() -> None:
    def works(data: bytes) -> None:
        for _ in range(2 * CALLS_MAX):
            len(data)

    assert outcome(works, 3) == {"slow"}
    assert outcome(lambda data: time.sleep(0.15), 3, measure_all=True) == set()


@pytest.mark.parametrize("error", [None, ValueError, KeyError, Found("place", "text"), HangError])
def test_no_timer_outlives_an_input(error: BaseException | None) -> None:
    def ends(data: bytes) -> None:
        if error is not None:
            raise error

    Campaign(Harness("probe", "", lambda rng: b"", ends), 1).one(b"")
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_large_input_is_found_in_the_slow_mode_and_by_the_growth_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "WARM_UP", 1)  # each input touches 64 MB

    def grows(data: bytes) -> None:
        bytearray(BYTES_MAX + 1)

    assert outcome(grows, 3, measure_all=True) == {"large"}
    assert outcome(grows, 3) == {"large"}
    assert outcome(lambda data: bytearray(BYTES_MAX // 2), 3, measure_all=True) == set()


def test_the_same_seed_gives_the_same_inputs() -> None:
    def some(seed: int) -> list[object]:
        rng = random.Random(seed)
        return [mutated(rng, b"some bytes") for _ in range(50)] + [
            repr(changed(rng, {"a": [1, {"b": b"x"}], "c": 0.5})) for _ in range(50)
        ]

    assert some(7) == some(7)
    assert some(7) != some(8)
    assert len(set(map(str, some(7)))) > 60
