"""An agent's posts for an ordered topic: repeated until they are confirmed, from the first one."""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.member.post_senders import (
    AGAIN_S,
    FORGET_S,
    HELD_BYTES_MAX,
    KIND,
    STORE_S,
    PostSenders,
)
from elfmesh.control.protocol.events import Persist, PostsRead, ReadPosts, StopPosts
from elfmesh.control.protocol.messages_order import Ordered, OrderPosts, Post, decode_posts
from elfmesh.limits import POST_BYTES_MAX
from elfmesh.machine import Send
from tests.control.contexts import new_context

TEXT = "CREATE TOPIC ads.clicks DELIVERY ORDERED"
MASTER, OTHER = new_context(7).me, new_context(8).me


def manifest(incarnation: str = "i") -> Manifest:
    return new_manifest(read_job(TEXT)[0], TEXT, "local", created=1, incarnation=incarnation)


JOB = manifest().job_id


class Rig:
    """The senders of one agent, whose topic has been announced."""

    def __init__(self) -> None:
        self.context: Context = new_context(1)
        self.senders = PostSenders(self.context)
        self.senders.announced(manifest(), "clicks", MASTER, 1)

    def read(self, *positions: int, restart: bytes = b"r", size: int = 1) -> None:
        posts = tuple(Post("p", position, 0, "x" * size) for position in positions)
        self.senders.read(PostsRead(JOB, "i", posts, restart))

    def confirm(self, position: int) -> None:
        self.senders.on_ordered(MASTER, Ordered(JOB, "i", (("p", position),)), b"")

    def after(self, seconds: float) -> None:
        self.context.now += seconds
        self.context.fire()

    def sent(self) -> list[list[int]]:
        """Positions of the posts in each message since the last call."""
        found = [
            [post.position for post in decode_posts(each.payload)]
            for each in self.context.out
            if isinstance(each, Send) and isinstance(each.message, OrderPosts)
        ]
        self.kept = [each for each in self.context.out if not isinstance(each, Send)]
        self.context.out.clear()
        return found


def test_posts_are_repeated_until_a_record_has_them() -> None:
    rig = Rig()
    rig.read(0, 1)
    assert rig.sent() == [[0, 1]]
    rig.after(AGAIN_S)
    assert rig.sent() == [[0, 1]]
    rig.read(2)
    assert rig.sent() == [], "one message is under way"
    rig.confirm(0)
    assert rig.sent() == [[1, 2]], "from the first one that is not confirmed"
    rig.confirm(2)
    rig.after(10 * AGAIN_S)
    assert rig.sent() == []
    assert rig.senders.idle


def test_a_position_is_stored_when_all_posts_before_it_are_confirmed() -> None:
    rig = Rig()
    rig.read(0, 1, restart=b"two")
    rig.confirm(0)
    rig.after(STORE_S)
    rig.sent()
    assert not [each for each in rig.kept if isinstance(each, Persist)]
    rig.confirm(1)
    rig.after(STORE_S)
    rig.sent()
    (stored,) = [each for each in rig.kept if isinstance(each, Persist)]
    assert stored.kind == KIND
    again = PostSenders(context := new_context(1))
    again.restored(JOB, stored.data)
    assert context.out == [ReadPosts(JOB, "i", "clicks", b"two")]
    again.restored(JOB, b"\xc1")


def test_the_position_where_a_topic_begins_is_stored_at_once() -> None:
    """With `read_from = "end"`, a restart would begin behind posts that are in no record."""
    rig = Rig()
    rig.read(restart=b"end")
    assert rig.sent() == []
    (stored,) = [each for each in rig.kept if isinstance(each, Persist)]
    again = PostSenders(context := new_context(1))
    again.restored(JOB, stored.data)
    assert context.out == [ReadPosts(JOB, "i", "clicks", b"end")]
    rig.read(0)
    assert rig.sent() == [[0]]


def test_no_more_is_read_than_may_wait() -> None:
    rig = Rig()
    count = HELD_BYTES_MAX // POST_BYTES_MAX + 1
    rig.read(*range(count), size=POST_BYTES_MAX)
    (first,) = rig.sent()
    assert first == list(range(len(first)))
    assert len(first) < count, "a message has a part of them"
    rig.read()
    rig.sent()
    assert not [each for each in rig.kept if isinstance(each, ReadPosts)]
    rig.confirm(first[-1])
    rig.sent()
    assert [each for each in rig.kept if isinstance(each, ReadPosts)]


def test_a_new_master_receives_the_posts_at_once_and_an_older_one_is_not_believed() -> None:
    rig = Rig()
    rig.read(0)
    rig.sent()
    rig.senders.announced(manifest(), "clicks", OTHER, 2)
    assert rig.sent() == [[0]]
    rig.senders.announced(manifest(), "clicks", MASTER, 1)
    rig.confirm(0)
    assert not rig.senders.idle, "a master of an earlier epoch confirms nothing"
    rig.senders.on_ordered(OTHER, Ordered(JOB, "i", (("p", 0),)), b"")
    assert rig.senders.idle


def test_another_incarnation_begins_again_and_an_older_one_does_not() -> None:
    rig = Rig()
    rig.read(0)
    rig.sent()
    rig.senders.announced(manifest("j"), "clicks", MASTER, 0)
    assert not rig.sent()
    rig.senders.announced(manifest("j"), "clicks", MASTER, 5)
    rig.sent()
    assert [each for each in rig.kept if isinstance(each, StopPosts)]
    assert ReadPosts(JOB, "j", "clicks", b"") in rig.kept
    rig.senders.stop(JOB, "i")
    assert rig.senders.describe() == {"topics": 1, "waiting": 0}


def test_a_topic_that_no_master_announces_is_forgotten() -> None:
    rig = Rig()
    rig.after(FORGET_S - 1)
    rig.senders.announced(manifest(), "clicks", MASTER, 1)
    rig.after(FORGET_S - 1)
    assert rig.senders.describe()["topics"] == 1
    rig.after(FORGET_S)
    assert rig.senders.describe()["topics"] == 0
