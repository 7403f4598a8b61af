from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from elfmesh.cli.jobs.commands import apply_command
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import QueryError
from tests.cli.remote import APPLIED, TEXT, api, backend, elf, job
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend", "job"]


def test_apply_prints_how_many_agents_have_the_job(api: str, job: Path, backend: FakeBackend) -> None:
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


def test_apply_states_that_no_agent_can_stand_by(api: str, tmp_path: Path, backend: FakeBackend) -> None:
    path = tmp_path / "job.elfql"
    path.write_text(TEXT.replace("EVERY", "STANDBY ALL EVERY"))
    standbys = {"budget": "ALL", "across": "rack", "members": [], "of": 1, "kept": {}, "without": {}}
    note = "no other agent is a member, so no agent can stand by"
    layout = {"job": "shop/top", "paths": 0, "across": "", "layout": None, "notes": []}
    answer = layout | {"standbys": standbys | {"reachable": 0.0, "notes": [note]}}
    backend.replies["plan"] = Reply(0, 200, answer)
    assert note in elf("apply", "-f", str(path), "--api", api).stderr
    assert note not in elf("apply", "-f", str(path), "--api", api, "-o", "json").stderr


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


def test_apply_refuses_a_missing_file_and_a_plain_query(api: str, tmp_path: Path) -> None:
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


def test_the_address_comes_from_the_environment(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_API", api)
    assert elf("results", "shop/top", "-o", "json").exit_code == 0


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


def test_a_query_without_a_name_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "q.elfql").write_text("-- which\n  SELECT 1 FROM log\n")
    with pytest.raises(QueryError, match="a query without a name cannot be applied") as reported:
        apply_command.main(["-f", str(tmp_path / "q.elfql")], standalone_mode=False)
    assert (reported.value.line, reported.value.column) == (2, 3)
