"""What Spark prints besides answers: the start of the JVM, its errors, and the errors of the data source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elfmesh.spark_bridge import quiet
from elfmesh.spark_bridge.quiet import NOISE, STARTING, reason_of
from tests.cli.terminal import Terminal

NOISY = """
import os, subprocess, sys, threading
from elfmesh.spark_bridge.quiet import quiet_start
with quiet_start(launches=True):
    code = '''
import sys, time
for line in ("WARNING: Using incubator modules: jdk.incubator.vector", "26/01/02 03:04:05 WARN A: b",
             "26/01/02 03:04:05 ERROR A: b", "java: not found", "without an end"):
    print(line, file=sys.stderr, end="" if line.startswith("without") else chr(10), flush=True)
print("started", flush=True)
sys.stdin.read()
print("later", file=sys.stderr, end="")
'''
    print("ours", file=sys.stderr)  # before the child, whose lines and their ends may be two writes
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    sys.stdin.readline()
print("after", file=sys.stderr, flush=True)
child.stdin.close()
child.wait()
for thread in set(threading.enumerate()) - {threading.main_thread()}:
    thread.join()
"""

FAILED = """[PYTHON_DATA_SOURCE_ERROR] Failed to create instance: Traceback (most recent call last):
  File "source.py", line 67, in schema
    raise UsageError(text)
elfmesh.errors.UsageError: ELF_BAD_OPTION: '' is not the name of a job
  Give the option job.
 SQLSTATE: 38000"""
JAVA = """An error occurred while calling o212.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.FOOTER] Error while reading file a.parquet.
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.hasNext(PythonRunner.scala:1034)
"""


def test_noise_of_a_start_is_left_out_and_other_lines_of_the_child_are_passed_on_for_its_life() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOISY], capture_output=True, text=True, check=True, input="\n",
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert sorted(done.stderr.replace("without an endlater", "without an endlater\n").splitlines()) == [
        "26/01/02 03:04:05 ERROR A: b", "after", "java: not found", "ours", "without an endlater",
    ]  # fmt: skip


def test_a_terminal_shows_that_spark_starts_and_nothing_after_it(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(NOISY)
    terminal = Terminal(command=[sys.executable, str(script)])
    terminal.wait_for(STARTING)
    terminal.press("\n")
    terminal.wait_for("after")
    assert terminal.end() == 0


def test_a_session_that_runs_already_changes_no_descriptor() -> None:
    before = os.fstat(2)
    with quiet.quiet_start(launches=False):
        assert os.path.sameopenfile(2, 2)
        assert os.fstat(2) == before


@pytest.mark.parametrize(
    ("line", "is_noise"),
    [
        (b"Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties", True),
        (b'Setting default log level to "WARN".', True),
        (b"To adjust logging level use sc.setLogLevel(newLevel).", True),
        (b"26/11/29 10:28:10 WARN NativeCodeLoader: Unable to load native-hadoop library", True),
        (b"26/11/29 10:28:10 ERROR SparkContext: no", False),
        (b"Error: Could not find or load main class", False),
        (b"WARN", False),
    ],
)
def test_only_lines_of_a_start_without_a_problem_are_noise(line: bytes, is_noise: bool) -> None:
    assert bool(NOISE.match(line)) is is_noise


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FAILED, "ELF_BAD_OPTION: '' is not the name of a job"),
        ("[NO_TABLE] there is no table. SQLSTATE: 42703\n== SQL ==", "there is no table."),
        (
            "[PY] no source: elfmesh.errors.ConfigError: ELF_BAD_OPTION: x is no option.\n SQLSTATE: 1",
            "ELF_BAD_OPTION: x is no option.",
        ),
        (JAVA, "Error while reading file a.parquet."),
        ("", "ValueError"),
        ("a line\nanother", "a line"),
    ],
)  # fmt: skip
def test_the_reason_of_an_error_is_one_line(text: str, reason: str) -> None:
    assert reason_of(ValueError(text)) == reason


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"jobb": "shop/top"}, "ELF_BAD_OPTION: jobb is not an option of the source elf. Did you mean job?"),
        (
            {"job": "shop/top", "startingIntervall": "3"},
            "ELF_BAD_OPTION: startingintervall is not an option of the source elf."
            " Did you mean startingInterval?",
        ),
        ({"job": "shop/top", "state": "open"}, "ELF_BAD_OPTION: state='open' is none of final, all."),
        ({"job": "shop/top", "api": "127.0.0.1:1"}, "ELF_UNREACHABLE: no agent answers at 127.0.0.1:1"),
    ],
)
def test_an_error_of_the_source_has_no_traceback(spark: Any, options: dict[str, str], reason: str) -> None:
    from pyspark.errors import AnalysisException

    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException) as caught:
            reader.format("elf").options(**options).load()
        text = str(caught.value)
        assert reason in text
        assert "Traceback" not in text
        assert reason_of(caught.value).startswith(reason)


@pytest.mark.spark
def test_an_error_of_a_reader_has_no_traceback(spark: Any) -> None:
    options = {"job": "shop/top", "api": "127.0.0.1:1", "numPartitions": "x"}
    with pytest.raises(Exception, match="numPartitions='x' is not a whole number") as caught:
        spark.read.format("elf").options(**options).schema("interval_index BIGINT").load().collect()
    assert "Traceback" not in str(caught.value)


@pytest.mark.spark
def test_a_mistake_in_a_command_on_spark_is_one_line(spark: Any, tmp_path: Path, capfd: Any) -> None:
    from elfmesh.cli.entry import run

    path = tmp_path / "bad.parquet"
    path.write_text("no parquet")
    assert (
        run(["spark", "run", "SELECT count(*) AS n FROM log", "--stream", f"log={path},format=parquet"]) != 0
    )
    text = capfd.readouterr().err
    assert text.startswith("elf: ")
    assert "bad.parquet" in text
    assert "Traceback" not in text
    assert "\tat " not in text
    assert len(text.splitlines()) <= 2
