"""Pages are given back now and then, and never on the event loop."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from elfmesh.ingest import memory
from elfmesh.ingest.memory import Seldom


def test_what_is_done_seldom_is_done_at_once_and_then_after_its_time() -> None:
    done: list[float] = []
    moments = iter(range(0, 40, 2))
    asked: list[float] = []

    def clock() -> float:
        asked.append(float(next(moments)))
        return asked[-1]

    seldom = Seldom(lambda: done.append(asked[-1]), 5.0, clock)
    for _ in range(10):
        seldom()
    assert done == [0.0, 6.0, 12.0, 18.0]


def test_several_threads_that_ask_at_once_do_it_once() -> None:
    done: list[int] = []
    ready = threading.Barrier(8)
    seldom = Seldom(lambda: done.append(1), 5.0, lambda: 0.0)

    def ask() -> None:
        ready.wait()
        seldom()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [1]


def test_pages_can_be_given_back_wherever_we_run() -> None:
    memory.give_back()


@pytest.mark.skipif(memory._mallopt is None, reason="not the C library of GNU")
def test_a_freed_block_serves_the_next_one_without_page_faults() -> None:
    def faults(keep: str) -> int:
        program = f"""
import os, resource
from elfmesh.ingest.memory import keep_freed
{keep}
def read(at):
    return os.pread(zero, 2 << 20, 0), bytes(3 << 20)
zero = os.open("/dev/zero", os.O_RDONLY)
for at in range(4):
    blocks = read(at)
began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for at in range(20):
    blocks = read(at)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began)
"""
        return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)

    before, kept = faults(""), faults("keep_freed()")
    assert kept < 100 < before, "20 blocks of 5 MB have 25,000 pages"
