"""Every query of the language reference gives the same rows in `elf run`, in shares, and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.history.inputs import given_inputs
from elfmesh.control.ql import parse_many
from tests.agent.history.engines import Asked, by_run, by_shares, by_spark, sample
from tests.control.ql.test_docs_examples import EXAMPLES, _clicks, _line

QUERIES = [text for text, _ in EXAMPLES]


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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spark_gives_the_rows_of_elf_run(spark: Any, log: Path) -> None:
    wrong = []
    for text in sample(QUERIES, 5):
        each = asked(text, log)
        ours, theirs = by_run(each), by_spark(spark, each, split_bytes=1500)
        if ours != theirs:
            wrong.append(f"{text}\n  elf run {ours}\n  Spark   {theirs}")
    assert not wrong, "\n".join(wrong)
