"""Searches all agents for a job that the agents closest to its ids do not know.

A job of another creator has an id that its name does not give. An agent that has just joined may be the
closest to the id of a job, and it knows nothing of the job until a master has sent it the terms.

Invariant: a client gets NOT_FOUND only if all agents have answered and none of them knows the job, or if no
agent has led it for `SEARCH_S`. An agent may keep a job that never began because its first master died before
the register had a value, or whose end the agent has missed. The client can then create the job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from elfmesh import ids
from elfmesh.control.answers import CONFLICT, NOT_FOUND, OK, UNAVAILABLE, error_body
from elfmesh.control.context import Context
from elfmesh.control.protocol.replies import JobRow
from elfmesh.control.requests.combined import answers_of_all
from elfmesh.control.requests.verbs import KNOWN, OVER

SEARCH_S = 10.0
"""Time for which a job without a master is searched for."""

SEARCH_AGAIN_S = 0.5

Take = Callable[[int, dict[str, Any], bytes], None]
"""Takes an answer: its status, JSON object and data."""


class JobSearch:
    """Searches for the jobs of this agent's clients.

    Args:
        ask_all: sends a question of a client to all agents: client, verb, body, and what takes the answer.
        reply: answers a client.
    """

    def __init__(
        self,
        context: Context,
        ask_all: Callable[[int, str, dict[str, Any], Take], None],
        reply: Callable[[int, int, dict[str, Any], bytes], None],
    ) -> None:
        self._context, self._ask_all, self._reply = context, ask_all, reply

    def find(
        self,
        client: int,
        qualified: str,
        unknown: dict[str, Any],
        ask: Callable[[bytes, Take], object],
        *,
        ended: Collection[object],
        only: bytes | None = None,
    ) -> None:
        """Search for a job, send the client's request to it, and answer the client.

        Args:
            client: the token of the request.
            qualified: the job as namespace/name.
            unknown: the answer if no agent knows the job.
            ask: sends the client's request to the agent closest to a job's id.
            ended: for each placement of this name, the incarnation of the last job if it has ended. An agent
                that has missed the end knows the job, and leaves it out. Where an agent of an earlier release
                does not name the incarnation, only masters answer.
            only: the id of the job, if jobs of other creators do not matter.
        """
        until = self._context.now + SEARCH_S
        over = [each for each in ended if isinstance(each, str) and each]
        question = {"job": qualified, KNOWN: len(over) == sum(map(bool, ended))} | (
            {OVER: over} if over else {}
        )

        def search() -> None:
            self._ask_all(client, "whose", question, found)

        def found(status: int, body: dict[str, Any], payload: bytes) -> None:
            rows = answers_of_all("whose", payload, self._context.stats) if status == OK else []
            jobs = [(self._job_of(row), row.creator) for row, _ in rows]
            owners = {job: creator for job, creator in jobs if job and (only is None or job == only)}
            answered, expected = _counts(body)
            if len(owners) == 1:
                ask(next(iter(owners)), at_owner)
            elif owners:
                creators = ", ".join(sorted(owners.values()))
                text, hint = f"several creators have a job {qualified}", f"Name one: creator={creators}."
                self._reply(client, CONFLICT, error_body(text, hint=hint), b"")
            elif status != OK:
                self._reply(client, status, body, payload)
            elif answered < expected:
                text = f"{answered} of {expected} agents answer, and none of them knows {qualified}"
                self._reply(client, UNAVAILABLE, error_body(text, hint="Ask again soon.", code=69), b"")
            else:
                self._reply(client, NOT_FOUND, unknown, b"")

        def at_owner(status: int, body: dict[str, Any], payload: bytes) -> None:
            if status != NOT_FOUND:
                self._reply(client, status, body, payload)
            elif self._context.now < until:
                self._context.after(SEARCH_AGAIN_S, search)
            else:
                self._reply(client, NOT_FOUND, unknown, b"")

        search()

    def _job_of(self, row: JobRow) -> bytes | None:
        """Return the id of a row's job; None if the agent that sent the row wrote another text."""
        try:
            return ids.check_id(bytes.fromhex(row.id))
        except ValueError:
            self._context.stats["control.malformed"] += 1
            return None


def _counts(body: dict[str, Any]) -> tuple[int, int]:
    """Return how many agents have answered, and how many were expected; 0 for what is no number."""
    asked = body.get("asked")
    found = [asked.get(name) for name in ("answered", "expected")] if isinstance(asked, dict) else []
    answered, expected = (each if isinstance(each, int) else 0 for each in found or (0, 0))
    return answered, expected
