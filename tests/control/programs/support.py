"""Programs beside the agents of the harness: processes that answer, die and come back."""

from __future__ import annotations

import itertools
from collections import Counter

from elfmesh.control.jobs.manifest import CREATOR
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol import program_frames
from elfmesh.machine import Effect
from elfmesh.srt import events as srt
from tests.control.harness import HOP_S, World
from tests.control.member.support import Agent


class Program:
    """One process: handles what is delivered at once, unless it is told to be `deaf`."""

    def __init__(self, world: ProgramWorld, agent: Agent, name: str, groups: tuple[str, ...] = ()) -> None:
        self.world, self.agent, self.name = world, agent, name
        self.session = next(world.sessions)
        self.process = self.session.to_bytes(20)
        self.deaf = False
        self.got: list[program_frames.FromAgent] = []
        self.handled: Counter[tuple[bytes, int]] = Counter()
        self.answers: dict[int, program_frames.Answer] = {}
        self._numbers = itertools.count(1)
        world.programs[self.session] = self
        world.post(0.0, agent, ctl.ProgramAttached(self.session, name, CREATOR, self.process))
        for group in groups:
            self.say(program_frames.Join(group))

    def say(self, frame: program_frames.FromProgram) -> None:
        self.world.post(0.0, self.agent, ctl.ProgramReported(self.session, frame))

    def send(
        self, verb: program_frames.Verb, target: str, body: bytes = b"x", timeout_s: float = 30.0
    ) -> int:
        number = next(self._numbers)
        self.say(program_frames.Say(number, verb, target, body, timeout_s=timeout_s))
        return number

    def die(self) -> None:
        del self.world.programs[self.session]
        self.world.post(0.0, self.agent, ctl.ProgramGone(self.session))

    def take(self, frame: program_frames.FromAgent) -> None:
        self.got.append(frame)
        if isinstance(frame, program_frames.Answer):
            assert frame.number not in self.answers, "a message ends once"
            self.answers[frame.number] = frame
        elif isinstance(frame, program_frames.Deliver) and not self.deaf:
            self.handled[frame.process, frame.number] += 1
            self.say(program_frames.Handled(frame.process, frame.number, b"re:" + frame.body))

    @property
    def role(self) -> program_frames.Role | None:
        roles = [frame for frame in self.got if isinstance(frame, program_frames.Role)]
        return roles[-1] if roles else None

    @property
    def is_master(self) -> bool:
        return self.role is not None and self.role.master

    def bodies(self, verb: str) -> list[bytes]:
        return [
            frame.body
            for frame in self.got
            if isinstance(frame, program_frames.Deliver) and frame.verb == verb
        ]


class ProgramWorld(World):
    """The harness, with programs; every member of a tree is a child of its root, or of `parents` says so."""

    def __init__(self, agents: int) -> None:
        self.sessions = itertools.count(1)
        self.programs: dict[int, Program] = {}
        self.parents: dict[tuple[bytes, bytes], bytes] = {}
        super().__init__(agents)

    def attach(self, number: int, name: str = "shop/top", groups: tuple[str, ...] = ()) -> Program:
        program = Program(self, self[number], name, groups)
        self.run(0.1)
        return program

    def masters(self) -> list[Program]:
        return [program for program in self.programs.values() if program.is_master]

    def _elect(self) -> None:
        super()._elect()
        for tree, root in self.roots.items():
            for member in self.subscribed.get(tree, {}):
                parent = self.parents.get((tree, member), root)
                if member != root and parent != member and self.agents[member].alive:
                    event = srt.Attached(tree, self.agents[parent].me)
                    self.post(HOP_S, self.agents[member], event)

    def _host_effect(self, agent: Agent, effect: Effect) -> None:
        if not isinstance(effect, ctl.ToProgram):
            super()._host_effect(agent, effect)
        elif effect.session in self.programs:
            self.programs[effect.session].take(effect.frame)
