"""A master that is to give way closes nothing more, and says so once nothing is in flight."""

from __future__ import annotations

from typing import cast

from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.master.quiesce import Quiesce


class Closing:
    """What of a closer is asked here."""

    def __init__(self) -> None:
        self.frozen = False
        self.idle = False
        self.advances = 0

    def advance(self) -> None:
        self.advances += 1


def test_a_waiting_callback_runs_once_when_nothing_is_in_flight() -> None:
    closing = Closing()
    still = Quiesce(cast(Closer, closing))
    called: list[str] = []
    still.freeze(lambda: called.append("still"))
    assert closing.frozen
    still.advanced()
    assert not called, "something is in flight"
    closing.idle = True
    still.advanced()
    still.advanced()
    assert called == ["still"]
    still.thaw()
    assert not closing.frozen


def test_a_change_that_was_given_up_does_not_make_a_master_that_hands_over_close_again() -> None:
    closing = Closing()
    still = Quiesce(cast(Closer, closing))
    called: list[str] = []
    still.hand_over(lambda: called.append("handed over"))
    still.thaw()
    assert (closing.frozen, still.handing_over) == (True, True)
    still.keep()
    assert not closing.frozen
    closing.idle = True
    still.advanced()
    assert called == [], "no client waits any more"
