"""Ports of tests: free, not the kernel's to give away, and never the same in two processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ports


def test_what_is_taken_here_or_in_another_process_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, served, free = some = [ports.reserve() for _ in range(3)]  # no other process has these
    monkeypatch.setattr(ports, "PLACE", tmp_path)
    monkeypatch.setattr(ports, "_locks", {})
    code = f"""
from pathlib import Path
from tests import ports
ports.PLACE = Path({str(tmp_path)!r})
assert ports._lock({locked})
print(flush=True)
input()
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
        socket.create_server(("127.0.0.1", served)),
    ):
        assert other.stdout is not None
        other.stdout.readline()
        try:
            assert ports.reserve(some) == free
            with pytest.raises(AssertionError, match="no port is free"):
                ports.reserve(some)
        finally:
            other.communicate(b"\n")
    assert {ports.reserve(some), ports.reserve(some)} == {locked, served}, "they are free now"
    for lock in ports._locks.values():
        lock.close()


def test_a_port_is_not_the_kernels_to_give_away() -> None:
    assert ports.FIRST <= ports.reserve() < ports.kernels_first()
