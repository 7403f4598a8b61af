"""Where new jobs live: the less loaded of two placements, once, whichever agent asks (Figure 12c)."""

from __future__ import annotations

from collections import Counter

from elfmesh import ids
from elfmesh.control.answers import AGAIN, decode_body
from elfmesh.control.protocol.messages import Answered, Ask, Question, Submit, unpack
from elfmesh.control.requests.placement import UNDER_WAY_S, VERB
from elfmesh.control.requests.verbs import KNOWN, OVER
from elfmesh.machine import Effect
from elfmesh.overlay.events import Route, RouteDelivered
from elfmesh.ql.values.row_json import encode_json
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent
from tests.control.placement_rule import by_the_rule

AGENTS = 12


def job_text(number: int) -> str:
    return TEXT.replace("shop.top", f"shop.job{number}")


def test_agents_place_jobs_by_the_rule() -> None:
    world = World(AGENTS)
    count = 30
    for number in range(count):
        world.apply(world[number % AGENTS], job_text(number))
    expected = by_the_rule(list(world.agents), [f"shop/job{n}" for n in range(count)])
    assert {agent.me.id: len(agent.masters) for agent in world.living} == expected
    homes = Counter(world.closest(ids.job_id(f"shop/job{n}", "local"))[0].me.id for n in range(count))
    assert max(expected.values()) < max(homes.values()), "plain hashing would have done as well"


def moved(world: World) -> str:
    """Apply jobs until one lives at its second placement; its number."""
    for number in range(60):
        world.apply(world[0], job_text(number))
        home, other = ids.job_placements(f"shop/job{number}", "local")
        master = world.master(f"shop/job{number}")
        if master is not world.closest(home)[0]:
            assert master is world.closest(other)[0]
            return f"shop/job{number}"
    raise AssertionError("no job has moved")


def test_a_job_at_its_second_placement_is_found_by_its_name_and_begun_only_once() -> None:
    world = World(AGENTS)
    name = moved(world)
    text = job_text(int(name.removeprefix("shop/job")))
    assert world.apply(world[3], text).body["state"] == "unchanged"
    assert world.ask(world[5], "describe", {"job": name}).body["job"] == name
    changed = world.apply(world[4], text.replace("'1 s'", "'2 s'"))
    assert changed.body["version"] == 2
    assert world.master(name)  # asserts that there is one
    assert world.ask(world[1], "delete", {"job": name}).body["state"] == "deleted"
    world.run(3.0)
    assert world.ask(world[2], "describe", {"job": name}).status == 404


def test_its_results_are_exact_and_a_new_master_goes_on_at_the_same_placement() -> None:
    world = World(AGENTS)
    fill(world, intervals=4)
    name = moved(world)
    text = job_text(int(name.removeprefix("shop/job")))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    before = world.results(world[0], name)
    assert before
    dead = world.master(name)
    led = dead.control.leadership.masters.items()
    job_id = next(key for key, master in led if master.term.manifest.qualified == name)
    world.kill(dead)
    world.run(20.0)
    master = world.master(name)
    assert master is world.closest(job_id)[0]
    asked = next(agent for agent in world.living if agent is not master)
    assert world.apply(asked, text).body["state"] == "unchanged"
    assert world.results(asked, name)[: len(before)] == before


def test_while_the_other_placement_is_silent_no_job_begins() -> None:
    world = World(AGENTS)
    home, other = (world.closest(candidate)[0] for candidate in ids.job_placements("shop/top", "local"))
    asked = next(agent for agent in world.living if agent not in (home, other))
    assert home is not other, "an agent hears itself"
    world.lost = lambda source, target, message: isinstance(message, Answered) and target is home
    assert world.apply(asked).status == 503
    assert not any("shop/top" in agent.masters for agent in world.living)
    world.lost = lambda source, target, message: False
    assert world.apply(asked).body["state"] == "new"


class Searched(World):
    """Counts the searches for the place of a new job."""

    searches = 0

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        if isinstance(effect, Route):
            asked = unpack(effect.body)
            self.searches += isinstance(asked, Ask) and asked.verb == VERB
        super()._carry_out(agent, effect)


def test_a_repeated_look_whose_answer_was_lost_is_answered_without_a_second_search() -> None:
    """With slow disks a search takes seconds, and the request that names the answer would wait for it."""
    world = Searched(AGENTS)
    home, other = (world.closest(candidate)[0] for candidate in ids.job_placements("shop/top", "local"))
    client = next(agent for agent in world.living if agent not in (home, other))
    answers: list[Answered] = []

    def loses_the_first_answer(source: object, target: object, message: object) -> bool:
        if isinstance(message, Answered) and message.status == AGAIN:
            answers.append(message)
        return len(answers) == 1 and message is answers[0]

    world.lost = loses_the_first_answer
    assert world.apply(client).body["state"] == "new"
    assert len(answers) == 2
    assert world.searches == 2, "one for the look, one for the request that names its answer"


class Delaying(World):
    """Messages of one kind for one key are under way for some seconds."""

    late = b""
    kind: type[Ask | Submit] = Submit
    seconds = 3.0

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        if (
            isinstance(effect, Route)
            and effect.key == self.late
            and isinstance(unpack(effect.body), self.kind)
        ):
            event = RouteDelivered(effect.key, effect.body, effect.payload, agent.me)
            self.post(self.seconds, self.closest(effect.key)[0], event)
        else:
            super()._carry_out(agent, effect)


def test_a_job_is_placed_where_each_answer_takes_long() -> None:
    """Between distant agents the route, the look-up at its end and the answer take some round trips."""
    world = Delaying(AGENTS)
    world.late, world.kind, world.seconds = ids.job_placements("shop/top", "local")[1], Ask, 2.0
    assert world.apply(world[0]).status == 200


def test_two_requests_for_one_new_job_begin_it_once_though_the_loads_change() -> None:
    """The first one is under way to the second placement, which does not know of it, when the other comes."""
    world = Delaying(AGENTS)
    home, world.late = ids.job_placements("shop/top", "local")
    placement = world.closest(home)[0].control.request_handler._placement
    tokens = []
    for agent, load in ((world[0], 5), (world[1], 0)):
        placement._load = lambda job, load=load: load  # type: ignore[method-assign, misc]  # what load it sees
        tokens.append((agent, world.request(agent, "apply", {"text": TEXT})))
        world.run(1.0)
    world.run(12.0)
    assert sum("shop/top" in agent.masters for agent in world.living) == 1
    assert world.master("shop/top") is world.closest(world.late)[0]
    assert sorted(str(agent.replies[token].body["state"]) for agent, token in tokens) == ["new", "unchanged"]


def test_a_late_copy_of_a_request_for_the_second_placement_begins_no_job_again() -> None:
    world = World(AGENTS)
    copies: list[Submit] = []

    def keep(source: object, target: object, message: object) -> bool:
        if isinstance(message, Submit):
            copies.append(message)
        return False

    world.lost = keep
    name = moved(world)
    copies = [copy for copy in copies if copy.manifest.qualified == name]
    assert world.ask(world[1], "delete", {"job": name}).body["state"] == "deleted"
    world.run(3.0)
    for copy in list(copies):
        agent = world.closest(copy.manifest.job_id)[0]
        agent.control.dispatcher.received(agent.me, copy, b"")
        world.run(3.0)
    assert not any(name in agent.masters for agent in world.living)


def test_a_job_is_not_begun_at_its_home_while_it_lives_at_its_second_placement() -> None:
    """An agent that missed the end of the job at its home still knows it, and makes the home look alive."""
    world = World(AGENTS)
    home, other = ids.job_placements("shop/top", "local")
    assert world.apply(world[0]).body["state"] == "new"
    assert world.master().me == world.closest(home)[0].me
    ended = world.ask(world[0], "describe", {"job": "shop/top"}).body["incarnation"]
    late = next(
        agent
        for agent in world.closest(home)[1:]
        if agent not in (world[0], world[1], world.closest(other)[0])
        and home in agent.control.leadership.replicas
    )
    world.kill(late)
    world.run(2.0)
    assert world.ask(world[0], "delete", {"job": "shop/top"}).body["state"] == "deleted"
    placement = world.closest(home)[0].control.request_handler._placement
    placement._load = lambda job: 5  # type: ignore[method-assign]  # the load that it sees
    assert world.apply(world[0]).body["state"] == "new"
    assert world.master().me == world.closest(other)[0].me
    incarnation = world.ask(world[0], "describe", {"job": "shop/top"}).body["incarnation"]
    world.run(UNDER_WAY_S)
    world.restart(late)
    for over, known in (([], ["shop/top"]), ([ended], [])):
        question = Question("whose", encode_json({"job": "shop/top", KNOWN: True, OVER: over}))
        items = decode_body(late.control.request_handler.on_question(question))["items"]
        assert [item["job"] for item in items] == known
    assert world.apply(world[1], TEXT.replace("'1 s'", "'2 s'")).body["version"] == 2
    world.run(5.0)
    assert sum("shop/top" in agent.masters for agent in world.living) == 1
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["incarnation"] == incarnation
