"""A job's results for the jobs that read it: what its master tells theirs, and who they are.

Owns the readers that are known. Reads no log: the result service does.

Invariant: a reader is known as long as it asks; where it asks from is its own business, so that any agent
that leads either job next goes on with the same question.

Paper: ELF 2.4 (coordination of jobs: a request is routed to the other job's master).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Terms

READER_S = 30.0
"""How long who has asked counts as a reader: some questions may get lost."""

READERS_MAX = 1024


class DownstreamFeed:
    """What readers of one job are told.

    Args:
        context: clock.
        plan: of the job.
        terms: the state as it is now.
    """

    def __init__(self, context: Context, plan: JobPlan, terms: Callable[[], Terms]) -> None:
        self._context, self._plan, self._terms = context, plan, terms
        self._asked: dict[str, float] = {}
        self.until = FIRST
        """Everything below is in the log, if it has a record at all."""

    @property
    def readers(self) -> list[str]:
        since = self._context.now - READER_S
        return sorted(name for name, at in self._asked.items() if at > since)

    def reached(self, closed: int) -> None:
        self.until = max(closed, self.until)

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        """A question of a reader, as one about the log.

        Raises:
            ValueError: not a reader's question.
        """
        reader, from_us = body.get("reader"), body.get("from_us")
        if reader is not None:
            if not isinstance(reader, str):
                raise ValueError("reader is the name of a job")
            now = self._context.now
            self._asked = {name: at for name, at in self._asked.items() if at > now - READER_S}
            if reader in self._asked or len(self._asked) < READERS_MAX:
                self._asked[reader] = now
        start = None if from_us is None else self._plan.first_after(int(from_us))
        return {**body, "from": start}

    def facts(self) -> dict[str, Any]:
        """What does not depend on the question: who may read it, and how its intervals are counted."""
        return {
            "incarnation": self._terms().manifest.incarnation,
            "slide_us": self._plan.slide_us,
            "size_us": self._plan.size_us,
            "columns": list(self._plan.columns),
            "reads": list(self._plan.jobs),
            "paused": self._terms().paused,
        }

    def stretch(self, following: int, until: int | None, expired: int | None) -> dict[str, Any]:
        """What a page that ends before `following` means: where the log begins, and until when it is whole.

        `until` is `self.until` when the log was asked for, None if the log goes on behind the page.
        """
        start, slide_us = self._terms().start, self._plan.slide_us
        begin = max(start, FIRST if expired is None else expired + 1)
        until = following if until is None else max(following, until)
        return {
            "begin_us": None if begin <= FIRST else begin * slide_us,
            "until_us": until * slide_us,
        }
