"""Every query of the language reference gives the same rows in `elf run`, in shares, and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elfmesh.ql import parse_many
from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.ql.test_docs_examples import EXAMPLES, _clicks, _line
from tests.spark_bridge.history.engines import (
    FAILING,
    PASSED,
    RUN,
    SHARES,
    SPARK,
    Asked,
    by_run,
    by_shares,
    by_spark,
    note,
    sample,
)
from tests.spark_tests import all_of_spark

QUERIES = [text for text, _ in EXAMPLES]

NO_SEAL = "no record of the sample seals a partition: the end of the input does, and a job has none"


def statements() -> dict[str, str]:
    """The text of each statement by its name in the table of docs/spark.md."""
    texts = {f"q{at}": parse_many(text) for at, text in enumerate(QUERIES)}
    return {f"{query}_{at}": one.text for query, found in texts.items() for at, one in enumerate(found)}


def left_out(text: str) -> str:
    """Why agents are not asked a statement; "": they are."""
    return NO_SEAL if "SEALED(" in text else ""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "clicks.ndjson"
    path.write_text("".join(map(_line, _clicks().to_pylist())))
    return path


def asked(text: str, log: Path) -> Asked:
    names = {name for statement in parse_many(text) for name in statement.streams if "/" not in name}
    return Asked(text, given_inputs(dict.fromkeys(names, (str(log), "json"))))


@pytest.mark.parametrize("text", QUERIES, ids=lambda text: text.strip()[:30])
def test_shares_of_a_log_give_the_rows_of_the_whole(text: str, log: Path) -> None:
    each = asked(text, log)
    assert by_shares(each) == by_run(each)


@all_of_spark
@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_the_rows_of_elf_run(spark: Any, log: Path) -> None:
    wrong = []
    states: dict[str, dict[str, str]] = {RUN: {}, SHARES: {}, SPARK: {}}
    for at, text in enumerate(sample(QUERIES, 5)):
        each = asked(text, log)
        ours, theirs = by_run(each), by_spark(spark, each, split_bytes=1500)
        if ours != theirs:
            wrong.append(f"{text}\n  elf run {ours}\n  Spark   {theirs}")
        for number, (one, other, part) in enumerate(zip(ours, theirs, by_shares(each), strict=True)):
            name = f"q{at}_{number}"
            states[RUN][name] = PASSED
            states[SPARK][name] = PASSED if one == other else FAILING
            states[SHARES][name] = PASSED if one == part else FAILING
    for engine, found in states.items():
        note("reference", engine, found)
    assert not wrong, "\n".join(wrong)
