"""Agents that start at once: forked from a process that has imported what an agent imports.

A storm kills and starts agents all the time, and of the second of processor time that a start takes, nearly
all goes into imports. A zygote does these once. What it forks runs `elf agent` from its command line on, as a
process of its own: own memory, files, threads and death. It is a child of the process that made the zygote.

    python -m tests.chaos.zygote DESCRIPTOR [MODULE...]     the zygote itself: requests come through a socket
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from typing import IO, Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
REQUEST_BYTES_MAX = 1 << 20
IMPORTED = ("elfmesh.cli.entry", "elfmesh.cli.host.agent", "elfmesh.agent.runtime.host_agent")
POLL_S = 0.005


class Process:
    """A forked agent, to be used like a `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, sig: int) -> None:
        """Signal it, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Zygote:
    """Forks agents; of Linux only: what it forks must become our own children.

    Args:
        also: modules that it imports besides those that an agent needs before it is ready.
    """

    def __init__(self, also: Sequence[str] = ()) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.chaos.zygote", str(theirs.fileno()), *also]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def start(self, words: Sequence[str], environment: dict[str, str], stderr: int, nice: int) -> Process:
        """Fork a process that runs `elf WORDS`; what it prints comes from its `stdout`."""
        read, write = os.pipe()
        asked = {"words": list(words), "environment": environment, "nice": nice, "parent": os.getpid()}
        request = json.dumps(asked).encode()
        descriptors = array.array("i", [write, stderr]).tobytes()
        head = len(request).to_bytes(4, "big")
        self._socket.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        self._socket.sendall(request)
        os.close(write)
        answer = self._socket.recv(8, socket.MSG_WAITALL)
        if len(answer) != 8:
            raise RuntimeError("the zygote has ended")
        return Process(int.from_bytes(answer, "big"), os.fdopen(read, "rb"))

    def close(self) -> None:
        """End the zygote; what it has forked lives on."""
        self._socket.close()
        self._process.wait()


def serve(connection: socket.socket) -> None:
    """Fork for each request until the other side is gone."""
    devnull = os.open(os.devnull, os.O_RDONLY)
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 2)
        if len(head) < 4:
            return
        text = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        request = json.loads(text)
        reading, writing = os.pipe()
        between = os.fork()
        if not between:  # its child becomes that of the storm as soon as this one has ended
            pid = os.fork()
            if not pid:
                os.close(reading)
                os.close(writing)
                connection.close()
                become(request, [devnull, *descriptors])
            os.write(writing, pid.to_bytes(8, "big"))
            os._exit(0)
        os.close(writing)
        for each in descriptors:
            os.close(each)
        os.waitpid(between, 0)
        answer = os.read(reading, 8)
        os.close(reading)
        connection.sendall(answer)


def become(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be an agent from here on; ends as one does, and with the storm, however that ends."""
    while os.getppid() != request["parent"]:
        time.sleep(POLL_S / 10)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.nice(request["nice"])
    sys.argv = ["elf", *request["words"]]
    runpy.run_module("elfmesh.agent", run_name="__main__")
    raise AssertionError("a command line ends in SystemExit")


def main() -> None:
    """Import, then serve."""
    import gc
    import importlib

    for name in (*IMPORTED, *sys.argv[2:]):
        importlib.import_module(name)
    # Arrow's allocator has a thread that waits for work; it is made again in each child.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
