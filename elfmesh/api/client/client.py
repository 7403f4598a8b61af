"""Clients of an agent's HTTP API, for Python programs and the command line.

Owns the verbs, and how a follower comes back to an agent that went away; `ClientConnection` sends the
requests. Knows no terminal. `Client` needs the standard library only; `AsyncClient` (web/client.py) uses
aiohttp.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from elfmesh.api.client.client_base import job_path, request_of
from elfmesh.api.client.connection import ClientConnection
from elfmesh.api.identity.credentials import Credentials, default_credentials
from elfmesh.api.line_parts import Parts, ends, place_of, whole
from elfmesh.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from elfmesh.api.client.live import LiveAnswer

TIMEOUT_S = 30.0
"""How long an answer may take beyond the time it was asked to wait."""

RECONNECT_S = 30.0
"""How long a follower tries to come back to an agent that went away."""

RETRY_S = 0.5
NEXT, REVISION = "X-Elf-Next", "X-Elf-Revision"
"""Headers of a page of results: the interval and the revision to go on from."""

INCARNATION = "X-Elf-Incarnation"
"""Header of an Arrow stream: whose rows they are, of jobs that had the same name."""

KINDS = ("jobs", "agents", "streams", "trees")


def connect(
    address: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    cert: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    token_file: str | None = None,
) -> Client:
    """A client of the agent at `address` ("HOST:PORT"; default: ELF_API, then 127.0.0.1:7401).

    Args:
        address: where.
        timeout_s: how long an answer may take.
        cert: a certificate file, with `key` and `ca`; default: ELF_CERT, ELF_KEY, ELF_CA.
        key: its private key.
        ca: whose certificate the agent must have.
        token_file: an agent's token; default: ELF_TOKEN_FILE, then that of this user's agent at the address.

    Example:
        >>> import elfmesh
        >>> client = elfmesh.connect("127.0.0.1:7401")
        >>> [agent["name"] for agent in client.get("agents")]
        ['web1']
    """
    given = default_credentials(cert=cert, key=key, ca=ca, token_file=token_file)
    return Client(address, timeout_s=timeout_s, credentials=given)


def _of_job(verb: str, text: str) -> Callable[[Client, str], dict[str, Any]]:
    def ask(self: Client, job: str) -> dict[str, Any]:
        return self.ask(verb, job)

    ask.__name__, ask.__doc__ = verb, text
    return ask


class Client:
    """Asks one agent, which answers for the whole overlay. No connection outlives a call.

    Args:
        address: "HOST:PORT" of an agent's API, or "unix:PATH".
        timeout_s: how long an answer may take.
        credentials: what to show it; default: as `connect`.

    Example:
        >>> client = elfmesh.connect("127.0.0.1:7401")
        >>> query = "SELECT product, COUNT(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' DAY), product"
        >>> applied = client.apply(f"CREATE JOB shop.counts AS {query}")
        >>> for record in client.results("shop/counts", follow=True, limit=1):
        ...     print(record["state"], record["rows"])
        FINAL [{'product': 'lamp', 'n': 3}]
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        credentials: Credentials | None = None,
    ) -> None:
        self._connection = ClientConnection(address, timeout_s, credentials)

    @property
    def address(self) -> str:
        """HOST:PORT, or unix:PATH."""
        return self._connection.address

    def ask(self, verb: str, job: str = "", **fields: Any) -> dict[str, Any]:
        """The answer to any verb of `control.requests.verbs`; `fields`: its parameters.

        Raises:
            ElfError: the agent has refused the request.
            Unreachable: no agent answers.
        """
        method, target = request_of(verb, job, **fields)
        return self._connection.ask(method, target, wait_s=float(fields.get("wait") or 0.0))

    def apply(
        self,
        text: str,
        *,
        creator: str | None = None,
        dry_run: bool = False,
        source: str = "query",
        signed: str = "",
        first: int | None = None,
    ) -> dict[str, Any]:
        """Submit a job, or update it in place; returns when all agents have acknowledged.

        `signed`: the envelope of `elf sign`, where the job needs one. `first`: of a job from a savepoint, its
        first interval; a job of that name must not run.

        Raises:
            QueryError: the text is wrong.
            Unreachable: no agent answers.
        """
        body: dict[str, Any] = {"text": text, "dry_run": dry_run, "source": source}
        body |= ({"creator": creator} if creator else {}) | ({"signed": signed} if signed else {})
        body |= {} if first is None else {"first": first}
        return self._connection.ask("POST", "/v1/jobs", body)

    def update(
        self,
        job: str,
        text: str,
        *,
        running: dict[str, Any] | None = None,
        canary: dict[str, str] | None = None,
        dry_run: bool = False,
        source: str = "query",
        signed: str = "",
    ) -> dict[str, Any]:
        """Change a running job, or with `canary` run the text beside it on the agents with these labels.

        `running`: what `describe` said of the job; only that version is changed. Default: it is asked now.

        Raises:
            QueryError: the text is wrong, or another job's.
            RuntimeFailure: there is no such job, or it has changed since it was described.
        """
        running = running or self.describe(job)
        body: dict[str, Any] = {"text": text, "dry_run": dry_run, "source": source, "job": running["job"]}
        body |= {"creator": running["creator"]} | ({"canary": canary} if canary else {})
        body |= {"signed": signed} if signed else {}
        body |= {"seen": running["seen"]} if "seen" in running and not canary else {}
        return self._connection.ask("POST", "/v1/jobs", body)

    def revoke(self, job: str, tombstone: str) -> dict[str, Any]:
        """End a job's versions by a signed tombstone, as a version of the text that runs.

        Every agent verifies it for itself, and has it on disk before it acknowledges.

        Raises:
            RuntimeFailure: there is no such job.
            DataError: an agent does not admit it.
        """
        running = self.describe(job)
        return self.update(job, str(running["text"]), running=running, signed=tombstone)

    describe = _of_job("describe", "Everything about a job.")
    why = _of_job("why", "What holds a job: interval, stage, agents that are waited for; see `control.why`.")
    delete = _of_job("delete", "End a job and forget its results.")
    pause = _of_job("pause", "Agents stop reading for a job.")
    resume = _of_job("resume", "Agents go on where they stopped.")
    empty = _of_job("empty", "Begin a new batch on all agents at one boundary.")
    rollout = _of_job("rollout", "How the last change of a job went, and its canary if there is one.")
    undo = _of_job("undo", "End a job's canary; without one, bring the version before the newest back.")
    promote = _of_job("promote", "Make a canary's text the version of all agents.")

    def get(self, kind: str) -> list[dict[str, Any]]:
        """All "jobs", "agents", "streams" or "trees" of the overlay."""
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is not one of {', '.join(KINDS)}")
        found: list[dict[str, Any]] = self.ask("list" if kind == "jobs" else kind)[kind]
        return found

    def health(self) -> dict[str, Any]:
        """How the agent is: "agent", "status" (ok, degraded, waiting), "problem" and "sinks" if need be."""
        return self.ask("health")

    def agent(self) -> dict[str, Any]:
        """The agent that is asked."""
        return self.ask("agent")

    def leave(self, *, wait_s: float = 60.0) -> dict[str, Any]:
        """The agent that is asked ends its jobs at declared intervals, then itself.

        Returns:
            state "left", or after `wait_s` "leaving", with the jobs that it `waits_for`: it goes on to leave.
        """
        return self.ask("leave", wait=wait_s)

    def verify(self, job: str, interval: int, *, again: bool = False) -> dict[str, Any]:
        """How the verification of an interval stands; begins it if need be. See `control.verify`.

        Args:
            job: its name.
            interval: number of a closed interval.
            again: forget an earlier outcome.
        """
        return self.ask("verify", job, interval=interval, again=again)

    def recover(self, job: str, *, accept_loss: bool = False) -> dict[str, Any]:
        """Have a job go on with other voters, without a majority of the old ones; see `control.recovery`.

        Args:
            job: its name.
            accept_loss: do it; else only what may be lost is told.
        """
        return self.ask("recover", job, accept_loss=accept_loss)

    def schema(self, job: str, *, wait_s: float = 0.0) -> dict[str, Any]:
        """{"ddl", "arrow"} of a result row; waits for the first result for up to `wait_s`."""
        return self.ask("schema", job, wait=wait_s)

    def offsets(self, job: str, *, after: int | None = None, wait_s: float = 0.0) -> dict[str, Any]:
        """{"earliest", "latest", "expired", "incarnation"}; waits for an interval later than `after`."""
        return self.ask("offsets", job, wait=wait_s, after=after)

    def results(
        self,
        job: str,
        *,
        follow: bool = False,
        start: int | None = None,
        limit: int | None = None,
        state: str = "final",
        rows: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """The intervals of a job, oldest first, as the objects `elf results -o json` prints.

        A record that comes in several lines is given whole.

        Args:
            job: its name.
            follow: go on with new intervals for ever; reconnects when the agent comes back.
            start: index of the first interval; default: the oldest kept.
            limit: at most so many.
            state: "final", or "all": also what open intervals look like so far, again with each revision.
            rows: False: without the rows.
        """
        lines = self.lines(job, follow=follow, start=start, limit=limit, state=state, rows=rows)
        yield from whole(map(json.loads, lines))

    def lines(
        self,
        job: str,
        *,
        follow: bool = False,
        start: int | None = None,
        limit: int | None = None,
        state: str = "final",
        rows: bool = True,
    ) -> Iterator[bytes]:
        """As `results`, but the JSON text as it came, which loses nothing; a record may be several lines."""
        left, retry_until, received, had = limit, 0.0, start is not None, Parts()
        while left is None or left > 0:
            query: dict[str, Any] = {} if start is None else {"from": start}
            query |= {"follow": 1} if follow else {"limit": 1000 if left is None else min(left, 1000)}
            query |= {"state": state} | ({} if rows else {"rows": 0})
            got = False
            try:
                for line in self._connection.stream(f"{job_path(job)}/results?{urlencode(query)}"):
                    got = received = True
                    found, retry_until = json.loads(line), 0.0
                    last, following = ends(found), place_of(found)[0] + 1
                    if last and not (follow and found.get("state") == "TENTATIVE"):  # that comes again
                        start = following if start is None else max(start, following)
                    left = left - 1 if last and left is not None else left
                    if had.is_new(found):
                        yield line
                    if left == 0:
                        return
            except Unreachable:
                now = time.monotonic()
                retry_until = retry_until or now + RECONNECT_S
                if not follow or not received or now > retry_until:
                    raise
                time.sleep(RETRY_S)
                continue
            if follow or not got:
                return

    def query(self, text: str, **options: Any) -> LiveAnswer:
        """Evaluate ELF-QL over the newest results of jobs; options and errors: `control.web.live.query`."""
        from elfmesh.api.client.live import query

        return query(self, text, **options)

    def tap(self, texts: Sequence[str], **options: Any) -> Iterator[dict[str, Any]]:
        """Live lines of the agent's stream that pass the WHERE of all texts, with counts: `web.tap`."""
        return map(json.loads, self._connection.stream("/v1/tap", {"texts": list(texts), **options}))

    def open(
        self, method: str, target: str, body: dict[str, Any] | None = None, *, timeout_s: float
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """The answer of any status, unread, and its connection; the caller closes both.

        Raises:
            Unreachable: no agent answers.
            ConfigError: the certificate or the token file cannot be used.
        """
        return self._connection.open(method, target, body, timeout_s=timeout_s)
