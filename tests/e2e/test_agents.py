"""Real processes on loopback: the main job, its failures, and wrong use."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elfmesh import connect
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import LIVE, MORTAL, PATIENT, Traffic, by_index, oracle, written
from tests.e2e.zygote import elf
from tests.exhaustive import few
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.apart

JOB = f"""CREATE JOB e2e.hits {PATIENT} AS SELECT k, count(*) AS n, sum(v) AS s, min(x) AS least
FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY n DESC"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def record(rng: random.Random, second: float) -> str:
    minutes, seconds = divmod(second, 60)
    stamp = f"2015-05-17T10:{int(minutes):02}:{seconds:06.3f}Z"
    return json.dumps(
        {"ts": stamp, "k": rng.choice("abcdef"), "v": rng.randrange(-1000, 1000), "x": rng.random()}
    )


def records(count: int, seconds: float, seed: int = 1) -> list[str]:
    """`count` log lines over so many seconds of event time, in order."""
    rng = random.Random(seed)
    return [record(rng, at * seconds / count) for at in range(count)]


def close(fleet: Fleet, second: float) -> None:
    """A record far behind all others: what came before it is over, however slow this machine is."""
    for agent in fleet:
        append(fleet.log(agent.number), [record(random.Random(0), second)])


def without_closing(results: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """All but the intervals of the closing records, which nothing closes."""
    newest = max(results)
    return {index: result for index, result in results.items() if index < newest - 10}


def append(path: Path, lines: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)


def complete(fleet: Fleet, job: str, expected: dict[int, Any], number: int = 0) -> Any:
    """All results of a job once those of the expected intervals are there."""

    def there() -> Any:
        results = fleet[number].results(job)
        return results and results[-1]["interval"]["index"] >= max(expected) and results

    return by_index(eventually(there, what=f"the result of interval {max(expected)}"))


def test_logs_split_over_agents_give_what_one_process_gives(fleet: Fleet) -> None:
    fleet.start(4, options=",format=json,idle=1 h")
    fleet.apply(JOB, 2)
    lines = records(8000, 100)
    for begin in range(0, len(lines), 400):
        for number in range(4):
            append(fleet.log(number), lines[begin + number : begin + 400 : 4])
        time.sleep(0.05)
    close(fleet, 900)
    expected = without_closing(oracle([fleet.log(number) for number in range(4)], JOB))
    assert len(expected) == 10
    results = complete(fleet, "e2e/hits", expected, number=1)
    for index, result in expected.items():
        assert results[index]["rows"] == result["rows"]
        assert results[index]["counts"] == result["counts"]
        assert results[index]["state"] == "FINAL"
        assert results[index]["completeness"] == 1.0
        assert results[index]["agents"] == {"in": 4, "expected": 4, "missing": []}
    assert verify(fleet[3], "e2e/hits", max(expected)) == (0, "equal")
    tamper(fleet.log(2))
    assert verify(fleet[3], "e2e/hits", max(expected)) == (1, "different")


def tamper(path: Path) -> None:
    """Other keys in the same bytes: nothing that an agent looks at has changed."""
    data = path.read_bytes().replace(b'"k": "a"', b'"k": "b"')
    with path.open("r+b") as file:
        file.write(data)


def verify(agent: Agent, job: str, interval: int) -> tuple[int, str]:
    """What `elf verify` says of a closed interval."""
    done = elf("verify", job, "--interval", interval, "-o", "json", "--api", agent.api)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["state"]


def closed_after(fleet: Fleet, job: str, index: int, number: int = 0) -> dict[int, Any]:
    """All results once an interval above `index` is closed."""

    def there() -> Any:
        results = fleet[number].results(job)
        return results and results[-1]["interval"]["index"] > index and results

    return by_index(eventually(there, what=f"a result above interval {index}"))


@pytest.mark.parametrize("role", few(("the job's master", "a worker"), 1))
def test_a_killed_agent_is_named_as_missing_and_intervals_still_close(
    fleet: Fleet, tmp_path: Path, role: str
) -> None:
    fleet.start(4)
    fleet.apply(MORTAL)
    master = fleet[0].get("/v1/jobs/e2e/live")["master"]
    victim = next(agent for agent in fleet if (agent.name == master) == (role == "the job's master"))
    asked = next(agent.number for agent in fleet if agent is not victim)
    with Traffic(fleet, [0, 1, 2, 3]) as traffic:
        closed_after(fleet, "e2e/live", int(time.time()), asked)
        victim.kill()
        killed = int(time.time())
        traffic.numbers.remove(victim.number)
        closed_after(fleet, "e2e/live", killed + 4, asked)
    oracles: dict[tuple[int, ...], dict[int, Any]] = {(): written(traffic, tmp_path)}
    results = complete(fleet, "e2e/live", oracles[()], asked)
    states = [result["state"] for result in results.values()]
    assert {*states} == {"FINAL", "FINAL_PARTIAL"}
    covered = set[int]()
    for index, result in results.items():
        missing = result["agents"]["missing"]  # on a busy machine also one that seemed dead for a while
        assert (victim.name in missing) or index <= killed
        assert result["agents"] == {"in": 4 - len(missing), "expected": 4, "missing": missing}
        assert result["completeness"] == 1 - len(missing) / 4
        assert result["state"] == ("FINAL_PARTIAL" if missing else "FINAL")
        without = tuple(agent.number for agent in fleet if agent.name in missing)
        if without not in oracles:
            oracles[without] = written(traffic, tmp_path, without=without)
        known = oracles[without].get(index, {"rows": []})  # or only the missing could know of it
        assert result["rows"] == known["rows"]
        covered |= {*range(result["interval"].get("since") or index, index + 1)}
    assert covered >= {index for index in oracles[()] if index >= min(results)}, "no gap"


def test_an_agent_that_comes_back_loses_and_repeats_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(3)
    fleet.apply(LIVE)
    with Traffic(fleet, [0, 1, 2]) as traffic:
        closed_after(fleet, "e2e/live", int(time.time()))
        fleet[1].kill()
        time.sleep(1.5)
        fleet[1].start([fleet[0].overlay])
        fleet[1].wait_ready()
        closed_after(fleet, "e2e/live", int(time.time()) + 1)
    expected = written(traffic, tmp_path)
    results = complete(fleet, "e2e/live", expected)
    assert {index: result["rows"] for index, result in results.items() if index in expected} == {
        index: result["rows"] for index, result in expected.items()
    }
    assert {result["state"] for result in results.values()} == {"FINAL"}


def has_lines(traffic: Traffic, count: int) -> bool:
    return min(map(len, traffic.written.values())) >= count


def test_rename_rotation_under_load_is_exact(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(2, options=",format=json")
    fleet.apply(LIVE)
    with Traffic(fleet, [0, 1], every_s=0.002) as traffic:
        for turn in range(4):
            eventually(partial(has_lines, traffic, 150 * (turn + 1)), what="lines")
            for number in (0, 1):
                path = fleet.log(number)
                path.rename(path.with_name(f"log.log.{turn}"))
    expected = written(traffic, tmp_path)
    results = complete(fleet, "e2e/live", expected)
    assert sum(result["counts"]["contributed"] for result in expected.values()) > 500
    for index, result in expected.items():
        assert results[index]["rows"] == result["rows"]
        assert results[index]["counts"] == result["counts"]


def test_two_jobs_with_different_windows_run_on_one_stream(fleet: Fleet) -> None:
    fleet.start(3, options=",format=json,idle=1 h")
    hopping = JOB.replace("e2e.hits", "e2e.hops").replace(
        "TUMBLE(ts, INTERVAL '10' SECOND)", "HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND)"
    )
    fleet.apply(JOB)
    fleet.apply(hopping, 1)
    lines = records(3000, 60)
    for number in range(3):
        append(fleet.log(number), lines[number::3])
    close(fleet, 900)
    paths = [fleet.log(number) for number in range(3)]
    for job, text in (("e2e/hits", JOB), ("e2e/hops", hopping)):
        expected = without_closing(oracle(paths, text))
        assert len(expected) >= 6
        results = complete(fleet, job, expected, number=2)
        assert {index: results[index]["rows"] for index in expected} == {
            index: result["rows"] for index, result in expected.items()
        }


def test_an_agent_that_joins_late_takes_part_from_a_declared_interval(fleet: Fleet) -> None:
    fleet.start(2)
    fleet.apply(LIVE)
    with Traffic(fleet, [0, 1, 2]) as traffic:
        fleet.log(2).parent.mkdir()
        closed_after(fleet, "e2e/live", int(time.time()))
        fleet.start(1)
        results = eventually(
            lambda: [r for r in fleet[0].results("e2e/live") if r["agents"]["expected"] == 3][3:],
            what="a result with three agents",
        )
        assert all(result["agents"]["in"] == 3 for result in results)
        assert len(traffic.written[2]) > 10


def test_sigterm_ends_an_agent_cleanly_and_others_go_on_at_once(fleet: Fleet) -> None:
    fleet.start(3)
    fleet.apply(MORTAL)
    with Traffic(fleet, [0, 1, 2]):
        closed_after(fleet, "e2e/live", int(time.time()))
        assert fleet[2].terminate() == 0
        closed_after(fleet, "e2e/live", int(time.time()) + 2)
    assert "Traceback" not in fleet[2].errors()


# -- wrong use -------------------------------------------------------------------------------------------


def failing(agent: Agent, *words: str, join: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code and stderr of an agent that must not become ready."""
    command = [*agent.command(join), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "agent", 0, [])


def test_an_address_in_use_is_one_clear_message(agent: Agent) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for option in ("--listen", "--api"):
            code, message = failing(agent, option, address)
            assert code == 1
            assert f"{address} is in use" in message
            assert option in message


def test_agents_of_one_host_need_no_port_for_the_api(tmp_path: Path) -> None:
    """Begun together: one has the usual port, or none where something else has it already."""
    command = [sys.executable, "-m", "elfmesh.agent", "agent", "--listen", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        apis = []
        for name in ("one", "two", "three"):
            started = subprocess.Popen(
                [*command, "--data-dir", str(tmp_path / name)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.enter_context(started)
            stack.callback(started.terminate)
            apis.append(started)
        words = [process.stdout.readline().split() for process in apis if process.stdout]
        addresses = {line[1].removeprefix("api=") for line in words if line[:1] == ["ready"]}
        assert len(addresses) == 3, words
        for address in addresses:
            assert connect(address).get("agents")


def test_addresses_that_others_can_reach_are_refused_without_certificates(agent: Agent) -> None:
    for option in ("--listen", "--api"):
        code, message = failing(agent, option, "0.0.0.0:0")
        assert code == 78
        assert "certificates" in message


def test_an_unreachable_overlay_is_reported_and_ends_with_69(agent: Agent) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        code, message = failing(agent, "--join-timeout", "1.5 s", join=(address,))
    assert code == 69
    assert address in message


def test_a_stream_without_a_file_is_reported_at_the_start(agent: Agent) -> None:
    join = ("--join", "127.0.0.1:1", "--join-timeout", "0.1 s")
    _, message = failing(agent, "--stream", "lost=/nowhere/*.log", *join)
    assert "stream lost: no file is there yet at /nowhere/*.log" in message


def test_a_directory_in_use_is_refused(fleet: Fleet) -> None:
    fleet.start(1)
    code, message = failing(Agent(fleet[0].directory, 1, []))
    assert code == 78
    assert "another agent" in message


@pytest.mark.parametrize(
    ("words", "wanted", "message"),
    [
        (("--stream", "log"), 2, "NAME=PATH"),
        (("--lookup", "log"), 2, "--lookup NAME=PATH"),
        (("--label", "role"), 2, "KEY=VALUE"),
        (("--stream", "log=x,format=jsn"), 78, "format"),
        (("-c", "/nowhere/agent.toml"), 78, "agent.toml"),
    ],
)
def test_malformed_flags_end_with_2_and_wrong_settings_with_78(
    agent: Agent, words: tuple[str, ...], wanted: int, message: str
) -> None:
    code, errors = failing(agent, *words)
    assert code == wanted
    assert message in errors
