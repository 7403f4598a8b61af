"""The verifier: reads raw logs and results, and nothing else, and says what is wrong with names.

    python -m tests.chaos.verify DIRECTORY

It shares no code with what made the results, but for the reading of results logs and dead letters. A
directory holds, per agent, its raw logs (`AGENT/log.log*`), its results logs (`AGENT/data/results`) and its
dead letters; `history.ndjson`: all results that any agent gave to a reader while it all went on;
`clients.ndjson`: what clients of a third job asked for and were told; and `settled.json`: by job, the last
interval of a time in which all agents were in again, so that everything up to it has been counted.

    lost          a record of an agent that is not named as missing, in no bucket of its interval
    doubled       a record counted more than once, or in an interval that is not its own
    stray         a record of an agent that is named as missing, or of no agent; the first records of an agent
                  in `partly`, as many as it says, are none
    gaps          intervals that have no record between others that have one
    contradicted  an interval that ended in more than one way, in any two logs or to any two readers
    completeness  a figure that is not what its own record says, or not true
    sums          an aggregate of a complete interval that is not what the raw logs give
    buckets       a record up to the settled interval that is in no bucket, or in two: what is in no row is
                  `late_dropped` or `expired` in some record, or in a dead letter whose outcome is unknown;
                  what is in a dead letter is in no row, unless a prefix has it
    order         what clients were told of a job's changes cannot have happened one after the other
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elfmesh import ids
from elfmesh.agent.data_directory import dead_letter_rows
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import to_json
from elfmesh.control.protocol.events import ReadLog
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.storage.results.logs import ResultsLogs
from tests.chaos.logs import read_raw
from tests.linearizable import NEVER, Asked, explain

IDS, SUMS = "chaos/ids", "chaos/sums"
WIDTH_US = 1_000_000
NAMED_MAX = 50
SETTLED_FILE, CLIENTS_FILE = "settled.json", "clients.ndjson"
IN_ONE_BUCKET = ("contributed", "late_dropped", "expired")
"""Where a record of a storm can be: none is filtered, and none is malformed."""

Result = dict[str, Any]
Raw = dict[int, dict[str, tuple[str, str, int]]]
"""By interval and name of a record: its agent, key and value."""


@dataclass
class Verdict:
    """What was found; `ok` if nothing is wrong.

    Attributes:
        records: in the raw logs, of intervals that are closed.
        counted: in results.
        declared_missing: of agents that a FINAL_PARTIAL names as missing.
        in_prefixes: of missing agents, and nevertheless in a record, which states them.
        declared_late: in the bucket of late records.
        declared_expired: in the bucket of records whose interval was closed without them.
        settled: records up to the settled intervals, of both jobs.
        asked: requests of clients whose outcome is known.
        states: terminal records of the job of ids by state.
        last: last interval that is closed.
    """

    records: int = 0
    counted: int = 0
    declared_missing: int = 0
    in_prefixes: int = 0
    declared_late: int = 0
    declared_expired: int = 0
    settled: int = 0
    asked: int = 0
    states: dict[str, int] = field(default_factory=dict)
    last: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    completeness: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    @property
    def problems(self) -> dict[str, list[str]]:
        """What is wrong, by kind, some names of each."""
        lists = {name: value for name, value in asdict(self).items() if isinstance(value, list)}
        return {name: value[:NAMED_MAX] for name, value in lists.items() if value}

    @property
    def ok(self) -> bool:
        """Whether all is as promised."""
        return not self.problems


def verify(directory: Path) -> Verdict:
    """Look at everything in a directory."""
    agents = _agents(directory)
    raw, verdict = _raw(directory, agents), Verdict()
    settled_file = directory / SETTLED_FILE
    settled = json.loads(settled_file.read_text()) if settled_file.exists() else {}
    _check_order(directory / CLIENTS_FILE, verdict)
    for job in (IDS, SUMS):
        finals = _one_history(job, _all_results(directory, agents, job), verdict)
        if job in settled:
            letters = _letters(directory, agents, job, settled[job])
            _check_buckets(job, settled[job], finals, raw, letters, verdict)
        _unfold(job, finals, min(raw, default=0), verdict)
        if finals:
            _check_gaps(job, finals, raw, verdict)
        for index, result in sorted(finals.items()):
            _check_completeness(job, result, verdict)
            if job == IDS:
                _check_ids(index, result, raw.get(index, {}), verdict)
            elif result["state"] == "FINAL":
                _check_sums(index, result, raw.get(index, {}), verdict)
        if job == IDS and finals:
            verdict.last = max(finals)
            verdict.states = dict(Counter(result["state"] for result in finals.values()))
    return verdict


def in_buckets(directory: Path, job: str, upto: int, finals: dict[int, Result]) -> bool:
    """Whether each record up to an interval is in one bucket of these terminal records, or a dead letter."""
    agents, verdict = _agents(directory), Verdict()
    letters = _letters(directory, agents, job, upto)
    _check_buckets(job, upto, finals, _raw(directory, agents), letters, verdict)
    return not verdict.buckets


def _agents(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if (path / "data").is_dir())


def _raw(directory: Path, agents: Iterable[str]) -> Raw:
    """What was written into the logs."""
    raw: Raw = defaultdict(dict)
    for agent in agents:
        for us, name, key, value in sorted(read_raw(directory / agent), key=lambda each: each[0]):
            assert name not in raw[us // WIDTH_US], "the generator names no record twice"
            raw[us // WIDTH_US][name] = (agent, key, value)
    return raw


def _all_results(directory: Path, agents: Iterable[str], job: str) -> Iterable[tuple[str, Result]]:
    """Every terminal record of a job on any disk or at any client, with where it was found."""
    history = directory / "history.ndjson"
    if history.exists():
        for number, line in enumerate(history.read_text().splitlines(), 1):
            result = json.loads(line)
            if result["job"] == job and result["state"] != "TENTATIVE":
                yield f"history:{number}", result
    for agent in agents:
        logs = ResultsLogs(directory / agent / "data" / "results")
        start: int | None = None
        while True:
            read = logs.read(ReadLog(0, ids.job_id(job, "local"), start, None, 1000))
            assert not read.error, f"{agent}: {read.error}"
            for record, rows in decode_page(read.page):
                yield agent, json.loads(json.dumps(to_json(record, ipc_to_table(rows)), default=int))
            if not read.page or read.next is None:
                break
            start = read.next


def _one_history(job: str, results: Iterable[tuple[str, Result]], verdict: Verdict) -> dict[int, Result]:
    """The terminal record of each interval, of which there is only one."""
    found: dict[int, tuple[str, Result]] = {}
    for where, result in results:
        index = result["interval"]["index"]
        first = found.setdefault(index, (where, result))
        reported, other = _sense(first[1]), _sense(result)
        if reported != other:
            verdict.contradicted.append(
                f"{job} {index}: {first[0]} {_brief(first[1])}, {where} {_brief(result)}"
            )
    return {index: result for index, (_, result) in found.items()}


def _unfold(job: str, finals: dict[int, Result], begin: int, verdict: Verdict) -> None:
    """A record that ends a run of intervals says who is missing in all of them: the rest had nothing."""
    for last, result in sorted(finals.items()):
        since = result["interval"].get("since", last)
        for index in range(begin if since is None else max(since, begin), last):
            if index in finals:
                verdict.contradicted.append(f"{job} {index}: has a record, and {last} {_brief(result)} too")
            nothing = {"interval": {"index": index}, "rows": [], "counts": {"contributed": 0}}
            finals[index] = {**result, **nothing}


def _sense(result: Result) -> str:
    """What a record says; the order of rows without ORDER BY says nothing."""
    rows = sorted(json.dumps(row, sort_keys=True) for row in result["rows"])
    return json.dumps([{**result, "rows": None}, rows], sort_keys=True)


def _brief(result: Result) -> str:
    agents = result["agents"]
    return f"{result['state']} {agents['in']}/{agents['expected']} {len(result['rows'])} rows"


def _check_gaps(job: str, finals: dict[int, Result], raw: dict[int, Any], verdict: Verdict) -> None:
    begin = min([*finals, *raw])
    verdict.gaps += [f"{job} {index}" for index in range(begin, max(finals)) if index not in finals]


def _check_completeness(job: str, result: Result, verdict: Verdict) -> None:
    agents, index = result["agents"], result["interval"]["index"]
    true = (
        agents["in"] + len(agents["missing"]) == agents["expected"]
        and result["completeness"] == agents["in"] / agents["expected"]
        and (result["state"] == "FINAL") == (not agents["missing"])
        and result["state"] in ("FINAL", "FINAL_PARTIAL", "SKIPPED")
    )
    if not true:
        verdict.completeness.append(f"{job} {index}: {_brief(result)} {result['completeness']} {agents}")


def _prefixes(result: Result, raw: dict[str, tuple[str, str, int]]) -> set[str]:
    """The records of missing agents that a record states to be inside: the first ones of their logs."""
    found: set[str] = set()
    for each in result.get("agents", {}).get("partly", ()):
        found |= set([name for name, of in raw.items() if of[0] == each["agent"]][: each["records"]])
    return found


def _check_ids(index: int, result: Result, raw: dict[str, tuple[str, str, int]], verdict: Verdict) -> None:
    missing = set(result["agents"]["missing"])
    counted = Counter({row["id"]: row["n"] for row in result["rows"]})
    prefixes = _prefixes(result, raw)
    expected = {name for name, (agent, _, _) in raw.items() if agent not in missing} | prefixes
    absent = sorted(expected - counted.keys())
    late = result["counts"].get("late_dropped", 0)
    verdict.records += len(raw)
    verdict.counted += counted.total()
    verdict.declared_missing += len(raw) - len(expected)
    verdict.in_prefixes += len(prefixes)
    if result["state"] == "SKIPPED":
        return
    verdict.declared_late += min(late, len(absent))
    if len(absent) > late:
        verdict.lost += [f"{index}: {name} ({result['state']}, {late} late)" for name in absent]
    for name, times in sorted(counted.items()):
        if name not in raw:
            verdict.doubled.append(f"{index}: {name} is of no such interval")
        elif times != 1:
            verdict.doubled.append(f"{index}: {name} is there {times} times")
        elif raw[name][0] in missing and name not in prefixes:
            verdict.stray.append(f"{index}: {name} of {raw[name][0]}, which is named as missing")
    if result["counts"]["contributed"] != counted.total():
        verdict.completeness.append(f"{index}: {result['counts']} but {counted.total()} records")


def _check_sums(index: int, result: Result, raw: dict[str, tuple[str, str, int]], verdict: Verdict) -> None:
    if result["counts"].get("late_dropped"):
        return
    groups: dict[str, list[int]] = defaultdict(list)
    for _, key, value in raw.values():
        groups[key].append(value)
    rows = [
        {"k": key, "n": len(values), "s": sum(values), "lo": min(values), "hi": max(values)}
        for key, values in sorted(groups.items())
    ]
    if rows != result["rows"]:
        verdict.sums.append(f"{index}: {result['rows']} are {rows}")


def _check_order(path: Path, verdict: Verdict) -> None:
    """What the clients' job was told to be could have been (tests.linearizable)."""
    lines = path.read_text().splitlines() if path.exists() else []
    history = [Asked(**each | {"until": each["until"] or NEVER}) for each in map(json.loads, lines)]
    verdict.asked = sum(each.is_known for each in history)
    if why := explain(history):
        verdict.order.append(why)


def _letters(directory: Path, agents: Iterable[str], job: str, upto: int) -> dict[str, list[Result]]:
    """The dead letters of each agent, oldest interval first."""
    found = {}
    for agent in agents:
        folder = directory / agent / "data" / "dead-letter" / job.replace("/", ".")
        files = {str(path): path.read_bytes() for path in folder.glob("*.partial")}
        letters = dead_letter_rows.letters(files)
        found[agent] = [letter for letter in letters if letter["interval"]["index"] <= upto]
    return found


def _check_buckets(
    job: str,
    upto: int,
    finals: dict[int, Result],
    raw: Raw,
    letters: dict[str, list[Result]],
    verdict: Verdict,
) -> None:
    """Each record up to an interval is in one bucket, not in none and not in two; by name if rows have it."""
    written = {name: (index, *of) for index in raw if index <= upto for name, of in raw[index].items()}
    notified: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for index, result in finals.items():
        if index <= upto:
            counts.update(result["counts"])
            notified.update({row["id"]: row["n"] for row in result["rows"]} if job == IDS else {})
    prefixes = {name for index, each in finals.items() for name in _prefixes(each, raw.get(index, {}))}
    unknown = _of_letters(letters, "unknown")
    found = sum(counts[name] for name in IN_ONE_BUCKET) + sum(unknown.values())
    verdict.settled += len(written)
    verdict.declared_expired += counts["expired"]
    by_letter = {
        row["id"]: f"{agent} {dead_letter['interval']['index']}"
        for agent, of in letters.items()
        for dead_letter in of
        for row in (dead_letter["rows"] if job == IDS else ())
    }
    verdict.buckets += [
        f"{job}: {name} is in the rows and in the dead letter of {by_letter[name]}"
        for name in sorted((notified.keys() & by_letter.keys()) - prefixes)
    ]
    if found != len(written):
        absent = Counter(written[name][1] for name in written.keys() - notified.keys()) if job == IDS else {}
        reported = f"{found} records in buckets up to {upto}, {len(written)} were written: {dict(counts)}"
        dead = f"in dead letters {_of_letters(letters, 'left out')}, of an unknown outcome {unknown}"
        verdict.buckets.append(f"{job}: {reported}; {dead}; in no row, by agent {dict(absent)}")


def _of_letters(letters: dict[str, list[Result]], outcome: str) -> dict[str, int]:
    """By agent, the records in its dead letters of this outcome."""
    return {
        agent: sum(
            dead_letter["counts"].get("contributed", 0)
            for dead_letter in of
            if dead_letter["fate"] == outcome
        )
        for agent, of in letters.items()
    }


def main() -> int:
    """Print the verdict as JSON; 1 if anything is wrong."""
    verdict = verify(Path(sys.argv[1]))
    print(json.dumps(asdict(verdict), indent=1))
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
