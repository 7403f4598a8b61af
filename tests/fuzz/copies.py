"""Runs something on a copy of this whole process, so that what it changes is changed for no other.

A machine cannot be copied by value: its timers hold functions that hold the machine.
"""

from __future__ import annotations

import json
import os
import resource
import traceback
from collections.abc import Callable

from tests.fuzz.engine import BYTES_MAX, Found, place_of


def in_a_copy(action: Callable[[], None]) -> None:
    """Run `action` in a fork.

    Raises:
        Found: what it raised, or that it took too much memory or ended the process.

    Cost: a fork, a few milliseconds.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        notified = ("", "")
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            action()
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
            if grown > BYTES_MAX:
                notified = ("large", f"grew by {grown >> 20} MiB")
        except BaseException as error:
            notified = (place_of(error), "".join(traceback.format_exception(error)))
        finally:
            os.write(writer, json.dumps(notified).encode()[:60_000])
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not answer:
        raise Found("died", f"the process ended with status {status}")
    place, text = json.loads(answer)
    if place:
        raise Found(place, text)
