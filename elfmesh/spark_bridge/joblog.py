"""Reads the results log of a job for Spark: offsets, schema and Arrow batches over the HTTP API of agents.

An exception in a Python data source reaches the user inside two traces. Therefore its message starts with a
stable code, and its first sentence states the error and the remedy. No socket outlives a call, because Spark
forks and reuses its Python workers. The module does not import pyspark.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from elfmesh.api.client.client import INCARNATION, NEXT, Client
from elfmesh.api.client.client_base import job_path
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import ConfigError, DataError, ElfError, RuntimeFailure, Unreachable, UsageError

JOB_UNKNOWN = "ELF_JOB_UNKNOWN"
UNREACHABLE = "ELF_UNREACHABLE"
INTERVALS_EXPIRED = "ELF_INTERVALS_EXPIRED"
INTERVALS_LOST = "ELF_INTERVALS_LOST"
JOB_RECREATED = "ELF_JOB_RECREATED"
SCHEMA_MISMATCH = "ELF_SCHEMA_MISMATCH"
BAD_OPTION = "ELF_BAD_OPTION"
NO_RESULT_YET = "ELF_NO_RESULT_YET"
AGENT_ERROR = "ELF_AGENT_ERROR"
NO_PARTIALS = "ELF_NO_PARTIALS"

TIMEOUT_S = 30.0
"""Time limit for an answer, beyond the time that a request asks the agent to wait."""

SCHEMA_WAIT_S = 30.0
"""How long to wait for the first result of a new job; agents limit the wait to this time."""

SILENT_ROUNDS = 3
"""How often silent addresses are tried, because a restarted agent answers again within a second."""

PATIENCE_S = 30.0
"""How long to wait while agents report that the master of the job is being replaced."""

PAUSE_S = 0.3


BEFORE_ALL = -(2**62)
"""Position before all intervals."""


@dataclass(frozen=True, slots=True)
class LogNumbering:
    """An incarnation of the job's results and its last interval.

    `before` is the interval before the first one that it ever had.
    """

    incarnation: str
    before: int
    latest: int


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Intervals that the results log of a job holds; `latest` is `earliest - 1` if there is none.

    `earliest` is the first interval that is held. Earlier intervals may have expired or never existed,
    because numbers are aligned to the epoch; only a read detects this (INTERVALS_EXPIRED). `revision` is the
    number of the newest tentative result, for readers of tentative results. `before` is the interval before
    the first one that ever existed. `numberings` are the incarnations before updates that changed the slide.
    """

    earliest: int
    latest: int
    incarnation: str
    revision: int | None = None
    before: int = BEFORE_ALL
    numberings: tuple[LogNumbering, ...] = ()

    def following(self, incarnation: str, interval: int) -> LogNumbering | None:
        """Return the earlier incarnation that has the interval after `interval`.

        None: the current one has it.

        Raises:
            KeyError: the incarnation does not belong to this job.
        """
        names = [each.incarnation for each in self.numberings]
        if incarnation == self.incarnation:
            return None
        if incarnation not in names:
            raise KeyError(incarnation)
        at = names.index(incarnation)
        if interval < self.numberings[at].latest:
            return replace(self.numberings[at], before=interval)
        return self.numberings[at + 1] if at + 1 < len(names) else None


@dataclass(frozen=True, slots=True)
class JobLog:
    """The results log of one job, read through any of the given agents.

    `view` is PAO for the partial aggregates of the intervals, "" for their rows. `state` is "final", or "all"
    to include tentative results.
    """

    addresses: tuple[str, ...]
    namespace: str
    name: str
    view: str = ""
    state: str = "final"

    @classmethod
    def of(cls, job: str, api: str | None, *, view: str = "", state: str = "final") -> JobLog:
        """Return the log of `job` ("shop/top", "shop.top" or "top") at `api` ("host:port[,host:port...]").

        Raises:
            UsageError: `job` is not the name of a job.
            ConfigError: an address, here or in ELF_API, is not HOST:PORT.
        """
        try:
            namespace, name = split_name(job)
            clients = [Client(part.strip()) for part in (api or "").split(",")]
        except ValueError as error:
            hint = 'Give the option job, as "shop/top".'
            raise UsageError(f"{BAD_OPTION}: {error}", hint=hint) from None
        except ConfigError as error:
            hint = 'Give the option api, as "127.0.0.1:7401".'
            raise ConfigError(f"{BAD_OPTION}: {error.message}", hint=hint) from None
        return cls(tuple(client.address for client in clients), namespace, name, view, state)

    @property
    def job(self) -> str:
        """The job's qualified name, "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    def ddl(self, *, wait_s: float = SCHEMA_WAIT_S) -> str:
        """Return the Spark DDL of a result row: the columns of the interval, then those of the query.

        Waits up to `wait_s` for the first result, which determines the types.

        Raises:
            RuntimeFailure: there is no result yet.
            DataError: a column of the query has the name of one of the interval's columns.
        """
        query: dict[str, Any] = {"wait": wait_s, **self._viewed}
        answer = self._json("schema", wait_s=wait_s, **query)
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(answer["arrow"])))
        names = [name.lower() for name in schema.names]  # Spark's column names are case-insensitive
        twice = [name for position, name in enumerate(names) if name in names[:position]]
        if twice:
            raise DataError(
                f"{SCHEMA_MISMATCH}: two columns of the results of job {self.job!r} are called {twice[0]!r}. "
                "The interval's own columns come first: rename the query's with AS."
            )
        return str(answer["ddl"])

    @property
    def _viewed(self) -> dict[str, object]:
        return {"view": self.view} if self.view else {}

    def turned(self, count: int) -> JobLog:
        """Return the log with the addresses rotated, so that reads are spread over all agents."""
        at = count % len(self.addresses)
        return replace(self, addresses=self.addresses[at:] + self.addresses[:at])

    def offsets(
        self, *, after: int | None = None, wait_s: float = 0.0, revision: int | None = None
    ) -> LogOffsets:
        """Return the held intervals. Waits up to `wait_s` for one after `after` or a new revision."""
        query: dict[str, Any] = {} if after is None or not wait_s else {"after": after, "wait": wait_s}
        if self.state == "all":
            query |= {"state": "all"} | ({} if revision is None else {"revision": revision})
        answer = self._json("offsets", wait_s=wait_s, **query)
        newest = answer.get("revision")
        return LogOffsets(
            int(answer["earliest"]),
            int(answer["latest"]),
            str(answer["incarnation"]),
            None if newest is None else int(newest),
            _before(answer),
            tuple(
                LogNumbering(str(each["incarnation"]), _before(each), int(each["latest"]))
                for each in answer.get("earlier", ())
            ),
        )

    def nth_after(self, after: int, count: int, incarnation: str = "") -> int:
        """Return the index of the `count`-th interval after `after`, or of the last one if there are fewer.

        Numbers may have large gaps, because quiet times have no intervals. Cost: one answer, whose body is
        not read.
        """
        query: dict[str, Any] = {"from": after + 1, "limit": count}
        query |= {"incarnation": incarnation} if incarnation else {}
        with self._open("results", **query) as response:
            return int(response.headers[NEXT]) - 1

    def batches(
        self,
        after: int,
        upto: int,
        *,
        only: Collection[str] | None = None,
        revision: int | None = None,
        incarnation: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the intervals in `(after, upto]` as they arrive. Cost: one batch in memory.

        `only` is the set of wanted states (None: all). Tentative results newer than `revision` are included
        (None: only final results).

        Raises:
            RuntimeFailure: the job was created again after the read was planned.
            Unreachable: the answer broke off.
        """
        query: dict[str, Any] = {"from": after, "to": upto, **self._viewed}
        if incarnation:
            query["incarnation"] = incarnation
        if only is not None:
            query["only"] = ",".join(sorted(only))
        if revision is not None:
            query |= {"state": "all", "revision": revision}
        with self._open("arrow", **query) as response:
            # agents of earlier releases do not send the header
            now = response.headers.get(INCARNATION) or incarnation
            if incarnation and now != incarnation:
                raise recreated(self.job, incarnation, now)
            try:
                with pa.ipc.open_stream(response) as reader:
                    yield from reader
            except (pa.ArrowException, OSError, http.client.HTTPException) as error:
                raise Unreachable(
                    f"{UNREACHABLE}: the results of job {self.job!r} broke off within intervals "
                    f"{after + 1} to {upto} ({error}). Run the read again."
                ) from None

    def _json(self, route: str, *, wait_s: float = 0.0, **query: object) -> dict[str, Any]:
        with self._open(route, wait_s=wait_s, **query) as response:
            try:
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"{UNREACHABLE}: the answer to {route} broke off ({error}).") from None
            except ValueError:
                answer = None
        if not isinstance(answer, dict):
            raise RuntimeFailure(f"{AGENT_ERROR}: the agent's answer to {route} is not a JSON object.")
        return answer

    @contextmanager
    def _open(
        self, route: str, *, wait_s: float = 0.0, **query: object
    ) -> Iterator[http.client.HTTPResponse]:
        target = f"{job_path(self.job)}/{route}" + (f"?{urlencode(query)}" if query else "")
        connection, response = self._connect(target, wait_s + TIMEOUT_S)
        try:
            if response.status != http.client.OK:
                raise self._refusal(route, response, query)
            yield response
        finally:
            response.close()
            connection.close()

    def _connect(
        self, target: str, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Return the first answer of any agent.

        An agent that answers 503 is looking for the job's new master, so it gets more time than a silent one.
        """
        reason, silent_rounds = "", 0
        until = time.monotonic() + PATIENCE_S
        while silent_rounds < SILENT_ROUNDS and time.monotonic() < until:
            silent_rounds += 1
            for address in self.addresses:
                try:
                    connection, response = Client(address).open("GET", target, timeout_s=timeout_s)
                except Unreachable as error:
                    reason = error.message
                    continue
                if response.status != http.client.SERVICE_UNAVAILABLE:
                    return connection, response
                reason, silent_rounds = f"{address}: {_reported(response) or 'not ready'}", 0
                connection.close()
            time.sleep(PAUSE_S)
        raise Unreachable(
            f"{UNREACHABLE}: {reason}. Start an agent, or give the option api the address one printed on "
            "its ready line."
        )

    def _refusal(self, route: str, response: http.client.HTTPResponse, query: dict[str, object]) -> ElfError:
        reply = _reported(response)
        if response.status == http.client.NOT_FOUND:
            return RuntimeFailure(
                f"{JOB_UNKNOWN}: no job {self.job!r} runs on this overlay ({reply or 'not found'}). "
                "`elf get jobs` lists them; a deleted job's results are gone with it."
            )
        if response.status == http.client.CONFLICT and self.view and "partial aggregates" in reply:
            return RuntimeFailure(
                f"{NO_PARTIALS}: job {self.job!r}: {reply}. Write KEEP PARTIALS before AS in its text and "
                "apply it again, or begin with a later interval."
            )
        if response.status == http.client.CONFLICT and route == "arrow":
            return DataError(
                f"{SCHEMA_MISMATCH}: job {self.job!r}: {reply}. CAST it in the query to one type."
            )
        if response.status == http.client.CONFLICT:
            return RuntimeFailure(
                f"{NO_RESULT_YET}: job {self.job!r} has no result yet, so its columns' types are not known. "
                "Try again when its first interval has closed, or give a schema of your own."
            )
        if response.status == http.client.GONE and " lost: " in reply:
            return RuntimeFailure(
                f"{INTERVALS_LOST}: job {self.job!r}: {reply}. Read the intervals before and after with "
                "startingInterval and endInterval; a stream needs a new checkpoint that starts after them."
            )
        if response.status == http.client.GONE and "no such numbering" in reply:
            return recreated(self.job, str(query.get("incarnation")), self.offsets().incarnation)
        if response.status == http.client.GONE:
            first = int(str(query["from"])) + 1
            return RuntimeFailure(
                f"{INTERVALS_EXPIRED}: job {self.job!r} no longer holds interval {first} "
                f"({reply or 'gone'}). Start from a later interval; a stream needs a new checkpoint for that."
            )
        return RuntimeFailure(
            f"{AGENT_ERROR}: the agent refused with status {response.status}: {reply or response.reason}"
        )


def _before(reply: dict[str, Any]) -> int:
    return BEFORE_ALL if reply.get("first") is None else int(reply["first"]) - 1


def recreated(job: str, was: str, now: str) -> RuntimeFailure:
    """Return the error of a read whose checkpoint or plan belongs to an earlier job with the same name."""
    return RuntimeFailure(
        f"{JOB_RECREATED}: job {job!r} was deleted and created again since this query's checkpoint "
        f"or plan (incarnation {was}, now {now}). Run a batch again; start a stream with a new checkpoint."
    )


def _reported(response: http.client.HTTPResponse) -> str:
    try:
        body = json.loads(response.read())
    except (ValueError, OSError, http.client.HTTPException):
        return ""
    text = body.get("error", "") if isinstance(body, dict) else ""
    return " ".join(str(text).split())
