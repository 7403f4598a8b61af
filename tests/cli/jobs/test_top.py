"""`elf top`: arithmetic on looks, a live screen in a real terminal, one answer elsewhere."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from elfmesh.cli.entry import run
from elfmesh.cli.jobs.top import top_command
from elfmesh.control.jobs.load import INSECURE, WORST, insecurity, load_of
from elfmesh.errors import NotInstalled
from tests.cli.terminal import Terminal

AGENTS, JOBS = 200, 500


def agent(
    name: str, seconds: float, worst: dict[str, float] | None = None, incarnation: int = 1
) -> dict[str, Any]:
    load = {
        "clock_seconds": seconds,
        "cpu_seconds": seconds / 10,
        "limit_cores": 0.2,
        "rss_bytes": 90_000_000,
        "lines": int(seconds * 1000),
        "behind_seconds": 0.5,
        "jobs": 3,
        "slowed": [],
        "worst": worst or {},
    }
    return {"id": name, "name": name, "incarnation": incarnation, "skew_seconds": 0.01, "load": load}


def test_an_agents_load_is_small_whatever_it_runs() -> None:
    jobs = {f"t/j{n}": {"cpu_seconds": float(n), "watermark_seconds": 50.0 + n} for n in range(JOBS)}
    reported = {
        "job_costs": jobs,
        "processor": {"cpu_seconds": 7.0, "slowed": {"t/j1": "why"}},
        "sources": {},
    }
    load = load_of(reported, 100.0, 5)
    assert load["behind_seconds"] == 50.0
    assert list(load["worst"]) == [f"t/j{JOBS - 1 - n}" for n in range(WORST)]
    assert len(json.dumps(load)) < 600


class Api(BaseHTTPRequestHandler):
    """Answers as an agent of a large overlay; its clocks go on with each look."""

    looks = 0
    mode = "mutual TLS 1.3"

    def do_GET(self) -> None:
        if self.path.startswith("/v1/agents"):
            Api.looks += 1
            at = 100.0 + 2.0 * Api.looks
            rows = [agent(f"web{n:03}", at, {"t/hot": at * 0.3}) for n in range(AGENTS)]
            rows[7]["load"]["cpu_seconds"] = at * 0.9
            rows[7]["security"] = {"mode": Api.mode}
            body: dict[str, Any] = {"agents": rows, "asked": {"answered": AGENTS, "expected": AGENTS}}
        else:
            jobs = [{"job": f"t/j{n:03}", "state": "running", "completeness": 1.0} for n in range(JOBS)]
            jobs[3] |= {"job": "t/evil\x1b[2J", "completeness": 1 / 3}
            body = {
                "jobs": [*jobs, {"job": "t/hot", "state": "running"}],
                "asked": {"answered": AGENTS, "expected": AGENTS},
            }
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_where_the_output_is_no_terminal_there_is_one_answer(
    api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["top", "--api", api, "-o", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == AGENTS
    assert (rows[0]["agent"], rows[0]["cpu_percent"], rows[0]["worst_job"]) == ("web007", 90.0, "t/hot")
    assert run(["top", "--jobs", "--sort", "completeness", "--api", api]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == JOBS + 2
    assert "t/evil\\x1b[2J" in lines[1]
    assert run(["top", "--sort", "nonsense", "--api", api]) == 2


def test_an_agent_that_lets_strangers_in_is_named_in_every_list(
    api: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = (["top"], ["get", "agents"])
    for words in lists:
        assert run([*words, "--api", api]) == 0
        assert "INSECURE" not in "".join(capsys.readouterr())
    monkeypatch.setattr(Api, "mode", INSECURE)
    for words in lists:
        assert run([*words, "--api", api]) == 0
        found = capsys.readouterr()
        (line,) = (line for line in found.out.splitlines() if "web007" in line)
        assert line.rstrip().endswith("INSECURE")
        assert found.out.count("INSECURE") == 1
        assert found.err == "INSECURE NETWORK: any peer that reaches these agents is trusted: web007\n"
    many = [{"name": f"web{n}", "security": {"mode": INSECURE}} for n in range(WORST + 2)]
    assert insecurity(many).endswith("web4 and 2 more")
    for nonsense in ("INSECURE", 7, ["mode"], None):
        assert not insecurity([{"name": "web", "security": nonsense}]), "a row is its agent's own word"


def test_a_terminal_shows_the_worst_of_a_large_overlay_and_obeys_keys(api: str) -> None:
    terminal = Terminal("top", "--api", api, "--every", "0.2")
    text = terminal.wait_for(r"web007.{0,200}90\.0")
    assert f"{AGENTS} agents" in text
    terminal.press("n")
    terminal.wait_for(r"agent\*.*web000.*web001")
    terminal.press("j")
    terminal.wait_for(rf"{JOBS + 1} jobs")
    terminal.press("p")
    text = terminal.wait_for(r"complete\*.*0\.333")
    assert "evil\\x1b[2J" in text
    assert "evil\x1b" not in text
    terminal.press("q")
    assert terminal.end() == 0


def test_an_agent_that_is_away_is_reported_on_the_screen() -> None:
    terminal = Terminal("top", "--api", "127.0.0.1:1", "--every", "0.2")
    terminal.wait_for("no agent|refused|answers")
    terminal.press("q")
    assert terminal.end() == 0


def test_without_textual_the_extra_is_named(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.delitem(sys.modules, "elfmesh.cli.jobs.top_screen", raising=False)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with pytest.raises(NotInstalled, match="textual") as error:
        top_command.main(["--api", api], standalone_mode=False)
    assert "elfmesh[shell]" in error.value.hint
