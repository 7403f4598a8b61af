"""Whether a job can read the jobs that it names: they are there, have its fields, and do not read it.

Owns the questions that are asked before such a job is registered, and what its asker is told. A job is
registered after those that it reads, so that a circle can only come of a job that was deleted and is applied
again; that is what the walk along the jobs that are read by others is for.

Invariant: every check ends, at the latest after `TRIES` questions without an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from elfmesh import ids, ql
from elfmesh.control.answers import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    error_body,
    error_of,
    read_answer,
)
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import check_result_columns, has_no_members, read_plan
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import Answered
from elfmesh.control.upstream.candidate_placements import ask_named
from elfmesh.errors import ElfError, QueryError
from elfmesh.ql.values.row_json import encode_json, iso_us

TRIES = 4
ANSWER_S = 1.5
AGAIN_S = 0.3

READER_STAYS = "a job without members cannot be changed while it runs; delete it and apply it again"

Problem = tuple[int, dict[str, object]]
"""What the asker is told: a status and a body."""


def check_reads(context: Context, manifest: Manifest, then: Callable[[Problem | None], None]) -> None:
    """Ask the masters of all jobs that a job would read; `then` hears what is wrong, None if nothing is."""
    _Check(context, manifest, then).go_on()


def not_for_readers(manifest: Manifest, master: Master | None) -> str:
    """Why a text cannot be a job's next version or its canary because it is on no agent, "" if it can."""
    if manifest.narrowed and has_no_members(manifest.text):
        return "a job without members has no canary: it is on no agent"
    if master is None or manifest.text.strip() == master.term.manifest.text.strip():
        return ""
    return READER_STAYS if master.term.plan.has_no_members or has_no_members(manifest.text) else ""


def refused_with_readers(master: Master, verb: str) -> Problem | None:
    """Why a job that reads others, or is read, cannot be asked for this; None if it can."""
    text = hint = ""
    if verb == "delete" and not master.term.stopping and (readers := master.term.result_service.feed.readers):
        text = f"{', '.join(readers)} reads this job"
        hint = f"Delete {readers[0]} first; a reader counts for up to 30 s after it was deleted."
    elif master.term.plan.has_no_members and verb in ("undo", "empty"):
        text = READER_STAYS
    elif master.term.plan.ordered and verb == "verify":
        text = "the order of an ordered topic is in no log of an agent"
    elif master.term.plan.reads and verb == "verify":
        text = "what it is made of is the results of other jobs, and in no log; verify the job that it reads"
    return (CONFLICT, error_body(text, hint=hint)) if text else None


class _Check:
    def __init__(self, context: Context, manifest: Manifest, then: Callable[[Problem | None], None]) -> None:
        self._context, self._manifest, self._then = context, manifest, then
        self._statement = ql.parse(manifest.text)
        self._direct = read_plan(manifest.text).jobs
        self._todo = deque(self._direct)
        self._seen = dict.fromkeys(self._direct)
        self._tries = 0

    def go_on(self) -> None:
        if not self._todo:
            self._then(None)
            return
        name = self._todo[0]
        candidates = ids.job_placements(name, self._manifest.creator)
        self._tries += 1
        then = partial(self._answered, name)
        ask_named(self._context, candidates, "readable", encode_json({}), ANSWER_S, then)

    def _answered(self, name: str, message: Answered | None, payload: bytes) -> None:
        try:
            if message is None or message.status not in (OK, NOT_FOUND):
                self._silent(name)
                return
            if message.status == OK:
                body, _ = read_answer(message, payload)
                self._check_begin(name, body.get("begin_us"))
                self._take(
                    name, [str(each) for each in body["columns"]], [str(each) for each in body["reads"]]
                )
            elif name in self._direct:
                raise self._error(f"there is no job {_shown(name)}", "Apply the job that is read first.")
        except QueryError as error:
            self._then((BAD_REQUEST, error_of(error)))
            return
        except (ElfError, KeyError, TypeError):
            self._context.stats["control.malformed"] += 1
            self._silent(name)
            return
        self._todo.popleft()
        self._tries = 0
        self.go_on()

    def _check_begin(self, name: str, begin_us: object) -> None:
        """Refuse HISTORY before the results of a job; earlier releases do not state `begin_us`."""
        since_us = self._manifest.since_us
        reads = name in read_plan(self._manifest.text).reads
        if reads and since_us is not None and isinstance(begin_us, int) and begin_us > since_us:
            raise self._error(
                f"the results of {_shown(name)} begin at {iso_us(begin_us)},"
                f" and HISTORY at {iso_us(since_us)}",
                "Write a shorter HISTORY.",
            )

    def _take(self, name: str, columns: list[str], reads: list[str]) -> None:
        if name in self._direct:
            if ql.TIME_COLUMN in columns:
                raise self._error(
                    f"{_shown(name)} has a column `{ql.TIME_COLUMN}` of its own, and its rows are dated by"
                    " the start of their interval",
                    "Give that column another name.",
                )
            for each in self._statement.streams:
                if ql.job_read(each) == name:
                    check_result_columns(self._statement, each, columns)
        if self._manifest.qualified in reads:
            raise self._error(
                f"{_shown(name)} reads {_shown(self._manifest.qualified)}: that would be a cycle",
                "Jobs can read each other in one direction only.",
            )
        for other in reads:
            if other not in self._seen:
                self._seen[other] = None
                self._todo.append(other)

    def _silent(self, name: str) -> None:
        if self._tries < TRIES:
            self._context.after(AGAIN_S, self.go_on)
            return
        text = f"the master of {_shown(name)}, which it reads, does not answer"
        self._then((UNAVAILABLE, error_body(text, hint="Apply it again soon.", code=69)))

    def _error(self, message: str, hint: str) -> QueryError:
        return self._statement.origin.error(message, self._statement.offset, hint)


def _shown(name: str) -> str:
    return name.replace("/", ".")
