"""Whether anybody still waits for a change, asked of who wants it before a word that is new here is obeyed.

Owns the questions that are open. A word for a change (`once.py`) may have been obeyed by an earlier boot of
this agent, or by another one that led the job then, and come here by a way of its own: an agent on its route
takes the hop to a root that has died for lost and hands the word to the next boot, or held it for minutes. No
process remembers what another one did, but who has asked knows whether it was answered.

Invariants: a word that this boot does not know makes no change before its origin has said, since then, that
somebody waits for the answer; what was said longer than `ANSWER_S` ago counts as not said. A question that is
lost costs nothing: the word comes again while somebody waits.

Paper: none; the paper's messages are delivered at most once by the wire that they came on.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.answers import NOT_FOUND, OK, decode_body, read_answer, respond
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import encode_json
from elfmesh.control.protocol.messages import Answered, Ask, Submit
from elfmesh.control.requests.version_handler import changes
from elfmesh.errors import ProtocolError
from elfmesh.safeguards import safeguard

VERB = "waits"
ANSWER_S = 2.0
"""How long the origin has to answer: its word comes again after half a second, and after twice as long."""

OPEN_MAX = 256
"""Words that wait here for their origins; more is a flood, and lost."""


class Confirming:
    """The questions of one agent, and its answers to those of others.

    Args:
        context: clock and way out.
        waits: whether a client of this agent waits for the answer to the request of a number.
    """

    def __init__(self, context: Context, waits: Callable[[int], bool]) -> None:
        self._context, self._waits = context, waits
        self._open = 0

    @safeguard("asked-by-the-waiting")
    def needed(self, message: Submit | Ask) -> bool:
        """Whether a word may have been obeyed before this boot of this agent, or elsewhere."""
        me, origin = self._context.me, message.origin
        if not changes(message) or (origin.id, origin.incarnation) == (me.id, me.incarnation):
            return False
        return not self._context.once.knows(origin, message.token)

    def ask(self, message: Submit | Ask, then: Callable[[], None]) -> None:
        """Have `then` called if somebody waits for the answer; else the word is dropped."""
        context, began = self._context, self._context.now
        if self._open >= OPEN_MAX:
            context.stats["control.not_confirmed"] += 1
            return
        self._open += 1

        def answered(answer: Answered | None, payload: bytes) -> None:
            self._open -= 1
            if answer is not None and context.now - began <= ANSWER_S and _says_so(answer, payload):
                then()
            else:
                context.stats["control.not_confirmed"] += 1

        job = message.job if isinstance(message, Ask) else message.manifest.job_id
        body = encode_json({"token": message.token, "of": message.origin.id.hex()})
        context.ask_agent(message.origin, job, VERB, body, ANSWER_S, answered)

    def asked(self, ask: Ask) -> None:
        """Another agent asks whether a client here waits for a word that has come there."""
        try:
            body = decode_body(ask.body)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        if body.get("of") != self._context.me.id.hex():  # passed on by an agent that does not know the verb
            respond(self._context, ask.origin, ask.token, NOT_FOUND, {})
            return
        token = body.get("token")
        respond(
            self._context, ask.origin, ask.token, OK, {"waits": isinstance(token, int) and self._waits(token)}
        )


def _says_so(answer: Answered, payload: bytes) -> bool:
    """Whether an answer lets the word pass: an agent that does not know the verb cannot say anything else."""
    if answer.status == NOT_FOUND:
        return True
    try:
        body, _ = read_answer(answer, payload)
    except ProtocolError:
        return False
    return answer.status == OK and body.get("waits") is True
