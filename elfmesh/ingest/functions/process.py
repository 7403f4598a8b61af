"""Parent's side of a worker process: start, calls with a deadline, and reliable termination.

No call takes longer than its deadline, or more processor time of the child than its limit. If a child exceeds
one of them, the child is dead when the exception is raised.
Lengths and all other data from the child are checked. The child dies with this process, even after SIGKILL,
because the thread that starts children lives as long as the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.functions import confinement
from elfmesh.ingest.functions.child import OUT_OF_MEMORY
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.ql.expressions.python_function import PythonFunction
else:
    pa = lazy_module("pyarrow")

SCRIPT = Path(__file__).with_name("child.py")
START_S = 30.0
"""Longest time until a worker has loaded its functions. It takes half a second on an idle host and over ten
on a busy one. A timeout is a strike."""

CLOCK_FACTOR = 10.0
"""How many times its limit of processor time a batch may take by the clock, because hosts may be busy."""

ANSWER_BYTES_MAX = 64 << 20
"""Maximum number of bytes of the values of one batch."""

TEXT_BYTES_MAX = 4096
_LENGTH = struct.Struct(">Q")
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a worker: seconds of processor time per batch, and memory beyond the interpreter's.

    With `confined`, it loads nothing if the kernel lacks Landlock or seccomp; otherwise it uses the layers
    that exist.
    """

    seconds: float = 1.0
    memory_bytes: int = 256 << 20
    confined: bool = True


class WorkerFailed(RuntimeFailure):
    """The worker has died or broke its contract; the message has the reason."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """Result of a function for one batch: values, bool of the records without one, and the first error."""

    values: pa.Array
    failed: pa.Array
    error: str


class _Deadline(NamedTuple):
    """Limits of one call: the clock's time, and the processor time that the child may have used by then."""

    at: float
    seconds: float
    used_s: float = float("inf")


class WorkerProcess:
    """Running worker; functions are called by number. Raises WorkerFailed if a source cannot be loaded."""

    def __init__(self, functions: Sequence[PythonFunction], limits: Limits) -> None:
        self._functions, self._limits = functions, limits
        self._using = threading.RLock()  # guards the pipes: numbers of closed files are reused
        self._closed = False
        try:
            self._process = _nursery().submit(_spawn).result()
        except OSError as error:
            raise WorkerFailed(f"no process can be started: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        order = {
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "confined": limits.confined,
            "functions": [_order(function) for function in functions],
        }
        try:
            deadline = _within(START_S)
            self._send(json.dumps(order).encode(), deadline)
            reported = json.loads(self._receive(TEXT_BYTES_MAX, deadline))
            wrong = str(reported.get("error", ""))
        except WorkerFailed as failed:
            raise WorkerFailed(f"the functions cannot be loaded: {failed}") from None
        except (ValueError, AttributeError):
            wrong = "the worker's answer is malformed"
        if wrong:
            self.kill()
            raise WorkerFailed(wrong)

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, number: int, columns: Sequence[pa.Array], rows: int) -> CallResult:
        """Call one function for one batch. After WorkerFailed there are no values and the process is dead."""
        with self._using:
            if self._closed:
                raise WorkerFailed("it was ended")
            return self._call(number, columns, rows)

    def _call(self, number: int, columns: Sequence[pa.Array], rows: int) -> CallResult:
        limit = self._limits.seconds
        deadline = _within(CLOCK_FACTOR * limit)._replace(used_s=self._used_s() + limit)
        function = self._functions[number]
        names = [str(at) for at in range(len(columns))]
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        self._send(bytes([number]) + _written(batch), deadline)
        data = self._receive(ANSWER_BYTES_MAX, deadline)
        if not data:
            reason = self._receive(TEXT_BYTES_MAX, deadline).decode("utf-8", "replace")
            self.kill()
            raise WorkerFailed(reason)
        try:
            return _read_answer(data, function, rows)
        except (pa.ArrowException, ValueError, OSError) as error:
            self.kill()
            raise WorkerFailed(f"the worker's answer cannot be used: {error}") from None

    def kill(self) -> None:
        """Kill the worker and its children; may be repeated.

        Thread-safe: a running call raises WorkerFailed.
        """
        process = self._process
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        with self._using:
            self._closed = True
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    # -- frames with a deadline ---------------------------------------------------------------------------

    def _send(self, data: bytes, deadline: _Deadline) -> None:
        view = memoryview(_LENGTH.pack(len(data)) + data)
        while view:
            self._wait(select.POLLOUT, self._in, deadline)
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._gone() from None

    def _receive(self, bytes_max: int, deadline: _Deadline) -> bytes:
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        if size > bytes_max:
            self.kill()
            raise WorkerFailed(f"an answer of {size} bytes, over the limit of {bytes_max}")
        return self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: _Deadline) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(select.POLLIN, self._out, deadline)
            try:
                part = os.read(self._out, min(size - len(data), 1 << 20))
            except BlockingIOError:
                continue
            if not part:
                raise self._gone()
            data += part
        return bytes(data)

    def _wait(self, event: int, number: int, deadline: _Deadline) -> None:
        poll = select.poll()
        poll.register(number, event)
        while (left := deadline.at - time.monotonic()) > 0:
            unused = deadline.used_s - self._used_s()
            if unused <= 0:
                self.kill()
                raise WorkerFailed(f"no answer within {self._limits.seconds:g} s of processor time")
            if poll.poll(1000 * min(left, unused)):
                return
        self.kill()
        raise WorkerFailed(f"no answer within {deadline.seconds:g} s")

    def _used_s(self) -> float:
        """Return the processor time that the child has used; 0 after its end, which its pipes report."""
        try:
            return time.clock_gettime(~self._process.pid << 3 | 2)  # CPUCLOCK_SCHED of the process
        except OSError:
            return 0.0

    def _gone(self) -> WorkerFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        self.kill()
        if code == OUT_OF_MEMORY:
            return WorkerFailed(f"it took more than {self._limits.memory_bytes >> 20} MB of memory")
        if code == -signal.SIGKILL:
            return WorkerFailed("the process was killed; the host may be short of memory")
        how = "closed its pipe" if code is None else f"ended with {code}"
        return WorkerFailed(f"the process {how}")


def _within(seconds: float) -> _Deadline:
    return _Deadline(time.monotonic() + seconds, seconds)


@lru_cache(maxsize=1)
def _nursery() -> ThreadPoolExecutor:
    """Return a thread that never ends, because a child is killed when the thread that started it ends."""
    return ThreadPoolExecutor(1, thread_name_prefix="elf-functions")


def _spawn() -> subprocess.Popen[bytes]:
    if not sys.platform.startswith("linux"):
        raise RuntimeFailure("Python functions need Linux because other systems cannot confine them")
    assert threading.current_thread().name.startswith("elf-functions")
    confinement.hide_memory()
    return subprocess.Popen(
        [sys.executable, "-I", "-B", str(SCRIPT), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=_ENVIRONMENT,
        start_new_session=True,
        bufsize=0,
    )


def _order(function: PythonFunction) -> dict[str, object]:
    schema = pa.schema([("value", function.gives)]).serialize().to_pybytes()
    return {
        "name": function.name,
        "source": function.source,
        "vectorised": function.vectorised,
        "gives": schema.hex(),
    }


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read_answer(data: bytes, function: PythonFunction, rows: int) -> CallResult:
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    batch.validate(full=True)
    metadata = batch.schema.metadata or {}
    kinds = [field.type for field in batch.schema]
    if kinds != [function.gives, pa.bool_()] or batch.num_rows != rows or batch.column(1).null_count:
        raise ValueError("the answer does not have the requested shape")
    error = metadata.get(b"error", b"")[:TEXT_BYTES_MAX].decode("utf-8", "replace")
    return CallResult(batch.column(0), batch.column(1), error)
