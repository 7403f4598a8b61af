"""A real agent under a configuration of its own: namespaces, hidden fields, audit; no secret is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh.ingest.authority.audit_chain import read_entries, verify
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.programs.test_functions import run

SECRET = "hunter2sEcReT"
JOB = "CREATE JOB {job} EVERY '1 s' AS SELECT {what} AS x, count(*) AS n FROM {stream} GROUP BY {what}"
CONFIG = f"""
[namespaces.shop]
streams = ["log"]
jobs = 1
[coordination]
require = {{ "shop/strict" = "Async" }}
[sinks.hook]
type = "webhook"
jobs = ["*"]
url = "https://127.0.0.1:9/{SECRET}?key={SECRET}"
headers = {{ Authorization = "Bearer {SECRET}" }}
[streams.other]
path = "{{root}}/other.log"
format = "json"
"""


class Site:
    def __init__(self, root: Path, agent: Agent) -> None:
        self.root, self.agent = root, agent

    def elf(self, *words: str) -> tuple[int, str]:
        done = run(*words, "--api", self.agent.api)
        return done.exit_code, done.stdout + done.stderr

    def apply(self, job: str, what: str = "path", stream: str = "log") -> tuple[int, str]:
        path = self.root / "job.elfql"
        path.write_text(JOB.format(job=job, what=what, stream=stream))
        return self.elf("apply", "-f", str(path))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("authority")
    (root / "agent.toml").write_text(CONFIG.replace("{root}", str(root)))
    lines = [
        {"ts": "2024-01-01T00:00:00Z", "path": "/a", "password": SECRET, "user": {"token": SECRET, "n": 1}},
        {"ts": "2024-01-01T00:00:01Z", "path": "/b", "headers": {"Cookie": f"sid={SECRET}"}},
    ]
    (root / "in.log").write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + f'{{"password":"{SECRET}",\n'
    )
    (root / "other.log").write_text("")
    with Fleet(root / "fleet") as fleet:
        fleet.start(1, extra=["-c", str(root / "agent.toml"), "--stream", f"log={root}/in.log,format=json"])
        yield Site(root, fleet[0])


def test_what_is_not_granted_is_refused_by_the_agent(site: Site) -> None:
    for job, what, stream, reason in (
        ("bank.a", "path", "log", "the namespace bank may use nothing here"),
        ("shop.a", "path", "other", "the stream other is not granted to shop"),
        ("shop.a", "password", "log", "the field password is hidden here"),
        ("shop.a", "user.token", "log", "the field user.token is hidden here"),
    ):
        code, reported = site.apply(job, what, stream)
        assert (code, reason in reported) == (65, True), reported


def test_a_version_above_the_required_label_is_refused_by_the_agent(site: Site) -> None:
    path = site.root / "strict.elfql"
    path.write_text(
        JOB.format(job="shop.strict", what="path", stream="log").replace(" AS", " ON STRAGGLER SKIP AS", 1)
    )
    code, reported = site.elf("apply", "-f", str(path))
    agent = site.elf("get", "agents", "-o", "csv")[1].splitlines()[1].split(",")[0]
    assert (code, f"{agent}: its label is Async | Run" in reported) == (65, True), reported
    code, reported = site.elf("apply", "-f", str(path), "--require", "Async")
    assert (code, "--require requires Async" in reported) == (1, True), reported


def test_a_job_sees_objects_and_whole_lines_without_what_is_hidden(site: Site) -> None:
    assert site.apply("shop.raw", "concat(coalesce(user, ''), _raw)")[0] == 0
    code, reported = site.apply("shop.second")
    assert (code, "works on 1 jobs of shop already" in reported) == (65, True), reported
    rows = eventually(lambda: site.agent.results("shop/raw"), what="results")
    assert SECRET not in str(rows)
    assert '"token":null' in str(rows)
    assert site.elf("delete", "shop/raw")[0] == 0


def test_live_lines_are_shown_without_what_is_hidden(site: Site) -> None:
    code, reported = site.elf("tap", "log", "--beginning", "--limit", "2")
    assert (code, '"path":"/a"' in reported, SECRET in reported) == (0, True, False), reported
    code, reported = site.elf("tap", "log", "--filter", f"password = '{SECRET}'", "--seconds", "1")
    assert (code, "the field password is hidden" in reported) == (1, True), reported


def test_no_secret_is_in_any_answer_or_log(site: Site) -> None:
    for path in ("/v1/agent", "/v1/agents", "/v1/jobs", "/v1/health", "/v1/streams"):
        assert SECRET not in site.agent.ask("GET", path).decode()
    token = (site.agent.directory / "data" / "api.token").read_text().strip()
    for words in (("describe", "agent", "agent-0"), ("get", "agents"), ("get", "jobs")):
        code, reported = site.elf(*words)
        assert (code, SECRET in reported, token in reported) == (0, False, False)
    written = site.agent.errors() + (site.agent.directory / "data" / "audit.log").read_text()
    assert SECRET not in written
    assert token not in written


def test_a_configuration_that_is_wrong_is_reported_without_the_secret(site: Site) -> None:
    for wrong in (
        CONFIG.replace('type = "webhook"', 'type = "webhooks"'),
        CONFIG.replace("https://127.0.0.1:9", f"https://me:{SECRET}@127.0.0.1:9"),
        CONFIG.replace("https://127.0.0.1:9", f"ftp://{SECRET}"),
    ):
        path = site.root / "wrong.toml"
        path.write_text(wrong.replace("{root}", str(site.root)))
        done = run("validate", str(path))
        assert done.exit_code == 78
        assert SECRET not in done.stdout + done.stderr


def test_an_unidentified_caller_may_look_and_change_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = site.agent.api
    monkeypatch.setenv(
        "HOME", str(tmp_path)
    )  # of a user whose agent it is not: there is no note of its token
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert run("get", "jobs", "--api", agent).exit_code == 0
    for words, need in (
        (("pause", "shop/raw"), "pause needs the role submitter of shop"),
        (("leave",), "leave needs the role operator"),
        (("tap", "log"), "tap needs the role operator"),
    ):
        done = run(*words, "--api", agent)
        assert (done.exit_code, need in done.stderr) == (1, True), done.stderr
        assert "loopback (loopback) has reader" in done.stderr
        assert "Authenticate with a certificate" in done.stderr


def test_every_action_is_in_the_audit_log_which_is_whole(site: Site) -> None:
    directory = site.agent.directory / "data"
    assert verify(directory)[1] >= 5
    found = [entry for _, entry in read_entries(directory / "audit.log")]
    reported = {(each.what, each.source, each.allowed) for each in found}
    assert {("apply", "token", True), ("tap", "token", True), ("run", "overlay", True)} <= reported
    assert {("pause", "loopback", False), ("leave", "loopback", False)} <= reported
    runs = [each for each in found if each.what == "run"]
    assert [(each.job, each.version, len(each.digest)) for each in runs] == [("shop/raw", 1, 64)]
    done = run("audit", "show", str(directory), "--job", "shop/raw")
    assert (done.exit_code, "delete" in done.stdout) == (0, True)
    done = run("audit", "verify", str(directory))
    assert (done.exit_code, "are intact" in done.stdout) == (0, True)
    shown = run("describe", "agent", "agent-0", "-o", "json", "--api", site.agent.api)
    assert json.loads(shown.stdout)["authority"]["audit"]["hash"] == verify(directory)[2]
