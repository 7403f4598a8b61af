"""Signed Python functions on real agents: refused, evaluated, changed, off, gone; other jobs stay exact."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from elfmesh.cli.entry import run as elf
from elfmesh.cli.host.sign import read_private
from elfmesh.control.jobs import signing
from elfmesh.ql import parse_many
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import Traffic, by_index
from tests.ingest.functions.test_evaluator import is_alive

CLUSTER = "functions"
PLAIN = """CREATE JOB fn.plain DEADLINE '300 s' AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
JOB = """CREATE JOB fn.{name} DEADLINE '300 s' AS
WITH FUNCTION f(v BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$
def f(v):
    {body}
$$
SELECT f(v) AS y, count(*) AS n FROM log {on} GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), f(v) ORDER BY y"""
HERE = "ON (py = 'yes')"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
def command_line(words: tuple[str, ...]) -> None:
    raise SystemExit(elf(words))


def run(*words: str) -> Result:
    """`elf`, in this process: what it says, and its exit code."""
    done = CliRunner().invoke(command_line, ["--", *words])
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done


class Site:
    """Two agents that trust two keys, one that runs no Python, and live lines."""

    def __init__(self, root: Path, fleet: Fleet, traffic: Traffic) -> None:
        self.root, self.fleet, self.traffic = root, fleet, traffic

    def job(self, name: str, body: str, *, on: str = HERE) -> Path:
        path = self.root / f"{name}.elfql"
        path.write_text(JOB.format(name=name, body=body, on=on) + ";\n")
        return path

    def signed(self, path: Path, serial: int, *, keys: str = "ab", cluster: str = CLUSTER) -> Path:
        """As `elf sign` does, which would not sign what does not work."""
        (statement,) = parse_many(path.read_text())
        assert statement.job is not None
        reported = signing.Payload(
            cluster=cluster, job=statement.job.qualified, serial=serial, undo_to=serial, expires=2**40,
            sha256=signing.text_digest(statement.text),
        )  # fmt: skip
        private = [read_private(str(self.root / f"{key}.pem")) for key in keys]
        Path(f"{path}.sig").write_bytes(signing.signed(reported, private).encode())
        return path

    def apply(self, path: Path) -> Result:
        return run("apply", "-f", str(path), "-o", "json", "--api", self.fleet[0].api)

    def describe(self, job: str) -> dict[str, Any]:
        done = run("describe", "job", job, "-o", "json", "--api", self.fleet[0].api)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def workers(self, agent: Agent) -> list[int]:
        with_pid = agent.get("/v1/agent")["functions"]["jobs"]
        return [each["pid"] for job in with_pid.values() for each in job if each["pid"]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("functions")
    keys = [run("key", "create", str(root / f"{key}.pem")).stdout.strip() for key in "ab"]
    assert run("key", "create", str(root / "c.pem")).exit_code == 0
    config = root / "agent.toml"
    config.write_text(
        f"[functions]\npython = 'signed'\nkeys = {json.dumps(keys)}\nsignatures = 2\ntime = '1 s'\n"
    )
    with Fleet(root / "fleet") as fleet:
        cluster = ["--cluster", CLUSTER]
        trusting = ["-c", str(config), "--label", "py=yes", *cluster]
        fleet.start(1, extra=[*trusting, "--label", "one=yes"])
        fleet.start(1, extra=trusting)
        fleet.start(1, extra=["--label", "py=no", *cluster])
        with Traffic(fleet, [0, 1, 2], every_s=0.02) as traffic:
            site = Site(root, fleet, traffic)
            (root / "plain.elfql").write_text(PLAIN)
            assert site.apply(root / "plain.elfql").exit_code == 0
            bad = site.signed(site.job("bad", "while v is not None: pass", on="ON (one = 'yes')"), 1)
            assert site.apply(bad).exit_code == 0  # its strikes take their time: meanwhile the others
            yield site


def oracle(site: Site, text: Path, numbers: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    paths = []
    for number in numbers:
        path = site.root / f"written-{number}.log"
        path.write_text("".join(line + "\n" for line in list(site.traffic.written[number])))
        paths.append(str(path))
    words = ["run", "--python", "-f", str(text), *paths, "-o", "json", "--format", "json"]
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    return by_index([json.loads(line) for line in done.stdout.splitlines()])


def check_exact(site: Site, job: str, text: Path, numbers: tuple[int, ...], least: int = 2) -> None:
    """`least` more intervals of a job, whole and equal to what one process makes of all lines."""
    before = len(site.fleet[0].results(job))
    eventually(lambda: len(site.fleet[0].results(job)) >= before + least, what=job)
    published = site.fleet[0].results(job)
    expected = oracle(site, text, numbers)
    assert [each["completeness"] for each in published] == [1.0] * len(published)
    for each in published:
        assert each["rows"] == expected[each["interval"]["index"]]["rows"]


def test_what_is_not_signed_as_wanted_is_refused_by_name(site: Site) -> None:
    path = site.job("refused", "return v")
    refusals: list[tuple[Callable[[], Path], str]] = [
        (lambda: path, "its Python functions are not signed"),
        (
            lambda: site.signed(path, 1, keys="a"),
            "1 trusted keys have signed it, and 2 are required",
        ),
        (lambda: site.signed(path, 1, keys="ac"), "1 trusted keys"),
        (lambda: site.signed(path, 1, cluster="other"), "it was signed for the cluster 'other'"),
    ]
    for prepare, reason in refusals:
        done = site.apply(prepare())
        assert done.exit_code == 65, done.stderr
        assert "agent-0: " in done.stderr or "agent-1: " in done.stderr
        assert reason in done.stderr
    shown = run("describe", "agent", "agent-2", "--api", site.fleet[0].api).stdout
    assert "off by configuration" in shown
    assert "signed by 2 of 2 keys" in run("describe", "agent", "agent-1", "--api", site.fleet[0].api).stdout
    everywhere = site.signed(site.job("everywhere", "return v", on=""), 1)
    done = site.apply(everywhere)
    assert (done.exit_code, "agent-2: Python functions are off here" in done.stderr) == (65, True), (
        done.stderr
    )


def test_a_function_gives_exact_results_and_changes_while_it_runs(site: Site) -> None:
    path = site.signed(site.job("good", "return v % 3"), 1)
    done = site.apply(path)
    assert done.exit_code == 0, done.stderr
    check_exact(site, "fn/good", path, (0, 1))
    assert site.workers(site.fleet[0])
    first = path.read_text(), Path(f"{path}.sig").read_text()

    broken = site.apply(site.signed(site.job("good", "import os; os._exit(3)"), 2))
    assert broken.exit_code == 65
    assert "its functions do not work here: f: the process ended with 3" in broken.stderr

    changed = site.signed(site.job("good", "return None if v is None else -v % 5"), 3)
    answer = site.apply(changed)
    assert answer.exit_code == 0, answer.stderr
    reported = json.loads(answer.stdout)
    assert (reported["version"], reported["acknowledged"], reported["state"]) == (2, 2, "reset")
    effective = reported["effective_interval"]
    found = eventually(
        lambda: [each for each in site.fleet[0].results("fn/good") if each["version"] == 2][1:],
        what="version 2",
    )
    expected = oracle(site, changed, (0, 1))
    for each in found:
        assert each["interval"]["index"] >= effective
        assert each["rows"] == expected[each["interval"]["index"]]["rows"]

    path.write_text(first[0])
    Path(f"{path}.sig").write_text(first[1])
    replayed = site.apply(path)
    assert replayed.exit_code == 65
    assert "serial 1 is older than a version that ran here; the lowest allowed serial is 3" in replayed.stderr


def test_a_function_that_hangs_is_off_and_harms_no_other_job(site: Site) -> None:
    def off() -> list[str]:
        return [text for text in site.describe("fn/bad")["errors"] if "strikes" in text]

    (error, *_) = eventually(off, what="the end of the function")
    limits = r"no answer within (1 s of processor time|10 s)"  # by the clock, on a busy machine
    assert re.search(rf"the functions are off: 3 strikes within 60 s, the last: f: {limits}", error)
    counts = eventually(
        lambda: [
            each["counts"] for each in site.fleet[0].results("fn/bad") if "function_error" in each["counts"]
        ],
        what="its results",
    )
    assert all(each["contributed"] == 0 and each["function_error"] > 0 for each in counts)
    eventually(lambda: site.fleet[0].get("/v1/health")["status"] == "degraded", what="health")
    assert "fn/bad: the functions are off" in site.fleet[0].get("/v1/health")["problem"]
    check_exact(site, "fn/plain", site.root / "plain.elfql", (0, 1, 2))


def test_an_agent_that_was_down_learns_of_a_tombstone_when_it_is_back(site: Site) -> None:
    path = site.signed(site.job("end", "return v % 3"), 4)
    assert site.apply(path).exit_code == 0
    agent = site.fleet[1]
    pids = eventually(lambda: site.workers(agent), what="a worker")
    eventually(lambda: site.fleet[0].results("fn/end"), what="results")
    agent.kill()
    eventually(lambda: not any(is_alive(pid) for pid in pids), what="the end of the workers")

    end = str(site.root / "end.sig")
    words = ("--tombstone", "fn/end", "--serial", "4", "--cluster", CLUSTER, "-o", end)
    revoke = ("revoke", end, "--api", site.fleet[0].api)
    assert run("sign", "--key", str(site.root / "a.pem"), *words).exit_code == 0
    alone = run(*revoke)
    assert (alone.exit_code, "1 trusted keys" in alone.stderr) == (65, True), alone.stderr
    assert run("sign", "--key", str(site.root / "b.pem"), *words).exit_code == 0
    done = run(*revoke)
    assert done.exit_code == 0, done.stderr
    assert "fn/end: revoked; 1 of 2 agents have stored it" in done.stdout

    off = "the functions are off: they were revoked"
    assert f"fn/end: {off}" in site.fleet[0].get("/v1/health")["problem"]
    eventually(lambda: any(off in text for text in site.describe("fn/end")["errors"]), what="the reason")
    assert "serial 4 was revoked" in site.apply(path).stderr

    agent.start([site.fleet[0].overlay])
    agent.wait_ready()
    eventually(lambda: f"fn/end: {off}" in str(agent.get("/v1/health").get("problem")), what="the tombstone")
    assert not any(each["pid"] for each in agent.get("/v1/agent")["functions"]["jobs"].get("fn/end", ()))

    def counted() -> list[dict[str, int]]:
        counts = [each["counts"] for each in site.fleet[0].results("fn/end") if each["version"] > 1]
        return [each for each in counts if each.get("function_error")]

    assert all(each["contributed"] == 0 for each in eventually(counted, what="its results"))
