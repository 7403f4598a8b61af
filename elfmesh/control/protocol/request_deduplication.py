"""Changes that clients have asked for and that came by here: a late copy of such a word makes none again.

Owns the memory of that. A network may deliver a frame again minutes later; the job that it is about may have
been deleted, applied again or changed since, by others (D-16: delivered at least once, applied once). This
memory need not outlive its process: a word that a process has not seen is obeyed only while somebody waits
for its answer (`confirming.py`). A client's agent asks again, under the same number, whoever leads by then:
the words that made the last versions of a job go with its manifest (`words`), so that a successor does not
make them twice.

Invariants: who has made a change does not pass the word for it on, and who has passed it on does not make the
change: whether another did is not known here. A word that was answered here without a change, because nobody
led the job then, makes none later, when somebody does; nor does one that came by first so long ago that
nobody waits for its answer, wherever it is passed on to. Such a word is sent back (`answers.AGAIN`), and who
still waits for an answer asks again, under another number.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

MADE_MAX = 4096
"""Changes remembered: at one a second more than an hour's."""

WORDS_MAX = 8
"""Words that a manifest carries: a question is asked again for seconds, not for so many changes."""

WAITED_S = 60.0
"""After this nobody waits for a change any more (`requests.REQUEST_S` and the longest wait)."""

_CAME, _ANSWERED = "", "answered"
_PASSED = "passed "
"""What became of a word that made no change here; anything else is an incarnation. Behind `_PASSED` comes the
id of the job that it was passed on for: a word goes by its job's home to the other placement, and an agent
may be both."""


def word(origin: Contact, token: int) -> bytes:
    """The name of one request, for all agents: 12 bytes."""
    reported = b"%s:%d:%d" % (origin.id, origin.incarnation, token)
    return blake2b(reported, digest_size=12).digest()


@safeguard("made-by-another")
def words(before: tuple[bytes, ...], reported: bytes) -> tuple[bytes, ...]:
    return (*before, reported)[-WORDS_MAX:]


class Once:
    """By who asked, in which life, and under which number: the incarnation of the job that was changed."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, int, int], str] = OrderedDict()
        self._since: dict[tuple[bytes, int, int], float] = {}

    def came(self, origin: Contact, token: int, now: float) -> bool:
        """A word for a change came by; whether it is too late to obey it."""
        known = self._known.get((origin.id, origin.incarnation, token))
        if known is None:
            self._since[origin.id, origin.incarnation, token] = now
            self._note(origin, token, _CAME)
            return False
        late = now - self._since.get((origin.id, origin.incarnation, token), now) > WAITED_S
        return known == _ANSWERED or (late and _made_nothing(known))

    def answered(self, origin: Contact, token: int) -> None:
        """Something was answered: no change is made any more, if none was."""
        if self._known.get((origin.id, origin.incarnation, token)) == _CAME:
            self._note(origin, token, _ANSWERED)

    def made(self, origin: Contact, token: int, incarnation: str) -> None:
        self._note(origin, token, incarnation)

    def passed(self, origin: Contact, token: int, job: bytes) -> None:
        self._note(origin, token, _PASSED + job.hex())

    def _note(self, origin: Contact, token: int, what: str) -> None:
        self._known[origin.id, origin.incarnation, token] = what
        while len(self._known) > MADE_MAX:
            self._since.pop(self._known.popitem(last=False)[0], None)

    def undone(self, origin: Contact, token: int) -> None:
        """It could not be made: it may be tried again until that is answered."""
        self._note(origin, token, _CAME)

    def knows(self, origin: Contact, token: int) -> bool:
        """Whether this very word came by in this boot of the agent."""
        return (origin.id, origin.incarnation, token) in self._known

    @safeguard("asked-once:made")
    def of(self, origin: Contact, token: int) -> str | None:
        """The incarnation that was changed by this very word, None if none was."""
        known = self._known.get((origin.id, origin.incarnation, token))
        return None if known is None or _made_nothing(known) else known

    @safeguard("asked-once:passed")
    def was_passed(self, origin: Contact, token: int, job: bytes) -> bool:
        return self._known.get((origin.id, origin.incarnation, token)) == _PASSED + job.hex()


def _made_nothing(known: str) -> bool:
    return known in (_CAME, _ANSWERED) or known.startswith(_PASSED)
