"""The results logs of all jobs of an agent, by job and incarnation."""

from __future__ import annotations

from pathlib import Path

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.protocol.events import Append, ReadLog
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.storage.results.logs import ResultsLogs
from tests.control.harness import World
from tests.storage.results.records import JOB, record, rows


def test_another_incarnation_begins_an_empty_log(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path / "results")
    logs.append(Append(JOB, "a", record(7), rows(1)))
    logs.append(Append(JOB, "b", record(1), rows(2)))
    read = logs.read(ReadLog(3, JOB, None, None, 10))
    assert [each.index for each, _ in decode_page(read.page)] == [1]
    assert (read.token, read.earliest, read.latest, read.next) == (3, 1, 1, 2)
    ((job, incarnation, latest),) = [
        (each.job, each.incarnation, each.latest) for each in ResultsLogs(tmp_path / "results").found()
    ]
    assert (job, incarnation, latest) == (JOB, "b", 1)


def test_the_log_of_another_incarnation_is_an_empty_one(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    logs.append(Append(JOB, "a", record(7), rows(1)))
    read = logs.read(ReadLog(1, JOB, None, None, 10, "b"))
    assert (read.page, read.earliest, read.latest, read.schema, read.error) == (b"", None, None, b"", "")
    assert logs.read(ReadLog(1, JOB, None, None, 10, "a")).latest == 7


def test_the_first_record_that_a_job_had_is_known_when_it_is_gone(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path / "master", intervals_max=20)
    for index in range(5, 100):
        logs.append(Append(JOB, "a", record(index), rows(index)))
    read = logs.read(ReadLog(1, JOB, None, None, 99))
    assert (read.first, read.earliest and read.earliest > 70) == (5, True)
    assert [info.first for info in ResultsLogs(tmp_path / "master", intervals_max=20).found()] == [5]

    context = World(1)[0].control.context
    copy = LogCopy(context, JOB, "a", None, lambda: ())
    copy.append(read.page, read.first)
    copied = ResultsLogs(tmp_path / "copy")
    copied.append(*(each for each in context.out if isinstance(each, Append)))
    again = ResultsLogs(tmp_path / "copy").read(ReadLog(1, JOB, None, None, 99))
    assert (again.first, again.earliest, again.expired) == (5, read.earliest, None)


def test_a_log_that_is_set_aside_is_read_by_its_name_and_goes_with_the_job(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    for name in ("a", "b"):
        logs.append(Append(JOB, name, record(7), rows(1)))
        logs.drop(JOB, retire=True)
    logs.append(Append(JOB, "c", record(9), rows(2)))

    def latest(logs: ResultsLogs, name: str) -> int | None:
        return logs.read(ReadLog(1, JOB, None, None, 10, name)).latest

    for each in (logs, ResultsLogs(tmp_path)):
        assert [latest(each, name) for name in ("a", "b", "c", "")] == [None, 7, 9, 9]
        assert [info.incarnation for info in each.found()] == ["c"]
    logs.drop(JOB)
    assert [latest(logs, name) for name in ("b", "c", "")] == [None, None, None]
    assert list(tmp_path.iterdir()) == []


def test_a_dropped_log_is_an_empty_one(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    logs.append(Append(JOB, "a", record(7), rows(1)))
    logs.drop(JOB)
    logs.drop(JOB)
    read = logs.read(ReadLog(1, JOB, None, None, 10))
    assert (read.page, read.earliest, read.error) == (b"", None, "")
    assert logs.found() == ()
