"""Trying a version out on this host before anything is said about it (D-16's prepare): signatures, functions.

Owns which versions were tried and with what outcome, and what waits for that. Evaluates nothing: the host
does, in a process of its own, and answers by an event.

Invariants: what waits for a trial is called once, at the latest when the trial is given up; a version without
functions that needs no signature waits for nothing. The outcome decides what is said to the master; what runs
is decided by the host again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.protocol.events_functions import FunctionsTried, TryFunctions
from elfmesh.errors import QueryError

TRIAL_S = 15.0
"""When a trial is given up; longer than the host gives a worker to start."""

AGAIN_S = 60.0
"""How long a refusal counts: what was wrong may have been the host's load, or its clock."""

KNOWN_MAX = 1024
Key = tuple[bytes, str, int, bytes]


class Preflight:
    """The trials of one agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: OrderedDict[Key, tuple[str, float]] = OrderedDict()
        self._tokens: dict[int, tuple[Key, Timer]] = {}
        self._waiting: dict[Key, list[Callable[[], object]]] = {}

    def before(self, manifest: Manifest, then: Callable[[], object]) -> None:
        """Call `then` once it is known whether a version may run here and its functions work."""
        key = _key(manifest)
        known = self._known.get(key)
        wanted = self._context.policy.signed or _has_functions(manifest)
        if not wanted or (known is not None and (not known[0] or self._context.now - known[1] < AGAIN_S)):
            then()
            return
        waiting = self._waiting.setdefault(key, [])
        waiting.append(then)
        if len(waiting) > 1:
            return
        token = self._context.token()
        late = FunctionsTried(token, "its functions could not be tried out in time")
        self._tokens[token] = (key, self._context.after(TRIAL_S, lambda: self.tried(late)))
        self._context.emit(TryFunctions(token, manifest))

    def tried(self, event: FunctionsTried) -> None:
        """The host's answer; a late one is ignored."""
        key, timer = self._tokens.pop(event.token, (None, None))
        if key is None or timer is None:
            return
        timer.cancel()
        self._known[key] = (event.error, self._context.now)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        for then in self._waiting.pop(key, []):
            then()

    def error(self, manifest: Manifest) -> str:
        """Why a version cannot be evaluated here, as far as is known."""
        return self._known.get(_key(manifest), ("", 0.0))[0]


def _key(manifest: Manifest) -> Key:
    return (manifest.job_id, manifest.incarnation, manifest.version, manifest.signed)


def _has_functions(manifest: Manifest) -> bool:
    try:
        return read_plan(manifest.text).functions
    except QueryError:  # the next reader reports it
        return False
