"""The blocking client of an agent's HTTP API, for Python programs and the command line.

The module owns the verbs and the reconnection of followers; `ClientConnection` sends the requests. It needs
only the standard library. `AsyncClient` (asyncio.py) uses aiohttp.
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
from elfmesh.api.client.result_interval import ResultInterval
from elfmesh.api.identity.credentials import Credentials, default_credentials
from elfmesh.api.line_parts import OPEN_STATES, Parts, ends, place_of, whole
from elfmesh.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from elfmesh.api.client.live import LiveAnswer

TIMEOUT_S = 30.0
"""Time limit for an answer, beyond the time that a request asks the agent to wait."""

RECONNECT_S = 30.0
"""How long a follower tries to reconnect to an agent."""

RETRY_S = 0.5
NEXT, REVISION = "X-Elf-Next", "X-Elf-Revision"
"""Headers of a page of results: the interval and the revision with which to continue."""

INCARNATION = "X-Elf-Incarnation"
"""Header of an Arrow stream: the incarnation of the job to which the rows belong."""

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
    """Return a client of the agent at `address` ("HOST:PORT"; default: ELF_API, then 127.0.0.1:7401).

    Args:
        address: address of the agent's API.
        timeout_s: time limit for an answer.
        cert: certificate file, with `key` and `ca`; default: ELF_CERT, ELF_KEY, ELF_CA.
        key: private key of the certificate.
        ca: certificate of the authority that must have issued the agent's certificate.
        token_file: file with an agent's token; default: ELF_TOKEN_FILE, then the token of this user's agent
            at the address.

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
    """Client of one agent, which answers for the whole overlay. Each call uses its own connection.

    Args:
        address: "HOST:PORT" of an agent's API, or "unix:PATH".
        timeout_s: time limit for an answer.
        credentials: how to authenticate; default: as `connect`.

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
        """Send any verb of `control.requests.verbs` with `fields` as its parameters, and return the answer.

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
        leased: bool = False,
    ) -> dict[str, Any]:
        """Submit a job, or update it if it is running. Returns when all agents have acknowledged.

        Args:
            text: ELF-QL text of the job.
            creator: owner of the job; default: "local".
            dry_run: only report what would happen.
            source: name of the text in error messages.
            signed: envelope of `elf sign`, if the job needs a signature.
            first: first interval of a job from a savepoint. No job with this name may be running.
            leased: end the job soon after the last request for its results; its text has UNTIL.

        Raises:
            QueryError: the text is wrong.
            Unreachable: no agent answers.
        """
        body: dict[str, Any] = {"text": text, "dry_run": dry_run, "source": source}
        body |= ({"creator": creator} if creator else {}) | ({"signed": signed} if signed else {})
        body |= ({} if first is None else {"first": first}) | ({"leased": True} if leased else {})
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
        """Change a running job, or run `text` as its canary on the agents with the labels in `canary`.

        `running` is an answer of `describe`; the job changes only if it still has this version. By default
        the method calls `describe`.

        Raises:
            QueryError: the text is wrong, or it is the text of another job.
            RuntimeFailure: the job does not exist, or it has changed since `describe`.
        """
        running = running or self.describe(job)
        body: dict[str, Any] = {"text": text, "dry_run": dry_run, "source": source, "job": running["job"]}
        body |= {"creator": running["creator"]} | ({"canary": canary} if canary else {})
        body |= {"signed": signed} if signed else {}
        body |= {"seen": running["seen"]} if "seen" in running and not canary else {}
        return self._connection.ask("POST", "/v1/jobs", body)

    def revoke(self, job: str, tombstone: str) -> dict[str, Any]:
        """Revoke versions of a job with a signed tombstone, applied as a new version of the running text.

        Each agent verifies the tombstone and stores it on disk before it acknowledges.

        Raises:
            RuntimeFailure: the job does not exist.
            DataError: an agent refuses the tombstone.
        """
        running = self.describe(job)
        return self.update(job, str(running["text"]), running=running, signed=tombstone)

    describe = _of_job("describe", "Return the details of a job.")
    why = _of_job("why", "Return what delays a job: the interval, the stage and the agents.")
    delete = _of_job("delete", "Delete a job and its results.")
    pause = _of_job("pause", "Pause a job; agents stop reading for it.")
    resume = _of_job("resume", "Resume a job; agents continue reading where they stopped.")
    empty = _of_job("empty", "Start a new batch on all agents at one interval boundary.")
    rollout = _of_job("rollout", "Return the progress of the last change of a job, and of its canary.")
    undo = _of_job("undo", "End a job's canary. If there is none, restore the previous version.")
    promote = _of_job("promote", "Make the text of a job's canary the version of all agents.")

    def story(self, job: str, interval: int | None = None) -> dict[str, Any]:
        """Return what all agents have done for an interval of a job, each step behind its cause.

        Args:
            job: name of the job.
            interval: number of the interval; default: the newest closed one.
        """
        return self.ask("story", job, interval=interval)

    def get(self, kind: str) -> list[dict[str, Any]]:
        """Return all "jobs", "agents", "streams" or "trees" of the overlay."""
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is not one of {', '.join(KINDS)}")
        found: list[dict[str, Any]] = self.ask("list" if kind == "jobs" else kind)[kind]
        return found

    def cost(self, text: str, clause: str = "") -> dict[str, Any]:
        """Return what each agent would read for a query over streams, or for a job, before it runs.

        Args:
            text: ELF-QL text of the query or the job.
            clause: the range of a query, such as "HISTORY '1 h' UNTIL HISTORY"; "": all records. What the
                time indexes spare is not counted.

        Returns:
            An object with "agents": for each one "agent", "streams", "bytes", "lines", "seconds" and
            "refusal"; and with the sums "bytes" and "lines" and the longest "seconds" of the agents that do
            not refuse the query. A value is None if an agent does not know it. "estimated" are the bytes of
            compressed files that do not state their size.

        Raises:
            QueryError: the text is wrong.
        """
        body = {"text": text} | ({"range": clause} if clause else {})
        return self._connection.ask("POST", "/v1/cost", body)

    def health(self) -> dict[str, Any]:
        """Return the health of the agent: "agent" and "status" (ok, degraded or waiting).

        The answer contains "problem" and "sinks" if there is a problem.
        """
        return self.ask("health")

    def agent(self) -> dict[str, Any]:
        """Return the details of the agent."""
        return self.ask("agent")

    def forget(self, agent: str) -> list[dict[str, Any]]:
        """Make all agents remove a dead agent from their lists.

        Args:
            agent: its name or id.

        Returns:
            A row for each agent that has removed it: "agent", "forgotten" and "id".
        """
        rows: list[dict[str, Any]] = self.ask("forget", agent=agent)["forget"]
        return rows

    def leave(self, *, wait_s: float = 60.0, now: bool = False) -> dict[str, Any]:
        """Make the agent leave all its jobs at declared intervals, and stop.

        Args:
            wait_s: time to wait until it has left.
            now: hand its open windows to other agents instead of waiting for their ends.

        Returns:
            An object whose state is "left", or, after `wait_s`, "leaving"; it then contains the jobs in
            `waits_for`, and the agent continues to leave.
        """
        return self.ask("leave", wait=wait_s, now=now)

    def verify(self, job: str, interval: int, *, again: bool = False) -> dict[str, Any]:
        """Return the state of the verification of an interval; starts the verification if necessary.

        Args:
            job: name of the job.
            interval: number of a closed interval.
            again: discard an earlier outcome.
        """
        return self.ask("verify", job, interval=interval, again=again)

    def recover(self, job: str, *, accept_loss: bool = False) -> dict[str, Any]:
        """Continue a job with other voters, without a majority of the old ones; see `elf job recover`.

        Args:
            job: name of the job.
            accept_loss: perform the recovery; otherwise only return what may be lost.
        """
        return self.ask("recover", job, accept_loss=accept_loss)

    def schema(self, job: str, *, wait_s: float = 0.0) -> dict[str, Any]:
        """Return {"ddl", "arrow"} of a result row. Waits up to `wait_s` for the first result."""
        return self.ask("schema", job, wait=wait_s)

    def offsets(self, job: str, *, after: int | None = None, wait_s: float = 0.0) -> dict[str, Any]:
        """Return {"earliest", "latest", "expired", "incarnation"}; waits for one above `after`."""
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
        """Yield the records of a job, oldest first, as the objects that `elf results -o json` prints.

        A record that arrives in several lines is yielded as one object.

        Args:
            job: name of the job.
            follow: continue with new intervals without end; reconnects when the agent returns.
            start: index of the first interval; default: the oldest that is kept.
            limit: maximum number of records.
            state: "final"; "all", which includes every tentative revision of open intervals; or "early",
                which includes the early rows of open windows.
            rows: whether records contain their rows.
        """
        lines = self.lines(job, follow=follow, start=start, limit=limit, state=state, rows=rows)
        yield from whole(map(json.loads, lines))

    def intervals(self, job: str, **options: Any) -> Iterator[ResultInterval]:
        """Yield the records of `results` as objects with typed fields. The options are those of `results`."""
        return map(ResultInterval.of, self.results(job, **options))

    def lines(
        self,
        job: str,
        *,
        follow: bool = False,
        start: int | None = None,
        limit: int | None = None,
        state: str = "final",
        rows: bool = True,
        wait_s: float = 0.0,
    ) -> Iterator[bytes]:
        """Yield the lines of `results` as received, without loss of digits; a record may be several.

        Waits up to `wait_s` for each page of them.
        """
        left, retry_until, received, had = limit, 0.0, start is not None, Parts()
        while left is None or left > 0:
            query: dict[str, Any] = {} if start is None else {"from": start}
            query |= {"follow": 1} if follow else {"limit": 1000 if left is None else min(left, 1000)}
            query |= {"state": state} | ({} if rows else {"rows": 0}) | ({"wait": wait_s} if wait_s else {})
            got = False
            try:
                for line in self._connection.stream(f"{job_path(job)}/results?{urlencode(query)}"):
                    got = received = True
                    found, retry_until = json.loads(line), 0.0
                    last, following = ends(found), place_of(found)[0] + 1
                    # other lines of the interval follow
                    if last and not (follow and found.get("state") in OPEN_STATES):
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
        """Evaluate ELF-QL over the newest results of jobs; for options and errors see `client.live.query`."""
        from elfmesh.api.client.live import query

        return query(self, text, **options)

    def tap(self, texts: Sequence[str], **options: Any) -> Iterator[dict[str, Any]]:
        """Yield live lines that pass the WHERE of all texts, and counts; see `web.tap`."""
        return map(json.loads, self._connection.stream("/v1/tap", {"texts": list(texts), **options}))

    def open(
        self, method: str, target: str, body: dict[str, Any] | None = None, *, timeout_s: float
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Return the connection and its unread response of any status. The caller closes both.

        Raises:
            Unreachable: no agent answers.
            ConfigError: the certificate or the token file cannot be used.
        """
        return self._connection.open(method, target, body, timeout_s=timeout_s)
