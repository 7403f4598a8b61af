"""What functions may do to their worker, and that it is all that they do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.ingest.functions.evaluator import STRIKES, Evaluator
from elfmesh.ingest.functions.process import Limits, WorkerFailed
from elfmesh.ql.expressions.python_function import Computed, PythonFunction
from tests.ingest.functions.declared import function
from tests.patience import PATIENCE_S

ROWS = 30
PATIENT = Limits(seconds=30.0, memory_bytes=128 << 20)
HASTY = Limits(seconds=0.2, memory_bytes=128 << 20)


class Bench:
    """An evaluator of one function and what it said."""

    def __init__(self, one: PythonFunction, limits: Limits) -> None:
        self.notes: list[str] = []
        self.now = 0.0
        self.one = one
        self.evaluator = Evaluator([one], limits, note=self.notes.append, monotonic=lambda: self.now)

    def call(self, rows: int = ROWS) -> Computed:
        return self.evaluator.call(self.one, [pa.array(range(rows), pa.int64())], rows)

    def failed(self, rows: int = ROWS) -> int:
        done = self.call(rows)
        assert len(done.values) == rows
        assert done.values.type == self.one.gives
        return 0 if done.failed is None else int(done.failed.sum())


@contextmanager
def bench(body: str, limits: Limits = PATIENT, *, gives: str = "BIGINT", how: str = "") -> Iterator[Bench]:
    made = Bench(function(body, gives=gives, how=how), limits)
    try:
        yield made
    finally:
        made.evaluator.close()
        assert made.evaluator.pid is None


def together(check: Callable[..., None], cases: Mapping[str, tuple[object, ...]]) -> None:
    """Check cases side by side: most of the time they wait for the processes of their own."""
    with ThreadPoolExecutor(len(cases)) as pool:
        checks = {name: pool.submit(check, *case) for name, case in cases.items()}
    for name, done in checks.items():
        if error := done.exception():
            error.add_note(f"case: {name}")
            raise error


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_values_come_back_in_order_across_batches() -> None:
    with bench("def f(x): return x * 2") as made:
        done = made.call(20_000)
        assert done.failed is None
        assert done.values.to_pylist() == [2 * x for x in range(20_000)]


def test_a_record_that_raises_costs_that_record() -> None:
    with bench("def f(x): return 10 // (x - 3)") as made:
        done = made.call()
        assert done.failed is not None
        assert done.failed.nonzero()[0].tolist() == [3]
        assert made.notes == [
            "f cannot take a record: line 2: ZeroDivisionError: integer division or modulo by zero"
        ]
        assert not made.evaluator.problem


def test_a_record_that_a_column_cannot_take_is_found_by_halves() -> None:
    body = "import pyarrow.compute as pc\ndef f(x): return pc.divide(100, pc.subtract(x, 7))"
    with bench(body, how="VECTORISED") as made:
        done = made.call(5000)
        assert done.failed is not None
        assert done.failed.nonzero()[0].tolist() == [7]
        assert done.values[8].as_py() == 100


def test_functions_of_no_use_are_off_after_three_batches() -> None:
    def check(body: str) -> None:
        with bench(body) as made:
            for _ in range(STRIKES):
                assert not made.evaluator.problem
                assert made.failed() == ROWS
            assert "it could take none of 30 records" in made.evaluator.problem
            assert made.evaluator.pid is None

    together(check, {"exit": ("import sys\ndef f(x): sys.exit(3)",), "type": ("def f(x): return 'a'",)})


def test_what_hangs_is_ended_and_off_after_three_strikes() -> None:
    def check(body: str, *limits: str) -> None:
        with bench(body, HASTY) as made:
            pids = []
            for _ in range(2):
                assert made.failed() == ROWS
                pids.append(made.evaluator.pid)
            assert made.evaluator.problem.endswith(limits)
            assert made.evaluator.restarts == STRIKES - 1
            restarts = made.evaluator.restarts
            assert made.failed() == ROWS
            assert made.evaluator.restarts == restarts, "nothing is started any more"
            assert not any(is_alive(pid) for pid in pids if pid is not None)

    loop, sleep = "def f(x):\n    while True: pass", "import time\ndef f(x): time.sleep(60)"
    late, used = "the last: f: no answer within 2 s", "the last: f: no answer within 0.2 s of processor time"
    # A busy host may give the loop less than 0.2 s of the processor in 2 s.
    together(check, {"infinite loop": (loop, used, late), "sleep": (sleep, late)})


ENDINGS = {
    "leak": (
        "L = []\ndef f(x):\n    while True: L.append(bytearray(10_000_000))",
        "more than 128 MB of memory",
    ),
    "killed": (
        "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGKILL)",
        "the process was killed; the host may be short of memory",
    ),
    "exit": ("import os\ndef f(x): os._exit(5)", "the process ended with 5"),
    "segfault": (
        "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGSEGV)",
        "the process ended with -11",
    ),
    "closes its pipes": ("import os\ndef f(x): os.closerange(0, 64)", "the process "),
    "writes into its pipe": (
        "import os\ndef f(x):\n    for at in range(3, 9):\n        try: os.write(at, b'x' * 99)\n"
        "        except OSError: pass\n    return x",
        "over the limit",
    ),
}


def test_what_ends_its_process_is_off_after_three_strikes() -> None:
    def check(body: str, reason: str) -> None:
        with bench(body) as made:
            assert made.failed() == ROWS
            assert not made.evaluator.problem
            assert made.failed() == ROWS
            assert reason in made.evaluator.problem

    together(check, ENDINGS)


SHAPES = {
    "rows": ("def f(x): return [1, 2]", "BIGINT", "f returned 2 values for 30 records"),
    "type": ("def f(x): return ['a'] * len(x)", "BIGINT", "f returned string, not a column of int64"),
    "nothing": ("def f(x): return None", "BIGINT", "f returned NoneType, not a column of int64"),
    "more than memory": ("def f(x): return ['a' * 10_000_000] * len(x)", "STRING", "memory"),
    "more than a frame": ("def f(x): return ['a' * 3_000_000] * len(x)", "STRING", "over the limit"),
}


def test_a_column_of_another_shape_is_a_strike() -> None:
    def check(body: str, gives: str, reason: str) -> None:
        limits = Limits(30.0, (1 << 30) if reason == "over the limit" else (128 << 20))
        with bench(body, limits, gives=gives, how="VECTORISED") as made:
            assert made.failed() == ROWS
            assert any(reason in note for note in made.notes), made.notes

    together(check, SHAPES)


def test_a_worker_starts_and_opens_nothing() -> None:
    acts = [
        "os.fork()",
        "threading.Thread(target=print).start()",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "open('/etc/passwd').read()",
        "socket.socket().fileno()",
    ]
    body = (
        "import os, threading, socket\n"
        f"ACTS = [{', '.join(f'lambda: {act}' for act in acts)}, lambda: None]\n"
        "def f(x):\n    ACTS[x]()\n    return x"
    )
    with bench(body) as made:
        done = made.call(len(acts) + 1)
        assert done.failed is not None
        assert done.failed.tolist() == [True] * len(acts) + [False]
        assert "cannot take a record" in made.notes[0]
        assert made.evaluator.restarts == 0


def test_a_worker_inherits_nothing() -> None:
    body = (
        "import os, sys\n"
        "FDS = 0\n"
        "for at in range(1024):\n"
        "    try: os.fstat(at); FDS += 1\n"
        "    except OSError: pass\n"
        "def f(x):\n"
        "    print('to nobody' * 10_000); sys.stderr.write('x' * 100_000)\n"
        "    ours = int('elfmesh' in sys.modules)\n"
        "    return [FDS, len(os.environ), os.getppid(), sys.flags.isolated, ours,\n"
        "            os.getpriority(os.PRIO_PROCESS, 0)][x]"
    )
    with Path(os.devnull).open() as extra:
        os.set_inheritable(extra.fileno(), True)
        with bench(body) as made:
            fds, environment, parent, isolated, ours, nice = made.call(6).values.to_pylist()
    assert (fds, isolated, ours) == (5, 1, 0)
    assert environment <= 5
    assert parent == os.getpid()
    assert nice >= 10


def test_what_leaks_slowly_costs_no_record_and_goes_on() -> None:
    body = "L = []\ndef f(x):\n    L.append(bytearray(1_000_000))\n    return x"
    with bench(body) as made:
        for _ in range(10):
            assert made.failed(25) == 0
            made.now += 100.0  # strikes so far apart are none
        assert made.evaluator.restarts >= 1
        assert not made.evaluator.problem


def test_an_expired_signature_ends_a_running_function() -> None:
    one = function("def f(x): return x")
    now = [0]
    evaluator = Evaluator([one], PATIENT, expires_us=10, wall_us=lambda: now[0])
    try:
        assert evaluator.call(one, [pa.array([1])], 1).failed is None
        now[0] = 10
        assert evaluator.call(one, [pa.array([1])], 1).failed is not None
        assert evaluator.problem == "the functions are off: its signature has expired"
        assert evaluator.pid is None
    finally:
        evaluator.close()


def test_a_function_that_cannot_work_is_found_before_it_is_used() -> None:
    def check(body: str, reason: str) -> None:
        with bench(body) as made, pytest.raises(WorkerFailed) as caught:
            made.evaluator.check()
        assert reason in str(caught.value)

    cases = [
        ("def f(x) return 1", "line 2: expected ':'"),
        ("def f(x): return 1\nraise ValueError('no')", "line 3: ValueError: no"),
        ("def f(x): return 1\nimport no_such_module", "No module named 'no_such_module'"),
        ("def f(x): return 1\nimport os\nos._exit(1)", "the process ended with 1"),
        ("def f(x): return 1\ndel f", "the source does not define a function f"),
        ("import os\ndef f(x): os._exit(1)", "f: the process ended with 1"),
    ]
    together(check, {case[0]: case for case in cases})


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import threading, time, pyarrow as pa\n"
        "from elfmesh.ingest.functions.process import Limits, WorkerProcess\n"
        "from tests.ingest.functions.declared import function\n"
        "made = WorkerProcess([function('def f(x):\\n    while True: pass')], Limits(600.0, 128 << 20))\n"
        "threading.Thread(target=made.call, args=(0, [pa.array([1])], 1), daemon=True).start()\n"
        "print(made.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)
