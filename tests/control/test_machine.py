from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from elfmesh import ids
from elfmesh.control.jobs.manifest import Manifest, new_manifest, split_name, updated
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.machine import EARLY_MAX, Control
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import (
    MESSAGES,
    Announce,
    Ask,
    Stop,
    Submit,
    Verdict,
    WhatRuns,
    pack,
    unpack,
)
from elfmesh.control.requests.verbs import HUNG_UP
from elfmesh.errors import ProtocolError, QueryError
from elfmesh.machine import Contact, Effect, Event, Tick
from elfmesh.overlay.events import Joined, Route
from elfmesh.srt.events import Delivered, MulticastAnswer, Subscribe, Unsubscribe
from tests.control.member.support import TEXT

ME = Contact(b"\x01" * 20, "127.0.0.1", 7400)
OTHER = Contact(b"\x02" * 20, "127.0.0.1", 7402)


def control() -> Control:
    return Control(ME, "me", rng=random.Random(1))


def manifest(text: str = TEXT) -> Manifest:
    job, _ = read_job(text)
    return new_manifest(job, text, "local", created=5, incarnation="i")


def test_a_member_host_that_has_joined_subscribes_to_its_streams_and_asks_what_runs() -> None:
    machine = control()
    streams = ctl.LocalStreams((ctl.StreamInfo("clicks", "json"),))
    stream = ids.stream_id("clicks")
    expected: list[Effect] = [
        Subscribe(ids.ALL_AGENTS),
        Subscribe(stream),
        Route(stream, pack(WhatRuns("clicks", ME))),
    ]
    assert machine.step(streams, 0.0) == [], "before, it would take itself for the root of every group"
    assert machine.step(Joined(), 0.0) == expected
    assert machine.deadline is not None
    assert Route(stream, pack(WhatRuns("clicks", ME))) in machine.step(Tick(), machine.deadline)


def test_an_announcement_starts_a_worker_and_is_answered_in_the_same_step() -> None:
    machine = control()
    machine.step(Joined(), 0.0)
    machine.step(ctl.LocalStreams((ctl.StreamInfo("clicks", "json"),)), 0.0)
    job = manifest()
    effects = machine.step(
        Delivered(ids.stream_id("clicks"), 4, pack(Announce(job, OTHER, 1, wanted=True))), 1.0
    )
    epoch = ctl.Persist("epoch", job.job_id, (1).to_bytes(8))
    assert effects[:3] == [epoch, Subscribe(job.job_id), ctl.StartWorker(job, FIRST, begun=1)]
    (answer,) = [effect for effect in effects if isinstance(effect, MulticastAnswer)]
    assert answer.seq == 4
    verdict = unpack(answer.body)
    assert isinstance(verdict, Verdict)
    assert verdict.takes_part


def test_the_end_of_a_job_is_answered_before_its_member_leaves_the_tree() -> None:
    """An agent alone has no tree afterwards: `elf delete` printed "0 of 1 agents"."""
    machine = control()
    machine.step(Joined(), 0.0)
    machine.step(ctl.LocalStreams((ctl.StreamInfo("clicks", "json"),)), 0.0)
    job = manifest()
    machine.step(Delivered(ids.stream_id("clicks"), 4, pack(Announce(job, OTHER, 1, wanted=True))), 1.0)
    effects = machine.step(Delivered(job.job_id, 1, pack(Stop(job.job_id, "i", 1))), 2.0)
    kinds = [type(each) for each in effects if isinstance(each, MulticastAnswer | Unsubscribe)]
    assert kinds == [MulticastAnswer, Unsubscribe]


def test_what_clients_ask_waits_until_the_agent_has_joined() -> None:
    """Simulator seed 6: an agent that did not know the others yet founded a job on its own."""
    machine = control()
    assert machine.step(ctl.ClientRequest(1, "apply", {"text": TEXT}, 0), 0.0) == []
    routed = [effect for effect in machine.step(Joined(), 1.0) if isinstance(effect, Route)]
    assert [type(unpack(effect.body)) for effect in routed] == [Submit]
    late = control()
    for token in range(EARLY_MAX):
        assert late.step(ctl.ClientRequest(token, "describe", {"job": "a/b"}, 0), 0.0) == []
    (refused,) = late.step(ctl.ClientRequest(EARLY_MAX, "describe", {"job": "a/b"}, 0), 0.0)
    assert isinstance(refused, ctl.Reply)
    assert refused.status == 503


def test_applying_routes_the_manifest_to_the_jobs_id() -> None:
    machine = control()
    machine.step(Joined(), 0.0)
    effects = machine.step(ctl.ClientRequest(9, "apply", {"text": TEXT}, wall_us=77), 0.0)
    (route,) = [effect for effect in effects if isinstance(effect, Route)]
    assert route.key == ids.job_id("shop/top", "local")
    submit = unpack(route.body)
    assert isinstance(submit, Submit)
    assert (submit.manifest.qualified, submit.manifest.created, submit.origin) == ("shop/top", 77, ME)
    assert submit.manifest.incarnation


def test_every_request_is_answered_even_the_senseless() -> None:
    machine = control()
    machine.step(Joined(), 0.0)
    questions: list[tuple[str, dict[str, Any], int]] = [
        ("health", {}, 200),
        ("agent", {}, 200),
        ("dance", {}, 400),
        ("apply", {"text": 5}, 400),
        ("apply", {"text": "nonsense"}, 400),
        ("describe", {"job": "a/b/c/d"}, 400),
        ("results", {"job": "a/b", "wait": "x"}, 400),
    ]
    for token, (verb, body, status) in enumerate(questions):
        (reply,) = machine.step(ctl.ClientRequest(token, verb, body), 0.0)
        assert isinstance(reply, ctl.Reply)
        assert (reply.token, reply.status) == (token, status)


def test_what_a_client_that_is_gone_has_read_is_not_asked_for_any_more() -> None:
    machine = control()
    machine.step(Joined(), 0.0)
    read, change = ((1, "results", {"job": "a/b", "wait": 30}), (2, "delete", {"job": "a/b"}))
    for token, verb, body in (read, change):
        machine.step(ctl.ClientRequest(token, verb, body), 0.0)
    (given_up,) = machine.step(ctl.ClientGone(1), 0.1)
    assert isinstance(given_up, Route)
    asked_last = unpack(given_up.body)
    assert isinstance(asked_last, Ask)
    assert asked_last.verb == HUNG_UP
    assert machine.step(ctl.ClientGone(2), 0.1) == []
    effects = [effect for at in range(1, 60) for effect in machine.step(Tick(), float(at))]
    asked = [unpack(effect.body) for effect in effects if isinstance(effect, Route)]
    assert {each.verb for each in asked if isinstance(each, Ask)} == {"delete"}
    assert [effect.token for effect in effects if isinstance(effect, ctl.Reply)] == [2]


def test_an_event_of_no_concern_is_misuse() -> None:
    with pytest.raises(TypeError):
        control().step(Event(), 0.0)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT count(*) FROM s", "CREATE JOB"),
        ("CREATE JOB a.b AS SELECT x, count(*) FROM s GROUP BY x", "EVERY"),
    ],
)
def test_a_text_that_could_never_publish_is_no_job(text: str, hint: str) -> None:
    with pytest.raises(QueryError) as refused:
        read_job(text)
    assert hint in refused.value.hint


def test_a_manifest_has_one_canonical_form_and_growing_versions() -> None:
    first = manifest()
    assert msgspec.msgpack.decode(first.canonical(), type=Manifest) == first
    assert manifest().canonical() == first.canonical()
    second = updated(first, manifest(TEXT.replace("hits", "n")))
    assert (second.version, second.job_id) == (2, first.job_id)
    later = msgspec.structs.replace(manifest(), created=first.created + 1)
    assert updated(first, later).created == first.created, "a new version does not make a job younger"
    with pytest.raises(ValueError, match="not a version"):
        updated(first, manifest(TEXT.replace("shop.top", "shop.other")))
    assert first.trees == (first.job_id,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("top", ("default", "top")), ("shop/top", ("shop", "top")), ("shop.top", ("shop", "top"))],
)
def test_names_of_jobs(text: str, expected: tuple[str, str]) -> None:
    assert split_name(text) == expected


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "a b", "../x", "x\ny", "a" * 200])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the name"):
        split_name(text)


def test_every_message_has_a_tag_of_its_own() -> None:
    tags = [message.__struct_config__.tag for message in MESSAGES]
    assert len(set(tags)) == len(tags)
    assert all(str(tag).startswith("ctl.") for tag in tags)
    for body in (b"", b"\xc1", pack(Announce(manifest(), ME, 1))[:-3]):
        with pytest.raises(ProtocolError):
            unpack(body)
