"""Verification of a closed interval: agents compute it again from the raw logs, the master compares the rows.

Owns the running verification of one job and its outcome. Changes nothing about the job or its results.

Invariants: one interval is verified at a time, and at most `WAITING_MAX` requests wait; an answer counts
once, and only for the verification that asked for it; a verification ends at most `VERIFY_S` after its start.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import (
    BUCKETS,
    ResultRecord,
    add_counts,
    counts_dict,
    ipc_to_table,
    rows_to_json,
)
from elfmesh.control.jobs.roster import RosterBook, called
from elfmesh.control.jobs.row_pages import joined, table_of
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import RosterEntry, Stage
from elfmesh.control.protocol.events import Finalise, Finalised, LogRead
from elfmesh.control.protocol.messages_safety import Verified, Verify
from elfmesh.control.protocol.replies_changes import Verification
from elfmesh.control.replicas.page_reads import read_rows
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.errors import ProtocolError
from elfmesh.interval_map import numbers
from elfmesh.lazy import lazy_module
from elfmesh.srt.coverage import bits_of

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


VERIFY_S = 900.0
"""How long agents may take to read their logs again."""

WAITING_MAX = 16
"""Intervals that wait for their verification."""

KEPT_MAX = 64
"""Outcomes that the master remembers."""

AGAIN_S = 10.0
"""When the master asks silent agents again. A question may be lost, and a repeated one costs nothing."""

PAYLOAD_BYTES_MAX = 256 << 20
"""What all agents together may send for one comparison, because the master holds it in memory."""

SESSIONS = "an interval with sessions cannot be verified, because its sessions begin in earlier intervals"
PARTITIONS = "an interval with SEALED cannot be verified, because its partitions begin in earlier intervals"
SPANNING = {"SESSION": SESSIONS, "SEALED": PARTITIONS}
"""Why the intervals of groups that span several are refused."""

DIFFERENCES_MAX = 10
"""Differences that an outcome names."""

COMPARED_ROWS = 1024
"""Rows that are compared one by one if they are not equal as a whole."""

SELF_CHECK_DELAY_S = 2.0
"""Between a record and its verification by the master itself."""

REV = 0
"""The revision of rows that are made for a comparison; no published record has it."""


@dataclass(slots=True)
class _Check:
    """One verification."""

    index: int
    token: int
    record: ResultRecord
    rows: bytes
    manifest: Manifest
    waits_for: dict[int, str]
    timer: Timer
    payloads: list[tuple[bytes, ...]] = field(default_factory=list)
    counts: list[tuple[int, ...]] = field(default_factory=list)
    nbytes: int = 0
    latest: SideInput | None = None
    errors: dict[str, str] = field(default_factory=dict)
    agents: dict[str, int] = field(default_factory=dict)


class Verifier:
    """Verifies intervals of one job.

    Args:
        stages: the job's versions.
        book: its roster.
        epoch: the master's term.
    """

    def __init__(self, context: Context, stages: tuple[Stage, ...], book: RosterBook, epoch: int) -> None:
        self._context, self._stages, self._book, self._epoch = context, stages, book, epoch
        self._manifest = stages[-1].manifest
        self._check: _Check | None = None
        self._opening: int | None = None
        self._waiting: deque[int] = deque()
        self._done: OrderedDict[int, Verification] = OrderedDict()
        self._stopped = False
        self._every = int(context.facts("limits").get("self_check", 0))
        self.equal = self.different = 0

    def status(self, index: int) -> Verification:
        """Return the state of the verification of an interval; starts the verification if necessary."""
        if index in self._done:
            return self._done[index]
        if self._check is not None and self._check.index == index:
            return self._state(index, "running", waits_for=sorted(self._check.waits_for.values()))
        if spans := self._spans(index):
            return self._state(index, "refused", error=SPANNING[spans])
        if index != self._opening and index not in self._waiting:
            if len(self._waiting) >= WAITING_MAX:
                return self._state(index, "refused", error="too many wait already")
            self._waiting.append(index)
            self._next()
        return self._state(index, "running", waits_for=[])

    def _state(self, index: int, state: str, **more: Any) -> Verification:
        return Verification(job=self._manifest.qualified, interval=index, state=state, **more)

    def _spans(self, index: int) -> str:
        return read_plan(stage_at(self._stages, index).manifest.text).spans

    def again(self, index: int) -> None:
        """Forget the outcome of an interval, so that it is verified again."""
        self._done.pop(index, None)

    def published(self, record: ResultRecord) -> None:
        """A record is final: the master itself verifies one in `self_check`, a little later."""
        if not self._book.active:  # a job that reads other jobs has no logs
            return
        if self._every and record.state == "FINAL" and record.index % self._every == 0:
            self._context.after(SELF_CHECK_DELAY_S, lambda: self._check_self(record.index))

    def _check_self(self, index: int) -> None:
        if not (self._stopped or self._spans(index)):
            self.status(index)

    def stop(self) -> None:
        self._stopped = True
        self._waiting.clear()
        self._opening = None
        if self._check is not None:
            self._over(self._check)

    def _over(self, check: _Check) -> None:
        check.timer.cancel()
        if check.latest is not None:
            check.latest.stop()
        self._check = None

    # -- one after the other ---------------------------------------------------------------------------

    def _next(self) -> None:
        if self._check is None and self._opening is None and self._waiting:
            index = self._opening = self._waiting.popleft()
            job, incarnation = self._manifest.job_id, self._manifest.incarnation
            self._context.read_log(
                job, incarnation, index, index + 1, 1, lambda read: self._read(index, read)
            )

    def _read(self, index: int, read: LogRead | None) -> None:
        if index != self._opening:
            return
        self._opening = None
        if read is None or read.error:
            self._end(index, "failed", error=read.error if read else "the results log does not answer")
            return
        try:
            page = decode_page(read.page)
        except ProtocolError as error:
            self._end(index, "failed", error=str(error))
            return
        if not page and read.hole is not None:
            self._end(index, "unknown", error=f"interval {index} is damaged on disk and is being fetched")
        elif not page:
            expired = read.expired is not None and index <= read.expired
            text = "is not kept any more" if expired else "has no final record"
            self._end(index, "unknown", error=f"interval {index} {text}")
        elif page[0][0].state == "SKIPPED":
            why = page[0][0].reason or "there is nothing to compare"
            self._end(index, "unknown", error=f"interval {index} was skipped: {why}")
        else:
            self._begin(*page[0])

    def _begin(self, record: ResultRecord, rows: bytes) -> None:
        stage = next((each for each in self._stages if each.manifest.version == record.version), None)
        if stage is None:
            text = f"interval {record.index} is of version {record.version}, whose text is not kept any more"
            self._end(record.index, "unknown", error=text)
            return
        inside = self._inside(record, stage.manifest)
        timer = self._context.after(VERIFY_S, self._late)
        names = {entry.number: entry.name for entry in inside}
        token = self._context.token()
        self._check = _Check(record.index, token, record, rows, stage.manifest, names, timer)
        if len(inside) != record.agents_in:
            gone = f"{record.agents_in} agents are in the record, {len(inside)} of them are still members"
            self._check.errors["the roster"] = gone
            self._finish()
        else:
            self._read_latest(self._check)
            self._ask(self._check.token)

    def _inside(self, record: ResultRecord, manifest: Manifest) -> list[RosterEntry]:
        entries = [self._book.entry(number) for number in numbers(self._book.required(record.index))]
        known = [entry for entry in entries if entry is not None]
        if read_plan(manifest.text).latest:  # `missing` also names agents of the jobs that it sees
            out = bits_of(record.absent)
            return [entry for entry in known if not out >> entry.number & 1]
        shared = self._book.shared_names()
        return [entry for entry in known if not {entry.name, called(entry, shared)} & {*record.missing}]

    def _read_latest(self, check: _Check) -> None:
        if read_plan(check.manifest.text).latest:
            check.latest = SideInput(self._context, [check.manifest], lambda: self._received(check))
            check.latest.begin()
            check.latest.has_read(check.index)

    def _received(self, check: _Check) -> None:
        if check is self._check and check.latest is not None and check.latest.has_read(check.index):
            check.latest.stop()
            if not check.waits_for:
                self._finish()

    def _ask(self, token: int) -> None:
        check = self._check
        if check is None or check.token != token:
            return
        for number in check.waits_for:
            entry = self._book.entry(number)
            if entry is not None:
                self._context.send(entry.contact, Verify(check.manifest, self._epoch, check.index, token))
        self._context.after(AGAIN_S, lambda: self._ask(token))

    def on_verified(self, message: Verified, payload: bytes) -> None:
        check = self._check
        if check is None or message.token != check.token or message.number not in check.waits_for:
            self._context.stats["control.misplaced"] += 1
            return
        sizes = message.sizes
        wrong = sum(sizes) != len(payload) or len(message.counts) > len(BUCKETS)
        if wrong or (not message.error and len(sizes) != self._manifest.partitions):
            self._context.stats["control.malformed"] += 1
            return
        name = check.waits_for.pop(message.number)
        if message.error:
            check.errors[name] = message.error
        elif check.nbytes + len(payload) > PAYLOAD_BYTES_MAX:
            check.errors[name] = f"all agents together sent more than {PAYLOAD_BYTES_MAX} bytes to compare"
        else:
            check.nbytes += len(payload)
            parts, at = [], 0
            for size in sizes:
                parts.append(payload[at : at + size])
                at += size
            check.payloads.append(tuple(parts))
            check.counts.append(message.counts)
            check.agents[name] = message.counts[0] if message.counts else 0
        if not check.waits_for:
            self._finish()

    def _late(self) -> None:
        check = self._check
        if check is not None:
            check.errors.update(dict.fromkeys(check.waits_for.values(), "no answer"))
            check.waits_for.clear()
            if check.latest is not None and not check.latest.has_read(check.index):
                check.errors["the jobs that it reads"] = ", ".join(check.latest.waits_for())
            self._finish()

    def _finish(self) -> None:
        check = self._check
        assert check is not None, "nothing is being verified"
        if check.errors:
            self._conclude("incomplete")
            return
        inputs: tuple[tuple[str, int, bytes], ...] = ()
        if check.latest is not None:
            if not check.latest.has_read(check.index):
                return
            inputs = check.latest.inputs(check.index)
        check.timer.cancel()
        parts = tuple(
            tuple(each[partition] for each in check.payloads if each[partition])
            for partition in range(self._manifest.partitions)
        )
        about = (self._manifest.job_id, self._epoch, check.manifest, check.index, parts, REV)
        effect = Finalise(*about, inputs=inputs)
        self._context.emit(effect)

    def finalised(self, event: Finalised) -> None:
        check = self._check
        if check is None or check.index != event.interval:
            return
        if event.error:
            check.errors["the root"] = event.error
            self._conclude("incomplete")
            return
        if check.rows == event.rows:
            table = table_of(check.rows)
            count = sum(page.rows for page in table.pages) if table else len(ipc_to_table(check.rows))
            self._conclude("equal", rows=count)
            return

        def read(rows: bytes | None) -> None:
            if check is not self._check:
                return
            if rows is None:
                check.errors["the results log"] = "a page of the rows cannot be read"
                self._conclude("incomplete")
            else:
                made = table_of(event.rows)
                again = event.rows if made is None else joined(event.pages[: len(made.pages)])
                self._compare(check, ipc_to_table(rows), ipc_to_table(again))

        about = (self._manifest.job_id, self._manifest.incarnation, check.index)
        read_rows(self._context, *about, check.rows, read)

    def _compare(self, check: _Check, published: pa.Table, again: pa.Table) -> None:
        differences = differing(published, again)
        lost = check.latest.lacks(check.index) if differences and check.latest is not None else []
        if lost:
            check.errors.update(dict.fromkeys(lost, "its records before this interval are not kept any more"))
            self._conclude("incomplete")
        elif differences:
            self._conclude("different", rows=len(again), differences=differences)
        else:
            self._conclude("equal", rows=len(published))

    def _conclude(self, state: str, **more: Any) -> None:
        check = self._check
        assert check is not None, "nothing is being verified"
        self._over(check)
        if state == "equal":
            self.equal += 1
        elif state == "different":
            self.different += 1
            self._context.stats["control.verify_different"] += 1
        self._end(
            check.index,
            state,
            digest=hashlib.blake2b(check.rows, digest_size=16).hexdigest(),
            published=dict(check.record.counts),
            recomputed=counts_dict(add_counts(check.counts)),
            agents=[{"agent": name, "records": number} for name, number in sorted(check.agents.items())],
            errors=[{"agent": name, "error": text} for name, text in sorted(check.errors.items())],
            **more,
        )

    def _end(self, index: int, state: str, **more: Any) -> None:
        self._done[index] = self._state(index, state, **more)
        while len(self._done) > KEPT_MAX:
            self._done.popitem(last=False)
        self._next()


def differing(published: pa.Table, recomputed: pa.Table) -> list[dict[str, Any]]:
    """The first rows that differ, as JSON values; None stands for a row that one side lacks.

    Cost: a comparison of columns; only stretches that are not equal become Python objects.
    """
    found: list[dict[str, Any]] = []
    for at in range(0, max(len(published), len(recomputed)), COMPARED_ROWS):
        one, other = published.slice(at, COMPARED_ROWS), recomputed.slice(at, COMPARED_ROWS)
        if one.equals(other):
            continue
        pairs = zip_longest(rows_to_json(one), rows_to_json(other))
        found += [{"published": row, "recomputed": again} for row, again in pairs if row != again]
        if len(found) >= DIFFERENCES_MAX:
            break
    return found[:DIFFERENCES_MAX]
