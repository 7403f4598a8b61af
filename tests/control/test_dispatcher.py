"""The tables of messages: who takes each, and what its epoch must be before it is taken."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from pathlib import Path

import pytest

import elfmesh.control
from elfmesh.control.dispatcher import Dispatcher
from elfmesh.control.machine import Control
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_programs, messages_safety
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.fences import FENCES
from elfmesh.machine import Contact, Message
from tests.control.test_machine import ME

OTHER_WAYS = {
    ctl.Verdict: "the answer of one agent to a multicast, read by its rendezvous",
    versions.Rehearsed: "the answer of one agent to a multicast, read by the master",
    messages_programs.Broadcast: "handed to the program beside this agent, which answers later",
}

JOB = bytes(20)


@pytest.fixture
def control() -> Control:
    return Control(ME, "me", rng=random.Random(1))


def tables(dispatcher: Dispatcher) -> dict[type[Message], int]:
    """How often each message is in a table of parts: the one of letters is put together from them."""
    return Counter(
        kind
        for part in (
            dispatcher._leadership.registers.handlers(),
            dispatcher._from_masters(),
            dispatcher._to_masters(),
            dispatcher._between_agents(),
        )
        for kind in part
    )


def test_every_message_of_the_room_has_one_handler(control: Control) -> None:
    dispatcher = control.dispatcher
    handled = {*dispatcher._handlers, *dispatcher._multicasts}
    assert set(ctl.MESSAGES) - handled == set(OTHER_WAYS)
    assert set(tables(dispatcher).values()) == {1}
    assert not {*tables(dispatcher)} & {*control.programs.handlers()}


def test_every_fence_is_of_a_message_that_is_handled(control: Control) -> None:
    assert set(FENCES) <= {*control.dispatcher._handlers, *control.dispatcher._multicasts}


def test_a_message_of_an_outdated_epoch_reaches_no_handler_and_its_sender_is_notified(
    control: Control,
) -> None:
    sender = Contact(bytes([9]) * 20, "other", 1, 0)
    control.leadership.admits(JOB, 7, None)
    control.dispatcher.received(sender, ctl.Stop(JOB, "one", 6), b"")
    assert control.context.stats["control.fenced"] == 1
    assert [effect.message for effect in control.context.out if hasattr(effect, "message")] == [
        ctl.Fenced(JOB, 7)
    ]
    assert (JOB, "one") not in control.member_host.admission._stopped
    control.dispatcher.received(sender, ctl.Stop(JOB, "one", 7), b"")
    assert (JOB, "one") in control.member_host.admission._stopped


def test_what_has_no_handler_is_counted(control: Control) -> None:
    control.dispatcher.received(ME, messages_safety.Surrender(JOB, "one", ME, 1, 0, 1), b"")
    assert control.context.stats["control.misplaced"] == 1


def test_only_the_fences_ask_whether_an_epoch_is_admitted_before_a_message_is_handled() -> None:
    root = Path(elfmesh.control.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if ".admits" in path.read_text()}
    assert found == {
        "election/fencing.py",
        "election/leadership.py",  # keeps terms
        "register/acceptor.py",  # the generations of voters
        "requests/recovery.py",  # begins a generation
    }


TERMS = {"Mark": "watermark", "Fates": "outcomes", "AskFates": "ask_outcomes"}
"""The glossary's terms of messages whose class names are frozen as labels of metrics."""
ROOM = Path(elfmesh.control.__file__).parent
KINDS = {kind.__name__ for kind in ctl.MESSAGES}


def handlers_in(source: str) -> dict[str, str]:
    """The kinds of messages in the dictionaries of a module, each with the name of its handler."""
    found = {}
    for table in [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Dict)]:
        for key, value in zip(table.keys, table.values, strict=True):
            kind = getattr(key, "attr", getattr(key, "id", ""))
            if kind in KINDS and not (isinstance(value, ast.Lambda) and isinstance(value.body, ast.Constant)):
                named = [each for each in ast.walk(value) if isinstance(each, ast.Attribute | ast.Name)]
                names = [getattr(each, "attr", getattr(each, "id", "")) for each in named]
                found[kind] = next((name for name in names if "on_" in name), names[0])
    return found


def handed_on(source: str) -> dict[str, str]:
    """The methods `_on_<message>` that pass the message to a component, with the method that takes it."""
    found = {}
    for function in [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]:
        for each in ast.walk(function) if function.name.startswith("_on_") else ():
            if isinstance(each, ast.Expr) and isinstance(call := each.value, ast.Call):
                given = {getattr(argument, "id", "") for argument in call.args}
                whole = "message" in given and given <= {"sender", "message", "payload"}
                if whole and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) != "self":
                    found[function.name] = call.func.attr
    return found


def named_after(kind: str) -> str:
    return "on_" + (TERMS.get(kind) or re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower())


@pytest.mark.parametrize("module", ["dispatcher", "programs/beside", "register/registers"])
def test_a_handler_has_the_name_of_its_message(module: str) -> None:
    source = (ROOM / f"{module}.py").read_text()
    handlers = handlers_in(source)
    assert handlers
    assert {kind: name for kind, name in handlers.items() if name.lstrip("_") != named_after(kind)} == {}
    others = {name: taken for name, taken in handed_on(source).items() if f"_{taken}" != name}
    assert set(others) <= {"_on_ask"}, "which gives one verb between agents to `on_waits`"


def test_a_handler_with_another_name_is_found() -> None:
    table = "handlers = {ctl.Roster: lambda message: host.take(message), Mark: self._on_watermark}"
    assert handlers_in(table) == {"Roster": "take", "Mark": "_on_watermark"}
    method = "def _on_kept(self, sender, message, payload):\n    member.copies.taken(sender, message)"
    assert handed_on(method) == {"_on_kept": "taken"}
