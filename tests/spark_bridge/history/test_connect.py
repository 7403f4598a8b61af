"""The same plan through a Spark Connect server, by `make test-spark`, which installs its packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.spark_bridge import require_java, require_pyspark
from elfmesh.spark_bridge.session import require_connect
from tests.patience import PATIENCE_S
from tests.ql.test_docs_examples import _clicks, _line
from tests.spark_bridge.history.test_cluster import wait_for
from tests.spark_bridge.history.test_reference import QUERIES
from tests.spark_tests import QUICK_JVM, long_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow, long_spark]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of its own process."""
    require_pyspark()
    try:
        require_connect()
    except RuntimeFailure as missing:
        pytest.skip(str(missing))
    require_java()
    import pyspark

    home, root = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("connect")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin/spark-submit"), "--master", "local[2]", "--driver-java-options", QUICK_JVM]
    for setting in (
        "spark.connect.grpc.binding.port=0",
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=2",
    ):
        command += ["--conf", setting]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = root / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=root)
    try:
        port = wait_for(log, r"Spark Connect server started at: .*?:(\d+)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_server_gives_what_elf_run_prints(server: str, tmp_path: Path) -> None:
    log = tmp_path / "clicks.ndjson"
    log.write_text("".join(map(_line, _clicks().to_pylist())))
    text = next(text for text in QUERIES if "LIMIT 10" in text and "TUMBLE" in text)
    stream = ["--stream", f"clicks={log},format=json", "-o", "json"]

    def printed(*words: str) -> str:
        command = [sys.executable, "-m", "elfmesh.agent", *words, *stream]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    wanted = printed("run", text)
    assert wanted.count("\n") == 4
    assert printed("spark", "run", text, "--master", server) == wanted
