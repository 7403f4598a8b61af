"""Messages of any content."""

from __future__ import annotations

from hypothesis import strategies as st

from elfmesh.machine import Contact, Message
from elfmesh.overlay.messages import (
    Beat,
    BeatBack,
    Bye,
    Find,
    Found,
    Hop,
    HopTaken,
    Obituary,
    Ping,
    Pong,
    Relay,
    Relayed,
    Rows,
)

ME = Contact(b"\x10" * 20, "me", 1, 3)


FRIEND = Contact(b"\x20" * 20, "f", 2)


ids = st.one_of(
    st.sampled_from([ME.id, FRIEND.id, b"", b"short", b"\xff" * 21, b"\x00" * 20]), st.binary(max_size=24)
)


numbers = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**64 - 1))


contacts = st.builds(
    Contact,
    ids,
    st.sampled_from(["", "h", "x" * 300]),
    st.one_of(st.integers(-2, 3), st.sampled_from([65535, 65536, 1 << 40])),
    numbers,
    st.sampled_from(["", "r" * 100]),
)


obituaries = st.lists(st.builds(Obituary, ids, numbers), max_size=40).map(tuple)


notified = st.lists(contacts, max_size=20).map(tuple)


body = st.binary(max_size=30)


def messages(rids: st.SearchStrategy[int]) -> st.SearchStrategy[Message]:
    return st.one_of(
        st.builds(Ping, rids, obituaries),
        st.builds(Pong, rids, obituaries),
        st.builds(Find, rids, ids, numbers),
        st.builds(Rows, rids),
        st.builds(Found, rids, notified),
        st.builds(Beat, rids, body, obituaries),
        st.builds(BeatBack, rids, body, obituaries),
        st.builds(Relay, rids, contacts),
        st.builds(Relayed, rids, st.booleans()),
        st.builds(Hop, contacts, numbers, ids, numbers, body),
        st.builds(HopTaken, ids, numbers),
        st.just(Bye()),
    )
