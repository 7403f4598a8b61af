"""The master side of a program: applies the job if necessary, and follows the job's results.

The module owns the role of this process and the position up to which results are handled. It reports a
position to the agent only after the result was handled. After a crash in between, the result is handled
again; no result is skipped.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

import msgspec

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.attachment import Attachment
from elfmesh.api.client.job_values import EarlyResult, NotMaster, Result, early_of, result_of
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.replies import ResultOffsets, read_reply
from elfmesh.errors import RuntimeFailure, Unreachable

AGAIN_S = 0.5
FOLLOW_S = 5.0
"""How long one request for the next result waits."""

log = logging.getLogger("elf.program")


class Side(Protocol):
    """Interface of a program that becomes the master side."""

    query: str
    name: str
    creator: str

    async def on_master(self) -> None:
        """Called when the program has become the master side."""
        ...

    async def on_result(self, result: Result) -> None:
        """Called for each closed interval."""
        ...

    async def on_early(self, result: EarlyResult) -> None:
        """Called for rows of open windows."""
        ...


class Leading:
    """Runs the master side of a program in one process.

    Args:
        side: the program.
        client: client of the agent's API.
        attached: attachment through which positions are reported to the agent.
        follows: whether the program wants results.
        early: whether it also wants the early rows of open windows.
    """

    def __init__(
        self, side: Side, client: AsyncClient, attached: Attachment, *, follows: bool, early: bool = False
    ) -> None:
        self._state, self._revision = "early" if early else "final", 0
        self._side, self._client, self._attached, self._follows = side, client, attached, follows
        self.role = program_frames.Role(False, 0, "")
        self._appointed = asyncio.Event()

    def appoint(self, role: program_frames.Role) -> None:
        """Take note of the agent's statement about which process is the master side."""
        self.role = msgspec.structs.replace(role, place=max(role.place, self.role.place))
        if role.master:
            self._appointed.set()
        else:
            self._appointed.clear()

    async def run(self) -> None:
        """Apply the job and follow its results as the master side. Runs until cancelled."""
        while True:
            await self._appointed.wait()
            term = self.role.term
            await self._see_to_job()
            await self._side.on_master()
            incarnation = ""
            while self._leads(term):
                if self._follows:
                    incarnation = await self._follow(term, incarnation)
                else:
                    await asyncio.sleep(AGAIN_S)

    def _leads(self, term: int) -> bool:
        return self.role.master and self.role.term == term

    async def _see_to_job(self) -> None:
        """Apply the job if it does not exist. A job that exists or existed may have been changed since."""
        while self._side.query and self.role.master and self.role.place == program_frames.NOWHERE:
            try:
                if not await self._client.exists(self._side.name, creator=self._side.creator):
                    await self._client.apply(self._side.query, creator=self._side.creator)
                return
            except Unreachable:
                await asyncio.sleep(AGAIN_S)

    async def _follow(self, term: int, incarnation: str) -> str:
        kept, _, index = self.role.place.text.rpartition(":")
        start = int(index) + 1 if index and kept == incarnation else None
        try:
            page, revision = await self._client.page(
                self._side.name,
                start=start,
                wait_s=FOLLOW_S,
                state=self._state,
                revision=self._revision,
                creator=self._side.creator,
            )
            offsets = await self._client.offsets(self._side.name, creator=self._side.creator)
            held = read_reply(ResultOffsets, offsets)
        except (Unreachable, RuntimeFailure) as error:
            log.info("no results of %s now: %s", self._side.name, error)
            await asyncio.sleep(AGAIN_S)
            return incarnation
        # only now the meaning of the interval numbers is known
        if held.incarnation != incarnation:
            return held.incarnation
        if start is not None and held.expired is not None and held.expired >= start:
            log.warning("results of %s up to interval %d are no longer kept", self._side.name, held.expired)
        for each in page:
            place = self.role.place  # a successor may have come further while this result is handled
            if not self._leads(term):
                return incarnation
            if each["state"] == "EARLY":
                if not await self._handle_early(each):
                    return incarnation
                continue
            if not await self._handle_result(result_of(each)):
                return incarnation
            text = f"{incarnation}:{each['interval']['index']}"
            reached = program_frames.ResultPosition(max(term, place.term), place.count + 1, text)
            self.role = msgspec.structs.replace(self.role, place=max(reached, self.role.place))
            await self._attached.reached(reached)
        self._revision = revision
        if not page and start is None:
            await asyncio.sleep(AGAIN_S)
        return incarnation

    async def _handle_early(self, line: dict[str, Any]) -> bool:
        try:
            await self._side.on_early(early_of(line))
        except (NotMaster, Unreachable) as error:
            log.warning("early rows of %s are handled again: %s", self._side.name, error)
            await asyncio.sleep(AGAIN_S)
            return False
        return True

    async def _handle_result(self, result: Result) -> bool:
        try:
            await self._side.on_result(result)
        except NotMaster:
            return False
        except Unreachable as error:
            log.warning("result %d of %s is handled again: %s", result.index, self._side.name, error)
            await asyncio.sleep(AGAIN_S)
            return False
        return True
