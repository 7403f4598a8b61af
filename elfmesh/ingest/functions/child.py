"""Process that evaluates the Python functions of one job: a script that imports no module of elfmesh.

`process.WorkerProcess` starts it as `python -I child.py PARENT`. Before it runs any source, the process has
closed all descriptors except its pipes and /dev/null, dropped its privileges, and is confined by two layers:
`landlock` before Arrow is imported, because Arrow starts threads, and `seccomp` for all threads. Without one
of them it loads no function, unless its parent declares that this is accepted.

Frames on both pipes have eight bytes of length, big-endian, then the data. The first is a JSON object with
the functions and limits; the answer is {} or {"error": text}. Then follow batches: the function's number as
one byte, and an Arrow IPC stream of its arguments. The answer is an Arrow IPC stream with the columns `value`
and `failed`, or an empty frame and a text that describes how the function broke its contract.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ANONYMOUS = 65534
"""User of a worker if the agent runs as root: a user that owns no files."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
FILES_MAX = 64
"""Maximum number of descriptors: enough to import a library while a function is evaluated."""

OUT_OF_MEMORY = 77
"""Exit code of a process that reached its memory limit, after which it cannot continue reliably."""

HALVINGS_MAX = 64
"""Maximum number of calls in the search for the records of a batch for which a vectorised function fails."""

ERROR_CHARS_MAX = 300
_LENGTH = struct.Struct(">Q")


class Broken(Exception):
    """A function broke its contract: its result is not a column of the declared type and length."""


def main() -> NoReturn:
    source, sink = _take_pipes()
    parent = int(sys.argv[1])
    sizes = os.open("/proc/self/statm", os.O_RDONLY)  # cannot be opened later
    landlock, seccomp = _beside("landlock"), _beside("seccomp")
    absent = _hold(lambda: landlock.restrict(landlock.library_paths()))
    first = _read(source)
    if first is None:
        os._exit(0)
    order = json.loads(first)
    try:
        import pyarrow as pa

        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        columns = ArrowColumns(pa)
        _give_up_rights(parent)
        _limit(order["memory_bytes"], sizes)
        absent += _hold(seccomp.restrict)
        if absent and order["confined"]:
            raise PermissionError("; ".join(absent))
        functions = [LoadedFunction(each, columns) for each in order["functions"]]
        if absent:
            _no_more_files()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:
        _write(sink, json.dumps({"error": _error_text(error)}).encode())
        os._exit(1)
    _write(sink, b"{}")
    while True:
        frame = _read(source)
        if frame is None:
            os._exit(0)
        _limit_time(order["seconds"])
        try:
            _write(sink, functions[frame[0]].answer(frame[1:]))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except Broken as error:
            _write(sink, b"")
            _write(sink, str(error).encode("utf-8", "replace"))


class ArrowColumns:
    """Arrow on one thread.

    It is used once before threads and files are forbidden, so that it needs neither later.
    """

    def __init__(self, arrow: Any) -> None:
        self.arrow = arrow
        self.options = arrow.ipc.IpcReadOptions(use_threads=False)
        self.written = arrow.ipc.IpcWriteOptions(use_threads=False)
        batch = arrow.record_batch({"a": [1, None], "b": ["x", None]})
        self.read(self.write(batch)).column(0).cast(arrow.float64())
        times = arrow.array([0], arrow.timestamp("us", "UTC"))  # reads the files of time zones
        arrow.compute.hour(arrow.array(times.to_pylist(), times.type))

    def read(self, data: bytes) -> Any:
        with self.arrow.ipc.open_stream(data, options=self.options) as reader:
            return reader.read_next_batch()

    def write(self, batch: Any) -> bytes:
        sink = self.arrow.BufferOutputStream()
        with self.arrow.ipc.new_stream(sink, batch.schema, options=self.written) as writer:
            writer.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data


class LoadedFunction:
    """Loaded function."""

    def __init__(self, order: dict[str, Any], columns: ArrowColumns) -> None:
        self._name, self._columns, self._arrow = order["name"], columns, columns.arrow
        schema = self._arrow.ipc.read_schema(self._arrow.py_buffer(bytes.fromhex(order["gives"])))
        self._gives = schema.field(0).type
        space: dict[str, Any] = {"__name__": self._name, "__builtins__": __builtins__}
        exec(
            compile(order["source"], f"<{self._name}>", "exec", dont_inherit=True), space
        )  # intended: runs the job's code
        if not callable(space.get(self._name)):
            raise TypeError(f"the source does not define a function {self._name}")
        self._function: Callable[..., Any] = space[self._name]
        self._evaluate = self._columnwise if order["vectorised"] else self._one_by_one

    def answer(self, frame: bytes) -> bytes:
        batch = self._columns.read(frame)
        errors: list[str] = []
        values, failed = self._evaluate(batch, errors)
        table = self._arrow.record_batch([values, failed], ["value", "failed"])
        table = table.replace_schema_metadata({"error": errors[0] if errors else ""})
        return self._columns.write(table)

    def _one_by_one(self, batch: Any, errors: list[str]) -> tuple[Any, Any]:
        values: list[Any] = []
        failed = [False] * batch.num_rows
        function = self._function
        columns = [_objects(column, failed, errors) for column in batch.columns]
        for at, row in enumerate(zip(*columns, strict=True)):
            if failed[at]:
                values.append(None)
                continue
            try:
                values.append(function(*row))
            except MemoryError:
                raise
            except BaseException as error:  # includes SystemExit, which must not end the process
                values.append(None)
                failed[at] = True
                errors.append(_error_text(error))
        try:
            return self._arrow.array(values, type=self._gives), self._arrow.array(failed, self._arrow.bool_())
        except MemoryError:
            raise
        except Exception:
            return self._converted(values, failed, errors)

    def _converted(self, values: list[Any], failed: list[bool], errors: list[str]) -> tuple[Any, Any]:
        arrow = self._arrow
        for at, value in enumerate(values):
            try:
                arrow.array([value], type=self._gives)
            except MemoryError:
                raise
            except Exception:
                values[at], failed[at] = None, True
                errors.append(f"a {type(value).__name__} is not of type {self._gives}")
        return arrow.array(values, type=self._gives), arrow.array(failed, arrow.bool_())

    def _columnwise(self, batch: Any, errors: list[str]) -> tuple[Any, Any]:
        """Call the function once for all records.

        If it raises, halve the batch until the failing records are found.
        """
        arrow, rows = self._arrow, batch.num_rows
        pieces: dict[int, Any] = {}
        failed = [False] * rows
        waiting, calls = [(0, rows)], 0
        while waiting:
            start, count = waiting.pop()
            calls += 1
            try:
                if calls > HALVINGS_MAX:
                    raise RuntimeError("too many records cause an error")
                pieces[start] = self._column(batch.slice(start, count), count)
            except (Broken, MemoryError):
                raise
            except BaseException as error:
                errors.append(_error_text(error))
                if count == 1 or calls > HALVINGS_MAX:
                    pieces[start] = arrow.nulls(count, self._gives)
                    failed[start : start + count] = [True] * count
                else:
                    half = count // 2
                    waiting += [(start + half, count - half), (start, half)]
        values = arrow.concat_arrays([pieces[start] for start in sorted(pieces)])
        return values, arrow.array(failed, arrow.bool_())

    def _column(self, batch: Any, rows: int) -> Any:
        arrow = self._arrow
        found = self._function(*batch.columns)
        if isinstance(found, arrow.ChunkedArray):
            found = found.combine_chunks()
        try:
            if not isinstance(found, arrow.Array):
                found = arrow.array(found, from_pandas=True)
            found = found if found.type == self._gives else found.cast(self._gives)
        except MemoryError:
            raise
        except Exception:
            kind = getattr(found, "type", type(found).__name__)
            raise Broken(f"{self._name} returned {kind}, not a column of {self._gives}") from None
        if len(found) != rows:
            raise Broken(f"{self._name} returned {len(found)} values for {rows} records")
        return found


def _objects(column: Any, failed: list[bool], errors: list[str]) -> list[Any]:
    """Return a column's values.

    Marks records whose value Python cannot represent, such as a time in the year 20000.
    """
    try:
        values: list[Any] = column.to_pylist()
        return values
    except MemoryError:
        raise
    except Exception:
        values = [None] * len(column)
    for at, value in enumerate(column):
        try:
            values[at] = value.as_py()
        except MemoryError:
            raise
        except Exception as error:
            failed[at] = True
            errors.append(_error_text(error))
    return values


# -- confinement -------------------------------------------------------------------------------------------


def _take_pipes() -> tuple[int, int]:
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(max(source, sink) + 1, os.sysconf("SC_OPEN_MAX"))
    return source, sink


def _beside(name: str) -> Any:
    place = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _hold(layer: Callable[[], None]) -> list[str]:
    _set("PR_SET_NO_NEW_PRIVS", PR_SET_NO_NEW_PRIVS, 1)
    try:
        layer()
    except OSError as error:
        return [str(error.strerror)]
    return []


def _set(name: str, option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        raise OSError(ctypes.get_errno(), name)


def _give_up_rights(parent: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(ANONYMOUS, ANONYMOUS, ANONYMOUS)
        os.setresuid(ANONYMOUS, ANONYMOUS, ANONYMOUS)
    _set("PR_SET_DUMPABLE", PR_SET_DUMPABLE, 0)
    _set(
        "PR_SET_PDEATHSIG", PR_SET_PDEATHSIG, signal.SIGKILL
    )  # must follow the change of the user, which resets it
    if os.getppid() != parent:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)


def _limit(memory_bytes: int, sizes: int) -> None:
    """Limit memory (beyond the interpreter's and Arrow's); forbid processes, threads and file writes."""
    taken = int(os.pread(sizes, 256, 0).split()[0]) * resource.getpagesize()
    os.close(sizes)
    for kind, most in (
        (resource.RLIMIT_NOFILE, FILES_MAX),
        (resource.RLIMIT_AS, taken + memory_bytes),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _no_more_files() -> None:
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, lowest))


def _limit_time(seconds: float) -> None:
    """Limit processor time to more than a batch may take, because the parent enforces the shorter limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + 2 * seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _error_text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"[:ERROR_CHARS_MAX]
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<"):
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    return (f"line {line}: " if line else "") + text[:ERROR_CHARS_MAX]


# -- frames ------------------------------------------------------------------------------------------------


def _read(source: int) -> bytes | None:
    head = _exactly(source, _LENGTH.size)
    return None if head is None else _exactly(source, _LENGTH.unpack(head)[0])


def _exactly(source: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(sink: int, data: bytes) -> None:
    _all(sink, _LENGTH.pack(len(data)))
    _all(sink, data)


def _all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


if __name__ == "__main__":
    main()
