"""The reference's queries as jobs of four real agents: the rows of `elf run`, of shares and of Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.agent.cli import entry
from elfmesh.agent.cli.diff import parse as parse_line
from elfmesh.agent.history.compare import DIFFERENT, EQUAL, HISTORY_ONLY, INCOMPLETE, OLDER, compare
from elfmesh.agent.history.inputs import given_inputs
from elfmesh.control.ql import Statement, parse, parse_many
from elfmesh.control.results.records import encode_json
from tests.agent.history.engines import AGENTS as ON_AGENTS
from tests.agent.history.engines import FAILING, PASSED, Asked, by_run, by_shares, note, sample
from tests.agent.history.test_reference import QUERIES
from tests.control.ql.test_docs_examples import _clicks, _line
from tests.e2e.fleet import Fleet, eventually
from tests.spark_tests import long_spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

AGENTS = 4
LATER = "2015-05-17T10:30:00+00:00"
"""One more record of each agent, long after the others: it closes their intervals."""


def jobs() -> dict[str, str]:
    """Queries of the reference over one stream, each as a job: some of them, by `make test-spark` all."""
    found = {}
    for at, text in enumerate(QUERIES):
        for number, statement in enumerate(parse_many(text)):
            name = f"ref.q{at}_{number}"
            if left_out(statement) in ("", OTHER_ROWS):
                found[name.replace(".", "/")] = as_job(statement, name)
    return {name: found[name] for name in found if name in {*sample(list(found), 10), top(found)}}


def top(given: dict[str, str]) -> str:
    """The job of the ten largest of each window."""
    return next(name for name, text in given.items() if "LIMIT 10" in text and "TUMBLE" in text)


OTHER_ROWS = "has the agent's own name in its rows, which one process cannot know"


def left_out(statement: Statement) -> str:
    """Why a statement of the reference is not compared on four agents; "": it is."""
    if statement.functions:
        return "brings a Python function along, which agents run signed only: `tests/e2e/test_functions.py`"
    if statement.streams != ("clicks",):
        return "reads what another job publishes: `tests/e2e/test_job_reads_job.py` holds that"
    return OTHER_ROWS if "_host" in statement.text else ""


def as_job(statement: Statement, name: str) -> str:
    body = statement.text
    if statement.job is not None:
        renamed = re.sub(r"CREATE JOB [\w.]+", f"CREATE JOB {name}", body)
        return re.sub(r"DEADLINE '1 s' HORIZON '10 s'", "DEADLINE '30 s' HORIZON '60 s'", renamed)
    every = "" if statement.window is not None else " EVERY '1 min'"
    return f"CREATE JOB {name}{every} AS\n{body}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        labels = ("--label", "role=web", "--label", "zone=eu-1")
        fleet.start(AGENTS, stream="clicks", options=",format=json,idle=1 h", extra=labels)
        lines = [_line(row) for row in _clicks().to_pylist()]
        end = json.loads(lines[0]) | {"ts": LATER}
        for agent in fleet:
            own = lines[agent.number % AGENTS :: AGENTS]
            fleet.log(agent.number, "clicks").write_text("".join(own) + json.dumps(end) + "\n")
        eventually(
            lambda: len(fleet[0].get("/v1/streams")["streams"][0]["agents"]) == AGENTS, 60, "all agents"
        )
        yield fleet


def has_closed(fleet: Fleet, name: str, index: int) -> bool:
    return any(each["interval"]["index"] >= index for each in fleet[1].results(name))


@pytest.fixture(scope="module")
def published(fleet: Fleet) -> dict[str, dict[int, Any]]:
    """Per job its final intervals."""
    refused = []
    for name, text in jobs().items():
        try:
            assert fleet[0].apply(text)["expected"] == AGENTS, name
        except AssertionError as error:
            refused.append(f"{name}: {error}\n{text}")
    assert not refused, "\n".join(refused)
    found: dict[str, dict[int, Any]] = {}
    for name in jobs():
        wanted = max(index for index, _ in whole(fleet, name) if index < last(name))
        eventually(partial(has_closed, fleet, name, wanted), 120, f"the last interval of {name}")
        lines = (encode_json(each) for each in fleet[1].results(name))
        found[name] = {each["interval"]["index"]: each for each in map(parse_line, lines)}
    return found


def last(name: str) -> int:
    """The first interval that the record that comes later is in, or that its session is shown in."""
    window = parse(jobs()[name]).window
    assert window is not None
    later_us = 1_431_858_600 * 1_000_000
    return (later_us - window.size_us) // window.slide_us + 1


def history(fleet: Fleet) -> dict[str, Any]:
    return {"clicks": (str(fleet.log(0, "clicks")).replace("agent-0", "agent-*"), "json")}


def whole(fleet: Fleet, name: str) -> list[tuple[int, list[dict[str, Any]]]]:
    (found,) = by_run(asked(fleet, name))
    return found


def asked(fleet: Fleet, name: str) -> Asked:
    joined = fleet.root / "all.ndjson"
    if not joined.exists():
        joined.write_text("".join(fleet.log(agent.number, "clicks").read_text() for agent in fleet))
    return Asked(jobs()[name], given_inputs({"clicks": (str(joined), "json")}))


def test_four_agents_give_the_rows_of_one_process_and_of_shares(
    fleet: Fleet, published: dict[str, dict[int, Any]]
) -> None:
    wrong = []
    states = {}
    for name in jobs():
        if "_host" in jobs()[name]:
            continue
        states[name.removeprefix("ref/")] = PASSED
        end = last(name) - 1
        for engine in (by_run, by_shares):
            (answers,) = engine(asked(fleet, name))
            rows = {index: [parse_line(encode_json(row)) for row in found] for index, found in answers}
            compared = compare(published[name], rows, min(rows), end, 1)
            if not compared or any(one.state != EQUAL for one in compared):
                wrong.append(f"{engine.__name__} {jobs()[name]}\n  {compared}")
                states[name.removeprefix("ref/")] = FAILING
    note("reference", ON_AGENTS, states)
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
def test_diff_says_equal_and_finds_what_differs(
    fleet: Fleet,
    published: dict[str, dict[int, Any]],
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = top(jobs())
    indices = sorted(index for index in published[name] if index < last(name))
    words = ["diff", name, "--api", fleet[2].api, "--interval", f"{indices[0]}..{indices[-1]}"]
    assert entry.run([*words, "--stream", f"clicks={asked(fleet, name).inputs['clicks'].config.path}"]) == 0
    said = capsys.readouterr()
    assert said.out.count(": equal, ") == len(indices)
    assert f"{len(indices)} intervals: " in said.err
    assert ", 0 different" in said.err
    other = tmp_path / "other.ndjson"
    lines = [_line(row) for row in _clicks().to_pylist()]
    other.write_text("".join(lines[4:]))
    lost = [*words, "--stream", f"clicks={other}", "-o", "json"]
    assert entry.run(lost) == 1
    states = [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]
    assert DIFFERENT in states
    assert entry.run([*words[:-1], "90..57", *lost[-4:-2]]) == 2
    assert entry.run(["diff", "ref/nothing", "--api", fleet[2].api, *lost[-4:-2]]) == 1


@pytest.mark.spark
@long_spark
def test_results_of_a_live_job_are_a_stream(
    fleet: Fleet, published: dict[str, dict[int, Any]], spark: Any
) -> None:
    """What a job has published is read from the overlay, and joined as its newest result."""
    name = top(jobs())
    job = name.replace("/", ".")
    text = f"SELECT sum(clicks) AS clicks FROM {job} GROUP BY TUMBLE(ts, INTERVAL '30' SECOND)"
    answer = spark_bridge.sql(spark, text, {job: (fleet[1].api, "elf")}).collect()
    live = {index: each["rows"] for index, each in published[name].items() if each["rows"]}
    wanted = {index: sum(row["clicks"] for row in rows) for index, rows in live.items()}
    found = {row["interval_index"]: row["clicks"] for row in answer}
    assert {index: found[index] for index in wanted} == wanted
    text = f"""SELECT c.product, count(*) AS n, max(b.clicks) AS before FROM clicks c
JOIN LATEST {job} b ON c.product = b.product GROUP BY TUMBLE(c.ts, INTERVAL '30' SECOND), c.product"""
    log = asked(fleet, name).inputs["clicks"].config.path
    frame = spark_bridge.sql(spark, text, {job: (fleet[1].api, "elf"), "clicks": (log, "json")})
    seen = {(row["interval_index"], row["product"]): row["before"] for row in frame.collect()}
    for index, rows in live.items():
        for row in rows:
            if index + 1 in wanted and (index + 1, row["product"]) in seen:
                assert seen[index + 1, row["product"]] == row["clicks"]
    assert seen


def test_a_difference_has_a_name() -> None:
    live = {
        "state": "FINAL",
        "version": 1,
        "completeness": 1.0,
        "agents": {"missing": ["web3"]},
        "counts": {},
        "rows": [{"a": 1}, {"a": 2}],
    }
    rows = {4: [{"a": 1}, {"a": 2}]}
    (same,) = compare({4: live}, rows, 0, 9, 1)
    assert (same.state, same.equal, same.differs) == (EQUAL, 2, False)
    (one,) = compare({4: live}, {4: [{"a": 2}, {"a": 1}]}, 0, 9, 1)
    assert (one.state, one.note) == (DIFFERENT, "in another order")
    (one,) = compare({4: live}, {4: [{"a": 1}, {"a": 3}]}, 0, 9, 1)
    assert (one.equal, one.live, one.history) == (1, ('{"a":2}',), ('{"a":3}',))
    (one,) = compare({4: {**live, "completeness": 0.5}}, {4: [{"a": 1}]}, 0, 9, 1)
    assert (one.state, one.note) == (INCOMPLETE, "completeness 0.5, missing web3")
    (one,) = compare({4: live}, rows, 0, 9, 2)
    assert (one.state, one.differs) == (OLDER, False)
    (one,) = compare({}, rows, 0, 9, 1)
    assert (one.state, one.differs) == (HISTORY_ONLY, True)
    assert compare({4: live}, rows, 5, 9, 1) == []
