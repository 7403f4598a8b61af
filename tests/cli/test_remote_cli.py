from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import Client, connect
from elfmesh.api.client.client_base import api_address
from elfmesh.api.line_parts import place_of
from elfmesh.cli import entry as cli
from elfmesh.cli.common import within
from elfmesh.cli.jobs.commands import apply_command
from elfmesh.cli.jobs.verify import verify_command
from elfmesh.control.answers import BAD_REQUEST, refusal_body
from elfmesh.control.master.verification import SESSIONS
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError, QueryError, RuntimeFailure, Unreachable, UsageError
from tests.control.fakes import FakeBackend, served, table
from tests.patience import PATIENCE_S

TEXT = """-- the shop's best
CREATE JOB shop.top EVERY '10 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""
APPLIED = {
    "job": "shop/top",
    "version": 1,
    "effective_interval": 0,
    "acknowledged": 8,
    "expected": 8,
    "state": "new",
    "seconds": {"prepare": 0.012, "activate": 0.004},
}


@pytest.fixture
def backend() -> FakeBackend:
    fake = FakeBackend()
    fake.replies["apply"] = Reply(0, 200, APPLIED)
    streams = [{"stream": name} for name in ("clicks", "access")]
    fake.lists("streams", streams)
    fake.lists("list", [{"job": "shop/top"}])
    for index in range(5):
        fake.publish(index, table(("apple", index), ("\x1b[2Jbad", 1)))
    return fake


@pytest.fixture
def api(backend: FakeBackend) -> Iterator[str]:
    with served(backend) as address:
        yield address


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.elfql"
    path.write_text(TEXT)
    return path


def elf(*arguments: str, text: str | None = None) -> Result:
    """The whole command, exit codes and all."""

    class Whole(CliRunner):
        def run_all(self) -> Result:
            with self.isolation(input=text) as (out, err, mixed):
                code = cli.run(list(arguments))
                return Result(self, out.getvalue(), err.getvalue(), mixed.getvalue(), None, code, None)

    return Whole().run_all()


def test_apply_says_who_has_it(api: str, job: Path, backend: FakeBackend) -> None:
    ran = elf("apply", "-f", str(job), "--api", api)
    assert ran.exit_code == 0, ran.stderr
    assert "shop/top version 1: new; 8 of 8 agents have it, from the beginning of their logs on" in ran.stdout
    (asked,) = [body for verb, body in backend.asked if verb == "apply"]
    assert asked["text"].strip().startswith("CREATE JOB shop.top")


def test_apply_prints_the_object_of_the_interface(api: str, job: Path) -> None:
    ran = elf("apply", "-f", str(job), "--api", api, "-o", "json")
    assert json.loads(ran.stdout) == APPLIED
    rows = list(csv.DictReader(io.StringIO(elf("apply", "-f", str(job), "--api", api, "-o", "csv").stdout)))
    assert rows[0]["state"] == "new"


def test_apply_reads_stdin(api: str) -> None:
    assert elf("apply", "-f", "-", "--api", api, text=TEXT).exit_code == 0


def test_a_wrong_query_shows_its_line_with_a_caret_and_sends_nothing(
    api: str, tmp_path: Path, backend: FakeBackend
) -> None:
    path = tmp_path / "bad.elfql"
    path.write_text(TEXT.replace("COUNT(*)", "CONT(*)"))
    ran = elf("apply", "-f", str(path), "--api", api)
    assert ran.exit_code == 65
    lines = ran.stderr.splitlines()
    assert f"{path}:3:" in lines[0]
    place = next(number for number, line in enumerate(lines) if line.rstrip().endswith("^"))
    assert lines[place - 1][lines[place].index("^") :].startswith("CONT(*)")
    assert backend.asked == []


def test_a_query_the_agents_refuse_exits_65(api: str, job: Path, backend: FakeBackend) -> None:
    body = {"error": "clicks has no column product", "where": "query:2:8", "line": 2, "column": 8, "code": 65}
    backend.replies["apply"] = Reply(0, 400, body)
    ran = elf("apply", "-f", str(job), "--api", api)
    assert ran.exit_code == 65
    assert "no column product" in ran.stderr
    assert "^" in ran.stderr


def test_what_agents_refuse_is_placed_in_the_file(api: str, tmp_path: Path, backend: FakeBackend) -> None:
    reported = "web1: query:2:8: clicks has no column nosuch\n  There are ts, product."
    body = refusal_body([reported, reported.replace("web1", "web2")], "clicks")
    assert (body["line"], body["column"], body["code"]) == (2, 8, 65)
    backend.replies["apply"] = Reply(0, BAD_REQUEST, body)
    path = tmp_path / "two.elfql"
    path.write_text(TEXT.replace("shop.top", "shop.first") + ";\n\n" + TEXT)
    found = elf("apply", "-f", str(path), "--api", api)
    assert found.exit_code == 65
    assert f"elf: {path}:3:8: clicks has no column nosuch" in found.output
    assert "There are ts, product. Refused by web1 and 1 more agent." in found.output
    second = within(QueryError("x", line=2, column=5), path.read_text(), TEXT.partition("\n")[2], "two")
    assert (second.line, second.column, second.source) == (7, 5, "two")


def test_an_agents_refusal_without_a_place_is_said_as_it_is() -> None:
    body = refusal_body(["web1: no room"], "clicks")
    assert (body["error"], body["where"], body["hint"], body["code"]) == ("web1: no room", "clicks", "", 65)


@pytest.mark.parametrize("interrupted", ["SIG_IGN", "default_int_handler"])
def test_what_waits_for_lines_ends_when_its_reader_does(interrupted: str) -> None:
    code = (
        f"import signal, time; signal.signal(signal.SIGINT, signal.{interrupted});"
        "from elfmesh.cli.common import end_with_reader as e; e(); print(1, flush=True)"
    )
    command = [sys.executable, "-c", f"{code}; time.sleep(9)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waits:
        assert waits.stdout
        assert waits.stderr
        assert waits.stdout.readline() == b"1\n"
        waits.stdout.close()
        assert b"KeyboardInterrupt" in waits.stderr.read()


def test_a_missing_file_and_a_plain_query_are_said(api: str, tmp_path: Path) -> None:
    assert elf("apply", "-f", str(tmp_path / "none"), "--api", api).exit_code == 1
    assert elf("apply", "-f", "-", "--api", api, text="SELECT count(*) FROM clicks").exit_code == 65
    assert elf("apply", "-f", "-", "--api", api, text="-- nothing").exit_code == 65


def test_no_agent_is_69_and_a_wrong_address_2(job: Path) -> None:
    ran = elf("apply", "-f", str(job), "--api", "127.0.0.1:1", "-o", "json")
    assert ran.exit_code == 69
    assert "no agent answers at 127.0.0.1:1" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert elf("get", "jobs", "--api", "nonsense").exit_code == 2
    assert elf("get", "cheese").exit_code == 2


@pytest.mark.parametrize("kind", ["agent", "stream"])
def test_what_is_not_there_is_named_with_what_to_do(api: str, kind: str, backend: FakeBackend) -> None:
    backend.lists(f"{kind}s", [])
    ran = elf("describe", kind, "nope", "--api", api)
    assert ran.exit_code == 1
    assert f"there is no {kind} 'nope'" in ran.stderr
    assert f"elf get {kind}s" in ran.stderr


def test_an_address_that_speaks_no_http_is_named_without_its_bytes() -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(100)
                peer.sendall(b"\x00\x1b[2Jhello\n")

        thread = threading.Thread(target=greet)
        thread.start()
        done = elf("get", "jobs", "--api", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert done.exit_code == 69
    assert "is not an agent's API" in done.stderr
    assert "hello" not in done.stderr


def test_a_follower_goes_on_where_its_agent_broke_off(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading

    monkeypatch.setattr("elfmesh.api.client.client.RETRY_S", 0.01)
    monkeypatch.setattr("elfmesh.api.client.client.RECONNECT_S", 0.2)
    asked: list[str] = []
    ends = [b"", b"7\r\nbrok", b"0\r\n\r\n", b""]

    def serve(server: socket.socket) -> None:
        for index, end in enumerate(ends):
            peer, _ = server.accept()
            with peer:
                asked.append(peer.recv(4000).decode().split()[1])
                line = json.dumps({"interval": {"index": index}}).encode() + b"\n"
                peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                peer.sendall(b"%x\r\n%s\r\n%s" % (len(line), line, end))
        server.close()

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(server,))
    thread.start()
    client = Client(f"127.0.0.1:{server.getsockname()[1]}")
    assert [json.loads(line)["interval"]["index"] for line in client.lines("a", follow=True)] == [0, 1, 2]
    assert [each.partition("from=")[2].partition("&")[0] for each in asked] == ["", "1", "2"]
    with pytest.raises(Unreachable):
        list(client.lines("a", follow=True))
    thread.join()


def test_no_results_from_an_interval_on_is_not_none_at_all(api: str) -> None:
    done = elf("results", "shop/top", "--from", "99", "--api", api)
    assert done.exit_code == 0
    assert "no results from 99 on" in done.stderr


def test_the_address_comes_from_the_environment(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_API", api)
    assert elf("results", "shop/top", "-o", "json").exit_code == 0


def test_results_as_json_are_the_agents_lines(api: str) -> None:
    ran = elf("results", "shop.top", "--api", api, "-o", "json")
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["interval"]["index"] for each in found] == [0, 1, 2, 3, 4]
    limited = elf("results", "shop/top", "--api", api, "-o", "json", "--from", "1", "--limit", "2").stdout
    assert [json.loads(line)["interval"]["index"] for line in limited.splitlines()] == [1, 2]


def test_results_on_a_terminal_never_obey_what_a_log_says(api: str) -> None:
    ran = elf("results", "shop/top", "--api", api)
    assert "interval 3" in ran.stdout
    assert "FINAL" in ran.stdout
    assert "\x1b[2J" not in ran.stdout
    assert "\\x1b[2Jbad" in ran.stdout


def test_results_as_csv_have_one_header(api: str) -> None:
    rows = list(csv.DictReader(io.StringIO(elf("results", "shop/top", "--api", api, "-o", "csv").stdout)))
    assert len(rows) == 10
    assert (rows[2]["interval_index"], rows[2]["product"], rows[2]["hits"]) == ("1", "apple", "1")


def test_following_prints_each_interval_as_it_comes(api: str, backend: FakeBackend) -> None:
    loop = backend.loop

    async def waits_from(index: int) -> None:
        """Return once the follower waits for results from this interval on."""
        asked = backend.asked
        while not any(body.get("from") == index and body.get("wait") for _, body in asked):  # noqa: ASYNC110 - the backend has no event for a request
            await asyncio.sleep(0.01)

    async def later() -> None:
        await waits_from(5)
        await backend.publish_now(9, table(("corn", 1)))
        await waits_from(10)
        async with backend.changed:
            backend.deleted = True
            backend.changed.notify_all()

    future = asyncio.run_coroutine_threadsafe(later(), loop)
    ran = elf("results", "shop/top", "--api", api, "-o", "json", "--follow", "--from", "4")
    future.result(PATIENCE_S)
    assert ran.exit_code == 0, ran.stderr
    assert [json.loads(line)["interval"]["index"] for line in ran.stdout.splitlines()] == [4, 9]


def test_an_unknown_job_is_a_failure_at_run_time(api: str) -> None:
    for command in (["results", "no/job"], ["describe", "job", "no/job"], ["delete", "no/job"]):
        ran = elf(*command, "--api", api)
        assert ran.exit_code == 1, command
        assert "no such job" in ran.stderr
    assert elf("delete", "//", "--api", api).exit_code == 2


def test_lists_and_descriptions_in_every_format(api: str, backend: FakeBackend) -> None:
    row = {"job": "shop/top", "version": 1, "state": "running", "stream": "clicks", "agents": 8, "id": "ab"}
    backend.lists("list", [row])
    agents = [{"name": "web-1", "id": "ff", "address": "127.0.0.1:1", "labels": {"role": "web"}}]
    backend.lists("agents", agents)
    backend.replies["describe"] = Reply(
        0, 200, {**row, "text": TEXT, "roster": {"version": 1, "agents": agents}, "errors": ["x\x1b[m"]}
    )
    assert "running" in elf("get", "jobs", "--api", api).stdout
    assert json.loads(elf("get", "jobs", "--api", api, "-o", "json").stdout) == row
    assert "role=web" in elf("get", "agents", "--api", api).stdout
    described = elf("describe", "job", "shop/top", "--api", api).stdout
    assert "CREATE JOB shop.top" in described
    assert "web-1" in described
    assert "\x1b" not in described
    assert json.loads(elf("describe", "agent", "web-1", "--api", api, "-o", "json").stdout) == agents[0]
    wrong = elf("describe", "agent", "web-2", "--api", api)
    assert wrong.exit_code == 1
    assert "web-1" in wrong.stderr


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_changes_say_their_outcome(api: str, backend: FakeBackend, verb: str) -> None:
    backend.replies[verb] = Reply(0, 200, {**APPLIED, "state": verb})
    ran = elf(verb, "shop/top", "--api", api)
    assert ran.stdout == f"shop/top: {verb} (8 of 8 agents)\n"


def test_the_python_client_answers_in_plain_values(api: str, backend: FakeBackend) -> None:
    client = connect(api)
    assert client.apply(TEXT)["state"] == "new"
    intervals = list(client.results("shop/top", start=3))
    assert [each["interval"]["index"] for each in intervals] == [3, 4]
    assert client.schema("shop/top")["ddl"].endswith("hits BIGINT")
    with pytest.raises(RuntimeFailure, match="no such job"):
        client.describe("no/job")
    with pytest.raises(UsageError):
        client.describe("/")
    with pytest.raises(Unreachable):
        Client("127.0.0.1:1").get("jobs")
    backend.replies["apply"] = Reply(0, 400, {"error": "wrong", "line": 3, "column": 9, "code": 65})
    with pytest.raises(QueryError) as caught:
        client.apply(TEXT)
    assert (caught.value.line, caught.value.column) == (3, 9)


async def test_the_async_client_does_the_same(api: str) -> None:
    async with AsyncClient(api) as client:
        assert (await client.apply(TEXT))["version"] == 1
        found = [each["interval"]["index"] async for each in client.results("shop/top")]
        assert found == [0, 1, 2, 3, 4]
        with pytest.raises(ElfError):
            await client.describe("no/job")


@pytest.mark.parametrize("text", ["", ":", "x", "h:0", "h:99999", "h:p", "http://"])
def test_addresses_are_checked(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELF_API", raising=False)
    if text:
        with pytest.raises(UsageError):
            api_address(text)
    else:
        assert api_address(text) == ("127.0.0.1", 7401)


def test_an_ipv6_address_is_one() -> None:
    assert api_address("[::1]:7401") == ("::1", 7401)
    assert Client("[::1]:7401").address == "[::1]:7401"


def test_a_column_called_state_is_not_taken_for_the_state_of_its_interval() -> None:
    line = b'{"interval":{"index":7},"state":"FINAL","rows":[{"state":"TENTATIVE"}]}'
    assert place_of(json.loads(line)) == (7, 1, 1)


@pytest.mark.parametrize(
    ("state", "error", "helps"),
    [
        ("refused", SESSIONS, "`elf run` over all the raw logs"),
        ("refused", "too many wait already", "Ask again in a moment"),
        ("unknown", "interval 7 has no final record", "`elf results shop/top` lists"),
    ],
)
def test_what_cannot_be_verified_says_what_helps(state: str, error: str, helps: str) -> None:
    backend = FakeBackend()
    found = {"job": "shop/top", "interval": 7, "state": state, "error": error}
    backend.replies["verify"] = Reply(0, 200, found)
    with served(backend) as api, pytest.raises(RuntimeFailure, match=error) as reported:
        verify_command.main(["shop/top", "--interval", "7", "--api", api], standalone_mode=False)
    assert helps in reported.value.hint


def test_a_query_without_a_name_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "q.elfql").write_text("-- which\n  SELECT 1 FROM log\n")
    with pytest.raises(QueryError, match="a query without a name cannot be applied") as reported:
        apply_command.main(["-f", str(tmp_path / "q.elfql")], standalone_mode=False)
    assert (reported.value.line, reported.value.column) == (2, 3)
