"""Barrier of one tree at one agent: it holds parts back, merges them and sends each contribution up once.

Owns the record of counted contributions (cells) and the rules by which parts are accepted, held
(`held_parts`), waited for (`gates`), merged (`merging`) and sent (`outflow`). Does not depend on peers,
connections or time. It has no timers: a range is sent in the same step that completes it.

Rules:
1. Let the frontier g be the minimum over the contributors (this agent, and children that contribute).
   Everything below g is merged and sent up as one claim. A contributor whose gate is None is not waited for.
2. Coverage decides, and not the shape of the tree. A segment whose agents are all counted already is a
   duplicate; a segment with none of them is accepted. A partial overlap is reported to the root, which
   collects the range as the next attempt.
   An agent that learns of an attempt from a peer instead of the root's order reports this to the root. The
   root then repeats the order, because other agents may have missed it too.
3. Below the front, and in every attempt after the first, segments go up immediately. In later attempts, and
   when they are sent again, they are not merged, so that each is a duplicate or disjoint. Therefore the
   collection terminates.
4. The parts that a departing child left here go up immediately and unmerged, as the same partials that the
   child will send again to its next parent.
5. A revision replaces the waiting part of its agent and goes up immediately and unmerged, again in every
   attempt.
6. A higher epoch empties the barrier; a lower one is refused and counted (D-5).

Invariants: parts in `pending` are at or above `front` and have attempt 0. The coverages of all parts that
were accepted for one (interval, attempt) are disjoint. Nothing below `released` is held.

Paper: ELF 3, Figure 9. Deviation: coverage bitmaps in addition to the barrier, see `coverage`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elfmesh.srt.coverage import Cells, CoverageCell, PartialOverlap, Revisions, extend, judge
from elfmesh.srt.gates import Gates
from elfmesh.srt.held_parts import HeldParts
from elfmesh.srt.merging import MergeJob, Merger, still_wanted
from elfmesh.srt.messages import FIRST, Refused
from elfmesh.srt.outflow import Outflow
from elfmesh.srt.parts import Part, runs
from elfmesh.srt.ports import Above


class Barrier:
    """Barrier of one tree at one agent.

    Args:
        above: receives the output.
        request: asks the host for a merge, returns its token.
        count: counts a named incident.
        payload_bytes_max: limit of one message.
        held_bytes_max: limit of pending and sent parts together. Sent parts of others are dropped first; then
            segments of children are refused until there is room.
    """

    def __init__(
        self,
        above: Above,
        request: Callable[[int, tuple[bytes, ...]], int],
        count: Callable[[str], None],
        *,
        payload_bytes_max: int,
        held_bytes_max: int,
    ) -> None:
        self._above = above
        self._count = count
        self._payload_bytes_max = payload_bytes_max
        self._merger = Merger(request, payload_bytes_max, count)
        self._gates = Gates()
        self._held = HeldParts(held_bytes_max)
        self._up = Outflow(above, self._held)
        self.epoch = 0
        self.released = FIRST
        self._clear()

    def _clear(self) -> None:
        self.front: int | None = None
        self._up.forget()
        self._cells = Cells()
        self._revisions = Revisions()
        self._held.clear()
        self._merger.clear()

    # -- contributors

    def child_joined(self, child: bytes, epoch: int, frontier: int | None) -> None:
        self._gates.enter(child)
        if epoch >= self.epoch and self.meet(epoch):
            self._gates.place(child, frontier)
        self.advance()

    def child_stands(self, child: bytes, frontier: int) -> None:
        """Note a child's frontier: everything below was claimed and acknowledged, so it is not waited for."""
        if self._gates.correct(child, frontier):
            self._count("gate_corrected")
            self.advance()

    def child_left(self, child: bytes) -> None:
        """Handle the departure or death of a child: stop waiting for it, and send up its parts unmerged."""
        self._gates.leave(child)
        for part in self._held.pending.take_from(child):
            self._up.forward(replace(part, alone=True))
        self.advance()

    def meet(self, epoch: int) -> bool:
        """Return whether `epoch` is the current one.

        A higher epoch becomes current and empties the barrier.
        """
        if epoch < self.epoch:
            self._count("stale_epoch")
            return False
        if epoch > self.epoch:
            self.epoch = epoch
            self.released = FIRST  # may be another job of this name, whose master says what is closed
            self._gates.renew()
            self._clear()
        return True

    def retire(self) -> None:
        """End this agent's contributions; the earlier ones stay."""
        self._gates.retire()
        self.advance()

    # -- input

    def contribute(self, part: Part, epoch: int) -> None:
        """Add this agent's own part. An empty range only declares its start."""
        if not self.meet(epoch):
            return
        if self._gates.begin(part.start):
            self.advance()
        if part.start < self.released:
            self._count("stale_released")
            part = part.cut(self.released, max(part.stop, self.released))
        for piece in self._refuse_oversize(part) if part.coverage else ():
            if piece.rev > 1:
                self._held.own.take(piece.start, piece.stop)
            self._held.own.add(piece)
            for cell in self._cells.pieces(piece.start, piece.stop):
                self._intake(replace(piece.cut(cell.start, cell.stop), attempt=cell.attempt))
        self._gates.reach(part.stop)
        self._shrink()
        self.advance()

    def receive(self, part: Part, epoch: int, *, claims: bool) -> tuple[Refused, ...] | None:
        """Add a child's part.

        Returns ranges to send again for a higher attempt; None if there is no room for it.
        """
        if not self.meet(epoch):
            return ()
        if part.items and not self._held.has_room(part):
            self._count("refused_full")
            return None
        refused: list[Refused] = []
        if part.coverage:
            self._intake(part, refused)
        if claims:
            self._gates.claim(part.source, part.start, part.stop)
        self._shrink()
        self.advance()
        return tuple(refused)

    def merged(self, token: int, payload: bytes | None, error: str) -> None:
        if (job := self._merger.merged(token, payload, error)) is not None:
            self._finish(job)

    # -- decisions of the root

    def release(self, stop: int) -> None:
        if stop <= self.released:
            return
        self.released = stop
        self._cells.drop_below(stop)
        self._revisions.forget(FIRST, stop)
        self._held.release(stop)
        self.advance()

    def recollect(self, epoch: int, start: int, stop: int, attempt: int, *, ordered: bool) -> None:
        """Collect the range again.

        `ordered`: the root ordered it; otherwise this agent asks the root to order it.
        """
        if not self.meet(epoch):
            return
        behind: list[tuple[int, int]] = []
        for cell in self._cells.pieces(max(start, self.released), stop):
            if cell.attempt < attempt:
                extend(behind, cell.start, cell.stop)
        for low, high in behind:
            self._raise(low, high, attempt)
            if not ordered:
                self._above.lagging(low, high, attempt)

    def at_least(self, start: int, stop: int, attempt: int, *, behind_only: bool) -> list[Refused]:
        """Return the orders that make the range [start, stop) collected as `attempt` or later.

        `behind_only` excludes the parts of the range that have reached the attempt already.
        """
        cells = self._cells.pieces(max(start, self.released), stop)
        wanted = [cell for cell in cells if cell.attempt < attempt or not behind_only]
        return [Refused(cell.start, cell.stop, max(cell.attempt, attempt)) for cell in wanted]

    def hasten(self, epoch: int, stop: int) -> None:
        if self.meet(epoch) and self._gates.hasten(stop):
            self.advance()

    # -- output

    @property
    def held_bytes(self) -> int:
        return self._held.nbytes

    @property
    def merging(self) -> int:
        return len(self._merger)

    @property
    def standing(self) -> int | None:
        """Return the frontier for a new parent, below which it need not wait; None if there is none."""
        return None if self._gates.frontier(self.released) is None else self.front

    def opened(self, announced: int | None) -> None:
        """Start the output to a parent, to which `announced` was announced (None: this agent is the root)."""
        self._up.resume(announced)
        if self._held.truncated:
            self._send_own_again()
        self.advance()

    def closed(self) -> None:
        """Stop the output, because there is no parent."""
        self._up.pause()

    def advance(self) -> None:
        """Apply rule 1."""
        g = self._gates.frontier(self.released)
        if g is not None and self.front is None:
            self.front = g
        if not self._up.open:
            return
        pending = self._held.pending
        if g is None or self.front is None:
            self._up.announce(None)
            if pending.lowest is not None:
                self._send(pending.lowest, max(part.stop for part in pending), claims=False)
            return
        lowest = pending.lowest
        if lowest is not None and lowest < self.front:
            self._send(lowest, self.front, claims=False)
        self._up.announce(self.front)
        if g > self.front:
            front = self.front
            self.front = g
            self._up.claimed(g)
            self._send(front, g, claims=True)

    def _send_own_again(self) -> None:
        for part in self._held.own:
            for cell in self._cells.pieces(part.start, part.stop):
                self._up.again(replace(part.cut(cell.start, cell.stop), attempt=cell.attempt))

    def _send(self, start: int, stop: int, *, claims: bool) -> None:
        """Send the pending parts of [start, stop), split where the coverage changes."""
        for low, high, coverage, parts in runs(self._held.pending.take(start, stop), start, stop):
            if low < high and (claims or coverage):
                for done in self._merger.begin(low, high, parts, coverage, claims=claims):
                    self._finish(done)

    def _finish(self, job: MergeJob) -> None:
        for drop in job.drops:
            self._above.fault(drop.interval, drop.interval + 1, drop.coverage, drop.error)
        for part, claims in job.parts():
            cells = self._cells.pieces(part.start, part.stop)
            for piece, piece_claims in still_wanted(part, claims, self.released, cells):
                self._up.forward(piece, claims=piece_claims)
        self._shrink()

    # -- coverage

    def _intake(self, part: Part, refused: list[Refused] | None = None) -> None:
        """Apply rule 2 to a part."""
        if part.start < self.released:
            self._count("stale_released")
            part = part.cut(self.released, max(part.stop, self.released))
        accepted: list[tuple[int, int]] = []
        for cell in self._cells.pieces(part.start, part.stop):
            if part.attempt < cell.attempt:
                self._count("stale_attempt")
                if refused is not None:
                    refused.append(Refused(cell.start, cell.stop, cell.attempt))
                continue
            if part.attempt > cell.attempt:
                self._raise(cell.start, cell.stop, part.attempt)
                self._above.lagging(cell.start, cell.stop, part.attempt)
                self._intake(part.cut(cell.start, cell.stop), refused)
                continue
            verdict = judge(part.coverage, cell.known)
            if part.rev > 1:
                verdict = self._revisions.judge(part.start, part.coverage, part.rev)
            if verdict is PartialOverlap.DUPLICATE:
                self._count("duplicates")
            elif verdict is PartialOverlap.OVERLAP:
                self._count("overlaps")
                self._above.overlap(cell.start, cell.stop, part.attempt)
            else:
                self._cells.put(CoverageCell(cell.start, cell.stop, part.attempt, cell.known | part.coverage))
                extend(accepted, cell.start, cell.stop)
        for start, stop in accepted:
            self._place(part.cut(start, stop))

    def _place(self, part: Part) -> None:
        """Store an accepted part at the barrier or, by rule 3, send it up."""
        if part.rev > 1:
            self._held.pending.take(part.start, part.stop, part.coverage)
        if part.alone or part.attempt or part.rev > 1:
            self._up.forward(replace(part, alone=True))
            return
        front = part.start if self.front is None else min(max(self.front, part.start), part.stop)
        if part.start < front:
            self._up.forward(part.cut(part.start, front))
        if front < part.stop:
            self._held.pending.add(part.cut(front, part.stop))

    def _raise(self, start: int, stop: int, attempt: int) -> None:
        """Begin a later attempt: forget the earlier one and send this agent's own part unmerged."""
        self._cells.put(CoverageCell(start, stop, attempt))
        self._revisions.forget(start, stop)
        self._held.pending.take(start, stop)
        self._held.sent.take(start, stop)
        for part in self._held.own:
            if part.start < stop and start < part.stop:
                self._intake(replace(part.cut(start, stop), attempt=attempt))

    def _refuse_oversize(self, part: Part) -> list[Part]:
        """Remove contributions whose payload no message can carry; they are reported with their agents."""
        pieces, oversize = part.without_oversize(self._payload_bytes_max)
        for item in oversize:
            self._count("entry_oversize")
            size, most = len(item.payload), self._payload_bytes_max
            error = f"its partial has {size} bytes, more than {most}; more PARTITIONS make it smaller"
            self._above.fault(item.interval, item.interval + 1, part.coverage, error)
        return pieces

    def _shrink(self) -> None:
        for _ in range(self._held.shrink()):
            self._count("retained_dropped")
