"""What agents keep of records whose rows are pages: the bytes, and who had them on disk before a vote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.row_pages import digest_of, joined, table_of
from elfmesh.control.master.master import Master
from elfmesh.control.protocol import events as ctl

if TYPE_CHECKING:
    from tests.sim.swarm.judging.outcome import Outcome


@dataclass
class PageWatch:
    """The pages of one run, by their digests.

    Attributes:
        data: their bytes.
        holders: agents that have one on disk.
        published: how many records were, whose rows are pages.
        thin: those that a majority of the voters had not on disk, in words.
    """

    data: dict[bytes, bytes] = field(default_factory=dict)
    holders: dict[bytes, dict[bytes, None]] = field(default_factory=dict)
    published: int = 0
    thin: list[str] = field(default_factory=list)

    def tap(self, local: LocalAgent) -> None:
        """Note what this agent keeps."""
        results, me = local.pump._results, local.pump.me.id
        keep = results.keep_page

        def kept(effect: ctl.KeepPage) -> None:
            keep(effect)
            digest = digest_of(effect.data)
            self.data[digest] = effect.data
            self.holders.setdefault(digest, {})[me] = None

        results.keep_page = kept  # type: ignore[method-assign]  # listens in

    def whole(self, rows: bytes) -> bytes:
        """The rows of a record."""
        table = table_of(rows)
        return rows if table is None else joined([self.data[page.digest] for page in table.pages])

    def was_published(self, master: Master, effect: ctl.Append) -> None:
        """Its register has closed the interval of a record: a majority must be able to give it."""
        table = table_of(effect.rows)
        if table is None:
            return
        self.published += 1
        for group in master.term.committer.cell.groups:
            for page in table.all:
                have = sum(voter in self.holders.get(page.digest, {}) for voter in group)
                if 2 * have <= len(group):
                    record = effect.record
                    self.thin.append(
                        f"{record.job} {record.index}: {have} of {len(group)} voters have {page.digest.hex()}"
                    )


def i11_a_majority_has_the_pages(out: Outcome) -> Iterator[str]:
    """What is published survives as votes do, also where its rows are pages of their own."""
    yield from out.history.pages.thin
