"""Every public name of the Python API has an example in its docstring, and the examples run."""

from __future__ import annotations

import asyncio
import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elfmesh
import pyspark_elf
from elfmesh import spark_bridge
from elfmesh.api.client.client import Client
from tests.e2e.fleet import Fleet, eventually

ADDRESS = "127.0.0.1:7401"
LOG = "clicks.ndjson"
"""The agent of the examples, and their log."""

CLICKS = "".join(
    f'{{"ts": "2015-05-17T10:00:0{second}Z", "kind": "like", "product": "lamp"}}\n' for second in range(3)
)
LIKES = """CREATE JOB shop.likes AS
SELECT product, COUNT(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), product"""
PRICED = """CREATE JOB shop.priced TABLE prices (product STRING, price DOUBLE) AS
SELECT c.product, COUNT(*) AS n FROM clicks c JOIN lookup.prices p ON c.product = p.product
GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), c.product"""
EMBEDDED: dict[str, Any] = {
    "elfmesh": elfmesh,
    "elfmesh.run": elfmesh.run,
    "elfmesh.ResultInterval": elfmesh.ResultInterval,
    "elfmesh.RunResults": elfmesh.RunResults,
    "elfmesh.coordination": elfmesh.coordination,
    "elfmesh.path": elfmesh.path,
}
WITH_AGENT: dict[str, Any] = {
    "elfmesh.connect": elfmesh.connect,
    "elfmesh.Client": Client,
    "elfmesh.AsyncClient": elfmesh.AsyncClient,
    "elfmesh.LiveAnswer": elfmesh.LiveAnswer,
    "elfmesh.Job": elfmesh.Job,
}
WITH_SPARK: dict[str, Any] = {
    **{f"spark_bridge.{name}": getattr(spark_bridge, name) for name in sorted(spark_bridge.__all__)},
    **{f"pyspark_elf.{name}": getattr(pyspark_elf, name) for name in pyspark_elf.__all__},
}


def examples(name: str, target: Any, globs: dict[str, Any]) -> doctest.DocTest:
    """The examples of one docstring; those of members are theirs."""
    text = inspect.getdoc(target) or ""
    return doctest.DocTestParser().get_doctest(text, globs, name, None, 0)


def run_examples(
    name: str, target: Any, globs: dict[str, Any], address: str = ADDRESS, log: str = LOG
) -> None:
    found = examples(name, target, globs)
    assert found.examples, f"{name} has no example in its docstring"
    for each in found.examples:
        each.source = each.source.replace(ADDRESS, address).replace(LOG, log)
    reported: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(found, out=reported.append, clear_globs=False)
    assert not runner.summarize(verbose=False).failed, "".join(reported)


def test_every_public_name_is_covered() -> None:
    covered = {**EMBEDDED, **WITH_AGENT, **WITH_SPARK}
    api = {name: getattr(elfmesh, name) for name in elfmesh.__all__ if name != "__version__"}
    errors = {name for name, each in api.items() if isinstance(each, type) and issubclass(each, Exception)}
    assert {f"elfmesh.{name}" for name in api.keys() - errors} <= set(covered)
    page = (Path(__file__).parents[2] / "docs/reference/python.md").read_text()
    for name, target in covered.items():
        assert name in page or target.__name__ in page, f"docs/reference/python.md does not have {name}"


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_example_without_an_agent_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOG).write_text(CLICKS)
    monkeypatch.chdir(tmp_path)
    run_examples(name, EMBEDDED[name], {})


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of an agent that carries the streams of the examples."""
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        words = ["--stream", "words=program://demo/words,format=json,idle=300ms"]
        fleet.start(1, stream="clicks", options=",format=json,idle=300ms", extra=["--name", "web1", *words])
        fleet.log(0, "clicks").write_text(CLICKS)
        yield fleet[0].api


@pytest.mark.parametrize("name", WITH_AGENT)
def test_an_example_with_an_agent_runs(name: str, agent: str) -> None:
    run_examples(name, WITH_AGENT[name], {"elfmesh": elfmesh, "asyncio": asyncio}, agent)


def test_the_examples_for_spark_run(
    spark: Any, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_bridge, "local_session", lambda: spark)
    log = tmp_path / LOG  # Spark's executors have another working directory
    log.write_text(CLICKS)
    client = elfmesh.connect(agent)
    client.apply(LIKES)
    client.apply(PRICED)
    eventually(lambda: list(client.results("shop/likes")), what="the job's first result")
    for name, target in WITH_SPARK.items():
        run_examples(name, target, {"spark_bridge": spark_bridge, "spark": spark}, agent, str(log))
