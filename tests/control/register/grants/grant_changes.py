"""The product's own changes of a value with a grant, as words of the model of grants (`grant_rules.py`).

"succeed" is a take-over, which ends the grant; "commit" and "commit grant" close the next interval, the
second with a grant; "fold" and "end" close nothing, and keep or end the grant. Each of them is applied to a
`RegisterCell` that states what the value of the model states. The change compares digests of records, so a
record's text stands for its bytes.
"""

from __future__ import annotations

from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, digest
from elfmesh.control.register.changes import Change, ChangeRefused, Close, TakeOver
from tests.control.register.grants.grant_rules import (
    Asker,
    Bounds,
    GrantedRecord,
    GrantedValue,
    History,
    contact,
    following_index,
    last_interval,
)
from tests.control.register.register_model import Broken

INCARNATION = "1"
WORDS = ("succeed", "commit", "fold", "end")


def applied(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """Return the next value; None if the product's change refuses the value found.

    Raises:
        Broken: it refuses a change of the master whose epoch and whose records it has.
    """
    if word == "succeed":
        change = TakeOver(INCARNATION, contact(asker.number), asker.known_epoch)
        after = _apply(change, found, bounds)
        if after is None:
            return None
        # `Terms.in_epoch`: members may have received numbers that no value names.
        fence = bounds.rules.roster_epoch(
            found.roster_epoch, after.epoch, found.basis, found.basis, granted=False
        )
        return found._replace(
            master=after.master.port, epoch=after.epoch, roster_epoch=fence, grant=after.grant
        )
    known = asker.known
    index = following_index(known.history, known.basis)
    if word.startswith("commit") and index >= bounds.intervals:
        return None
    record = GrantedRecord(index, index, asker.epoch, known.basis)
    after = _apply(_close(word, index, record, asker), found, bounds)
    if after is None:
        if found.epoch == asker.epoch and known.grant is None:
            raise Broken("the register refuses its master")
        return None
    last = last_interval(found.history)
    history = found.history if after.latest == last else (*found.history, record)
    return found._replace(roster=asker.roster, grant=after.grant, history=history)


def _close(word: str, index: int, record: GrantedRecord, asker: Asker) -> Close:
    known, version = asker.known, len(asker.roster)
    before = last_interval(known.history)
    if not word.startswith("commit"):
        grant = known.grant if word == "fold" else None
        return Close(INCARNATION, asker.epoch, version, index, before, before, b"", grant)
    new = VotingGrant(asker.epoch, known.roster_epoch, version, index + 1)
    grant = new if word == "commit grant" else None
    return Close(INCARNATION, asker.epoch, version, index + 1, before, index, _bytes((record,)), grant)


def _apply(change: Change, found: GrantedValue, bounds: Bounds) -> RegisterValue | None:
    try:
        return bounds.rules.apply(change, _cell(found)).value
    except ChangeRefused:
        return None


def _cell(value: GrantedValue) -> RegisterCell:
    """Return what the register holds: the last record is its tail."""
    tail = _bytes(value.history[-1:])
    registered = RegisterValue(
        job=bytes(20), incarnation=INCARNATION, version=1, plan=b"", epoch=value.epoch,
        master=contact(value.master), roster=len(value.roster),
        closed=following_index(value.history, value.basis), latest=last_interval(value.history),
        before=last_interval(value.history[:-1]), digest=digest(tail) if tail else b"",
        acceptors=value.acceptors, former=value.former, grant=value.grant,
    )  # fmt: skip
    return RegisterCell(registered, tail)


def _bytes(records: History) -> bytes:
    return "".join(map(repr, records)).encode()
