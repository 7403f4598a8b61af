"""Where a new job lives: one of two salted ids, at the agent of the two that leads fewer jobs.

Owns the choice, which is made once, before a job is registered. From then on the job's id is like any other:
its tree, register, master and successors know nothing of placements.

A job's *home* is the id of its first placement. Every word about a new job comes by there: who is closest to
the home asks its neighbours and the other placement whether they know the job, and only if none does
compares how many jobs each leads. Of equals the home wins. If the request names rules of hosts
(`srt.residency`), the job lives where more of them are satisfied. If both know it, an agent has missed its
end at one of them: the register of the home decides whether the job lives there.

Invariants: a job is begun only after both placements have said that they do not know it; while one of them is
silent, or hears from too few of its neighbours to say so, nothing is begun. A client that looks first learns
the placement, and its request begins the job there or nowhere: a late copy of it finds the job's tombstone.
While a request may be under way to the other placement, others about the job follow it, so that two of them
begin it at one placement.

Paper: ELF 4.3, Figure 12c (500, 1,000 and 2,000 trees over 1,000 agents). Deviation: plain hashing misses
those figures as they are worded; the less loaded of two choices (Azar et al. 1994) meets them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import OK, UNAVAILABLE, error_body, read_answer, respond
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS
from elfmesh.control.protocol.messages import Answered, Ask, Submit
from elfmesh.control.register.first_acceptors import Survey
from elfmesh.control.requests.precondition import read_seen
from elfmesh.errors import ElfError
from elfmesh.ids import ID_BYTES
from elfmesh.machine import Contact
from elfmesh.ql.values.row_json import encode_json
from elfmesh.srt.residency import ANYWHERE, Rule, admitted

VERB = "seat"
ANSWER_S = 1.5
"""Time limit of the first attempt to ask the other placement, which asks the agents near it. It doubles,
because between distant agents each attempt takes some round trips."""

TRIES = 3
"""How often the other placement is asked: longer than a dead agent goes unseen, and within a request's
time."""

PASSED_MAX = 4096
"""Jobs remembered of which a request went to the other placement."""

UNDER_WAY_S = 30.0
"""For so long a word may be on its way there: until then the other placement need not know of the job."""

SILENT = "an agent that may know the job does not answer"
NOWHERE = Contact(bytes(ID_BYTES), "", 0)
"""An agent whose labels are not known."""


class Placement:
    """Places new jobs whose home is here, and tells other agents of those that have a placement here.

    Args:
        leadership: what is led here, and what is known of other jobs.
        busy: words that wait for something, by job; shared with who takes them.
        begin: takes a word about a job that shall live here.
        again: takes a word that had to wait.
    """

    def __init__(
        self,
        context: Context,
        leadership: Leadership,
        busy: dict[bytes, list[Submit]],
        begin: Callable[[Submit], None],
        again: Callable[[Submit], None],
    ) -> None:
        self._context, self._leadership, self._busy = context, leadership, busy
        self._begin, self._again = begin, again
        self._sent: OrderedDict[bytes, float] = OrderedDict()

    def submitted(self, message: Submit) -> None:
        """A request about a job that is unknown here: its other placement may know or get the job."""
        job = message.manifest.job_id
        candidates = ids.job_placements(message.manifest.qualified, message.manifest.creator)
        if job != candidates[0]:
            self._begin(message)
            return
        if self._context.now - self._sent.get(job, float("-inf")) < UNDER_WAY_S:
            self._pass_on(message, candidates[1])
            return
        self._busy[job] = [message]

        def placed(candidate: bytes | None, problem: str) -> None:
            first, *others = self._busy.pop(job)
            if candidate == job:
                self._begin(first)
            elif candidate is not None:
                self._pass_on(first, candidate)
            else:
                body = error_body(problem, hint="Try again when more of them are running.", code=69)
                respond(self._context, first.origin, first.token, UNAVAILABLE, body)
            for waiting in others:
                self._again(waiting)

        seen = read_seen(message.seen)
        chosen = None if seen is None else seen.job
        rule = message.keep_in or ANYWHERE
        _Search(self._context, candidates, self._leadership, self._load, placed, chosen, rule).begin()

    def asked(self, ask: Ask) -> None:
        """The home of a job asks whether it is known here, and how much there is to do."""

        def sought(found: Survey) -> None:
            known = found.terms is not None or ask.job in self._busy
            known = known or self._leadership.leader(ask.job) is not None
            if found.problem and not known:
                respond(self._context, ask.origin, ask.token, UNAVAILABLE, error_body(found.problem, code=69))
                return
            body: dict[str, Any] = {"known": known, "load": self._load(ask.job)}
            body |= {label: getattr(self._context.me, label) for label in DOMAIN_LABELS}
            respond(self._context, ask.origin, ask.token, OK, body)

        self._leadership.first.survey(ask.job, sought, tries=1)

    def _load(self, job: bytes) -> int:
        return sum(each != job for each in {**self._leadership.masters, **self._busy})

    def _pass_on(self, message: Submit, candidate: bytes) -> None:
        home = message.manifest.job_id
        self._sent[home] = self._context.now
        self._sent.move_to_end(home)
        while len(self._sent) > PASSED_MAX:
            self._sent.popitem(last=False)
        manifest = replace(message.manifest, job_id=candidate)
        self._context.route(candidate, replace(message, manifest=manifest))


class _Search:
    """One choice: what is known near the home, and what the other placement says.

    `then` hears under which id the job lives or shall live; None, and why, if nothing may be begun. `chosen`:
    the id that its client has learned before. `rule`: of the hosts that are to take part.
    """

    def __init__(
        self,
        context: Context,
        candidates: tuple[bytes, ...],
        leadership: Leadership,
        load: Callable[[bytes], int],
        then: Callable[[bytes | None, str], None],
        chosen: bytes | None,
        rule: Rule,
    ) -> None:
        self._context, self._leadership, self._load, self._then = context, leadership, load, then
        self._chosen, self._rule = chosen, rule
        self._other_admitted = admitted(rule, NOWHERE)
        self._home, self._other = candidates
        self._tries = 0
        self._known: dict[bytes, bool] = {}
        self._other_load = 0
        self._at_home: Survey | None = None
        self._ended = False

    def begin(self) -> None:
        self._leadership.first.survey(self._home, self._surveyed)
        if not self._ended:
            self._ask()

    def _ask(self) -> None:
        timeout_s = ANSWER_S * 2**self._tries
        self._tries += 1
        self._context.ask_job(self._other, VERB, encode_json({}), timeout_s, self._answered)

    def _answered(self, message: Answered | None, payload: bytes) -> None:
        known: bool | None = None
        try:
            if message is not None and message.status == OK:
                body, _ = read_answer(message, payload)
                self._other_load, known = int(body["load"]), bool(body["known"])
                domains = {label: str(body.get(label, "")) for label in DOMAIN_LABELS}
                self._other_admitted = admitted(self._rule, replace(NOWHERE, **domains))
        except (ElfError, KeyError, TypeError, ValueError):
            self._context.stats["control.malformed"] += 1
        if known is not None:
            self._received(self._other, known)
        elif self._tries < TRIES and not self._ended:
            self._ask()
        else:
            self._end(None, SILENT)

    def _surveyed(self, found: Survey) -> None:
        if found.problem and found.terms is None:
            self._end(None, found.problem)
        else:
            self._at_home = found
            self._received(self._home, found.terms is not None)

    def _end(self, candidate: bytes | None, problem: str = "") -> None:
        if not self._ended:
            self._ended = True
            self._then(candidate, problem)

    def _received(self, candidate: bytes, known: bool) -> None:
        self._known[candidate] = known
        if len(self._known) < 2:
            return
        if all(self._known.values()) and self._at_home is not None:
            self._leadership.look(self._at_home, self._looked)
        else:
            self._choose()

    def _looked(self, over: bool) -> None:
        self._known[self._home] = not over
        self._choose()

    def _choose(self) -> None:
        if self._known[self._home]:
            self._end(self._home)
        elif self._known[self._other]:
            self._end(self._other)
        elif self._chosen in (self._home, self._other):
            self._end(self._chosen)
        elif self._other_admitted != (here := admitted(self._rule, self._context.me)):
            self._end(self._other if self._other_admitted > here else self._home)
        else:
            self._end(self._other if self._other_load < self._load(self._home) else self._home)
