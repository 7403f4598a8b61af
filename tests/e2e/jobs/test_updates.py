"""Jobs that change while they run, on real agents (D-16): what the commands say, and every interval's rows.

The oracle of an interval is `elf run` of the text of its version over everything that was written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import zygote
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import Traffic, by_index, oracle
from tests.exhaustive import few
from tests.patience import PATIENCE_S

SHAPE = {"job", "version", "effective_interval", "acknowledged", "expected", "state", "seconds"}
TEXT = """CREATE JOB e2e.{name} DEADLINE '300 s' AS SELECT k, {what} AS n FROM log {where}
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k {end} ORDER BY k"""
ZONES = ("eu", "us", "us")


def text(name: str, *, what: str = "count(*)", where: str = "", end: str = "") -> str:
    return TEXT.format(name=name, what=what, where=where, end=end)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """Three agents in two zones whose logs grow."""
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        for zone in ZONES:
            fleet.start(1, extra=["--label", f"zone={zone}"])
        with Traffic(fleet, list(range(len(ZONES))), every_s=0.02) as traffic:
            yield traffic


def elf(agent: Agent, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    done = zygote.elf(*words, "--api", agent.api, stdin=stdin)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def answered(agent: Agent, *words: str, stdin: str = "") -> dict[str, Any]:
    """What a command that must succeed says with `-o json`: one line, one object."""
    done = elf(agent, *words, "-o", "json", stdin=stdin)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def in_force(agent: Agent, job: str, version: int) -> int:
    """The first interval of a version, once two of its intervals are closed."""

    def there() -> list[int]:
        found = [each["interval"]["index"] for each in agent.results(job) if each["version"] == version]
        return found[:1] if len(found) > 1 else []

    first: int = eventually(there, what=f"version {version}")[0]
    return first


def check(
    traffic: Traffic, job: str, texts: Sequence[str], tmp_path: Path, numbers: Sequence[int] = (0, 1, 2)
) -> list[int]:
    """Every interval there is once, by one version, with what that says; the version of each is returned."""
    results = by_index(traffic.fleet[numbers[0]].results(job))
    paths = []
    for number in numbers:
        paths.append(tmp_path / f"written-{number}.log")
        paths[-1].write_text("".join(line + "\n" for line in list(traffic.written[number])))
    reported = {each: oracle(paths, each) for each in dict.fromkeys(texts)}
    wanted = {index for index in reported[texts[0]] if min(results) <= index <= max(results)}
    assert wanted <= set(results), "no interval is missing"
    whole = [index for index, result in results.items() if result["agents"]["expected"] == len(numbers)]
    assert len(whole) > 1, "an agent that is busy at first comes a little later"
    for index in whole:
        result = results[index]
        assert result["rows"] == reported[texts[result["version"] - 1]][index]["rows"], (index, result)
    assert {result["state"] for result in results.values()} == {"FINAL"}
    versions = [result["version"] for result in results.values()]
    assert versions == sorted(versions), "no version comes back under its old number"
    return versions


def test_versions_change_at_one_interval_and_every_row_is_right(live: Traffic, tmp_path: Path) -> None:
    fleet = live.fleet
    texts = [
        text("top"),
        text("top", where="WHERE v < 50"),
        text("top", where="WHERE v < 50", end="HAVING count(*) > 0"),
        text("top", what="sum(v)"),
    ]
    answer = answered(fleet[0], "apply", "-f", "-", stdin=texts[0])
    assert (answer["state"], answer["version"]) == ("new", 1)
    fleet.apply(texts[0])
    states = ["warm up", "keep", "warm up"]
    first = in_force(fleet[1], "e2e/top", 1)
    for version, (new, state) in enumerate(zip(texts[1:], states, strict=True), 2):
        words = ("update", "e2e/top") if version % 2 else ("apply",)
        answer = answered(fleet[version % 3], *words, "-f", "-", stdin=new)
        assert answer.keys() >= SHAPE
        assert (answer["job"], answer["version"], answer["state"]) == ("e2e/top", version, state)
        assert (answer["acknowledged"], answer["expected"]) == (3, 3)
        assert set(answer["seconds"]) == {"prepare", "activate"}
        assert answer["effective_interval"] > first
        first = in_force(fleet[1], "e2e/top", version)
        assert first == answer["effective_interval"]
    undone = answered(fleet[2], "rollout", "undo", "e2e/top")
    assert (undone["version"], undone["state"], undone["job"]) == (5, "warm up", "e2e/top")
    emptied = answered(fleet[0], "empty", "e2e/top")
    assert (emptied["version"], emptied["state"]) == (6, "reset")
    in_force(fleet[1], "e2e/top", 6)
    status = answered(fleet[1], "rollout", "status", "e2e/top")
    assert (status["version"], status["replaces"], status["in_force"]) == (6, 5, True)
    assert (status["halted"], status["waits_for"]) == ("", [])
    versions = check(live, "e2e/top", [*texts, texts[2], texts[2]], tmp_path)
    assert set(versions) >= {1, 2, 3, 4, 6}


def test_a_dry_run_prints_difference_and_effects_and_changes_nothing(live: Traffic) -> None:
    agent = live.fleet[1]
    old, new = text("dry"), text("dry", what="sum(v)", where="WHERE v > 1")
    would = answered(agent, "apply", "--dry-run", "-f", "-", stdin=old)
    assert (would["state"], would["version"], would["dry_run"]) == ("new", 1, True)
    assert elf(agent, "describe", "job", "e2e/dry").returncode == 1
    answered(agent, "apply", "-f", "-", stdin=old)
    file = f"--@test input=a expect=b\n\n{new};\n"  # what stands around it in a file is no difference
    done = elf(agent, "update", "e2e/dry", "--dry-run", "-f", "-", stdin=file)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line[:1] == "-"] == ["--- running", "-" + old.splitlines()[0]]
    assert [line for line in lines if line[:1] == "+"] == ["+++ applied", "+" + new.splitlines()[0]]
    assert lines[-2] == (
        "e2e/dry version 2 would be warm up: open windows are recomputed from the logs; no record is lost "
        "(another filter)"
    )
    assert lines[-1] == "    k: warm up, n: warm up"
    would = answered(agent, "update", "e2e/dry", "--dry-run", "-f", "-", stdin=new)
    assert would.keys() >= SHAPE
    assert (would["state"], would["version"], would["dry_run"]) == ("warm up", 2, True)
    assert answered(agent, "rollout", "status", "e2e/dry")["version"] == 1


def test_a_canary_runs_beside_its_job_and_becomes_the_version_of_all(live: Traffic, tmp_path: Path) -> None:
    fleet = live.fleet
    old, new = text("bird"), text("bird", what="max(v)")
    fleet.apply(old)
    begun = answered(fleet[1], "update", "e2e/bird", "--canary", "zone=us", "-f", "-", stdin=new)
    assert begun["job"] == "e2e/bird-canary"
    in_force(fleet[2], "e2e/bird-canary", 1)
    status = answered(fleet[0], "rollout", "status", "e2e/bird")
    assert (status["version"], status["canary"]["job"]) == (1, "e2e/bird-canary")
    check(live, "e2e/bird-canary", [new], tmp_path, (1, 2))
    ended = answered(fleet[0], "rollout", "undo", "e2e/bird")
    assert (ended["job"], ended["state"]) == ("e2e/bird-canary", "deleted")
    assert "canary" not in answered(fleet[0], "rollout", "status", "e2e/bird")
    answered(fleet[1], "update", "e2e/bird", "--canary", "zone=eu", "-f", "-", stdin=new)
    promoted = answered(fleet[2], "rollout", "promote", "e2e/bird")
    assert (promoted["job"], promoted["version"], promoted["expected"]) == ("e2e/bird", 2, 3)
    assert "canary" not in answered(fleet[0], "rollout", "status", "e2e/bird")
    assert elf(fleet[0], "results", "e2e/bird-canary").returncode == 1
    in_force(fleet[1], "e2e/bird", 2)
    assert set(check(live, "e2e/bird", [old, new], tmp_path)) == {1, 2}


def test_a_version_that_can_use_no_record_is_taken_back(live: Traffic, tmp_path: Path) -> None:
    agent = live.fleet[2]
    old = text("halted")
    bad = old.replace("TUMBLE(ts", "TUMBLE(nowhere")
    live.fleet.apply(old, 2)
    in_force(agent, "e2e/halted", 1)
    answer = answered(agent, "update", "e2e/halted", "-f", "-", stdin=bad)
    assert (answer["version"], answer["state"]) == (2, "reset")

    def halted() -> Any:
        found = answered(agent, "rollout", "status", "e2e/halted")
        return found["halted"] and found

    status = eventually(halted, what="the halt")
    assert (status["version"], status["replaces"]) == (3, 2)
    assert "of the records of version 2 could not be used" in status["halted"]
    first = in_force(agent, "e2e/halted", 3)
    assert first >= answer["effective_interval"]
    results = by_index(agent.results("e2e/halted"))
    paths = []
    for number, lines in live.written.items():
        paths.append(tmp_path / f"all-{number}.log")
        paths[-1].write_text("".join(line + "\n" for line in list(lines)))
    expected = oracle(paths, old)
    for index, result in results.items():
        assert result["rows"] == ([] if result["version"] == 2 else expected[index]["rows"])


@pytest.mark.parametrize(
    ("words", "stdin", "code", "message"),
    [
        (("update", "e2e/none", "-f", "-"), text("none"), 1, "there is no such job"),
        (("update", "a/b/c", "-f", "-"), text("none"), 2, "is not the name of a job"),
        (("update", "e2e/wrong", "-f", "-"), text("other"), 65, "not of e2e/wrong"),
        (
            ("update", "e2e/wrong", "-f", "-"),
            "CREATE JOB e2e.wrong AS\nSELECT kk( FROM log",
            65,
            "stdin:2:10: ",
        ),
        (("update", "e2e/wrong", "-f", "-", "--canary", "zone"), text("wrong"), 2, "KEY=VALUE"),
        (("update", "e2e/wrong", "-f", "/nowhere/v2.elfql"), "", 1, "/nowhere/v2.elfql"),
        (("rollout", "status", "e2e/none"), "", 1, "there is no such job"),
        (("rollout", "undo", "e2e/none"), "", 1, "there is no such job"),
        (("rollout", "promote", "e2e/none"), "", 1, "no canary"),
        (("rollout", "undo", "e2e/wrong"), "", 1, "there is no version before this one"),
        (("rollout", "promote", "e2e/wrong"), "", 1, "no canary"),
        (("empty", "e2e/none"), "", 1, "there is no such job"),
        (("empty",), "", 2, "Missing argument"),
    ],
)
def test_wrong_use_is_reported_and_changes_nothing(
    live: Traffic, words: tuple[str, ...], stdin: str, code: int, message: str
) -> None:
    agent = live.fleet[0]
    answered(agent, "apply", "-f", "-", stdin=text("wrong"))
    done = elf(agent, *words, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert answered(agent, "rollout", "status", "e2e/wrong")["version"] == 1


@pytest.mark.parametrize(
    "words", [("update", "a/b", "-f", "-"), ("rollout", "undo", "a/b"), ("empty", "a/b")]
)
def test_without_an_agent_the_commands_end_with_69(words: tuple[str, ...], tmp_path: Path) -> None:
    no_client = Agent(tmp_path, 0, [])
    no_client.api = "127.0.0.1:1"
    done = elf(no_client, *words, stdin=text("none"))
    assert (done.returncode, done.stdout) == (69, "")
    assert "no agent answers at 127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("after_s", few((0.35, 0.2, 0.5), 1))
def test_a_master_killed_in_the_midst_finishes_the_change_or_abandons_it(
    tmp_path: Path, after_s: float
) -> None:
    """Whichever it is, once its master is back: one boundary for all, nothing lost, nothing of both."""
    texts = [text("kill"), text("kill", where="WHERE v < 50")]
    with Fleet(tmp_path) as fleet:
        fleet.start(4)
        fleet.apply(texts[0])
        with Traffic(fleet, [0, 1, 2, 3], every_s=0.02) as traffic:
            in_force(fleet[0], "e2e/kill", 1)
            master = fleet[0].get("/v1/jobs/e2e/kill")["master"]
            victim = next(agent for agent in fleet if agent.name == master)
            others = [agent for agent in fleet if agent is not victim]
            command = [sys.executable, "-m", "elfmesh.agent", "apply", "-f", "-", "-o", "json"]
            (tmp_path / "v2.elfql").write_text(texts[1])
            with (tmp_path / "v2.elfql").open() as file:
                client = subprocess.Popen(
                    [*command, "--api", others[0].api],
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            time.sleep(after_s)  # whatever has happened by now: every outcome is checked
            victim.kill()
            reported, notified = client.communicate(timeout=PATIENCE_S)
            victim.start([others[0].overlay])
            victim.wait_ready()
            assert client.returncode in (0, 69), notified
            status = eventually(lambda: status_of(others[0]), what="a master")
            if client.returncode == 0:
                assert json.loads(reported)["version"] == status["version"] == 2
            last = others[0].results("e2e/kill")[-1]["interval"]["index"]
            beyond = max(last, status["effective_interval"]) + 3
            eventually(lambda: others[1].results("e2e/kill", beyond), what="results beyond it")
        versions = check(traffic, "e2e/kill", texts, tmp_path, [agent.number for agent in fleet])
        assert set(versions) == set(range(1, status["version"] + 1))


def status_of(agent: Agent) -> dict[str, Any] | None:
    """The state of the rollout; None as long as there is no master."""
    try:
        agent.get("/v1/jobs/e2e/kill")  # costs less than a command for each look
    except AssertionError:
        return None
    done = elf(agent, "rollout", "status", "e2e/kill", "-o", "json")
    return json.loads(done.stdout) if done.returncode == 0 else None
