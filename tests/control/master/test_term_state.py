"""The terms of a master as they are now, and what a restart of its agent goes on with."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from msgspec.structs import replace

from elfmesh.control.closing.commit import Committer
from elfmesh.control.jobs.terms import PathLayout, Stage, Terms
from elfmesh.control.master.term_state import TermState
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.messages import unpack
from elfmesh.control.protocol.messages_succession import Replica
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import MANIFEST, TERMS


def started(began: Terms = TERMS) -> tuple[StubTerm, TermState, SimpleNamespace]:
    term = StubTerm()
    voters = (other(2), other(3))
    committer = SimpleNamespace(closed=7, cell=SimpleNamespace(contacts=voters))
    return term, TermState(term.context, began, term.book, cast(Committer, committer)), committer


def stored(term: StubTerm) -> list[Terms]:
    found = [unpack(each.data) for each in term.context.out if isinstance(each, Persist)]
    return [each.terms for each in found if isinstance(each, Replica)]


def test_the_terms_follow_the_roster_and_the_register() -> None:
    term, state, committer = started()
    assert (state.terms.closed, state.terms.acceptors) == (7, (other(2), other(3)))
    assert (state.terms.version, state.terms.master) == (3, term.context.me)
    term.book.evict(1, 9)
    committer.closed = 8
    assert (state.terms.version, state.terms.closed) == (4, 8)
    assert state.terms.members == (entry(0), entry(1, until=9))


def test_terms_are_made_again_only_after_a_change() -> None:
    term, state, committer = started()
    layout = PathLayout("rack", ())

    def voters_change() -> None:
        committer.cell = SimpleNamespace(contacts=(other(4),))

    term.book.evict(0, 2)
    changes: tuple[Callable[[], object], ...] = (
        lambda: term.book.forget_below(3),  # without another version
        lambda: setattr(committer, "closed", 8),
        voters_change,
        lambda: state.pause(True),
        lambda: setattr(state, "layout", layout),
        lambda: setattr(state, "standbys", (1,)),
    )
    for change in changes:
        before = state.terms
        assert state.terms is before
        change()
        assert state.terms != before
    assert [each.number for each in state.terms.members] == [1]
    assert state.terms.acceptors == (other(4),)
    assert (state.terms.closed, state.terms.paused) == (8, True)
    assert (state.terms.layout, state.terms.standbys) == (layout, (1,))


def test_each_pause_and_each_end_of_one_is_counted() -> None:
    _, state, _ = started(replace(TERMS, pauses=4))
    state.pause(True)
    assert (state.terms.paused, state.terms.pauses) == (True, 5)
    state.pause(False)
    assert (state.terms.paused, state.terms.pauses) == (False, 6)


def test_the_terms_that_are_voted_on_are_what_a_restart_goes_on_with() -> None:
    term, state, _ = started()
    state.persist()
    promised = replace(state.terms, version=9)
    state.promise(promised)
    state.persist()
    assert [terms.version for terms in stored(term)] == [3, 9, 9]
    assert state.promised == promised


def test_a_version_without_an_open_interval_leaves_the_terms() -> None:
    older = tuple(Stage(start, MANIFEST, 1) for start in (1, 3, 5, 9, 12))
    _, state, committer = started(replace(TERMS, effective=15, older=older))
    committer.closed = 4
    assert [stage.start for stage in state.terms.older] == [3, 5, 9, 12]
    committer.closed = 20
    assert [stage.start for stage in state.terms.older] == [12]


def test_the_next_master_begins_with_the_plan_of_standbys() -> None:
    _, state, _ = started(replace(TERMS, standbys=(1,)))
    assert state.terms.standbys == (1,)
