"""Whether what clients were told of one job could have happened one after the other (linearizability).

Owns the search (Wing and Gong, with Lowe's memory of what was tried) and the job as a client sees it: a
register that is founded, changed, paused and ended. Knows no agent: a history is what each client asked for,
when, and what it was told. What was not answered, or refused without a verdict, may have happened at any time
since it was asked, or not at all; each request happens once at most. A request that names the version that
its client has seen changes that version or nothing. If it was refused because another version followed, it
has changed nothing; if the job was what it asks for already, it is told "unchanged". Who was told that there
is no such job has changed nothing: an agent that is cut off says so of what it does not know. A read may be
behind, since a master that is cut off answers from what it knows: it tells a state that was there at some
time before its answer, in the one order of all changes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

NEVER = math.inf
OK, NOT_FOUND, REFUSED = 200, 404, (400, 422)
STEPS_MAX = 300_000
"""A history that takes more is not decided: those of the tests take thousands."""
NAMED_ONCE = "(a text that one request names)"
"""Stands for a text that neither another request nor an answer names: which of them a job has is the same."""

READS = ("results", "offsets", "describe")
CHANGES = ("apply", "update", "undo", "delete", "pause", "resume")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a client about one job.

    Attributes:
        verb: one of `CHANGES` or `READS`.
        since: when it was asked.
        until: when it was answered; NEVER if it was not.
        text: of the job, if the verb has one.
        status: of the answer; 0: none.
        body: of the answer.
        seen: the incarnation and the version that its client has seen; None: it does not say.
    """

    verb: str
    since: float
    until: float = NEVER
    text: str = ""
    status: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    seen: tuple[str, int] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether it is known to have changed nothing."""
        return self.status in (NOT_FOUND, *REFUSED) or self.body.get("outcome") == "refused"

    @property
    def is_known(self) -> bool:
        """Whether it is known what became of it: a client may have given up, or have been sent away."""
        return self.status == OK or self.is_refused

    @property
    def earliest(self) -> float:
        """Since when it may have happened."""
        return -math.inf if self.verb in READS else self.since

    def __str__(self) -> str:
        keys = ("state", "version", "incarnation", "earlier", "error")
        notified = {key: self.body[key] for key in keys if key in self.body}
        return f"{self.verb} at {self.since:.3f} to {self.until:.3f}: {self.status or 'no answer'} {notified}"


class State(NamedTuple):
    """A job as its clients see it.

    Attributes:
        lives: whether it is there.
        text: what it evaluates; None: not known, after an undo.
        version: of the text.
        paused: whether its members read.
        incarnation: of its results; "" until a client has read it.
        over: the incarnations before.
    """

    lives: bool = False
    text: str | None = None
    version: int = 0
    paused: bool = False
    incarnation: str = ""
    over: frozenset[str] = frozenset()


def following(state: State, asked: Asked, *, taken_back: bool = False) -> Iterator[State]:
    """The states that a request may lead to with its answer; none if it cannot have happened here.

    `taken_back`: versions that can use few records are undone by the master, which is no client's request.
    """
    notified = asked.body.get("version") if asked.status == OK and asked.verb != "delete" else None
    # A master that is asked again for what it has done answers what the job is by then.
    later = asked.verb in ("pause", "resume") or asked.body.get("state") == "unchanged"
    before = [state]
    if taken_back and notified is not None and notified > state.version:
        made = 0 if asked.verb in (*READS, "pause", "resume") else 1
        before.append(state._replace(text=None, version=notified - made))
    for reached in (each for state in before for each in _reached(state, asked)):
        if notified is None or notified == reached.version or (later and notified > reached.version):
            yield reached


def _reached(state: State, asked: Asked) -> Iterator[State]:
    verb, known = asked.verb, asked.is_known
    if asked.is_refused:
        yield state
    elif verb in READS:
        yield from _read(state, asked)
    elif verb == "delete":
        yield _ended(state)
    elif verb in ("apply", "update"):
        yield from _applied(state, asked, notified=str(asked.body.get("state", "")) if known else "")
    elif state.lives and verb == "undo":
        if asked.body.get("state") == "unchanged":
            yield state
        if _is_seen(state, asked):
            yield state._replace(text=None, version=state.version + 1)
    elif state.lives and verb in ("pause", "resume"):
        yield state._replace(paused=verb == "pause")


def _is_seen(state: State, asked: Asked) -> bool:
    if asked.seen is None:
        return True
    incarnation, version = asked.seen
    return state.version == version and state.incarnation in ("", incarnation)


def _ended(state: State) -> State:
    over = state.over | {state.incarnation} if state.incarnation else state.over
    return State(over=over)


def _applied(state: State, asked: Asked, notified: str) -> Iterator[State]:
    """`notified`: what its client was told became of the job, "" if nothing: "unchanged" is also said of a
    change that was made already when its master was asked for it again."""
    if not state.lives:
        if asked.verb == "apply" and notified in ("", "new", "unchanged"):
            yield State(True, asked.text, 1, False, "", state.over)
        return
    if notified in ("", "unchanged") and state.text in (None, asked.text):
        yield state._replace(text=asked.text)
    if notified != "new" and state.text != asked.text and _is_seen(state, asked):
        yield state._replace(text=asked.text, version=state.version + 1)


def _read(state: State, asked: Asked) -> Iterator[State]:
    body = asked.body
    notified = str(body.get("incarnation", state.incarnation))
    if not state.lives or notified in state.over or state.incarnation not in ("", notified):
        return
    if body.get("state") in ("paused", "running") and (body["state"] == "paused") != state.paused:
        return
    if "text" in body and state.text not in (None, body["text"]):
        return
    yield state._replace(incarnation=notified, text=body.get("text", state.text))


class Undecided(AssertionError):
    """The search took too long."""


def explain(history: Iterable[Asked], *, taken_back: bool = False) -> str:
    """Why a history of one job is not linearizable; "" if it is.

    Raises:
        Undecided: it takes more than `STEPS_MAX` steps to know.
    """
    asked = sorted(history, key=lambda each: (each.until, each.since))
    known = [each for each in asked if each.is_known]
    pending = [each for each in asked if not each.is_known and each.verb not in READS]
    return _Search(known, pending, taken_back).run()


def until(history: Iterable[Asked], end: float) -> list[Asked]:
    """What clients knew at a moment: what was not answered by then may have happened or not."""
    begun = [each for each in history if each.since < end]
    return [each if each.until < end else replace(each, until=NEVER, status=0, body={}) for each in begun]


def _named_once(asked: Iterable[Asked]) -> frozenset[str]:
    """Texts that no other request and no answer names, so that their requests change a job alike."""
    requested = Counter(each.text for each in asked if each.text)
    answered = {each.body.get("text") for each in asked}
    return frozenset(text for text, count in requested.items() if count == 1 and text not in answered)


class _Search:
    """Fewest pending requests first, by what has happened and the state that it led to.

    What is reached with some of the pending requests needs not be reached with more of them.
    """

    def __init__(self, known: Sequence[Asked], pending: Sequence[Asked], taken_back: bool) -> None:
        self._known, self._taken_back = known, taken_back
        self._all = [*known, *pending]
        self._unread = _named_once(self._all)
        self._with = [
            [number for number, each in enumerate(self._all) if each.earliest <= first.until]
            for first in known
        ]
        """By a request: those that may happen before it, if all that were answered before it have."""
        self._reached: dict[tuple[int, State], list[int]] = {}
        self._best, self._best_state = 0, State()

    def run(self) -> str:
        """Nothing if all that is known can have happened; else what cannot, and where that was tried."""
        goal = (1 << len(self._known)) - 1
        steps, queue = 0, [(0, 0, 0, 0, State())]
        while queue:
            *_, done, state = heappop(queue)
            done = self._read(done, goal, state)
            if done & goal == goal:
                return ""
            if not self._is_news(done & goal, done & ~goal, state):
                continue
            if (done & goal).bit_count() > self._best.bit_count():
                self._best, self._best_state = done & goal, state
            for number in self._next(done):
                for following_state in following(state, self._all[number], taken_back=self._taken_back):
                    steps, more = steps + 1, done | 1 << number
                    reached = self._with_names_that_matter(following_state)
                    key = ((more & ~goal).bit_count(), -(more & goal).bit_count(), steps)
                    heappush(queue, (*key, more, reached))
            if steps > STEPS_MAX:
                raise Undecided(f"not decided in {STEPS_MAX} steps; perhaps {self._notified()}")
        return self._notified()

    def _with_names_that_matter(self, state: State) -> State:
        return state._replace(text=NAMED_ONCE) if state.text in self._unread else state

    def _read(self, done: int, goal: int, state: State) -> int:
        """With all reads that this state explains: none of them needs a later one."""
        while done & goal != goal:
            reads = [number for number in self._next(done) if self._all[number].verb in READS]
            notified = [number for number in reads if [*following(state, self._all[number])] == [state]]
            if not notified:
                break
            for number in notified:
                done |= 1 << number
        return done

    def _is_news(self, known: int, pending: int, state: State) -> bool:
        before = self._reached.setdefault((known, state), [])
        if any(fewer & ~pending == 0 for fewer in before):
            return False
        before.append(pending)
        return True

    def _next(self, done: int) -> Iterator[int]:
        """What may happen next: nothing that was asked after something else, which has not happened, had its
        answer. Of several pending requests that say the same only the first is tried."""
        first = (~done & (done + 1)).bit_length() - 1
        same: set[tuple[str, str, tuple[str, int] | None]] = set()
        for number in self._with[first]:
            if done >> number & 1:
                continue
            if number >= len(self._known):
                each = self._all[number]
                asked = (each.verb, NAMED_ONCE if each.text in self._unread else each.text, each.seen)
                if asked in same:
                    continue
                same.add(asked)
            yield number

    def _notified(self) -> str:
        left = [each for number, each in enumerate(self._known) if not self._best >> number & 1]
        last = [each for number, each in enumerate(self._known) if self._best >> number & 1][-3:]
        first = "; ".join(str(each) for each in left[:3])
        before = "; ".join(str(each) for each in last)
        return f"cannot have happened: {first}; at {self._best_state}; behind {before}"


JOB = re.compile(r"(?is)\s*CREATE\s+(?:JOB|TOPIC)\s+(\w+)\.(\w+)")


def named(text: str) -> str:
    """namespace/name of the job of a text."""
    found = JOB.match(text)
    return "" if found is None else f"{found[1]}/{found[2]}"
