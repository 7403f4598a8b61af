"""The roster of a job: numbers are given once, and what a closed interval needed does not change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.roster import EPOCHS_MAX, ID_DIGITS, UNKNOWN, RosterBook, epoch_of, has_number
from elfmesh.control.jobs.terms import Participant
from elfmesh.interval_map import END, bits
from elfmesh.machine import Contact


def contact(letter: int, incarnation: int = 1) -> Contact:
    return Contact(bytes([letter]) * 20, "sim", letter, incarnation)


def agents(*letters: int) -> tuple[Participant, ...]:
    return tuple(Participant(contact(letter), f"agent-{letter}") for letter in letters)


def test_members_are_numbered_in_the_order_of_their_ids() -> None:
    book = RosterBook()
    assert book.add(agents(9, 3, 7), 0)
    assert [(entry.number, entry.name) for entry in book.entries] == [
        (0, "agent-3"),
        (1, "agent-7"),
        (2, "agent-9"),
    ]
    assert book.version == 1


def test_only_a_change_raises_the_version() -> None:
    book = RosterBook()
    book.add(agents(1, 2), 0)
    assert not book.add(agents(2, 1), 5)
    assert book.version == 1
    moved = Participant(contact(1, incarnation=2), "agent-1", stands_by=True)
    assert book.add((moved,), 5)
    assert book.version == 2
    entry = book.of(contact(1).id)
    assert entry is not None
    assert entry.participant == moved
    assert (entry.number, entry.start, entry.contact.incarnation) == (0, 0, 2), "a restart is no new member"


def test_a_member_is_required_from_its_start_until_its_eviction() -> None:
    book = RosterBook()
    book.add(agents(1), 0)
    book.add(agents(2), 5)
    book.evict(0, 8)
    assert [book.required(interval) for interval in (-1, 0, 4, 5, 7, 8, 99)] == [0, 1, 1, 3, 3, 2, 2]
    assert [book.changes_after(interval) for interval in (-1, 0, 5, 8)] == [0, 5, 8, END]
    assert [book.expects(0, interval) for interval in (7, 8)] == [True, False]
    assert not book.expects(9, 0), "no member has this number"


def test_a_member_that_has_begun_later_starts_there_and_never_earlier() -> None:
    book = RosterBook()
    book.add(agents(1, 2), 5, begun={contact(1).id: 9, contact(2).id: 2})
    assert [entry.start for entry in book.entries] == [9, 5]


def test_a_number_is_never_given_again() -> None:
    book = RosterBook()
    book.add(agents(1, 2, 3), 0)
    book.evict(2, 4)
    book.forget_below(10)
    assert book.given == 0b111
    book.add(agents(3), 10)
    entry = book.of(contact(3).id)
    assert entry is not None
    assert entry.number == 3
    book.forget_below(10)
    assert [each.number for each in book.entries] == [0, 1, 3]
    assert book.given == 0b1111


def test_a_former_member_is_kept_while_one_of_its_intervals_is_open() -> None:
    book = RosterBook()
    book.add(agents(1, 2), 0)
    book.evict(0, 7)
    book.forget_below(6)
    assert book.entry(0) is not None
    book.forget_below(7)
    assert book.entry(0) is None


def test_agents_of_one_name_are_distinguished_by_their_ids() -> None:
    book = RosterBook()
    book.add((Participant(contact(0xAB), "web"), Participant(contact(0xCD), "web"), *agents(1)), 0)
    assert book.shared_names() == {"web"}
    assert book.names(0b111) == [
        "agent-1",
        f"web ({'ab' * (ID_DIGITS // 2)})",
        f"web ({'cd' * (ID_DIGITS // 2)})",
    ]
    assert book.names(1 << 40) == [], "a number that no member has"


def test_an_acknowledgement_counts_for_its_version_and_its_term() -> None:
    book = RosterBook()
    book.add(agents(1, 2), 0)
    book.acknowledge(0, 1)
    assert [entry.number for entry in book.unacknowledged] == [1]
    book.acknowledge(0, 0)
    assert [entry.number for entry in book.unacknowledged] == [1], "an older one does not undo it"
    book.new_term()
    assert [entry.number for entry in book.unacknowledged] == [0, 1]


def test_a_book_of_an_earlier_term_goes_on_with_its_numbers() -> None:
    before = RosterBook()
    before.add(agents(1, 2, 3), 0)
    before.evict(1, 4)
    after = RosterBook(before.entries[::-1], before.version)
    assert after.entries == before.entries
    assert after.of(contact(2).id) is None
    after.add(agents(2), 4)
    assert [entry.number for entry in after.active] == [0, 2, 3]


def test_a_number_is_known_by_the_epoch_in_which_it_was_given() -> None:
    first = RosterBook(epoch=1)
    first.add(agents(1, 2), 0)
    lost = RosterBook(first.entries, first.version, first.given_in, epoch=2)
    lost.add(agents(3), 0)
    other = RosterBook(first.entries, first.version, first.given_in, epoch=3)
    assert not has_number(other.given_in, 2, 2), "no agent has it"
    other.add(agents(4), 0)
    other.evict(2, 0)
    other.add(agents(4), 0)
    other.forget_below(9)
    assert [has_number(other.given_in, 2, epoch) for epoch in (1, 2, 3)] == [False, False, True]
    assert [has_number(other.given_in, number, 1) for number in (0, 1, 2)] == [True, True, False]


def test_a_roster_of_an_earlier_release_has_all_its_numbers() -> None:
    before = RosterBook(epoch=1)
    before.add(agents(1, 2), 0)
    assert has_number((), 1, 7)
    after = RosterBook(before.entries, before.version, epoch=8)
    assert has_number(after.given_in, 1, 7)
    assert has_number(after.given_in, 1, UNKNOWN)
    assert not has_number(after.given_in, 2, 7), "it was given after the upgrade"


def test_a_roster_names_the_newest_epochs() -> None:
    book = RosterBook(epoch=1)
    for epoch in range(2, 99):
        book.add(agents(epoch), 0)
        book = RosterBook(book.entries, book.version, book.given_in, epoch)
    assert len(book.given_in) == EPOCHS_MAX
    assert has_number(book.given_in, 0, 77), "its epoch is not known any more"
    assert not has_number(book.given_in, 96, 77)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=20))
def test_no_two_agents_have_one_number_of_one_epoch(terms: list[tuple[int, int]]) -> None:
    """Each master goes on from the roster of some master before it, and numbers some agents."""
    books = [RosterBook(epoch=1)]
    given_to: dict[tuple[int, int], bytes] = {}
    for epoch, (before, count) in enumerate(terms, 2):
        found = books[before % len(books)]
        book = RosterBook(found.entries, found.version, found.given_in, epoch)
        book.add(agents(*range(10 * epoch, 10 * epoch + count)), 0)
        for entry in book.entries:
            key = entry.number, epoch_of(book.given_in, entry.number)
            assert given_to.setdefault(key, entry.contact.id) == entry.contact.id
            assert has_number(book.given_in, *key)
        books.append(book)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 6)),
        st.tuples(st.just("evict"), st.integers(0, 8)),
        st.tuples(st.just("close"), st.integers(1, 3)),
    ),
    max_size=30,
)


@given(STEPS)
def test_what_a_closed_interval_needed_never_changes(steps: list[tuple[str, int]]) -> None:
    book, closed = RosterBook(), 0
    needed: dict[int, int] = {}
    for what, number in steps:
        if what == "add":
            book.add(agents(number), closed)
        elif what == "evict" and book.entry(number) in book.active:
            book.evict(number, closed)
        elif what == "close":
            needed |= {interval: book.required(interval) for interval in range(closed, closed + number)}
            closed += number
        for interval, mask in needed.items():
            assert book.required(interval) == mask
        assert book.required(closed) == bits(entry.number for entry in book.active)
