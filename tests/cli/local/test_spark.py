"""`elf spark`: what `--stream` and `--lookup` name, and what is refused before Spark is started."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from elfmesh.cli.local.spark import named_inputs, run_command
from elfmesh.errors import ElfError, QueryError, UsageError


def test_inputs_are_named_with_their_settings() -> None:
    found = named_inputs(
        ["log=access.log", "old=/data/old,format=parquet", "live=h:7401,format=elf"], "--stream"
    )
    assert [(name, each.kind, each.config.path) for name, each in found.items()] == [
        ("log", "log", "access.log"),
        ("old", "parquet", "/data/old"),
        ("live", "elf", "h:7401"),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a=x", "a=y"], "--stream: a is given twice"),
        (["a"], "'a' is not NAME=PATH"),
        (["a=x,read_from=middle"], "--stream: a: Invalid enum value 'middle'"),
        (["a=udp://127.0.0.1:5514"], "--stream: a has no path"),
    ],
)
def test_inputs_that_make_no_sense_are_refused_with_their_option(given: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        named_inputs(given, "--stream")
    assert message in str(refused.value)
    assert str(refused.value).count("--stream:") == 1


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([], UsageError, "give either a query or -f FILE"),
        (["SELECT 1", "-f", "x.elfql"], UsageError, "give either a query or -f FILE"),
        (["SELECT FROM log", "--stream", "log=x"], QueryError, "query:1:"),
    ],
)
def test_errors_are_reported_before_spark_is_started(
    words: Sequence[str], error: type[ElfError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(run_command, list(words), standalone_mode=False)
    assert isinstance(done.exception, error)
    assert message in str(done.exception)
