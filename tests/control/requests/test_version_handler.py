"""What clients want of a running job's versions: what changes, what is refused, and what a dry run says."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.answers import AGAIN, CONFLICT, OK, read_answer
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import Answered, Ask, Submit
from elfmesh.control.requests.precondition import LOOK, Seen, seen_of
from elfmesh.control.requests.version_handler import VersionHandler, changes, runs_already, status
from elfmesh.machine import Send
from tests.control.member.support import TEXT
from tests.control.register.support import STRANGER
from tests.control.requests.led import JOB, Led, shown

TOKEN = 9
OTHER = TEXT.replace("GROUP BY", "WHERE product <> 'beer' GROUP BY")
RENUMBERED = TEXT.replace("'10", "'20")


class Rig(Led):
    """A handler of versions beside a running job, and what it hands back."""

    def __init__(self) -> None:
        super().__init__()
        self.begun_again: list[tuple[Master, Submit]] = []
        self.taken_again: list[Submit | Ask] = []
        self.handler = VersionHandler(self.context, self._begin_again, self.taken_again.append)
        self.context.out.clear()

    def _begin_again(self, master: Master, message: Submit) -> None:
        self.begun_again.append((master, message))

    def tag(self, **fields: Any) -> str:
        return str(seen_of(self.master.term.terms)._replace(**fields))

    def submit(self, text: str, **fields: Any) -> Submit:
        manifest = replace(self.master.term.manifest, text=text, incarnation=fields.pop("incarnation", "new"))
        manifest = replace(manifest, **fields.pop("manifest", {}))
        seen = fields.pop("seen", self.tag())
        message = Submit(manifest, STRANGER, TOKEN, seen=seen, **fields)
        self.handler.submitted(self.master, message)
        return message

    def ask(self, verb: str, tag: str | None = None) -> None:
        ask = Ask(verb, JOB, b"{}", STRANGER, TOKEN)
        seen = self.tag() if tag is None else tag
        (self.handler.pause if verb in ("pause", "resume") else self.handler.asked)(self.master, ask, seen)

    def answers(self) -> list[tuple[int, dict[str, Any]]]:
        found = []
        for effect in self.context.out:
            if isinstance(effect, Send) and isinstance(effect.message, Answered):
                assert (effect.to, effect.message.token) == (STRANGER, TOKEN)
                found.append((effect.message.status, read_answer(effect.message, effect.payload)[0]))
        self.context.out.clear()
        return found

    @property
    def wanted(self) -> tuple[int, str] | None:
        """Number and text of the version that is under way."""
        running = self.master.term.rollouts.running
        return None if running is None else (running.manifest.version, running.manifest.text)


def test_another_text_becomes_the_next_version_under_the_same_numbering() -> None:
    rig = Rig()
    rig.submit(OTHER)
    assert rig.wanted == (2, OTHER)
    running = rig.master.term.rollouts.running
    assert running is not None
    assert running.manifest.incarnation == rig.master.term.manifest.incarnation
    assert (running.origin, running.token) == (STRANGER, TOKEN)
    assert (rig.answers(), rig.begun_again) == ([], [])


@pytest.mark.parametrize("around", ["", " \n"])
def test_the_same_text_changes_nothing(around: str) -> None:
    rig = Rig()
    rig.submit(around + TEXT + around, seen=rig.tag(version=7))
    ((code, body),) = rig.answers()
    assert (code, body["state"], body["version"], rig.wanted) == (OK, "unchanged", 1, None)


@pytest.mark.parametrize("change", [{"narrowed": (("zone", "a"),)}, {"signed": b"s"}])
def test_the_same_text_with_other_labels_or_signatures_is_a_version(change: dict[str, Any]) -> None:
    rig = Rig()
    rig.submit(TEXT, manifest=change)
    assert rig.wanted == (2, TEXT)


def test_a_text_with_other_intervals_has_the_job_begin_again() -> None:
    rig = Rig()
    message = rig.submit(RENUMBERED)
    assert rig.begun_again == [(rig.master, message)]
    assert (rig.wanted, rig.answers()) == (None, [])


@pytest.mark.parametrize(
    ("text", "state", "version"), [(TEXT, "unchanged", 1), (OTHER, None, 2), (RENUMBERED, None, 2)]
)
def test_a_dry_run_reports_what_would_become_of_the_job_and_changes_nothing(
    text: str, state: str | None, version: int
) -> None:
    rig = Rig()
    rig.submit(text, dry_run=True, seen=LOOK)
    ((code, body),) = rig.answers()
    assert (code, body["version"], body["dry_run"]) == (OK, version, True)
    assert state is None or body["state"] == state
    assert body.get("in_place", True) is (text is not RENUMBERED)
    assert state is not None or body["text"] == TEXT, "what runs"
    assert (rig.wanted, rig.begun_again) == (None, [])


def test_a_client_that_looks_learns_the_version_first() -> None:
    rig = Rig()
    rig.submit(OTHER, seen=LOOK)
    assert rig.answers() == [(AGAIN, {"seen": rig.tag()})]
    assert rig.wanted is None


@pytest.mark.parametrize("stale", [{"version": 3}, {"incarnation": "h"}, {"job": b"o" * 20}])
def test_a_change_of_a_version_that_is_there_no_more_is_refused(stale: dict[str, Any]) -> None:
    rig = Rig()
    rig.submit(OTHER, seen=rig.tag(**stale))
    ((code, body),) = rig.answers()
    assert (code, body["outcome"], body["seen"]) == (CONFLICT, "unknown", rig.tag())
    assert rig.wanted is None


def test_a_pause_meanwhile_makes_no_change_of_the_text_outdated() -> None:
    rig = Rig()
    rig.submit(OTHER, seen=rig.tag(pauses=5))
    assert rig.wanted == (2, OTHER)


def test_a_change_whose_successor_is_known_to_be_of_another_is_certainly_refused() -> None:
    rig = Rig()
    seen = rig.tag(version=0)
    rig.submit(OTHER, seen=seen)
    ((_, body),) = rig.answers()
    assert body["outcome"] == "refused", "version 1 has another text"


def test_while_a_change_is_under_way_others_wait_and_its_own_copies_are_dropped() -> None:
    rig = Rig()
    rig.submit(OTHER)
    rig.submit(OTHER)
    other = Submit(rig.master.term.manifest, STRANGER, TOKEN + 1)
    rig.handler.submitted(rig.master, other)
    assert rig.wanted == (2, OTHER)
    assert (rig.answers(), rig.taken_again) == ([], [])
    assert rig.handler.waits(rig.master, other)
    assert len(rig.master.term.rollouts._waiting) == 1, "the copy waits for nothing"


def test_a_job_that_is_being_deleted_takes_no_text() -> None:
    rig = Rig()
    rig.master.term.end(lambda over: None)
    rig.context.out.clear()
    rig.submit(OTHER)
    ((code, body),) = rig.answers()
    assert (code, body["error"]) == (CONFLICT, "the job is being deleted; apply it again")


def test_an_undo_without_an_earlier_version_is_refused() -> None:
    rig = Rig()
    rig.ask("undo")
    ((code, body),) = rig.answers()
    assert (code, body["error"]) == (CONFLICT, "there is no version before this one")


def test_an_empty_is_a_version_with_the_same_text_and_no_state() -> None:
    rig = Rig()
    rig.ask("empty")
    running = rig.master.term.rollouts.running
    assert running is not None
    assert (running.manifest.version, running.manifest.text) == (2, TEXT)
    assert (running.state, running.empties) == (ql.RESET, True)


@pytest.mark.parametrize("verb", ["undo", "empty"])
def test_an_outdated_undo_or_empty_is_refused(verb: str) -> None:
    rig = Rig()
    rig.ask(verb, rig.tag(version=4))
    ((code, _),) = rig.answers()
    assert (code, rig.wanted) == (CONFLICT, None)


def test_a_pause_is_confirmed_by_the_register_before_its_client_is_answered() -> None:
    rig = Rig()
    rig.ask("pause")
    assert rig.master.term.paused
    assert rig.answers() == []


@pytest.mark.parametrize("stale", [{"pauses": 3}, {"incarnation": "h"}])
def test_an_outdated_pause_is_refused(stale: dict[str, Any]) -> None:
    rig = Rig()
    rig.ask("pause", rig.tag(**stale))
    ((code, _),) = rig.answers()
    assert (code, rig.master.term.paused) == (CONFLICT, False)


def test_a_job_that_stands_as_a_request_wants_is_not_outdated() -> None:
    rig = Rig()
    rig.ask("resume", rig.tag(pauses=3))
    assert (rig.answers(), rig.master.term.paused) == ([], False)


@pytest.mark.parametrize(
    ("start", "incarnation", "refused"), [(FIRST, "new", False), (7, "new", True), (7, None, False)]
)
def test_a_savepoint_is_not_restored_over_a_job_that_runs(
    start: int, incarnation: str | None, refused: bool
) -> None:
    rig = Rig()
    manifest = rig.master.term.manifest
    if incarnation is not None:
        manifest = replace(manifest, incarnation=incarnation)
    message = Submit(manifest, STRANGER, TOKEN, start=start)
    assert bool(runs_already(message, rig.master)) is refused
    assert runs_already(message, None) == ""


def test_a_dry_run_and_a_question_change_nothing() -> None:
    rig = Rig()
    for message, does in (
        (Submit(rig.master.term.manifest, STRANGER, TOKEN), True),
        (Submit(rig.master.term.manifest, STRANGER, TOKEN, dry_run=True), False),
        (Ask("pause", JOB, b"", STRANGER, TOKEN), True),
        (Ask("describe", JOB, b"", STRANGER, TOKEN), False),
    ):
        assert changes(message) is does


def test_the_status_of_a_job_that_was_never_changed() -> None:
    rig = Rig()
    found = shown(status(rig.master))
    assert (found["state"], found["replaces"], found["halted"], found["in_force"]) == (
        "unchanged",
        None,
        "",
        True,
    )
    assert (found["waits_for"], found["texts"]) == ([], {"1": TEXT})
    assert found["usable"] == {"unusable_share": 0.0, "bound": None}


def test_a_tag_names_the_job_its_numbering_its_version_and_its_pauses() -> None:
    rig = Rig()
    assert rig.tag() == str(Seen(JOB, rig.master.term.manifest.incarnation, 1, 0))
