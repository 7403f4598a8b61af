"""The requests of one agent's clients, whose questions to other agents a test answers."""

from __future__ import annotations

from typing import Any

from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.events import ClientRequest, Reply
from elfmesh.control.protocol.messages import Answered, Ask, unpack
from elfmesh.control.requests.requests import Requests
from elfmesh.machine import Message
from elfmesh.overlay.events import Route
from elfmesh.ql.values.row_json import encode_json
from tests.control.contexts import new_context
from tests.control.register.support import run

CLIENT = 77


class Clients:
    def __init__(self) -> None:
        self.context = new_context(1)
        self.host = MemberHost(self.context)
        self.requests = Requests(self.context, self.host)

    def ask(self, verb: str, client: int = CLIENT, **body: Any) -> list[Message]:
        """What is asked in answer to a client's request."""
        self.requests.request(ClientRequest(client, verb, body, 5))
        return self.routed()

    def about(self, verb: str = "describe", job: str = "shop/top", **body: Any) -> Ask:
        (ask,) = self.ask(verb, job=job, **body)
        assert isinstance(ask, Ask)
        return ask

    def routed(self) -> list[Message]:
        found = []
        for effect in self.context.out:
            if isinstance(effect, Route):
                message = unpack(effect.body)
                assert not isinstance(message, Ask) or message.job == effect.key
                found.append(message)
        self.context.out = [effect for effect in self.context.out if not isinstance(effect, Route)]
        return found

    def replies(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Client, status and body of what is answered."""
        out, self.context.out = self.context.out, []
        return [(each.token, each.status, each.body) for each in out if isinstance(each, Reply)]

    def answer(self, message: Any, status: int, body: dict[str, Any], data: bytes = b"") -> None:
        text = encode_json(body)
        self.requests.on_answered(Answered(message.token, status, len(text)), text + data)

    def wait(self, until: float) -> list[Message]:
        run(self.context, until)
        return self.routed()
