"""Every harness for a while, each in its own process: a crash is a finding, and memory is its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elfmesh.errors import DataError
from tests.fuzz.catalog import NAMES
from tests.fuzz.engine import BYTES_MAX, Campaign, Found, HangError, Harness
from tests.fuzz.mutate import changed, mutated, of

pytestmark = pytest.mark.apart

SEED = os.environ.get("ELF_FUZZ_SEED", "0")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_hostile_input_is_taken_or_refused_within_its_limits(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", name, "--seed", SEED, "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]


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


def test_a_slow_input_is_found_by_processor_time_and_not_by_the_clock() -> None:
    def works(data: bytes) -> None:
        end = time.thread_time() + 0.11
        while time.thread_time() < end:
            pass

    harness = Harness("probe", "", lambda rng: b"", works)
    campaign = Campaign(harness, 1)
    campaign.one(b"")
    assert set(campaign.outcome.findings) == {"slow"}
    waiting = Campaign(Harness("probe", "", lambda rng: b"", lambda data: time.sleep(0.15)), 1)
    waiting.one(b"")
    assert waiting.outcome.findings == {}


@pytest.mark.parametrize("error", [None, ValueError, KeyError, Found("place", "text"), HangError])
def test_no_timer_outlives_an_input(error: BaseException | None) -> None:
    def ends(data: bytes) -> None:
        if error is not None:
            raise error

    Campaign(Harness("probe", "", lambda rng: b"", ends), 1).one(b"")
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_large_input_is_found_in_the_slow_mode_and_by_the_growth_of_the_process() -> None:
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
