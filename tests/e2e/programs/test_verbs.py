"""The verbs that ask a running overlay: `elf tap`, `elf query`, and the shell's completion of job names."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import zygote
from tests.e2e.fleet import Fleet, eventually
from tests.patience import PATIENCE_S

JOB = """CREATE JOB shop.top EVERY '10 s' AS
SELECT u, count(*) AS k FROM log WHERE n % 2 = 0 GROUP BY u ORDER BY k DESC"""
COUNT = 200


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.start(2, options=",format=json,idle=500ms")
        for number in range(2):
            with fleet.log(number).open("a") as log:
                for at in range(COUNT):
                    ts = f"2015-05-17T10:00:{at % 30:02}Z"
                    log.write(json.dumps({"ts": ts, "u": f"u{at % 3}\x1b[2J", "n": at}) + "\n")
        fleet[0].apply(JOB)
        eventually(lambda: len(fleet[1].results("shop/top")) >= 3, what="the results")
        yield fleet


def elf(fleet: Fleet, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return zygote.elf(*words, **{"ELF_API": fleet[1].api, **env})


def test_a_query_over_the_newest_result_is_answered_by_any_agent(fleet: Fleet) -> None:
    done = elf(fleet, "query", "SELECT sum(k) AS k, count(*) AS users FROM shop.top", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    last = fleet[0].results("shop/top")[-1]
    assert found["of"][0]["interval"] == last["interval"]
    assert found["rows"] == [{"k": sum(row["k"] for row in last["rows"]), "users": len(last["rows"])}]


def test_a_job_is_tapped_with_its_filter_and_text_is_escaped(fleet: Fleet) -> None:
    words = ("tap", "shop/top", "--beginning", "--limit", "5", "--filter", "n >= 100")
    done = elf(fleet, *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(json.loads(line)["n"] % 2 == 0 and json.loads(line)["n"] >= 100 for line in lines)
    assert f"5 lines shown of {COUNT // 4} that pass, {COUNT} read" in done.stderr
    objects = [json.loads(line) for line in elf(fleet, *words, "-o", "json").stdout.splitlines()]
    assert [each["line"] for each in objects] == lines
    assert {each["source"] for each in objects} == {str(fleet.log(1))}


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        (("nothing",), 1, "there is no stream or job 'nothing'"),
        (("lgo",), 1, "Did you mean log?"),
        (("log", "--filter", "WHERE n > 1 LIMIT 3"), 65, "a filter must be WHERE and a condition"),
        (("log", "--filter", "n >"), 65, "missing"),
        (("log", "--beginning", "--filter", "n > ARRAY(1)"), 65, ""),
        (("log", "--rate", "100000"), 2, "--rate"),
    ],
)
def test_a_tap_that_cannot_be(fleet: Fleet, words: tuple[str, ...], code: int, reported: str) -> None:
    done = elf(fleet, "tap", *words, "--seconds", "5")
    assert (done.returncode, reported in done.stderr) == (code, True), done.stderr


def test_the_route_refuses_more_than_its_limits(fleet: Fleet) -> None:
    wrongs: list[dict[str, object]] = [
        {"rate": 10**6}, {"limit": 0}, {"seconds": 1e9}, {"nonsense": 1}, {"texts": []},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(AssertionError, match="400"):
            fleet[0].ask("POST", "/v1/tap", {"texts": ["SELECT _raw FROM log"], **wrong})


def complete(fleet: Fleet, words: str, **env: str) -> list[str]:
    done = elf(
        fleet, _ELF_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")), **env
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_the_shell_completes_names_of_jobs(fleet: Fleet) -> None:
    assert complete(fleet, "elf results sh") == ["shop/top"]
    assert complete(fleet, "elf pause shop.") == ["shop.top"]
    assert complete(fleet, "elf why other") == []
    assert complete(fleet, "elf rollout undo s") == ["shop/top"]
    assert complete(fleet, "elf describe job sh") == ["shop/top"]
    assert "query" in complete(fleet, "elf qu")
    assert complete(fleet, "elf results sh", ELF_API="127.0.0.1:1") == []


def test_an_agent_that_stops_waits_for_no_tap(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(1)
        command = [sys.executable, "-m", "elfmesh.agent", "tap", "log", "-o", "json", "--api", fleet[0].api]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tap:
            assert tap.stdout is not None
            stop = threading.Event()

            def write() -> None:
                while not stop.wait(0.2):  # until the tap, which begins at the end, has begun
                    with fleet.log(0).open("a") as log:
                        log.write('{"ts": "2015-05-17T10:00:00Z"}\n')

            writer = threading.Thread(target=write)
            writer.start()
            try:
                assert "2015-05-17" in tap.stdout.readline()
            finally:
                stop.set()
                writer.join()
            assert fleet[0].terminate() == 0
            assert tap.wait(PATIENCE_S) in (0, 69)
        assert "Traceback" not in fleet[0].errors()
