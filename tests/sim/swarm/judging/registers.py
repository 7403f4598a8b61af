"""Whether the register of a job can decide: not where a majority of its voters is gone, or has no votes.

Owns the two conditions under which D-4 promises no master. Reads what masters have said of their voters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.swarm.judging.history import History

Groups = tuple[tuple[bytes, ...], ...]


def lost(history: History, job: str, at: float) -> str:
    """How the register of a job has lost its majority for good by then, "" if it has not.

    D-4 promises no more than that: without a majority there is no epoch and no record that would not have
    to be made up. Who is only down or cut off is not gone.
    """
    gone = {voter for voter, since in history.gone.items() if since < at}
    found = _most(_groups(history, job, at)[-1:], gone)
    return f"{found} voters are gone for good" if found else ""


def forgotten(history: History, job: str, at: float) -> str:
    """How a majority of the voters of a job has lost its votes by then, "" if it has not.

    A voter votes again from when the register has taken it in again, for which the majority is needed.
    """
    known = _groups(history, job, at)
    without = {
        voter for voter, since in history.forgot.items() if since < at and _voted_since(known, voter) <= since
    }
    found = _most(known[-1:], without)
    return f"{found} voters have lost their votes" if found else ""


def _groups(history: History, job: str, at: float) -> list[tuple[float, Groups]]:
    return [(since, groups) for since, groups in history.voters.get(job, []) if since < at]


def _voted_since(known: list[tuple[float, Groups]], voter: bytes) -> float:
    """Since when an agent has been a voter without a break; for ever if it is none."""
    found = float("inf")
    for since, groups in reversed(known):
        if not any(voter in group for group in groups):
            break
        found = since
    return found


def _most(newest: list[tuple[float, Groups]], absent: set[bytes]) -> str:
    for _, groups in newest:
        for group in groups:
            number = len(absent.intersection(group))
            if 2 * (len(group) - number) <= len(group):
                return f"{number} of {len(group)}"
    return ""
