"""Whether a job can read the jobs that it names: what is asked, of whom, and what its client learns."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import BAD_REQUEST, CONFLICT, NOT_FOUND, OK, UNAVAILABLE
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.requests.dependency_check import (
    AGAIN_S,
    ANSWER_S,
    READER_STAYS,
    TRIES,
    Problem,
    check_reads,
    not_for_readers,
    refused_with_readers,
)
from tests.control.closing.rig import manifest_of
from tests.control.contexts import new_context
from tests.control.register.support import MANIFEST, run
from tests.control.upstream.masters import give, questions

READER = manifest_of(
    "CREATE JOB shop.best EVERY '30 s' AS SELECT product, max(hits) AS best FROM shop.top GROUP BY product"
)
TOP, TOP_ELSEWHERE = ids.job_placements("shop/top", "local")
BASE = ids.job_placements("shop/base", "local")[0]
COLUMNS = ["product", "hits"]


class Rig:
    """A check of the job `READER`, whose answers a test gives."""

    def __init__(self, manifest: Manifest = READER) -> None:
        self.context = new_context(1)
        self.outcomes: list[Problem | None] = []
        check_reads(self.context, manifest, self.outcomes.append)

    def asked(self) -> Ask:
        (ask,) = questions(self.context)
        assert ask.verb == "readable"
        return ask

    def answer(self, columns: Any = COLUMNS, reads: Any = (), job: bytes = TOP) -> None:
        ask = self.asked()
        assert ask.job == job
        give(self.context, ask, OK, {"columns": columns, "reads": reads})

    def refusal(self) -> tuple[int, str]:
        (problem,) = self.outcomes
        assert problem is not None
        return problem[0], str(problem[1]["error"])


def test_a_job_can_read_another_that_is_there_and_has_its_fields() -> None:
    rig = Rig()
    rig.answer()
    assert rig.outcomes == [None]


def test_a_job_without_jobs_to_read_needs_no_question() -> None:
    rig = Rig(MANIFEST)
    assert (rig.outcomes, questions(rig.context)) == ([None], [])


def test_a_job_that_is_nowhere_cannot_be_read() -> None:
    rig = Rig()
    for job in (TOP, TOP_ELSEWHERE):
        ask = rig.asked()
        assert ask.job == job
        give(rig.context, ask, NOT_FOUND, {})
    assert rig.refusal() == (BAD_REQUEST, "there is no job shop.top")


@pytest.mark.parametrize(
    ("columns", "problem"), [(["product"], "hits"), ([*COLUMNS, "ts"], "has a column `ts` of its own")]
)
def test_a_job_without_the_fields_cannot_be_read(columns: list[str], problem: str) -> None:
    rig = Rig()
    rig.answer(columns)
    status, text = rig.refusal()
    assert status == BAD_REQUEST
    assert problem in text


def test_a_cycle_is_refused_however_long_it_is() -> None:
    rig = Rig()
    rig.answer(reads=["shop/best"])
    assert rig.refusal() == (BAD_REQUEST, "shop.top reads shop.best: that would be a cycle")
    rig = Rig()
    rig.answer(reads=["shop/base"])
    assert rig.outcomes == []
    rig.answer(["other"], ["shop/best"], BASE)
    assert rig.refusal()[1] == "shop.base reads shop.best: that would be a cycle"


def test_jobs_that_are_read_by_others_may_be_gone_and_are_asked_once() -> None:
    rig = Rig()
    rig.answer(reads=["shop/base", "shop/top", "shop/base"])
    for _ in range(2):
        give(rig.context, rig.asked(), NOT_FOUND, {})
    assert rig.outcomes == [None]


def test_a_master_that_is_silent_is_asked_again_and_then_given_up() -> None:
    rig = Rig()
    for number in range(TRIES):
        assert rig.asked().job == TOP
        begun = rig.context.now
        run(rig.context, begun + ANSWER_S - 0.01)
        assert questions(rig.context) == []
        run(rig.context, begun + ANSWER_S)
        assert len(rig.outcomes) == (number == TRIES - 1)
        run(rig.context, begun + ANSWER_S + AGAIN_S)
    status, text = rig.refusal()
    assert status == UNAVAILABLE
    assert "the master of shop.top, which it reads, does not answer" in text


@pytest.mark.parametrize("body", [{}, {"columns": 7, "reads": []}, {"columns": []}])
def test_an_answer_that_cannot_be_read_is_no_answer(body: dict[str, Any]) -> None:
    rig = Rig()
    give(rig.context, rig.asked(), OK, body)
    assert (rig.outcomes, rig.context.stats["control.malformed"]) == ([], 1)
    run(rig.context, AGAIN_S)
    rig.answer()
    assert rig.outcomes == [None]


def test_every_job_has_its_own_tries() -> None:
    rig = Rig()
    for _ in range(TRIES - 1):
        give(rig.context, rig.asked(), UNAVAILABLE, {})
        run(rig.context, rig.context.now + AGAIN_S)
    rig.answer(reads=["shop/base"])
    give(rig.context, rig.asked(), UNAVAILABLE, {})
    assert rig.outcomes == []


@dataclass
class Led:
    """What the check reads of the term of a master."""

    manifest: Manifest = MANIFEST
    stopping: bool = False
    readers: list[str] = field(default_factory=list)

    @property
    def plan(self) -> Any:
        return read_plan(self.manifest.text)

    @property
    def result_service(self) -> Any:
        return SimpleNamespace(feed=SimpleNamespace(readers=self.readers))

    @property
    def master(self) -> Master:
        return cast(Master, SimpleNamespace(term=self))


OTHER = replace(MANIFEST, text=MANIFEST.text.replace("COUNT(*)", "SUM(n)"))


@pytest.mark.parametrize(
    ("manifest", "runs", "problem"),
    [
        (MANIFEST, None, ""),
        (MANIFEST, OTHER, ""),
        (READER, None, ""),
        (READER, READER, ""),
        (replace(READER, text=f" {READER.text}\n"), READER, ""),
        (READER, MANIFEST, READER_STAYS),
        (MANIFEST, READER, READER_STAYS),
        (replace(READER, narrowed=(("zone", "a"),)), None, "has no canary"),
        (replace(MANIFEST, narrowed=(("zone", "a"),)), None, ""),
    ],
)
def test_a_job_on_no_agent_has_no_next_version_and_no_canary(
    manifest: Manifest, runs: Manifest | None, problem: str
) -> None:
    found = not_for_readers(manifest, None if runs is None else Led(runs).master)
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("led", "verb", "problem"),
    [
        (Led(), "delete", ""),
        (Led(readers=["shop/a", "shop/b"]), "delete", "shop/a, shop/b reads this job"),
        (Led(readers=["shop/a"], stopping=True), "delete", ""),
        (Led(readers=["shop/a"]), "pause", ""),
        (Led(READER), "undo", READER_STAYS),
        (Led(READER), "empty", READER_STAYS),
        (Led(READER), "verify", "verify the job that it reads"),
        (Led(READER), "pause", ""),
        (Led(), "undo", ""),
        (Led(), "verify", ""),
    ],
)
def test_a_job_that_is_read_or_reads_is_refused_some_verbs(led: Led, verb: str, problem: str) -> None:
    found = refused_with_readers(led.master, verb)
    assert (found is None) == (problem == "")
    if found is not None:
        assert found[0] == CONFLICT
        assert problem in str(found[1]["error"])


@pytest.mark.parametrize(("begin_us", "refused"), [(None, False), (5_000_000, False), (90_000_000, True)])
def test_history_does_not_reach_back_further_than_the_results(begin_us: int | None, refused: bool) -> None:
    rig = Rig(replace(READER, since_us=60_000_000))
    give(rig.context, rig.asked(), OK, {"columns": COLUMNS, "reads": [], "begin_us": begin_us})
    if refused:
        status, text = rig.refusal()
        assert status == BAD_REQUEST
        assert "of shop.top begin at 1970-01-01T00:01:30Z, and HISTORY at 1970-01-01T00:01:00Z" in text
    else:
        assert rig.outcomes == [None]
