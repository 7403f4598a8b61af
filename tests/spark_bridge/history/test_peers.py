"""Other systems' cases give the same rows in `elf run`, in shares, and on Spark."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elfmesh.ql import parse
from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.compat import arroyo, ekuiper, fluentbit, nexmark, risingwave
from tests.compat.cases import NO_DATA, PEERS, Case, Ours, written
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
from tests.spark_tests import EVERYTHING, all_of_spark

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
MODULES = (nexmark, risingwave, arroyo, ekuiper, fluentbit)
SOME = (risingwave, ekuiper)
"""A case of each is run on Spark each time."""

pytestmark = pytest.mark.skipif(not PEERS.is_dir(), reason=NO_DATA)


def timed(value: Any) -> Any:
    """Times are strings in JSON."""
    return datetime.fromisoformat(value) if isinstance(value, str) and STAMP.fullmatch(value) else value


def cases(*modules: ModuleType) -> list[tuple[Case, str]]:
    """The cases of some peers, of all if none is named."""
    found = []
    for module in modules or MODULES:
        for case in module.cases():
            translation = module.TRANSLATIONS[case.name]
            if isinstance(translation, Ours) and not case.error:
                found.append((case, translation.text))
    return found


def asked(case: Case, text: str, root: Path) -> Asked:
    root.mkdir(exist_ok=True)
    streams = parse(text).streams
    paths = {name: str(written(case.inputs[name], root / f"{name}.json")) for name in streams}
    return Asked(text, given_inputs({name: (path, "json") for name, path in paths.items()}))


def test_shares_give_the_rows_of_the_whole(tmp_path: Path) -> None:
    given = cases()
    assert len(given) > 100
    wrong, states, right = [], {}, {}
    for at, (case, text) in enumerate(given):
        each = asked(case, text, tmp_path / str(at))
        ours, theirs = by_run(each), by_shares(each)
        states[case.name] = PASSED if ours == theirs else FAILING
        rows = [{name: timed(value) for name, value in row.items()} for _, found in ours[0] for row in found]
        difference = case.check(rows)
        right[case.name] = FAILING if difference else PASSED
        if difference:
            wrong.append(f"{case.name}: {text}\n  {difference}")
        if ours != theirs:
            wrong.append(f"{case.name}: {text}\n  elf run {ours}\n  shares  {theirs}")
    note("peers", SHARES, states)
    note("peers", RUN, right)
    assert not wrong, "\n".join(wrong)


@all_of_spark
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "module", MODULES if EVERYTHING else SOME, ids=lambda module: module.__name__.split(".")[-1]
)
def test_spark_gives_the_rows_of_elf_run(module: ModuleType, spark: Any, tmp_path: Path) -> None:
    wrong, states = [], {}
    for at, (case, text) in enumerate(sample(cases(module), 1)):
        each = asked(case, text, tmp_path / str(at))
        ours, theirs = by_run(each), by_spark(spark, each)
        states[case.name] = PASSED if ours == theirs else FAILING
        if ours != theirs:
            wrong.append(f"{case.name}: {text}\n  elf run {ours}\n  Spark   {theirs}")
    note("peers", SPARK, states, module.__name__)
    assert not wrong, "\n".join(wrong)
