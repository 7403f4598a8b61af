"""What every benchmark shares: the machine's name, repeats, medians, one way to print and to record.

A benchmark is a module with PARTS: name -> function of `small` that returns `Figure`s. Speed is stated as a
ratio against a peer measured in the same run; unequal results fail the run.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from elfmesh.errors import RuntimeFailure

ROOT = Path(__file__).parents[1]


class Figure(msgspec.Struct):
    """One measured number.

    Attributes:
        name: what was measured.
        value: the number.
        unit: its unit.
        peer: name of the peer measured in the same run, "" if none.
        ratio: ours to the peer's, in the direction the name says; 0 without a peer.
        checksum: of the result both sides agreed on.
        spread: (max - min) / median of the repeats.
        skipped: why there is no number, "" if there is one.
    """

    name: str
    value: float
    unit: str
    peer: str = ""
    ratio: float = 0.0
    checksum: str = ""
    spread: float = 0.0
    skipped: str = ""


class Report(msgspec.Struct):
    """All figures of one run, with the machine and the commit they were taken on."""

    benchmark: str
    machine: str
    commit: str
    figures: list[Figure]


def machine() -> str:
    """Cores, processor and memory, as short as it is useful."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in _read("/proc/cpuinfo").splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or "unknown processor",
    )
    kilobytes = next(
        (int(line.split()[1]) for line in _read("/proc/meminfo").splitlines() if "MemTotal" in line), 0
    )
    return f"{os.cpu_count()} cores, {model}, {kilobytes / 2**20:.0f} GiB, Python {platform.python_version()}"


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text() if file.exists() else ""


def commit() -> str:
    """Short hash of the checked-out commit, with + if the tree differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (
        "+" if git("status", "--porcelain", "--", "elfmesh") else ""
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie; nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def checked(same: bool, what: str) -> None:
    """Fail the run unless both sides of a comparison are the same."""
    if not same:
        raise RuntimeFailure(what)


def report(benchmark: str, figures: list[Figure]) -> Report:
    """Figures with their provenance."""
    return Report(benchmark=benchmark, machine=machine(), commit=commit(), figures=figures)
