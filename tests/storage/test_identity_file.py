"""Who an agent is outlives restarts and damage; a damaged file never makes it another agent."""

from __future__ import annotations

import pytest

from elfmesh.errors import StorageError
from elfmesh.storage.identity import IDENTITY_FILE, load_identity, rewritten_by, state_rewritten
from elfmesh.storage.statelog import NAME, StateLog
from elfmesh.storage.storage import MemoryStorage


def test_an_identity_is_kept_and_each_boot_has_a_higher_incarnation() -> None:
    storage = MemoryStorage()
    lives = []
    for _ in range(3):
        lives.append(load_identity(storage))
        storage.crash()
    assert len({life.id for life in lives}) == 1
    assert [life.incarnation for life in lives] == [1, 2, 3]
    assert load_identity(MemoryStorage()).id != lives[0].id


@pytest.mark.parametrize("content", [b"{", b'{"id":"00","incarnation":1}', b'{"id":"zz","incarnation":1}'])
def test_a_damaged_identity_is_never_replaced_silently(content: bytes) -> None:
    storage = MemoryStorage()
    storage.write("id", content)
    with pytest.raises(StorageError, match="damaged"):
        load_identity(storage)
    assert storage.read("id") == content


def started(storage: MemoryStorage) -> tuple[bytes, int, StateLog]:
    """What a start of an agent does with its data directory."""
    identity = load_identity(storage)
    state = StateLog(storage, identity.id, identity.incarnation, rewritten_by(storage))
    state_rewritten(storage, identity.incarnation)
    return identity.id, identity.incarnation, state


def test_a_flipped_bit_of_the_identity_does_not_change_the_agents_id() -> None:
    whole = MemoryStorage()
    agent, boot, _ = started(whole)
    content = whole.read(IDENTITY_FILE)
    assert content is not None
    for place in range(8 * len(content)):
        storage = MemoryStorage()
        storage.write(NAME, whole.files[NAME].read())
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        storage.write(IDENTITY_FILE, bytes(damaged))
        again, next_boot, state = started(storage)
        assert again == agent
        assert next_boot > boot
        assert state.loss is None


@pytest.mark.parametrize("content", [b"", bytes(100), b"{"])
def test_an_identity_that_is_gone_is_taken_from_the_state_log(content: bytes) -> None:
    storage = MemoryStorage()
    agent, boot, _ = started(storage)
    storage.write(IDENTITY_FILE, content)
    again, next_boot, _ = started(storage)
    assert (again, next_boot > boot) == (agent, True)


def test_a_state_log_that_is_older_than_the_identity_is_found_out() -> None:
    storage = MemoryStorage()
    started(storage)
    older = storage.files[NAME].read()
    started(storage)
    storage.write(NAME, older)
    assert started(storage)[2].loss is not None


def test_starts_that_end_before_the_state_log_is_rewritten_are_no_loss() -> None:
    storage = MemoryStorage()
    started(storage)
    for _ in range(5):
        load_identity(storage)
    _, boot, state = started(storage)
    assert (boot, state.loss) == (7, None)


def test_the_identity_of_an_earlier_release_is_read() -> None:
    storage = MemoryStorage()
    storage.write(IDENTITY_FILE, b'{"id":"' + b"0a" * 20 + b'","incarnation":7}')
    agent, boot, state = started(storage)
    assert (agent, boot, state.loss) == (b"\x0a" * 20, 8, None)
