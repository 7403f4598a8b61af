"""What the history of a run counts as a contribution."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Append, Persist, ReadLog
from elfmesh.errors import DiskFull
from elfmesh.ingest.sources import FilePosition
from elfmesh.machine import Contact, Send
from elfmesh.overlay.messages import Ping
from elfmesh.srt.events import Unsubscribe
from elfmesh.storage.durable import Durable
from elfmesh.storage.framelog import FILE_NAME, FrameLog
from elfmesh.storage.frames import Forgotten, Frame, Sealed
from elfmesh.storage.results.journal import pack
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.storage import DiskStorage
from tests.control.member.support import TEXT
from tests.sim.swarm.judging.aftermath import standing
from tests.sim.swarm.judging.history import History
from tests.sim.swarm.judging.worker_starts import WorkerStarts, goes_out_last, guarded, on_append, on_put_back
from tests.storage.results.records import JOB as JOB_ID
from tests.storage.results.records import record

JOB = f"{b'j'.hex()}:1"
KEY = ("h1", ("sim/ids", "1"))


def after(folder: Path, frames: list[Frame], durable: int) -> list[tuple[int, int, int]]:
    """What is left of a host's contributions if so many of its frames were on disk when it died."""
    history = History(lambda: 0.0)
    history.names[b"j"] = "sim/ids"
    storage = DiskStorage(folder)
    log, size = FrameLog(storage), 0
    for number, frame in enumerate(frames, 1):
        log.append(frame)
        history.noted("h1", frame)
        size = log.size if number == durable else size
    log.close()
    with (folder / FILE_NAME).open("r+b") as file:
        file.truncate(size)
    again = FrameLog(storage)
    history.recovered("h1", again)
    history.recovered("h2", again)
    again.close()
    return [each.place[:3] for each in standing(history.contributions[KEY])]


def test_what_a_power_cut_took_was_never_a_contribution(tmp_path: Path) -> None:
    frames: list[Frame] = [Sealed(JOB, 1, 0, 1), Sealed(JOB, 1, 1, 2), Sealed(JOB, 1, 2, 3)]
    for durable, left in ((3, [(0, 1, 1), (1, 2, 1), (2, 3, 1)]), (1, [(0, 1, 1)]), (0, [])):
        (folder := tmp_path / str(durable)).mkdir()
        assert after(folder, frames, durable) == left


def test_frames_that_were_annulled_count_again_if_that_was_lost(tmp_path: Path) -> None:
    frames: list[Frame] = [
        Sealed(JOB, 1, 0, 1),
        Sealed(JOB, 1, 1, 3),
        Sealed(JOB, 1, 2, 2, seq=1, annuls=2),
        Sealed(JOB, 2, 2, 3, seq=1),
    ]
    for durable, left in (
        (4, [(0, 1, 1), (1, 2, 1), (2, 2, 1), (2, 3, 2)]),
        (3, [(0, 1, 1), (1, 2, 1), (2, 2, 1)]),
        (2, [(0, 1, 1), (1, 3, 1)]),
    ):
        (folder := tmp_path / str(durable)).mkdir()
        assert after(folder, frames, durable) == left


def test_what_a_deleted_job_had_contributed_stays(tmp_path: Path) -> None:
    assert after(tmp_path, [Sealed(JOB, 1, 0, 1), Forgotten(JOB)], 2) == [(0, 1, 1)]


def test_a_frame_that_continues_one_of_the_log_is_noted_with_its_positions(tmp_path: Path) -> None:
    """The frame log does not decode the positions of the frames that it reads."""
    at = FilePosition("access.log", 1, 7, b"g", 4, 30)
    history = History(lambda: 0.0)
    history.names[b"j"] = "sim/ids"
    log = FrameLog(DiskStorage(tmp_path))
    log.append(Sealed(JOB, 1, 0, 1, positions=(at,), read_up_to=((at.at(50), 1),)))
    last = log.last(JOB)
    assert last is not None
    history.noted("h1", last)
    log.close()
    (note,) = history.contributions[KEY]
    assert (note.positions, note.read_up_to) == ({7: 30}, ((7, 50, 1),))


def test_an_error_of_the_history_is_a_bug_of_the_run_and_not_of_the_agent(tmp_path: Path) -> None:
    """The agent would take it for a fault of the job, and the job would wait for its worker."""
    history, log = History(lambda: 0.0), FrameLog(DiskStorage(tmp_path))
    guarded(log.append, partial(history.noted, "h1"), history.unnoticed)(
        Sealed(JOB, 1, 0, 1, positions=("no position",))
    )
    log.close()
    (found,) = history.unnoticed
    assert found.startswith("the history failed on a frame: ")


def test_an_effect_in_front_of_an_epochs_write_is_no_evidence_of_it() -> None:
    before, after = Unsubscribe(b"a" * 20), Unsubscribe(b"b" * 20)
    epoch, roster = Persist("epoch", b"j" * 20, b"\5"), Persist("member", b"j" * 20, b"")
    assert goes_out_last([before, epoch, roster], behind_an_epoch=True) is None
    assert goes_out_last([before, epoch, after, roster], behind_an_epoch=True) is after
    assert goes_out_last([before, roster], behind_an_epoch=False) is before
    assert goes_out_last([roster], behind_an_epoch=False) is None


def test_an_effect_that_overtakes_the_writes_before_it_is_no_evidence_of_them() -> None:
    """An agent says that it is there while its disk is busy; a crash behind that may take the write."""
    after, ping = Unsubscribe(b"b" * 20), Send(Contact(b"p" * 20, "sim", 1), Ping(1))
    assert goes_out_last([after, ping], behind_an_epoch=False) is after
    assert goes_out_last([ping], behind_an_epoch=False) is None


def test_the_first_interval_of_a_workers_versions_counts_as_far_as_a_register_has_closed() -> None:
    notified, job = WorkerStarts(), ("shop/top", "i")
    manifest = new_manifest(read_job(TEXT)[0], TEXT, "local", created=1, incarnation="i")
    notified.closed(job, 1.0, 5)
    for at in (0.5, 1.0, 2.0, 4.0):
        notified.begun("h1", job, at, (Stage(7, manifest, 2), Stage(9, manifest, 3)))
    notified.closed(job, 3.0, 8)
    assert notified.released("h1", job) == [(0.5, FIRST), (1.0, 5), (2.0, 5), (4.0, 7)]
    notified.begun("h2", job, 4.0, ())
    assert notified.released("h2", job) == []


def test_a_record_is_published_when_it_is_written_behind_the_vote_for_it_and_not_when_it_is_wanted() -> None:
    class Full:
        def __init__(self, times: int) -> None:
            self.times, self.done = times, list[object]()

        def write(self, *effects: object) -> None:
            if self.times:
                self.times -= 1
                raise DiskFull("full")
            self.done += effects

    votes, records, noted = Full(1), Full(1), list[Append]()
    state = SimpleNamespace(apply=lambda effects: votes.write(*effects))
    state.forget = lambda kind: []
    log = SimpleNamespace(
        append=records.write,
        write=lambda effects: records.write(*effects),
        prepare=lambda effects: [b"-" for _ in effects],
        put_back=lambda prepared: None,
    )
    durable = Durable(cast("Any", state), cast("Any", log))
    on_append(
        cast("LocalAgent", SimpleNamespace(pump=SimpleNamespace(_outbox=SimpleNamespace(_durable=durable)))),
        noted.append,
    )
    vote = Persist("vote", b"j" * 20, b"")
    append = Append(b"j" * 20, "1", ResultRecord(job="sim/ids", index=5), b"")
    wanted: list[Append | Persist] = [vote, append]
    with pytest.raises(DiskFull):
        durable.write(wanted)
    assert not noted
    with pytest.raises(DiskFull):
        durable.write(wanted)
    assert (noted, wanted) == ([append], [append])
    assert votes.done == [vote, Persist("result", b"\0\0\0\0\0\0\0\2" + b"j" * 20, b"-")]
    durable.write(wanted)
    assert (noted, records.done, wanted) == ([append], [append], [])


def test_a_record_that_the_state_log_has_twice_is_put_back_once(tmp_path: Path) -> None:
    """On a full disk, records that their log has no room for are remembered again by the next try."""
    results, noted = ResultsLogs(tmp_path), list[int]()
    results.append(Append(JOB_ID, "a", record(5), b""))
    on_put_back(results, lambda effect: noted.append(effect.record.index))
    results.put_back([pack(Append(JOB_ID, "a", record(index), b"")) for index in (6, 7, 6, 7)])
    read = results.read(ReadLog(1, JOB_ID, None, None, 9))
    assert [each.index for each, _ in decode_page(read.page)] == [5, 6, 7]
    assert noted == [6, 7]
