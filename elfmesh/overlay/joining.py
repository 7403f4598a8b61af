"""Joining: seeds, this agent's own id, its siblings' rows, one look-up per row.

    idle -> seeding (ping seeds, and agents of an earlier boot; jittered retries) -> looking (look up the own
    id) -> fetching (rows of the 3 closest) -> joined (then refresh each row once)

Owns the seeds, the agents of an earlier boot and the stage. Stores no contacts. A join that has not succeeded
within the limit reports this once, with the reason, and continues, because a seed may start later.

Invariants: `Joined` is emitted exactly when the stage becomes joined. An agent without seeds is the first of
its overlay and is joined immediately. An agent of an earlier boot is accepted only with the id that it had,
because its address may now belong to another agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from elfmesh.ids import DIGIT_BITS, ID_BITS, ID_BYTES
from elfmesh.machine import Contact, Message
from elfmesh.overlay.context import Context
from elfmesh.overlay.events import Joined, JoinFailed
from elfmesh.overlay.lookup import Lookups
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Found, Rows
from elfmesh.overlay.table import SIBLINGS

JOIN_LIMIT_S = 10.0
"""Time after which the operator is informed that the agent has not joined."""

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 5.0
SEEDS_MAX = 64
SEEDS_PINGED = 8
REMEMBERED_PINGED = 8
"""Agents of an earlier boot that are pinged at each attempt, because all seeds may be gone."""
SEED_GRACE_S = 0.1
"""Time for other seeds after the first answer, so that one join can connect two separate parts."""

ROWS_FROM = 3
ROWS_CONTACTS_MAX = 256
"""Maximum number of contacts of one `Rows` answer; a full table in an overlay of a million agents has about
80."""

MERGE_S = 5.0
"""Minimum time between two searches for the other half of a healed partition."""

Address = tuple[str, int]


class Joiner:
    """Joining and rejoining of the overlay.

    Args:
        context: shared context.
        members: receives the contacts.
        lookups: runs the searches.
        limit_s: when to report failure.
    """

    def __init__(
        self,
        context: Context,
        members: Membership,
        lookups: Lookups,
        *,
        limit_s: float = JOIN_LIMIT_S,
    ) -> None:
        self._context = context
        self._members = members
        self._lookups = lookups
        self._limit_s = limit_s
        self._seeds: dict[Address, bool] = {}  # whether it has ever answered
        self._remembered: tuple[Contact, ...] = ()
        self._retry_s = RETRY_FIRST_S
        self._merged = float("-inf")
        self._problem = "no seed has answered"
        self.stage = "idle"

    @property
    def joined(self) -> bool:
        return self.stage == "joined"

    def remember(self, contacts: tuple[Contact, ...]) -> None:
        """Add agents of an earlier boot, which are pinged besides the seeds."""
        self._remembered = tuple(each for each in contacts if self._context.acceptable(each))

    def start(self, seeds: Sequence[Address]) -> None:
        """Join through `seeds`, or add them to a join in progress; after a join, ping them."""
        mine = (self._context.me.host, self._context.me.port)
        fresh = [seed for seed in dict.fromkeys(seeds) if seed != mine and seed not in self._seeds]
        for seed in fresh[: SEEDS_MAX - len(self._seeds)]:
            self._seeds[seed] = False
        if self.joined:
            for seed in fresh:
                self.meet(seed)
        elif not self._seeds:
            self._become_joined()
            for contact in self._some_remembered():
                self._ping(contact, self.merge)
        elif self.stage == "idle" or fresh:
            self._context.timers.set("join-limit", self._context.now + self._limit_s, self._report)
            self._attempt()

    def _report(self) -> None:
        if not self.joined:
            self._context.count("joins_failed")
            self._context.emit(JoinFailed(self._problem))

    def _attempt(self) -> None:
        context = self._context
        self.stage = "seeding"
        context.timers.cancel("join")
        seeds = list(self._seeds)
        chosen = [Contact(b"", *seed) for seed in context.rng.sample(seeds, min(SEEDS_PINGED, len(seeds)))]
        chosen += self._some_remembered()
        outstanding = dict.fromkeys(chosen)
        answered: list[Contact] = []

        def done(asked: Contact, answer: Message | None, sender: Contact) -> None:
            del outstanding[asked]
            if answer is not None and (asked.id or self._met((asked.host, asked.port), sender)):
                answered.append(sender)
                if len(answered) == 1 and outstanding and self.stage == "seeding":
                    context.timers.set("join", context.now + SEED_GRACE_S, self._look)
            if not outstanding and self.stage == "seeding":
                if answered:
                    self._look()
                elif not self._seeds:
                    self._become_joined()
                else:
                    self._later()

        for contact in chosen:
            context.ping(contact, None, partial(done, contact))

    def _some_remembered(self) -> list[Contact]:
        known = self._remembered
        return self._context.rng.sample(known, min(REMEMBERED_PINGED, len(known)))

    def _met(self, seed: Address, sender: Contact) -> bool:
        me = self._context.me
        if sender == me:
            del self._seeds[seed]
            return False
        if sender.id == me.id:
            self._problem = (
                f"another agent at {seed[0]}:{seed[1]} has this agent's id; give one of them another"
            )
            return False
        self._seeds[seed] = True
        return True

    def _later(self) -> None:
        names = ", ".join(f"{host}:{port}" for host, port in self._seeds)
        if "has this agent's id" not in self._problem:
            self._problem = f"no seed answered ({names})"
        self._context.timers.set("join", self._context.after(self._retry_s, 0.5), self._attempt)
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def _look(self) -> None:
        self._context.timers.cancel("join")
        self.stage = "looking"
        self._lookups.start(self._context.me.id, self._looked, k=SIBLINGS)

    def _looked(self, contacts: tuple[Contact, ...], _: float | None) -> None:
        if self.stage != "looking":
            return
        closest = [contact for contact in contacts if contact.id != self._context.me.id][:ROWS_FROM]
        if not closest:
            self.stage = "seeding"
            self._problem = "the seeds answered, but no agent answered a look-up"
            self._later()
            return
        self.stage = "fetching"
        waiting = len(closest)

        def fetched() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting == 0 and self.stage == "fetching":
                self._become_joined()

        for contact in closest:
            self.fetch_rows(contact, then=fetched)

    def fetch_rows(
        self, source: Contact, *, quarantined_too: bool = False, then: Callable[[], None] | None = None
    ) -> None:
        """Request a peer's rows and consider every contact in them; `then` is called in either case."""
        context = self._context
        rid = context.calls.next_rid()
        context.send(source, Rows(rid))

        def done(answer: Message | None, _: Contact) -> None:
            if isinstance(answer, Found):
                for contact in answer.contacts[:ROWS_CONTACTS_MAX]:
                    self._members.consider(contact, quarantined_too=quarantined_too)
            if then is not None:
                then()

        context.calls.wait(rid, source, Found, done, context.calls.timeout(self._members.peer(source.id)))

    def _become_joined(self) -> None:
        self.stage = "joined"
        self._context.timers.cancel("join")
        self._context.timers.cancel("join-limit")
        self._context.emit(Joined())
        for row in range(self._context.table.rows()):
            self.refresh(row)

    def refresh(self, row: int) -> None:
        """Look up a random id that shares `row` digits with this agent.

        The agents that answer fill the row.
        """
        context = self._context
        below = ID_BITS - DIGIT_BITS * (row + 1)
        other = context.rng.randrange(1, 1 << DIGIT_BITS) << below
        key = context.n ^ other ^ context.rng.getrandbits(below or 1) * (below > 0)
        self._lookups.start(key.to_bytes(ID_BYTES), _nothing)

    def merge(self, other: Contact) -> None:
        """Process the return of an agent after a partition: search for more of them, with a rate limit."""
        context = self._context
        if not self.joined or context.now < self._merged + MERGE_S:
            return
        self._merged = context.now
        context.count("merges")
        self.fetch_rows(other, quarantined_too=True)
        self._lookups.start(context.me.id, _nothing, k=SIBLINGS, quarantined_too=True)

    def meet(self, seed: Address) -> None:
        def there(sender: Contact) -> None:
            if self._met(seed, sender):
                self.merge(sender)

        self._ping(Contact(b"", *seed), there)

    def _ping(self, contact: Contact, there: Callable[[Contact], None]) -> None:
        def done(answer: Message | None, sender: Contact) -> None:
            if answer is not None:
                there(sender)

        self._context.ping(contact, None, done)

    def unmet(self, *, all_lost: bool) -> list[Address]:
        """Return the seeds to ping again: those that never answered, or any if all contacts are lost."""
        return [seed for seed, met in self._seeds.items() if all_lost or not met]


def _nothing(contacts: tuple[Contact, ...], at: float | None) -> None: ...
