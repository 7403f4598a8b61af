"""Posts of this agent for ordered topics: from the spool of a stream to the master of the topic.

Owns, for each ordered topic over a stream of this agent, the posts that are read and not confirmed, and the
position in the spool before which all posts are confirmed. The spool has the posts; the master has the order.

Invariant: a message begins with the first post that is not confirmed, so that the master never receives a
post before an earlier one of the same producer. A post is confirmed when a closed record contains it. The
position where a topic begins is stored as soon as it is known, before a post is read.

Paper: Blazes III (M2: an order decided while running).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.events import Persist, PostsRead, ReadPosts, StopPosts
from elfmesh.control.protocol.messages_order import Ordered, OrderPosts, Post, encode_posts
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.wire import UNREADABLE

KIND = "ordered"
"""Kind of the stored positions in spools."""

AGAIN_S = 1.0
"""When posts are sent again that the master has not confirmed."""

STORE_S = 1.0
"""Maximum delay before a new position is stored; after a crash, the posts since then are sent again."""

FORGET_S = 600.0
"""How long posts are kept for a topic that no master announces: it may have been deleted meanwhile."""

SENT_BYTES_MAX = 256 << 10
"""Size of the posts in one message beyond which no further one is added."""

HELD_BYTES_MAX = 1 << 20
"""Size of the unconfirmed posts beyond which no more are read."""

POST_BYTES = 128
"""Size of a post besides its body."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    incarnation: str
    stream: str
    restart: bytes


class PostSender:
    """Sender of the posts of one stream for one topic.

    Args:
        restart: position before which all posts are confirmed.
    """

    def __init__(self, context: Context, job: bytes, incarnation: str, stream: str, restart: bytes) -> None:
        self._context, self._job, self.incarnation = context, job, incarnation
        self._stream, self._restart, self._stored = stream, restart, restart
        self.master: Contact | None = None
        self.epoch, self.announced_at = 0, context.now
        self._posts: deque[Post] = deque()
        self._nbytes = self._read = self._confirmed = 0
        self._ends: deque[tuple[int, bytes]] = deque()  # (number of posts read, position after them)
        self._reading = False
        self._again, self._store = Alarm(context, self._send), Alarm(context, self._persist)
        self._request()

    @property
    def idle(self) -> bool:
        return not self._posts

    def announced(self, master: Contact, epoch: int) -> None:
        """Take the master that announces the topic; a new one receives the posts at once."""
        self.announced_at = self._context.now
        if epoch < self.epoch:
            return
        before, self.master, self.epoch = self.master, master, epoch
        if before is None or before.id != master.id:
            self._send()

    def read(self, event: PostsRead) -> None:
        first, self._reading = not self._posts, False
        self._posts += event.posts
        self._read += len(event.posts)
        self._nbytes += sum(_size(each) for each in event.posts)
        self._ends.append((self._read, event.restart))
        self._settle()
        if first:
            self._send()

    def on_ordered(self, message: Ordered) -> None:
        newest, before = dict(message.positions), self._confirmed
        while self._posts and self._posts[0].position <= newest.get(self._posts[0].producer, -1):
            self._nbytes -= _size(self._posts.popleft())
            self._confirmed += 1
        if self._confirmed != before:
            self._settle()
            self._send()

    def stop(self) -> None:
        self._again.cancel()
        self._store.cancel()
        self._context.emit(StopPosts(self._job))
        self._context.emit(Persist(KIND, self._job, b""))

    def _settle(self) -> None:
        """Note the position before which all posts are confirmed, and read on if there is room."""
        while self._ends and self._ends[0][0] <= self._confirmed:
            self._restart = self._ends.popleft()[1]
        if not self._stored and self._restart:  # a restart would begin later, with `read_from = "end"`
            self._persist()
        elif self._restart != self._stored and not self._store.is_set:
            self._store.set(STORE_S)
        if self._nbytes < HELD_BYTES_MAX:
            self._request()

    def _request(self) -> None:
        if not self._reading:
            self._reading = True
            self._context.emit(ReadPosts(self._job, self.incarnation, self._stream, self._restart))

    def _persist(self) -> None:
        self._stored = self._restart
        data = msgspec.msgpack.encode(_Stored(self.incarnation, self._stream, self._stored))
        self._context.emit(Persist(KIND, self._job, data))

    def _send(self) -> None:
        if self.master is None or not self._posts:
            self._again.cancel()
            return
        message = OrderPosts(self._job, self.incarnation, self._context.name)
        self._context.send(self.master, message, encode_posts(self._next()))
        self._again.set(AGAIN_S)

    @safeguard("order-from-first")
    def _next(self) -> list[Post]:
        """Return the posts of the next message: from the first one that is not confirmed."""
        found: list[Post] = []
        size = 0
        for post in self._posts:
            size += _size(post)
            if found and size > SENT_BYTES_MAX:
                break
            found.append(post)
        return found


class PostSenders:
    """The senders of one agent, by the ids of topics."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of: dict[bytes, PostSender] = {}

    @property
    def idle(self) -> bool:
        """Whether all posts that were read are confirmed."""
        return all(each.idle for each in self._of.values())

    def restored(self, key: bytes, data: bytes) -> None:
        """Continue after a restart; the topic's master announces itself."""
        try:
            stored = msgspec.msgpack.decode(data, type=_Stored)
        except UNREADABLE:  # the posts of the spool are read again
            self._context.stats["control.malformed"] += 1
            return
        self._begin(key, stored.incarnation, stored.stream, stored.restart)

    def announced(self, manifest: Manifest, stream: str, master: Contact, epoch: int) -> None:
        job, incarnation = manifest.job_id, manifest.incarnation
        sender = self._of.get(job)
        if sender is not None and sender.incarnation != incarnation:
            if epoch < sender.epoch:
                return
            self.stop(job, sender.incarnation)
            sender = None
        (sender or self._begin(job, incarnation, stream, b"")).announced(master, epoch)

    def read(self, event: PostsRead) -> None:
        sender = self._of.get(event.job)
        if sender is not None and sender.incarnation == event.incarnation:
            sender.read(event)

    def on_ordered(self, sender: Contact, message: Ordered, payload: bytes) -> None:
        own = self._of.get(message.job)
        if own is None or own.incarnation != message.incarnation or own.master is None:
            return
        if own.master.id == sender.id:
            own.on_ordered(message)

    def stop(self, job: bytes, incarnation: str) -> None:
        sender = self._of.get(job)
        if sender is not None and sender.incarnation == incarnation:
            del self._of[job]
            sender.stop()

    def describe(self) -> Mapping[str, int]:
        return {"topics": len(self._of), "waiting": sum(not each.idle for each in self._of.values())}

    def _begin(self, job: bytes, incarnation: str, stream: str, restart: bytes) -> PostSender:
        sender = self._of[job] = PostSender(self._context, job, incarnation, stream, restart)
        self._context.after(FORGET_S, lambda: self._forget(job, sender))
        return sender

    def _forget(self, job: bytes, sender: PostSender) -> None:
        if self._of.get(job) is not sender:
            return
        if (silent_s := self._context.now - sender.announced_at) >= FORGET_S:
            self.stop(job, sender.incarnation)
        else:
            self._context.after(FORGET_S - silent_s, lambda: self._forget(job, sender))


def _size(post: Post) -> int:
    return post.nbytes + POST_BYTES
