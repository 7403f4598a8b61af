"""The verifier sees what is wrong: each kind of wrong is made by hand, and found by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from elfmesh import ids
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import NOT_COUNTED, Partly, ResultRecord
from elfmesh.control.protocol.events import DeadLetter
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage.deadletters import DeadLetters
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.storage import MemoryStorage
from tests.chaos.logs import NAME, read_raw
from tests.chaos.verify import CLIENTS_FILE, IDS, SETTLED_FILE, SUMS, Verdict, in_buckets, verify
from tests.ql.sessions import partials

BASE = 1_795_000_000
AGENTS = ("agent-0", "agent-1", "agent-2")
Records = dict[str, dict[int, tuple[ResultRecord, list[dict[str, Any]]]]]


def names(index: int) -> list[str]:
    return [f"{agent}-{index - BASE}{number}" for agent in AGENTS for number in range(2)]


def truth() -> Records:
    """What three agents with two records a second give over five seconds."""
    found: Records = {IDS: {}, SUMS: {}}
    for index in range(BASE, BASE + 5):
        common: dict[str, Any] = {
            "index": index,
            "start_us": index * 10**6,
            "end_us": (index + 1) * 10**6,
            "agents_in": 3,
            "agents_expected": 3,
            "counts": {"contributed": 6},
        }
        rows: list[dict[str, Any]] = [{"id": name, "n": 1} for name in names(index)]
        found[IDS][index] = (ResultRecord(job=IDS, **common), rows)
        sums: list[dict[str, Any]] = [{"k": "a", "n": 6, "s": 42, "lo": 7, "hi": 7}]
        found[SUMS][index] = (ResultRecord(job=SUMS, **common), sums)
    return found


def changed(records: Records, index: int, job: str = IDS, **changes: Any) -> None:
    record, rows = records[job][index]
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    records[job][index] = (ResultRecord(**{**fields, **changes}), rows)


def written(directory: Path, logs: dict[str, Records]) -> Verdict:
    """The verdict on three agents' raw logs and these results logs."""
    for agent in AGENTS:
        home = directory / agent
        (home / "data" / "results").mkdir(parents=True, exist_ok=True)
        lines: list[str] = []
        for index in range(BASE, BASE + 5):
            stamp = ts(index)
            mine = [name for name in names(index) if name.startswith(agent)]
            lines += [json.dumps({"ts": stamp, "id": name, "k": "a", "v": 7}) for name in mine]
        (home / NAME).write_text("".join(line + "\n" for line in lines[5:]))
        (home / f"{NAME}.1").write_text("".join(line + "\n" for line in lines[:5]))
    for agent, records in logs.items():
        for job, intervals in records.items():
            path = directory / agent / "data" / "results" / ids.job_id(job, "local").hex()
            log = ResultsLog(path, "one")
            for record, rows in intervals.values():
                log.append(record, table_to_ipc(pa.Table.from_pylist(rows)))
            log.sync()
    return verify(directory)


def ts(index: int) -> str:
    return datetime.fromtimestamp(index, UTC).strftime("%Y-%m-%dT%H:%M:%S") + ".500000Z"


def test_what_is_right_is_right(tmp_path: Path) -> None:
    verdict = written(tmp_path, {"agent-0": truth(), "agent-2": truth()})
    assert verdict.ok, verdict.problems
    assert (verdict.records, verdict.counted, verdict.states) == (30, 30, {"FINAL": 5})
    assert len(read_raw(tmp_path / "agent-1")) == 10


TEXT = """CREATE JOB chaos.ids EVERY '1 s' AS
SELECT k AS id, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def missing(records: Records, index: int, job: str = IDS) -> None:
    """Take what agent-0 has of an interval out."""
    partial: dict[str, Any] = {"state": "FINAL_PARTIAL", "agents_in": 2, "completeness": 2 / 3}
    changed(records, index, job, missing=["agent-0"], counts={"contributed": 4}, **partial)
    if job == IDS:
        del records[IDS][index][1][:2]


def settle(directory: Path, **upto: int) -> None:
    settled = {f"chaos/{name}": index for name, index in upto.items()}
    (directory / SETTLED_FILE).write_text(json.dumps(settled))


def dead_letter(directory: Path, agent: str, index: int, *, unknown: bool = False) -> None:
    """What this agent had of an interval."""
    mine = [(index * 10**6, name, 1) for name in names(index) if name.startswith(agent)]
    (payloads,) = partials(TEXT, mine).values()
    counts = (len(mine), *NOT_COUNTED[1:])
    manifest = new_manifest(read_job(TEXT)[0], TEXT, "local", created=0, incarnation="one")
    storage = MemoryStorage()
    DeadLetters(storage, agent).write(DeadLetter(manifest, index, counts, tuple(payloads), unknown))
    (name,) = storage.names("dead-letter/")
    path = directory / agent / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(storage.read(name) or b"")


def test_what_is_in_no_row_is_expired_late_or_in_a_dead_letter_whose_outcome_is_unknown(
    tmp_path: Path,
) -> None:
    """In each record two of the three ways, of two intervals that lack an agent."""
    for name, counts, unknown in (
        ("expired", {"expired": 4}, []),
        ("late", {"expired": 2, "late_dropped": 2}, []),
        ("unknown", {"expired": 2}, [BASE + 1]),
    ):
        records = truth()
        missing(records, BASE + 1)
        missing(records, BASE + 2)
        changed(records, BASE + 3, counts={"contributed": 6, **counts})
        home = tmp_path / name
        written(home, {"agent-0": records})
        for index in (BASE + 1, BASE + 2):
            dead_letter(home, "agent-0", index, unknown=index in unknown)
        settle(home, ids=BASE + 3)
        verdict = verify(home)
        assert verdict.ok, verdict.problems
        assert verdict.settled == 24
        assert verdict.declared_expired == counts["expired"]


@pytest.mark.parametrize("expired", [0, 1, 3])
def test_a_record_in_no_bucket_and_one_in_two_are_found(tmp_path: Path, expired: int) -> None:
    records = truth()
    missing(records, BASE + 1)
    changed(records, BASE + 2, counts={"contributed": 6, "expired": expired})
    written(tmp_path, {"agent-0": records})
    assert verify(tmp_path).ok, "nothing is settled"
    settle(tmp_path, ids=BASE + 3)
    (notified,) = verify(tmp_path).problems["buckets"]
    assert f"{22 + expired} records in buckets up to {BASE + 3}, 24 were written" in notified
    assert "'agent-0': 2" in notified


def test_a_storm_is_not_settled_before_what_was_left_out_is_counted(tmp_path: Path) -> None:
    written(tmp_path, {})
    finals: dict[int, dict[str, Any]] = {}
    for index in range(BASE, BASE + 4):
        inside = [name for name in names(index) if index != BASE + 1 or not name.startswith("agent-0")]
        counts = {"contributed": len(inside), "expired": 2 if index == BASE + 3 else 0}
        finals[index] = {"counts": counts, "rows": [{"id": name, "n": 1} for name in inside]}
    assert [in_buckets(tmp_path, IDS, upto, finals) for upto in finals] == [True, False, False, True]


def test_a_record_in_a_row_and_in_a_dead_letter_is_found_by_name(tmp_path: Path) -> None:
    records = truth()
    written(tmp_path, {"agent-0": records})
    dead_letter(tmp_path, "agent-1", BASE + 1)
    settle(tmp_path, ids=BASE + 3)
    notified = verify(tmp_path).problems["buckets"]
    assert [each.split()[1] for each in notified] == ["agent-1-10", "agent-1-11"]


def test_what_a_job_without_names_has_adds_up_too(tmp_path: Path) -> None:
    records = truth()
    written(tmp_path, {"agent-0": records})
    settle(tmp_path, sums=BASE + 4)
    assert verify(tmp_path).ok
    changed(records, BASE + 2, SUMS, counts={"contributed": 6, "expired": 1})
    written(tmp_path / "other", {"agent-0": records})
    settle(tmp_path / "other", sums=BASE + 4)
    assert [*verify(tmp_path / "other").problems] == ["buckets"]


def test_answers_to_clients_that_cannot_have_happened_are_found(tmp_path: Path) -> None:
    written(tmp_path, {"agent-0": truth()})
    new = {"verb": "apply", "since": 1.0, "until": 2.0, "text": "a", "status": 200}
    made = {**new, "body": {"state": "new", "version": 1}}
    silent = {**new, "verb": "update", "text": "b", "since": 3.0, "until": None, "status": 0, "body": {}}
    read = {**new, "verb": "describe", "text": "", "since": 4.0, "until": 5.0}
    for version, kinds in ((1, []), (2, []), (3, ["order"])):
        notified = {**read, "body": {"version": version, "state": "running", "incarnation": "i"}}
        lines = "".join(json.dumps(each) + "\n" for each in (made, silent, notified))
        (tmp_path / CLIENTS_FILE).write_text(lines)
        verdict = verify(tmp_path)
        assert [*verdict.problems] == kinds
        assert verdict.asked == 2


def lose(records: Records) -> None:
    records[IDS][BASE + 1][1].pop(0)


def double(records: Records) -> None:
    records[IDS][BASE + 1][1][0]["n"] = 2


def misplace(records: Records) -> None:
    records[IDS][BASE + 1][1][0]["id"] = names(BASE + 2)[0]


def invent(records: Records) -> None:
    records[IDS][BASE + 1][1].append({"id": "nobody-7", "n": 1})


def leave_out(records: Records) -> None:
    del records[IDS][BASE + 2]


def begin_late(records: Records) -> None:
    del records[SUMS][BASE]


def boast(records: Records) -> None:
    changed(records, BASE + 1, completeness=0.5)


def deny(records: Records) -> None:
    changed(records, BASE + 1, state="FINAL_PARTIAL")


def miscount(records: Records) -> None:
    changed(records, BASE + 1, counts={"contributed": 5})


def name_one_who_is_in(records: Records) -> None:
    changed(records, BASE + 1, state="FINAL_PARTIAL", agents_in=2, completeness=2 / 3, missing=["agent-0"])


def miscalculate(records: Records) -> None:
    records[SUMS][BASE + 3][1][0]["s"] = 41


@pytest.mark.parametrize(
    ("wrong", "kind", "named"),
    [
        (lose, "lost", "agent-0-10"),
        (double, "doubled", "agent-0-10"),
        (misplace, "lost", "agent-0-10"),
        (misplace, "doubled", "agent-0-20"),
        (invent, "doubled", "nobody-7"),
        (leave_out, "gaps", str(BASE + 2)),
        (begin_late, "gaps", str(BASE)),
        (boast, "completeness", str(BASE + 1)),
        (deny, "completeness", str(BASE + 1)),
        (miscount, "completeness", str(BASE + 1)),
        (name_one_who_is_in, "stray", "agent-0-10"),
        (miscalculate, "sums", str(BASE + 3)),
    ],
)
def test_each_kind_of_wrong_is_found(
    tmp_path: Path, wrong: Callable[[Records], None], kind: str, named: str
) -> None:
    records = truth()
    wrong(records)
    problems = written(tmp_path, {"agent-0": records}).problems
    assert any(named in each for each in problems[kind]), problems


def test_two_logs_that_end_an_interval_in_two_ways_are_a_contradiction(tmp_path: Path) -> None:
    other = truth()
    changed(other, BASE + 4, state="FINAL_PARTIAL", agents_in=2, completeness=2 / 3, missing=["agent-1"])
    del other[IDS][BASE + 4][1][2:4]
    verdict = written(tmp_path, {"agent-0": truth(), "agent-1": other})
    assert any(f"{IDS} {BASE + 4}" in each for each in verdict.contradicted)


def test_a_final_record_that_a_reader_received_otherwise_is_a_contradiction(tmp_path: Path) -> None:
    written(tmp_path, {"agent-0": truth()})
    notified = {
        "job": IDS,
        "interval": {"index": BASE + 1, "start": "", "end": ""},
        "state": "FINAL",
        "completeness": 1.0,
        "counts": {"contributed": 0},
        "agents": {"in": 3, "expected": 3, "missing": []},
        "rows": [],
    }
    (tmp_path / "history.ndjson").write_text(json.dumps({**notified, "state": "TENTATIVE"}) + "\n")
    assert verify(tmp_path).ok
    (tmp_path / "history.ndjson").write_text(json.dumps(notified) + "\n")
    assert "contradicted" in verify(tmp_path).problems


def test_late_and_missing_records_are_declared_and_not_lost(tmp_path: Path) -> None:
    records = truth()
    records[IDS][BASE + 1][1].pop(0)
    changed(records, BASE + 1, counts={"contributed": 5, "late_dropped": 1})
    changed(
        records,
        BASE + 2,
        state="FINAL_PARTIAL",
        agents_in=2,
        completeness=2 / 3,
        missing=["agent-0"],
        counts={"contributed": 4},
    )
    del records[IDS][BASE + 2][1][:2]
    verdict = written(tmp_path, {"agent-0": records})
    assert verdict.ok, verdict.problems
    assert (verdict.declared_late, verdict.declared_missing) == (1, 2)


def test_a_record_may_end_a_run_of_intervals_that_lack_the_same_agents(tmp_path: Path) -> None:
    records = truth()
    all_agents: dict[str, Any] = {
        "state": "FINAL_PARTIAL",
        "agents_in": 0,
        "completeness": 0.0,
        "missing": list(AGENTS),
    }
    changed(records, BASE + 2, since=BASE + 1, counts={"contributed": 0}, **all_agents)
    records[IDS][BASE + 2][1].clear()
    del records[IDS][BASE + 1]
    verdict = written(tmp_path, {"agent-0": records})
    assert verdict.ok, verdict.problems
    assert verdict.declared_missing == 12
    assert verdict.states == {"FINAL": 3, "FINAL_PARTIAL": 2}


def test_an_agent_that_is_not_missing_from_a_run_had_nothing_in_it(tmp_path: Path) -> None:
    records = truth()
    one: dict[str, Any] = {
        "state": "FINAL_PARTIAL",
        "agents_in": 2,
        "completeness": 2 / 3,
        "missing": ["agent-0"],
    }
    changed(records, BASE + 2, since=BASE + 1, counts={"contributed": 4}, **one)
    del records[IDS][BASE + 2][1][:2]
    del records[IDS][BASE + 1]
    lost = written(tmp_path, {"agent-0": records}).problems["lost"]
    assert len(lost) == 4


def test_a_run_that_covers_an_interval_with_a_record_is_a_contradiction(tmp_path: Path) -> None:
    records = truth()
    changed(records, BASE + 2, since=BASE + 1)
    assert "contradicted" in written(tmp_path, {"agent-0": records}).problems


@pytest.mark.parametrize(("kept", "is_right"), [(0, True), (1, False)])
def test_a_prefix_has_the_first_records_of_its_agent(tmp_path: Path, kept: int, is_right: bool) -> None:
    records = truth()
    missing(records, BASE + 1)
    prefix = (Partly(0, "agent-0", (BASE + 1) * 10**6 + 500_000, 1, 0),)
    changed(records, BASE + 1, counts={"contributed": 5}, partly=prefix)
    records[IDS][BASE + 1][1].append({"id": names(BASE + 1)[kept], "n": 1})
    verdict = written(tmp_path, {"agent-0": records})
    assert verdict.ok is is_right, verdict.problems
    assert verdict.in_prefixes == 1
    assert set(verdict.problems) == (set() if is_right else {"lost", "stray"})
