"""Runs in bits: the native kernel against its twin, what neither takes, and bytes that are none."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import Kernel, Run
from tests.cbt.kernel.cases import broken_bits, distinct, run_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
ALPHABETS = [
    LETTERS,
    b"0123456789abcdef",
    b"\x00\xff",
    b"+/09AZaz",
    bytes(range(128)),
    bytes(range(0, 250, 2)),
]


def random_run(seed: int, alphabet: bytes, rows: int, longest: int = 20) -> Run:
    dice = random.Random(seed)
    return run_of(
        twin, {bytes(dice.choices(alphabet, k=dice.randint(min(5, longest), longest))) for _ in range(rows)}
    )


@given(st.integers(0, 999), st.sampled_from(ALPHABETS), st.integers(0, 1_500), st.sampled_from([3, 20, 60]))
def test_bits_are_those_of_the_twin_and_lead_back(
    seed: int, alphabet: bytes, rows: int, longest: int
) -> None:
    run = random_run(seed, alphabet, rows, longest)
    packed = native.pack_bits(run)
    assert packed == twin.pack_bits(run)
    if packed is not None:
        assert native.unpack_bits(run.rows, packed) == run.data.tobytes()
        assert twin.unpack_bits(run.rows, packed) == run.data.tobytes()


@given(distinct)
def test_any_run_is_packed_alike_or_by_neither(texts: set[bytes]) -> None:
    run = run_of(twin, texts)
    packed = native.pack_bits(run)
    assert packed == twin.pack_bits(run)
    assert packed is None or native.unpack_bits(run.rows, packed) == run.data.tobytes()


def test_random_keys_are_packed_and_even_a_value_that_no_sample_has() -> None:
    run = random_run(1, LETTERS, 3_000)
    packed = native.pack_bits(run)
    assert packed is not None
    assert len(packed) < 0.63 * len(run.data)
    for rare in (b"A", b"{"):
        data = run.data.copy()
        data[2 * run.rows + 1] = rare[0]  # of the text every 27th byte is looked at
        other = Run(run.rows, run.key_bytes, run.wide, data)
        packed = native.pack_bits(other)
        assert packed is not None
        assert packed == twin.pack_bits(other)
        assert native.unpack_bits(run.rows, packed) == data.tobytes()


@pytest.mark.parametrize("alphabet", [b"aaaaaaaaaaaaaaab", bytes(range(0, 256, 2)), bytes(range(256))])
def test_what_an_entropy_coder_does_better_or_has_too_many_values_is_left_to_it(alphabet: bytes) -> None:
    run = random_run(2, alphabet, 1_000)
    assert native.pack_bits(run) is None
    assert twin.pack_bits(run) is None


def test_wide_runs_are_left_alone() -> None:
    run = run_of(twin, {LETTERS * 20, b"q" * 300})
    assert run.wide
    assert native.pack_bits(run) is None
    assert twin.pack_bits(run) is None


@given(st.integers(0, 2**32))
def test_bytes_that_are_no_run_in_bits_are_refused_or_harmless(dice: int) -> None:
    run = random_run(4, LETTERS, 400)
    packed = native.pack_bits(run)
    assert packed is not None
    rows, damaged = broken_bits(random.Random(dice), run.rows, packed)
    results = []
    for kernel in (native, twin):
        try:
            results.append(kernel.unpack_bits(rows, damaged))
        except ValueError:
            results.append(None)
    assert results[0] == results[1]


@pytest.mark.parametrize("kernel", [native, twin])
def test_lengths_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    run = random_run(3, LETTERS, 400)
    packed = native.pack_bits(run)
    assert packed is not None
    for rows, data in [(run.rows + 8, packed), (run.rows, packed[:-1]), (run.rows, b""), (-1, packed)]:
        with pytest.raises(ValueError, match="not a run in bits"):
            kernel.unpack_bits(rows, data)
    with pytest.raises(ValueError, match="not a run: fewer bytes"):
        native.pack_bits(Run(9, 0, False, np.zeros(9, np.uint8)))
