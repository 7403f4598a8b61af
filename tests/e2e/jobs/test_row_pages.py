"""Records whose rows are pages of their own, on real agents: every reader gets all rows, or an error."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elfmesh import connect
from elfmesh.api.identity.bearer import TOKEN_FILE
from elfmesh.api.line_parts import whole
from tests.e2e import zygote
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import PATIENT, by_index, oracle

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[3]
KEYS, INTERVALS = 300, 4
JOB = f"""CREATE JOB e2e.words {PATIENT} AS SELECT w, count(*) AS n, sum(v) AS s
FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), w ORDER BY n DESC, w"""
MANY = f"""CREATE JOB e2e.many {PATIENT} AS SELECT w, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), w ORDER BY n DESC, w"""


class SmallPages(Agent):
    """An agent that makes pages of small results."""

    def command(self, join: Sequence[str]) -> list[str]:
        words = super().command(join)
        return [*words[:2], "tests.e2e.jobs.small_pages", *words[3:]]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def start(fleet: Fleet, count: int = 3, options: str = "", extra: Sequence[str] = ()) -> None:
    for number in range(count):
        path = fleet.log(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        stream = f"log={path},format=json,idle=1 h{options}"
        fleet.agents.append(SmallPages(path.parent, number, [stream], extra))
        fleet.agents[-1].environment = {"PYTHONPATH": str(ROOT)}
        fleet[number].start([fleet[0].overlay] if number else [])
        fleet[number].wait_ready()


def write(fleet: Fleet, first: int, last: int) -> None:
    """Lines of intervals; each agent has some of the keys, and some that others have too."""
    for agent in fleet:
        lines = [
            {"ts": 10 * index + 1, "w": f"word-{key:05}", "v": key * (agent.number + 1)}
            for index in range(first, last)
            for key in range(agent.number * 50, KEYS - 50 + agent.number * 25)
        ]
        with fleet.log(agent.number).open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def close(fleet: Fleet, index: int) -> None:
    """What came before an interval far behind all others is over."""
    for agent in fleet:
        with fleet.log(agent.number).open("a") as file:
            file.write(json.dumps({"ts": 10 * index + 1, "w": "end", "v": 0}) + "\n")


def lines_of(agent: Agent) -> list[dict[str, Any]]:
    return agent.results("e2e/words")


def records(agent: Agent, last: int) -> dict[int, dict[str, Any]]:
    def there() -> Any:
        found = list(whole(lines_of(agent)))
        return found and found[-1]["interval"]["index"] >= last and found

    return by_index(eventually(there, what=f"the result of interval {last}"))


def expected(fleet: Fleet) -> dict[int, dict[str, Any]]:
    found = oracle([fleet.log(agent.number) for agent in fleet], JOB)
    return {index: each for index, each in found.items() if index < 100}


def run(agent: Agent, *words: str) -> subprocess.CompletedProcess[str]:
    token = str(agent.directory / "data" / TOKEN_FILE)
    return zygote.elf(*words, "--api", agent.api, ELF_TOKEN_FILE=token)


def elf(agent: Agent, *words: str) -> str:
    done = run(agent, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(agent: Agent, wanted: dict[int, dict[str, Any]]) -> None:
    found = records(agent, max(wanted))
    for index, each in wanted.items():
        assert found[index]["rows"] == each["rows"]
        assert found[index]["counts"] == each["counts"]
        assert (found[index]["state"], found[index]["completeness"]) == ("FINAL", 1.0)


def leader(fleet: Fleet) -> Agent:
    reported = fleet[0].get("/v1/jobs/e2e/words")["master"]
    return next(agent for agent in fleet if agent.name in reported or agent.id in reported)


def pages(agent: Agent) -> list[Path]:
    return sorted((agent.directory / "data" / "results").glob("*/pages/*.page"))


def test_every_reader_gets_all_rows(fleet: Fleet, tmp_path: Path) -> None:
    start(fleet)
    fleet.apply(JOB, 1)
    write(fleet, 0, INTERVALS)
    close(fleet, 1000)
    wanted = expected(fleet)
    assert len(wanted) == INTERVALS
    check(fleet[2], wanted)
    lines = [each for each in lines_of(fleet[0]) if each["interval"]["index"] == 2]
    assert len(lines) > 3
    assert [each["part"] for each in lines] == [*range(1, len(lines) + 1)]
    assert {each["parts"] for each in lines} == {len(lines)}
    shown = [json.loads(line) for line in elf(fleet[1], "results", "e2e/words", "-o", "json").splitlines()]
    assert by_index(list(whole(shown)))[2]["rows"] == wanted[2]["rows"]
    assert elf(fleet[1], "results", "e2e/words", "-o", "csv").count("\n") == 1 + sum(
        len(each["rows"]) for each in wanted.values()
    )
    client = connect(fleet[0].api, token_file=str(fleet[0].directory / "data" / TOKEN_FILE))
    assert by_index(list(client.results("e2e/words", limit=2)))[1]["rows"] == wanted[1]["rows"]
    answer = client.query("SELECT count(*) AS keys, sum(n) AS n FROM e2e.words")
    newest = wanted[INTERVALS - 1]["rows"]
    assert answer.to_pylist() == [{"keys": len(newest), "n": sum(row["n"] for row in newest)}]
    with_arrow = fleet[0].ask("GET", "/v1/jobs/e2e/words/arrow?from=1&to=2")
    table = pa.ipc.open_stream(with_arrow).read_all()
    assert table.select(["w", "n", "s"]).to_pylist() == wanted[2]["rows"]
    reported = json.loads(elf(fleet[2], "verify", "e2e/words", "--interval", "2", "-o", "json"))
    assert (reported["state"], reported["rows"]) == ("equal", len(wanted[2]["rows"]))


def test_followers_of_a_killed_master_go_on_with_all_rows(fleet: Fleet) -> None:
    start(fleet, 4)
    fleet.apply(JOB, 1)
    write(fleet, 0, 2)
    close(fleet, 2)
    records(fleet[0], 1)
    killed = leader(fleet)
    assert pages(killed)
    killed.kill()
    survivors = [agent for agent in fleet if agent is not killed]
    check(survivors[0], {index: each for index, each in expected(fleet).items() if index < 2})
    killed.start([survivors[0].overlay])
    killed.wait_ready()
    write(fleet, 2, INTERVALS)
    close(fleet, 1000)
    wanted = expected(fleet)
    check(survivors[1], wanted)
    voters = [agent for agent in fleet if pages(agent)]
    assert len(voters) >= 3, "a majority of those that vote has the pages"


def test_a_page_that_is_rotten_or_missing_comes_from_another_voter(fleet: Fleet) -> None:
    start(fleet)
    fleet.apply(JOB)
    write(fleet, 0, 2)
    close(fleet, 1000)
    wanted = expected(fleet)
    check(fleet[0], wanted)
    led = leader(fleet)
    broken = pages(led)[1]
    sound = broken.read_bytes()
    broken.write_bytes(sound[:100] + bytes([sound[100] ^ 1]) + sound[101:])
    check(fleet[0], wanted)
    assert broken.read_bytes() == sound, "it was written again"
    assert str(broken) in led.errors()
    broken.unlink()
    check(fleet[0], wanted)
    assert broken.read_bytes() == sound
    for agent in fleet:
        for path in pages(agent):
            if path.name == broken.name:
                path.unlink()
    with pytest.raises(http.client.IncompleteRead):  # a part is not given for the whole
        lines_of(fleet[0])
    done = run(fleet[1], "results", "e2e/words", "-o", "json")
    assert (done.returncode, "is lost" in done.stderr) == (1, True)


@pytest.mark.exhaustive
def test_a_result_of_a_million_keys_is_delivered(fleet: Fleet, tmp_path: Path) -> None:
    each = 333_440
    sink = tmp_path / "sink.toml"
    sink.write_text(f'[sinks.files]\ntype = "parquet"\njobs = ["e2e/*"]\npath = "{tmp_path}/parquet"\n')
    fleet.start(1, options=",format=json,idle=1 h", extra=["-c", str(sink)])
    fleet.start(2, options=",format=json,idle=1 h")
    fleet.apply(MANY, 1)
    for agent in fleet:
        with fleet.log(agent.number).open("a") as file:
            for key in range(agent.number * each, (agent.number + 1) * each):
                file.write(f'{{"ts":1,"w":"word-{key:07}"}}\n')
    close(fleet, 1000)

    def there() -> Any:
        found = [json.loads(line) for line in elf(fleet[2], "results", "e2e/many", "-o", "json").splitlines()]
        return [line for line in found if line["interval"]["index"] == 0]

    lines = eventually(there, what="the result")
    assert [line["part"] for line in lines] == [*range(1, lines[0]["parts"] + 1)]
    assert {(line["state"], line["completeness"]) for line in lines} == {("FINAL", 1.0)}
    assert lines[0]["counts"]["contributed"] == 3 * each
    rows = [row for line in lines for row in line["rows"]]
    assert rows == [{"w": f"word-{key:07}", "n": 1} for key in range(3 * each)]
    reported = json.loads(elf(fleet[1], "verify", "e2e/many", "--interval", "0", "-o", "json"))
    assert (reported["state"], reported["rows"]) == ("equal", 3 * each)

    def written() -> Any:
        found = [pq.read_table(path, columns=["w", "n"]) for path in tmp_path.glob("parquet/**/*.parquet")]
        return sum(table.num_rows for table in found) >= 3 * each and pa.concat_tables(found)

    table = eventually(written, what="the result in the sink")
    assert table.num_rows == 3 * each
    assert table["w"].to_pylist() == [row["w"] for row in rows]
    assert set(table["n"].to_pylist()) == {1}
