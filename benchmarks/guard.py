"""`python -m benchmarks.guard`: how many instructions the hot paths take, against committed figures.

Valgrind counts the instructions of a process, so the figures do not depend on the load of the machine. They
depend on the interpreter, the libraries and the instruction sets: the file of figures states for which it was
measured, and for others the guard reports that it checks nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec
import numpy as np

from benchmarks.harness import ROOT

FIGURES = Path(__file__).with_name("guard.json")
TOLERANCE = 0.03
ROUNDS: Mapping[str, tuple[int, int]] = {
    "start": (0, 1),
    "parse json": (1, 41),
    "parse combined": (1, 41),
    "tree": (1, 21),
    "agent": (10, 70),
}
"""Rounds of each work: the figure is what the second number costs more than the first. 0: a whole process."""

LINE = b'{"ts":"2026-11-27T10:00:00Z","k":"a","n":1}\n'
LIBRARIES = ("msgspec", "numpy", "pyarrow", "sqlglot", "click")
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
FIXED = {
    "PYTHONHASHSEED": "0",
    "ARROW_USER_SIMD_LEVEL": "NONE",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}


class Recorded(msgspec.Struct):
    """Figures in instructions, and the environment that they were measured in."""

    environment: dict[str, str]
    instructions: dict[str, int]


def environment() -> dict[str, str]:
    """What the figures depend on, besides the code."""
    sets = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "python": f"{platform.python_version()} {platform.python_compiler()}",
        "machine": f"{platform.machine()} {' '.join(sets)}".strip(),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": valgrind.strip(),
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
    }


def differences(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Return what differs between the environment of the figures and this one."""
    names = sorted({*recorded, *here})
    return [
        f"{name} {here.get(name, '(none)')}, not {recorded.get(name, '(none)')}"
        for name in names
        if recorded.get(name) != here.get(name)
    ]


def judged(recorded: Mapping[str, int], found: Mapping[str, int]) -> tuple[list[str], bool]:
    """Return a line for each figure, and whether all figures are within the tolerance or better.

    A figure that is missing on one of the two sides is a failure.
    """
    lines, good = [], True
    for name in sorted({*recorded, *found}):
        if name not in recorded or name not in found:
            lines.append(f"{name}: {'not measured' if name in recorded else 'has no committed figure'}")
            good = False
            continue
        ratio = found[name] / recorded[name]
        slow = ratio > 1 + TOLERANCE
        good = good and not slow
        verdict = "TOO MANY" if slow else "fewer: commit the new figure" if ratio < 1 - TOLERANCE else "ok"
        lines.append(f"{name}: {found[name] / 1e6:,.1f} M instructions, {ratio - 1:+.1%}: {verdict}")
    return lines, good


def measured(name: str, more: float, directory: Path) -> int:
    """Return the instructions of a work; `more` is the share of rounds to add, with which the guard fails."""
    first, last = ROUNDS[name]
    whole = _instructions(name, last + round((last - first) * more), directory)
    return whole - _instructions(name, first, directory) if first else whole


def _instructions(name: str, rounds: int, directory: Path) -> int:
    command = (sys.executable, "-m", "benchmarks.guard_work", name, str(rounds))
    done = _run(command, directory)  # compiles the modules, which is not counted
    if not done.returncode:
        done = _run((*VALGRIND, *command), directory)
    if done.returncode:
        raise click.ClickException(f"{name} failed:\n{done.stderr.decode(errors='replace')[-2000:]}")
    counted = re.findall(rb"I +refs: +([\d,]+)", done.stderr)
    return int(counted[-1].replace(b",", b""))


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, **FIXED, "PYTHONPYCACHEPREFIX": str(directory / "caches")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=ROOT, env=variables, input=LINE, capture_output=True, check=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--write", is_flag=True, help="Replace the committed figures by those of this machine.")
@click.option(
    "--work", "works", multiple=True, type=click.Choice(list(ROUNDS)), help="Only this; repeatable."
)
@click.option("--more", type=float, default=0.0, help="Do this share of more work: 0.05 has to fail.")
def main(write: bool, works: tuple[str, ...], more: float) -> None:
    """Count the instructions of a start, of parsing, of the tree and of an agent."""
    if shutil.which("valgrind") is None:
        click.echo("guard: skipped, because valgrind is not installed")
        return
    recorded, here = msgspec.json.decode(FIGURES.read_bytes(), type=Recorded), environment()
    if not write and (differ := differences(recorded.environment, here)):
        click.echo(f"guard: skipped, because the figures are of another environment: {'; '.join(differ)}")
        return
    with tempfile.TemporaryDirectory() as directory:
        found = {name: measured(name, more, Path(directory)) for name in works or ROUNDS}
    if write:
        kept = {**recorded.instructions, **found} if recorded.environment == here else found
        text = msgspec.json.format(msgspec.json.encode(Recorded(here, kept)))
        FIGURES.write_bytes(text + b"\n")
    expected = {name: each for name, each in recorded.instructions.items() if name in (works or ROUNDS)}
    lines, good = judged(found if write else expected, found)
    click.echo("\n".join(lines))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
