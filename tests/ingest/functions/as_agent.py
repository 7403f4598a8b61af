"""Runs a module of the tests as the user that an agent has: not root, so that its worker is the same user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HANG_S = 300.0
"""Ends what an attack has stopped; decides nothing else."""

USER = 61_234
"""A user id of no account: only what these tests make is its own."""


@contextmanager
def directory() -> Iterator[Path]:
    """A private directory of that user, which can reach it."""
    with tempfile.TemporaryDirectory(prefix="elf-functions-") as made:
        if os.geteuid() == 0:
            os.chown(made, USER, USER)
        yield Path(made)


def command(module: str, *words: str) -> list[str]:
    """`python -m module words` as that user; as this one where it is not root.

    The user may read what the file modes forbid, because Python may be installed where only root can read.
    """
    made = [sys.executable, "-B", "-m", module, *words]
    if os.geteuid() == 0:
        found = shutil.which("setpriv")
        if found is None:
            pytest.skip("needs setpriv to be another user than root")
        can = ["--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search"]
        made = [found, f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *can, *made]
    return made


def environment() -> dict[str, str]:
    """Of this process, with which the modules of the tests are found."""
    return {**os.environ, "PYTHONPATH": str(Path.cwd())}


def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `command`, and wait for its end."""
    return subprocess.run(
        command(module, *words),
        capture_output=True, text=True, check=False, env=environment(), timeout=HANG_S,
    )  # fmt: skip
