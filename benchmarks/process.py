"""Run a command to its end and write what it and all its descendants cost into a file, as JSON.

    python -m benchmarks.process REPORT COMMAND...

Its own process, because only so the kernel's accounts hold nothing else: it adopts orphans (a JVM whose
Python is gone) and waits for all. CPU is user and system time of all of them, the peak of the largest.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def main(report: str, command: list[str]) -> int:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ)
    cpu_s, peak_bytes, code = 0.0, 0, 0
    while True:
        try:
            ended, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu_s += usage.ru_utime + usage.ru_stime
        peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
        if ended == process:
            code = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    Path(report).write_text(
        json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "peak_bytes": peak_bytes, "code": code})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
