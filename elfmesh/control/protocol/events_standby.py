"""Effects and events about the open panes of a job here; `events` exports them.

A member ships them to a standby, or seals them because its agent leaves at once.
"""

from __future__ import annotations

from msgspec import Struct

from elfmesh.machine import Effect, Event


class CutPanes(Effect, Struct, frozen=True):
    """Report once what a job has read since the previous report, if it has read anything.

    Attributes:
        number: number of the order, which grows; the worker carries out the newest one.
        whole: report all open panes instead. The first report of a worker is whole in any case.
        after_us: least time since the previous report; 0: report at once.
    """

    job: bytes
    number: int
    whole: bool
    after_us: int = 0


class CutPane(Struct, frozen=True):
    """Records of one pane in a report, and their partial; `evaluated`: see `Stage`."""

    evaluated: int
    pane: int
    contributed: int
    filtered: int
    payload: bytes


class PanesCut(Event, Struct, frozen=True):
    """The report for a `CutPanes`.

    Attributes:
        number: number of the order.
        whole: whether the report has all open panes.
        panes: those with records in the report.
        first: first open interval; earlier ones are sealed, so their further records are in no report.
        until_us: newest event time that was read.
        error: why there is no report; the job's panes cannot be shipped.
        begun: see `StartWorker`.
        age_us: time since the oldest record that only this report has was read.
    """

    job: bytes
    incarnation: str
    number: int
    whole: bool
    panes: tuple[CutPane, ...] = ()
    first: int = 0
    until_us: int = 0
    error: str = ""
    begun: int = 0
    age_us: int = 0


class EndLog(Effect, Struct, frozen=True):
    """Treat the logs of a job as ended: read them to their end, then seal every open interval.

    Attributes:
        stop: seal the intervals below as well, although nothing of them was read.
    """

    job: bytes
    stop: int


class LogEnded(Event, Struct, frozen=True):
    """An `EndLog` was carried out; the `Sealed` events came before.

    Attributes:
        stop: one past the last interval that is sealed.
        begun: see `StartWorker`.
    """

    job: bytes
    incarnation: str
    stop: int
    begun: int = 0
