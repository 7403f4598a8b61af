"""What the demo says of its results at its end: early rows last, and all rows are those of one process."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from elfmesh.cli.demo.fleet import Fleet
from elfmesh.cli.demo.jobs import DemoJob
from elfmesh.cli.demo.verdicts import answers_of, early_rows_last, equals_one_process
from elfmesh.ingest.job_rows import JobRows

TEXT = """CREATE JOB shop/hot EVERY '10 s' EARLY '1 s' AS
SELECT product, count(*) AS clicks FROM clicks GROUP BY product""".replace("shop/hot", "shop.hot")
QUIET = Console(quiet=True)


def rows(*products: str) -> list[dict[str, Any]]:
    return [{"product": each, "clicks": 1} for each in products]


def hot(shown: list[str], final: list[str], epoch: int = 1, **record: Any) -> DemoJob:
    job = DemoJob("shop/hot", TEXT, 10_000_000)
    job.early[5] = [{"epoch": epoch, "rows": rows(*shown)}]
    job.records[5] = {"rows": rows(*final), **record}
    return job


@pytest.mark.parametrize(
    ("job", "lasts"),
    [
        (hot(["a"], ["a", "b"]), True),
        (hot(["a"], ["b"]), False),
        (hot(["a"], ["b"], early={"epoch": 1}, withdrawn=rows("a")), True),
        (hot(["a"], ["b"], early={"epoch": 1}, withdrawn=rows("c")), False),
        (hot(["a"], ["b"], early={"epoch": 2}), True),  # of another master
        (DemoJob("shop/hot", TEXT, 10_000_000), False),  # there were none
    ],
)
def test_an_early_row_is_final_or_withdrawn(job: DemoJob, lasts: bool) -> None:
    assert early_rows_last(QUIET, [job]) is lasts


def click(path: Path, *products: str) -> Path:
    """A log with one click on each product, in interval 5."""
    lines = (json.dumps({"ts": "1970-01-01T00:00:51Z", "product": each}) for each in products)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_rows_of_one_process_are_computed_from_the_files_of_the_agents(tmp_path: Path) -> None:
    paths = [click(tmp_path / "one", "a", "b"), click(tmp_path / "two", "a")]
    found = answers_of(TEXT, paths, JobRows())[5]
    assert sorted((row["product"], row["clicks"]) for row in found) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("published", "missing", "equal"),
    [(["a"], ["web2"], True), (["a", "b"], ["web2"], False), (["a", "b"], [], False)],
    ids=["equal", "one-row-more", "no-interval-without-the-victim"],
)
def test_the_results_equal_one_process_and_name_the_agent_that_was_killed(
    published: list[str], missing: list[str], equal: bool, tmp_path: Path
) -> None:
    paths = {"web1": click(tmp_path / "web1", "a"), "web2": click(tmp_path / "web2", "b")}
    fleet = SimpleNamespace(agents=[None, None], traffic=SimpleNamespace(paths=paths))
    job = DemoJob("shop/hot", TEXT, 10_000_000)
    job.records[5] = {
        "interval": {"index": 5, "start": "1970-01-01T00:00:50Z"},
        "completeness": 1 - len(missing) / 2,
        "agents": {"missing": missing},
        "rows": rows(*published),
    }
    assert equals_one_process(QUIET, [job], cast(Fleet, fleet), "web2") is equal
