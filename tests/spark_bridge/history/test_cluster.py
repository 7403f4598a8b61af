"""The same plan on a standalone cluster of two workers: `make test-spark` runs it, it takes six JVMs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.spark_bridge import require_java, require_pyspark
from tests.patience import PATIENCE_S
from tests.ql.test_docs_examples import _clicks, _line
from tests.spark_bridge.history.test_reference import QUERIES
from tests.spark_tests import long_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    long_spark,
]

WORKERS = 2


def wait_for(log: Path, pattern: str, timeout_s: float = PATIENCE_S) -> str:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text()) if log.exists() else None
        if found:
            return found[1] if found.groups() else found[0]
        time.sleep(0.2)
    raise AssertionError(f"no {pattern} in {log}:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster."""
    require_pyspark()
    require_java()
    import pyspark

    home, root = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("cluster")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    running = []

    def start(name: str, *words: str) -> Path:
        log = root / f"{name}.log"
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
        with log.open("wb") as out:
            running.append(
                subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=root)
            )
        return log

    try:
        log = start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait_for(log, r"(spark://127\.0\.0\.1:[1-9]\d*)")
        for number in range(WORKERS):
            words = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
            log = start(
                f"worker{number}", "worker.Worker", *words, "--work-dir", str(root / f"w{number}"), url
            )
            wait_for(log, "Successfully registered with master")
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(PATIENCE_S)


def test_a_cluster_prints_what_elf_run_prints(master: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = [_line(row) for row in _clicks().to_pylist()]
    for number in range(4):
        (logs / f"{number}.ndjson").write_text("".join(lines[number::4]))
    text = next(text for text in QUERIES if "LIMIT 10" in text and "TUMBLE" in text)
    elf = [sys.executable, "-m", "elfmesh.agent"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}

    def printed(*words: str) -> str:
        done = subprocess.run([*elf, *words], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    stream = ["--stream", f"clicks={logs}/*.ndjson,format=json", "-o", "json"]
    wanted = printed("run", text, *stream)
    assert wanted.count("\n") == 4
    assert printed("spark", "run", text, "--master", master, *stream) == wanted
