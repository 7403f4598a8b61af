"""A session of Spark: one line where something is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from elfmesh import spark_bridge
from elfmesh.errors import RuntimeFailure
from elfmesh.spark_bridge.session import any_session


def test_without_java_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(RuntimeFailure) as caught:
        spark_bridge.local_session()
    assert str(caught.value) == (
        "Spark needs Java 17 or later: no java on the PATH and JAVA_HOME is not set."
    )


def test_without_pyspark_there_is_one_line_and_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeFailure, match=r"^Spark needs the package pyspark: pip install"):
        spark_bridge.local_session()
    with pytest.raises(RuntimeFailure, match=r"^Spark needs the package pyspark: pip install"):
        spark_bridge.results(None, "shop/top")


def test_without_the_packages_of_spark_connect_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name.startswith("grpc") else find(name)
    )
    reported = r"^Spark Connect needs grpcio, grpcio-status.*: pip install 'elfmesh\[spark-connect\]'\.$"
    with pytest.raises(RuntimeFailure, match=reported), any_session("sc://127.0.0.1:1"):
        pass


def test_the_bridge_imports_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import elfmesh.spark_bridge"
    subprocess.run([sys.executable, "-c", code], check=True)
