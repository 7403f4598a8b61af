"""Verification of a closed interval: agents compute it again from the raw logs, the master compares the rows.

Owns the running verification of one job and its outcome. Changes nothing about the job or its results. The
same contributions also measure what the rows would have been without some members (`loss_measurement`).

Invariants: one interval is verified at a time, and at most `WAITING_MAX` requests wait; an answer counts
once, and only for the verification that asked for it; a verification ends at most `VERIFY_S` after its start.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import COUNTS_MAX, ResultRecord, add_counts, counts_dict
from elfmesh.control.jobs.roster import RosterBook, called
from elfmesh.control.jobs.row_pages import joined, table_of
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import RosterEntry, Stage
from elfmesh.control.master.loss_measurement import Losses, LossMeasurement
from elfmesh.control.master.row_differences import differing
from elfmesh.control.master.running_check import Outcome, RunningCheck, VerifyRequest, state_of
from elfmesh.control.protocol.events import Finalise, Finalised, LogRead
from elfmesh.control.protocol.messages_safety import Verified, Verify
from elfmesh.control.replicas.page_reads import read_rows
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.errors import ProtocolError
from elfmesh.interval_map import numbers
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.srt.coverage import bits_of

if TYPE_CHECKING:
    import pyarrow as pa

VERIFY_S = 900.0
"""How long agents may take to read their logs again."""

WAITING_MAX = 16
"""Intervals that wait for their verification."""

KEPT_MAX = 64
"""Outcomes that the master remembers."""

AGAIN_S = 10.0
"""When the master asks silent agents again. A question may be lost, and a repeated one costs nothing."""

SESSIONS = "an interval with sessions cannot be verified, because its sessions begin in earlier intervals"
PARTITIONS = "an interval with SEALED cannot be verified, because its partitions begin in earlier intervals"
NO_MEMBERS = "a job that reads other jobs has no logs; measure the jobs that it reads"
COUNTS = "an interval with ROWS cannot be verified, because its windows begin in earlier intervals"
BANDS = "an interval with WITHIN cannot be verified, because it joins records of earlier intervals"
SPANNING = {"SESSION": SESSIONS, "SEALED": PARTITIONS, "ROWS": COUNTS, "WITHIN": BANDS}
"""Why the intervals of groups that span several are refused."""

SELF_CHECK_DELAY_S = 2.0
"""Between a record and its verification by the master itself."""

REV = 0
"""The revision of rows that are made for a comparison; no published record has it."""


class Verifier:
    """Verifies intervals of one job.

    Args:
        stages: the job's versions.
        book: its roster.
        epoch: the master's term.
        rates: how many records members usually have.
    """

    def __init__(
        self, context: Context, stages: tuple[Stage, ...], book: RosterBook, epoch: int, rates: Rates
    ) -> None:
        self._context, self._stages, self._book, self._epoch = context, stages, book, epoch
        self._rates = rates
        self._manifest = stages[-1].manifest
        self._check: RunningCheck | None = None
        self._opening: VerifyRequest | None = None
        self._waiting: deque[VerifyRequest] = deque()
        self._done: OrderedDict[VerifyRequest, Outcome] = OrderedDict()
        self._stopped = False
        self._every = int(context.facts("limits").get("self_check", 0))
        self.equal = self.different = 0

    def status(self, index: int, losses: Losses = ()) -> Outcome:
        """Return the state of the verification of an interval; starts the verification if necessary.

        Args:
            index: number of the interval.
            losses: measure the rows without these members, instead of comparing them with the published.
        """
        request = VerifyRequest(index, losses)
        if request in self._done:
            return self._done[request]
        if self._check is not None and self._check.request == request:
            waits_for = sorted(self._check.waits_for.values())
            return state_of(self._manifest, request, "running", waits_for=waits_for)
        if problem := self._refused(request):
            return state_of(self._manifest, request, "refused", error=problem)
        if request != self._opening and request not in self._waiting:
            if len(self._waiting) >= WAITING_MAX:
                return state_of(self._manifest, request, "refused", error="too many wait already")
            self._waiting.append(request)
            self._next()
        return state_of(self._manifest, request, "running", waits_for=[])

    def _refused(self, request: VerifyRequest) -> str:
        if spans := self._spans(request.index):
            return SPANNING[spans]
        return NO_MEMBERS if request.losses and not self._book.active else ""

    def _spans(self, index: int) -> str:
        return read_plan(stage_at(self._stages, index).manifest.text).spans

    def again(self, index: int, losses: Losses = ()) -> None:
        """Forget the outcome of an interval, so that it is verified again."""
        self._done.pop(VerifyRequest(index, losses), None)

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

    def _over(self, check: RunningCheck) -> None:
        check.timer.cancel()
        if check.latest is not None:
            check.latest.stop()
        self._check = None

    # -- one after the other ---------------------------------------------------------------------------

    def _next(self) -> None:
        if self._check is None and self._opening is None and self._waiting:
            request = self._opening = self._waiting.popleft()
            job, incarnation, index = self._manifest.job_id, self._manifest.incarnation, request.index
            self._context.read_log(
                job, incarnation, index, index + 1, 1, lambda read: self._read(request, read)
            )

    def _read(self, request: VerifyRequest, read: LogRead | None) -> None:
        if request != self._opening:
            return
        self._opening, index = None, request.index
        if read is None or read.error:
            self._end(request, "failed", error=read.error if read else "the results log does not answer")
            return
        try:
            page = decode_page(read.page)
        except ProtocolError as error:
            self._end(request, "failed", error=str(error))
            return
        if not page and read.hole is not None:
            self._end(request, "unknown", error=f"interval {index} is damaged on disk and is being fetched")
        elif not page:
            expired = read.expired is not None and index <= read.expired
            text = "is not kept any more" if expired else "has no final record"
            self._end(request, "unknown", error=f"interval {index} {text}")
        elif page[0][0].state == "SKIPPED":
            why = page[0][0].reason or "there is nothing to compare"
            self._end(request, "unknown", error=f"interval {index} was skipped: {why}")
        else:
            self._begin(request, *page[0])

    def _begin(self, request: VerifyRequest, record: ResultRecord, rows: bytes) -> None:
        stage = next((each for each in self._stages if each.manifest.version == record.version), None)
        if stage is None:
            text = f"interval {record.index} is of version {record.version}, whose text is not kept any more"
            self._end(request, "unknown", error=text)
            return
        inside = self._inside(record, stage.manifest)
        timer = self._context.after(VERIFY_S, self._late)
        names = {entry.number: entry.name for entry in inside}
        token = self._context.token()
        measurement = LossMeasurement(request.losses, read_plan(stage.manifest.text), self._rates)
        about = (request, token, record, rows, stage.manifest)
        self._check = RunningCheck(*about, names, timer, measurement)
        if len(inside) != record.agents_in:
            gone = f"{record.agents_in} agents are in the record, {len(inside)} of them are still members"
            self._check.errors["the roster"] = gone
            self._finish()
        elif record.partly:
            text = (
                "the record contains what it had read when it was lost, and no agent reads exactly that again"
            )
            self._check.errors |= {each.agent: text for each in record.partly}
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

    def _read_latest(self, check: RunningCheck) -> None:
        if read_plan(check.manifest.text).latest:
            check.latest = SideInput(self._context, [check.manifest], lambda: self._received(check))
            check.latest.begin()
            check.latest.has_read(check.index)

    def _received(self, check: RunningCheck) -> None:
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
        wrong = sum(sizes) != len(payload) or len(message.counts) > COUNTS_MAX
        if wrong or (not message.error and len(sizes) != self._manifest.partitions):
            self._context.stats["control.malformed"] += 1
            return
        check.take(message, payload)
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
        if check.latest is not None and not check.latest.has_read(check.index):
            return
        check.timer.cancel()
        self._make(check)

    def _make(self, check: RunningCheck) -> None:
        """Order the rows of all members, or of those that a loss leaves."""
        lost = check.measurement.next_lost(check.inside, check.counts)
        parts = check.parts(self._manifest.partitions, lost)
        inputs = () if check.latest is None else check.latest.inputs(check.index)
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
        if check.request.losses:
            self._measured(check, event)
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
                self._compare(check, ipc_to_table(rows), _table(event))

        about = (self._manifest.job_id, self._manifest.incarnation, check.index)
        read_rows(self._context, *about, check.rows, read)

    def _measured(self, check: RunningCheck, event: Finalised) -> None:
        if check.measurement.made(_table(event)):
            self._conclude("measured", rows=check.measurement.rows, cases=check.measurement.cases)
        else:
            self._make(check)

    def _compare(self, check: RunningCheck, published: pa.Table, again: pa.Table) -> None:
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
        more["errors"] = [{"agent": name, "error": text} for name, text in sorted(check.errors.items())]
        if not check.request.losses:
            more |= {
                "digest": hashlib.blake2b(check.rows, digest_size=16).hexdigest(),
                "published": dict(check.record.counts),
                "recomputed": counts_dict(add_counts(check.counts.values())),
                "agents": check.agents(),
            }
        self._end(check.request, state, **more)

    def _end(self, request: VerifyRequest, state: str, **more: Any) -> None:
        self._done[request] = state_of(self._manifest, request, state, **more)
        while len(self._done) > KEPT_MAX:
            self._done.popitem(last=False)
        self._next()


def _table(event: Finalised) -> pa.Table:
    made = table_of(event.rows)
    return ipc_to_table(event.rows if made is None else joined(event.pages[: len(made.pages)]))
