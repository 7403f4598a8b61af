"""The reference's queries as jobs of four real agents: the rows of `elf run`, of shares and of Spark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from elfmesh import spark_bridge
from elfmesh.cli import entry
from elfmesh.cli.host.sign import create_command, read_private
from elfmesh.cli.jobs.commands import apply_command
from elfmesh.cli.local.diff import parse as parse_line
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.plan import read_plan
from elfmesh.ql import Statement, parse, parse_many
from elfmesh.ql.values.row_json import encode_json
from elfmesh.spark_bridge.history.compare import (
    DIFFERENT,
    EQUAL,
    compare,
)
from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.e2e.fleet import Fleet, eventually
from tests.ql.test_docs_examples import _clicks, _line
from tests.spark_bridge.history.engines import AGENTS as ON_AGENTS
from tests.spark_bridge.history.engines import (
    FAILING,
    PASSED,
    Asked,
    by_run,
    by_shares,
    note,
    sample,
)
from tests.spark_bridge.history.test_reference import QUERIES, left_out
from tests.spark_tests import EVERYTHING, all_of_spark, long_spark

pytestmark = [pytest.mark.slow]

AGENTS = 4


LATER = "2015-05-17T10:30:00+00:00"
"""One more record of each agent, long after the others: it closes their intervals."""


CLUSTER = "reference"


@cache
def jobs() -> dict[str, str]:
    """Statements of the reference, each as a job: some of them, by `make test-spark` all.

    A statement that reads another job's results comes behind that.
    """
    found = {}
    for at, text in enumerate(QUERIES):
        renamed: dict[str, str] = {}
        for number, statement in enumerate(parse_many(text)):
            name = f"ref.q{at}_{number}"
            if statement.job is not None:
                renamed[statement.job.qualified.replace("/", ".")] = name
            found[name.replace(".", "/")] = as_job(statement, name, renamed)
    beside = next(name for name, text in found.items() if "JOIN LATEST" in text)
    found = {name: text for name, text in found.items() if not left_out(text)}
    plain = [name for name in found if EVERYTHING or "LANGUAGE PYTHON" not in found[name]]
    wanted = {*sample(plain, 8), top(found), beside}
    wanted |= {each for name in wanted for each in reads(found[name])}
    return {name: text for name, text in found.items() if name in wanted}


def top(given: dict[str, str]) -> str:
    """The job of the ten largest of each window."""
    return next(name for name, text in given.items() if "LIMIT 10" in text and "TUMBLE" in text)


def reads(text: str) -> tuple[str, ...]:
    """The jobs whose results a job reads."""
    return read_plan(text).jobs


def as_job(statement: Statement, name: str, renamed: Mapping[str, str]) -> str:
    body = statement.text
    for old, new in renamed.items():
        body = re.sub(rf"\b{old}\b", new, body)
    if statement.job is not None:
        return re.sub(r"DEADLINE '1 s' HORIZON '10 s'", "DEADLINE '30 s' HORIZON '60 s'", body)
    every = "" if statement.window is not None else " EVERY '1 min'"
    return f"CREATE JOB {name}{every} AS\n{body}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    root = tmp_path_factory.mktemp("fleet")
    with Fleet(root) as fleet:
        key = CliRunner().invoke(create_command, [str(root / "key.pem")]).stdout.strip()
        config = root / "agent.toml"
        config.write_text(f"[functions]\npython = 'signed'\nkeys = ['{key}']\n")
        extra = ("-c", str(config), "--cluster", CLUSTER, "--label", "role=web", "--label", "zone=eu-1")
        fleet.start(AGENTS, stream="clicks", options=",format=json,idle=1 h", extra=extra)
        lines = [_line(row) for row in _clicks().to_pylist()]
        end = json.loads(lines[0]) | {"ts": LATER}
        for agent in fleet:
            own = lines[agent.number % AGENTS :: AGENTS]
            fleet.log(agent.number, "clicks").write_text("".join(own) + json.dumps(end) + "\n")
        eventually(
            lambda: len(fleet[0].get("/v1/streams")["streams"][0]["agents"]) == AGENTS, what="all agents"
        )
        yield fleet


def has_closed(fleet: Fleet, name: str, index: int) -> bool:
    return any(each["interval"]["index"] >= index for each in fleet[1].results(name))


def apply(fleet: Fleet, name: str, text: str) -> int:
    """Apply a job, signed if it has Python functions; how many agents it runs on."""
    (statement,) = parse_many(text)
    if not statement.functions:
        answer: dict[str, Any] = eventually(partial(answered, fleet, text), what=f"an answer to {name}")
        return int(answer["expected"])
    # Agents that start its process late are no founding members: a busy machine may take several tries.
    return int(eventually(partial(apply_signed, fleet, name, statement), what=f"all agents of {name}"))


def answered(fleet: Fleet, text: str) -> dict[str, Any] | None:
    """Submit a job; None: the agent that should answer is busy, so that the client is to ask again."""
    try:
        return fleet[0].apply(text)
    except AssertionError as error:
        if ": 503 " not in str(error):
            raise
        return None


def apply_signed(fleet: Fleet, name: str, statement: Statement) -> int:
    """Apply a job with a signature; 0 and it is gone again if it does not run on all agents at once."""
    text = statement.text
    path = fleet.root / "signed.elfql"
    path.write_text(text)
    serial = int(time.time())
    reported = signing.Payload(
        cluster=CLUSTER,
        job=name,
        serial=serial,
        undo_to=serial,
        expires=2**40,
        sha256=signing.text_digest(statement.text),
    )
    private = read_private(str(fleet.root / "key.pem"))
    Path(f"{path}.sig").write_bytes(signing.signed(reported, [private]).encode())
    done = CliRunner().invoke(apply_command, ["-f", str(path), "-o", "json", "--api", fleet[0].api])
    assert done.exit_code == 0, done.output
    if (count := int(json.loads(done.stdout)["expected"])) < AGENTS:
        fleet[0].ask("DELETE", f"/v1/jobs/{name}")
        return 0
    return count


@pytest.fixture(scope="module")
def published(fleet: Fleet) -> dict[str, dict[int, Any]]:
    """Per job its final intervals."""
    refused = []
    for name, text in jobs().items():
        try:
            assert apply(fleet, name, text) == (AGENTS if "clicks" in parse(text).streams else 0), name
        except AssertionError as error:
            refused.append(f"{name}: {error}\n{text}")
    assert not refused, "\n".join(refused)
    found: dict[str, dict[int, Any]] = {}
    for name in jobs():
        wanted = max(index for index, _ in whole(fleet, name) if index < last(name))
        eventually(partial(has_closed, fleet, name, wanted), what=f"the last interval of {name}")
        lines = (encode_json(each) for each in fleet[1].results(name))
        found[name] = {each["interval"]["index"]: each for each in map(parse_line, lines)}
    return found


def last(name: str) -> int:
    """The first interval that the record that comes later is in, or that its session is shown in."""
    window = parse(jobs()[name]).window
    assert window is not None
    later_us = 1_431_858_600 * 1_000_000
    return (later_us - window.size_us) // window.slide_us + 1


def whole(fleet: Fleet, name: str) -> list[tuple[int, list[dict[str, Any]]]]:
    return by_run(asked(fleet, name))[-1]


def asked(fleet: Fleet, name: str) -> Asked:
    joined = fleet.root / "all.ndjson"
    if not joined.exists():
        joined.write_text("".join(fleet.log(agent.number, "clicks").read_text() for agent in fleet))
    text = ";\n".join([*(jobs()[each] for each in reads(jobs()[name])), jobs()[name]])
    return Asked(text, given_inputs({"clicks": (str(joined), "json")}))


def oracles(fleet: Fleet, name: str) -> dict[str, list[tuple[int, list[dict[str, Any]]]]]:
    """What others say of a job."""
    return {"elf run": whole(fleet, name), "shares": by_shares(asked(fleet, name))[-1]}


@all_of_spark
def test_four_agents_give_the_rows_of_one_process_and_of_shares(
    fleet: Fleet, published: dict[str, dict[int, Any]]
) -> None:
    wrong = []
    states = {}
    for name in jobs():
        states[name.removeprefix("ref/")] = PASSED
        end = last(name) - 1
        for engine, answers in oracles(fleet, name).items():
            rows = {index: [parse_line(encode_json(row)) for row in found] for index, found in answers}
            compared = compare(published[name], rows, min(rows), end, 1)
            if not compared or any(one.state != EQUAL for one in compared):
                wrong.append(f"{engine} {jobs()[name]}\n  {compared}")
                states[name.removeprefix("ref/")] = FAILING
    note("reference", ON_AGENTS, states)
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
def test_diff_prints_equal_and_finds_what_differs(
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
    reported = capsys.readouterr()
    assert reported.out.count(": equal, ") == len(indices)
    assert f"{len(indices)} intervals: " in reported.err
    assert ", 0 different" in reported.err
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
