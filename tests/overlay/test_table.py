from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import Contact
from elfmesh.overlay.table import CELL_CONTACTS, SIBLINGS, Peer, Table

ME = Contact(b"\x55" * 20, "me", 1, rack="r1")

# Ids that share many digits with ME, so that deep rows and the siblings get crowded.
near_ids = st.builds(
    lambda shared, rest: ME.id[:shared] + rest[shared:],
    st.integers(0, 19),
    st.binary(min_size=20, max_size=20),
).filter(lambda id: id != ME.id)
contacts = st.builds(lambda id, rack: Contact(id, "h", 1, rack=rack), near_ids, st.sampled_from(["r1", "r2"]))
actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), contacts, st.floats(0.0001, 1.0)),
        st.tuples(st.just("remove"), st.integers(0, 400), st.just(0.0)),
        st.tuples(st.just("measure"), st.integers(0, 400), st.floats(0.0001, 1.0)),
    ),
    max_size=120,
)


def n_of(id: bytes) -> int:
    return int.from_bytes(id)


def filled(size: int, seed: int = 3) -> tuple[Table, list[bytes]]:
    rng = random.Random(seed)
    table = Table(ME)
    ids = [rng.randbytes(20) for _ in range(size)]
    for id in ids:
        table.add(Peer(Contact(id, "h", 1, rack="r1")))
    return table, [peer.contact.id for peer in table.entries.values()]


def cell_of(peer: Peer) -> tuple[int, int]:
    """How many leading base-16 digits an id shares with ours, and its next digit."""
    own, other = ME.id.hex(), peer.contact.id.hex()
    row = next(at for at in range(len(own)) if own[at] != other[at])
    return row, int(other[row], 16)


def check_invariants(table: Table) -> None:
    cells: dict[tuple[int, int], list[Peer]] = {}
    for index, cell in table._cells.items():
        assert 0 < len(cell) <= CELL_CONTACTS
        foreign = [peer.contact.rack != ME.rack for peer in cell]
        assert foreign == sorted(foreign), "same rack first"
        for peer in cell:
            row, digit = cell_of(peer)
            assert index == row << 4 | digit
            cells.setdefault((row, digit), []).append(peer)
    siblings = table.siblings()
    closest = sorted(table.entries, key=table.n.__xor__)[:SIBLINGS]
    assert [peer.n for peer in siblings] == closest
    housed = {peer.n for cell in cells.values() for peer in cell} | set(closest)
    assert housed == set(table.entries)
    for peer in siblings:
        cell = cells.get(cell_of(peer), [])
        assert peer in cell or len(cell) == CELL_CONTACTS, "no cell is short while a sibling belongs to it"


@given(actions)
def test_invariants_hold_after_any_additions_removals_and_measurements(
    script: list[tuple[str, object, float]],
) -> None:
    table = Table(ME)
    for action, argument, rtt in script:
        if action == "add":
            assert isinstance(argument, Contact)
            useful = table.useful(argument)
            peer = Peer(argument)
            assert table.add(peer) == useful
        elif table.entries:
            assert isinstance(argument, int)
            chosen = list(table.entries.values())[argument % len(table.entries)]
            if action == "remove":
                assert table.remove(chosen.n) is chosen
                assert chosen.n not in table.entries
            else:
                chosen.rtt = rtt
                table.measured(chosen)
        check_invariants(table)


@given(st.lists(contacts, max_size=80), st.binary(min_size=20, max_size=20), st.integers(1, 30))
def test_closest_is_the_true_closest_of_all_known(known: list[Contact], key: bytes, k: int) -> None:
    table = Table(ME)
    for contact in known:
        table.add(Peer(contact))
    expected = sorted(table.entries, key=lambda n: n ^ n_of(key))[:k]
    assert [peer.n for peer in table.closest(n_of(key), k)] == expected


@given(st.lists(contacts, max_size=80), st.one_of(near_ids, st.binary(min_size=20, max_size=20)), st.data())
def test_next_hop_is_the_closest_active_contact_and_strictly_closer_than_me(
    known: list[Contact], key: bytes, data: st.DataObject
) -> None:
    table = Table(ME)
    for contact in known:
        table.add(Peer(contact))
    for peer in table.entries.values():
        peer.suspect = data.draw(st.booleans()) if len(table) < 10 else False
    n = n_of(key)
    closer = [peer for peer in table.actives() if peer.n ^ n < table.n ^ n]
    hop = table.next_hop(n)
    if closer:
        assert hop is min(closer, key=lambda peer: peer.n ^ n)
        excluded = frozenset({hop.n})
        second = table.next_hop(n, excluded)
        assert second is None or (second is not hop and second.n ^ n < table.n ^ n)
    else:
        assert hop is None


def test_an_agent_never_keeps_itself_nor_a_contact_twice() -> None:
    table, ids = filled(50)
    assert not table.useful(ME)
    assert not table.add(Peer(ME))
    again = Contact(ids[0], "elsewhere", 9)
    assert not table.useful(again)
    assert not table.add(Peer(again))


def test_a_measured_faster_spare_becomes_active_but_a_slightly_faster_one_does_not() -> None:
    table = Table(ME)
    peers = [Peer(Contact(b"\xf0" + bytes([i]) * 19, "h", 1, rack="r1")) for i in range(3)]
    for peer, rtt in zip(peers, (0.010, 0.009, 0.002), strict=True):
        table.add(peer)
        peer.rtt = rtt
    table.measured(peers[1])
    cell = next(iter(table._cells.values()))
    assert cell[0] in (peers[0], peers[2])
    table.measured(peers[2])
    assert cell[0] is peers[2]


def test_a_contact_of_the_same_rack_displaces_a_foreign_spare() -> None:
    table, _ = filled(400)
    for peer in list(table.entries.values()):
        table.remove(peer.n)
    far = [Peer(Contact(b"\xf0" + bytes([i]) * 19, "h", 1, rack="r2")) for i in range(3)]
    crowd = [Peer(Contact(ME.id[:18] + bytes([i, 0]), "h", 1, rack="r1")) for i in range(SIBLINGS)]
    for peer in (*far, *crowd):
        table.add(peer)
    near = Peer(Contact(b"\xf0" + b"\x77" * 19, "h", 1, rack="r1"))
    assert table.useful(near.contact)
    assert table.add(near)
    assert near in table.actives()
    assert sum(peer.n in table.entries for peer in far) == CELL_CONTACTS - 1
    check_invariants(table)


@pytest.mark.parametrize("size", [0, 1, 10, 1000])
def test_the_table_grows_with_the_logarithm_of_the_overlay(size: int) -> None:
    table, _ = filled(size)
    assert len(table) <= min(size, 16 + 3 * 16 * (table.rows() + 1))
    assert table.rows() <= 6 or size > 1000
