"""A driver that dies between reading and committing: started again, each interval is in the sink once.

By `make test-spark`, because it starts two drivers; `test_source_stream.py` fails a batch there in each run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.spark_tests import QUICK_JVM, long_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow, long_spark]
ROOT = Path(__file__).parents[2]

DRIVER = """
import os, signal, sys
from pathlib import Path
from elfmesh import spark_bridge
from tests.patience import PATIENCE_S
from tests.spark_bridge.supervisor import Supervised
api, out, checkpoint, dies, log, jvm = sys.argv[1:]
spark = spark_bridge.local_session(cores=1, spark__driver__extraJavaOptions=jvm)
def sink(frame, batch):
    rows = [(row.interval_index, row["product"], row.clicks) for row in frame.collect()]
    with open(log, "a") as file:
        file.write(f"{batch} {sorted({row[0] for row in rows})}\\n")
    part = Path(out, f".{batch}.new")
    part.write_text("".join(f"{a} {b} {c}\\n" for a, b, c in sorted(rows)))
    part.replace(Path(out, f"{batch}.txt"))
    if dies == f"written {batch}":  # and not committed
        os.kill(os.getpid(), signal.SIGKILL)
source = spark.readStream.format("elf").option("job", "shop/top").option("api", api)
source = source.option("startingInterval", "earliest").option("maxIntervalsPerTrigger", 2)
writer = source.load().writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
assert Supervised(writer.trigger(availableNow=True).start).awaitTermination(PATIENCE_S)
"""


def test_each_interval_is_in_the_sink_once_after_a_kill(agent: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 reads all at once")
    agent.create("shop/top")
    for index in range(9):
        agent.publish("shop/top", [("a", index), ("b", index)])
    out, log = tmp_path / "out", tmp_path / "log"
    out.mkdir()

    def drive(dies: str) -> int:
        """Run a driver in a group of its own, so that its JVM goes with it."""
        command = [sys.executable, "-c", DRIVER, agent.api, str(out), str(tmp_path / "checkpoint")]
        errors = tmp_path / "errors"
        with errors.open("ab") as stderr:  # no pipe: its JVM would hold that open after its death
            process = subprocess.Popen(
                [*command, dies, str(log), QUICK_JVM],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        try:
            process.wait(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode in (0, -signal.SIGKILL), errors.read_text()[-2000:]
        return process.returncode

    assert drive("written 1") == -signal.SIGKILL
    agent.publish("shop/top", [("a", 9)])  # while no driver reads
    assert drive("") == 0
    read = [line.split(" ", 1) for line in log.read_text().splitlines()]
    again = [intervals for batch, intervals in read if batch == "1"]
    assert again == ["[2, 3]"] * 2  # the same batch has the same intervals
    rows = [line for path in sorted(out.glob("*.txt")) for line in path.read_text().splitlines()]
    wanted = [f"{index} {name} {index}" for index in range(9) for name in "ab"] + ["9 a 9"]
    assert sorted(rows) == sorted(wanted)
