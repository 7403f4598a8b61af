"""Processes of `elf` that start at once: forked from a process that has imported what they import.

Tests start agents and run commands all the time, and imports take nearly all the processor time of a start.
A zygote does these once. What it forks runs `elf` from its command line on, as a process of its own: with its
own memory, files, threads and death. It is a child of the process that made the zygote.

    python -m tests.e2e.zygote DESCRIPTOR [MODULE...]     the zygote itself: requests come through a socket
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from elfmesh.agent.runtime import engine
from elfmesh.cli.command_list import COMMANDS, WITH_PANDAS
from elfmesh.lazy import hide
from tests.patience import PATIENCE_S

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ROOT = Path(__file__).parents[2]
IMPORTED = ("elfmesh.cli.entry", "elfmesh.cli.host.agent", "elfmesh.agent.runtime.host_agent")
POLL_S = 0.005


class Process:
    """A forked process, to be used like a `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
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
    """Forks processes; of Linux only: what it forks must become our own children.

    Args:
        also: modules that it imports besides those that an agent needs before it is ready.
    """

    def __init__(self, also: Sequence[str] = ()) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.e2e.zygote", str(theirs.fileno()), *also]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT)

    def start(self, words: Sequence[str], environment: Mapping[str, str], stderr: int, nice: int) -> Process:
        """Fork a process that runs `elf WORDS`; what it prints comes from its `stdout`."""
        read, write = os.pipe()
        try:
            with Path(os.devnull).open("rb") as nothing:
                pid = self._fork(words, environment, [nothing.fileno(), write, stderr], nice)
        finally:
            os.close(write)
        return Process(pid, os.fdopen(read, "rb"))

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `elf WORDS` to its end."""
        with contextlib.ExitStack() as stack:
            files = given, out, err = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            given.write(stdin.encode())
            given.seek(0)
            pid = self._fork(words, environment, [file.fileno() for file in files], 0)
            process = Process(pid, None)
            try:
                code = process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            err.seek(0)
            printed, errors = out.read().decode(), err.read().decode()
            return subprocess.CompletedProcess(["elf", *words], code, printed, errors)

    def _fork(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int],
        nice: int,
    ) -> int:
        asked = {"words": list(words), "environment": dict(environment), "directory": str(Path.cwd())}
        request = json.dumps(asked | {"nice": nice, "parent": os.getpid()}).encode()
        descriptors = array.array("i", files).tobytes()
        head = len(request).to_bytes(4, "big")
        with self._lock:
            self._socket.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            self._socket.sendall(request)
            answer = self._socket.recv(8, socket.MSG_WAITALL)
        if len(answer) != 8:
            raise RuntimeError("the zygote has ended")
        return int.from_bytes(answer, "big")

    def close(self) -> None:
        """End the zygote; what it has forked lives on."""
        self._socket.close()
        self._process.wait()


@cache
def zygote() -> Zygote:
    """The one of this process, which ends with it. It has imported the engine and all commands."""
    commands = {place.partition(":")[0] for place, _ in COMMANDS.values()}
    made = Zygote([*engine.NEEDED, *sorted(commands)])
    atexit.register(made.close)
    return made


def elf(*words: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command `elf WORDS` to its end, with these variables besides our own."""
    given, variables = [str(word) for word in words], {**os.environ, **environment}
    if sys.platform == "linux" and not {*given[:1]} & {*WITH_PANDAS}:
        return zygote().run(given, variables, stdin)
    return subprocess.run(
        [sys.executable, "-m", "elfmesh.agent", *given],
        input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=variables,
    )  # fmt: skip


def serve(connection: socket.socket) -> None:
    """Fork for each request until the other side is gone."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        if len(head) < 4:
            return
        text = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        request = json.loads(text)
        reading, writing = os.pipe()
        between = os.fork()
        if not between:  # its child becomes that of the test as soon as this one has ended
            pid = os.fork()
            if not pid:
                os.close(reading)
                os.close(writing)
                connection.close()
                become(request, descriptors)
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
    """Be that process from here on; it ends with the test that asked for it, however that ends."""
    while os.getppid() != request["parent"]:
        time.sleep(POLL_S / 10)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["directory"])
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

    hide("pandas")
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
