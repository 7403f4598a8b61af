"""The role that each route of the API and each message of the overlay needs, in one table.

The module owns the table, which takes the roles of verbs from `control.requests.verbs`, and the text of
refusals. It does not identify callers; the owner of a connection creates the `Principal`. A route or message
that is not in the table is refused.

A message of the overlay needs the role `agent`, whatever it contains. The agent that received a client's
request authorised it, and each agent checks jobs against its own configuration before it runs them
(`policy`). The certificate of an agent therefore permits what the configurations of the other agents permit
for jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from elfmesh.api.identity.principal import Principal
from elfmesh.control.requests.verbs import VERBS, Need, Scope, Verb
from elfmesh.text import printable


class About(StrEnum):
    """Which part of a request contains the namespace that it is about."""

    NONE = "no namespace"
    PATH = "the namespace in the path"
    TEXT = "the namespace of the job's text"
    TAP = "the namespace of the job that is tapped; the text of no job needs an operator"


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of the table.

    Attributes:
        need: the required role.
        about: where the namespace is, for submitters.
        action: name in the audit log; "" for read access, which is logged only if it is refused.
    """

    need: Need
    about: About = About.NONE
    action: str = ""


UNPROVED = ("loopback", "insecure network")
"""Sources of principals that depend on a network address alone."""

_READ = Rule(Need.READ)
_JOB, _PROGRAM = Scope.JOB.value, "/v1/programs/{namespace}/{name}"


def _rule(verb: Verb) -> Rule:
    if verb.need is Need.READ:
        return _READ
    if verb.path.startswith(_JOB):
        return Rule(verb.need, About.PATH, verb.name)
    return Rule(verb.need, About.TEXT if verb.name == "apply" else About.NONE, verb.name)


_OTHERS: dict[tuple[str, str], Rule] = {
    ("GET", "/metrics"): _READ,
    ("GET", "/"): _READ,
    ("GET", "/page"): _READ,
    ("GET", "/page/{file}"): _READ,
    ("GET", "/v1/me"): _READ,
    ("GET", "/v1/language"): _READ,
    ("POST", "/v1/check"): _READ,
    ("GET", "/v1/coordination"): _READ,
    ("POST", "/v1/coordination"): _READ,
    ("GET", "/v1/what-if"): _READ,
    ("GET", _PROGRAM): Rule(Need.SUBMIT, About.PATH, "attach"),
    ("POST", f"{_PROGRAM}/insert"): Rule(Need.SUBMIT, About.PATH),
    ("POST", f"{_PROGRAM}/post"): Rule(Need.SUBMIT, About.PATH),
    ("GET", f"{_PROGRAM}/position"): Rule(Need.SUBMIT, About.PATH),
    ("POST", "/v1/tap"): Rule(Need.SUBMIT, About.TAP, "tap"),
}


def routes() -> dict[tuple[str, str], Rule]:
    """Return the rules by method and path as registered; HEAD needs the role of GET."""
    verbs = (verb for verb in VERBS.values() if verb.route)
    return {(verb.method, verb.path): _rule(verb) for verb in verbs} | _OTHERS


_OVERLAY = "Ping Pong Find Rows Found Beat BeatBack Relay Relayed Hop HopTaken Bye"
_TREES = (
    "Join Joined Redirect Leave Reparent Frontier SegmentUp SegmentAck Overlap Fault Multicast MulticastAck"
    " Pull"
)
_CONTROL = (
    "Submit Announce Verdict Announced WhatRuns Running Withdraw Enroll Leaving Roster RosterAck Mark Early"
    " Stop Fenced Waiting Rate Report PartRoot Part PartFault PartAck TreeOrder"
    " PartRequest SitePart Ask AskAll Question Answered"
    " Inquire Known Replica Fetch Page Handover Verify Verified Keep Kept Surrender KeptCopy AskFates Fates"
    " OrderPosts Ordered Rehearse Rehearsed Prepare Promised Accept Accepted Chosen CumulativeVote"
    " Conflict Outdated Resign Resigned Departed Excluded Delta Chained Prefix Shipping ContributionRequest"
)
_PROGRAMS = "Present Appointed Parcel Receipt Broadcast"

MESSAGES: dict[str, Need] = dict.fromkeys(
    " ".join((_OVERLAY, _TREES, _CONTROL, _PROGRAMS)).split(), Need.JOIN
)
"""Required roles by class name of the message. The decoder refuses other messages."""


def meets(need: Need, caller: Principal, namespace: str | None = None) -> bool:
    match need:
        case Need.READ:
            return caller.may_read()
        case Need.SUBMIT:
            return caller.may_operate() if namespace is None else caller.may_submit(namespace)
        case Need.OPERATE:
            return caller.may_operate()
        case Need.JOIN:
            return caller.may_join()


def is_anonymous(caller: Principal) -> bool:
    """Whether the caller is anonymous, in which case authentication might help."""
    return caller.source in UNPROVED


def refusal(need: Need, caller: Principal, what: str, namespace: str | None = None) -> tuple[str, str]:
    of = f" of {printable(namespace)}" if need is Need.SUBMIT and namespace else ""
    line = f"{what} needs the role {need}{of}, and {shown(caller)}"
    if is_anonymous(caller):
        return line, "Authenticate with a certificate, or with the token in the agent's data directory."
    return line, "Ask the operator that gives out certificates and tokens for this role."


def shown(caller: Principal) -> str:
    roles = sorted(str(role) for role in caller.roles)
    if caller.namespaces:
        roles = [
            f"{role} of {', '.join(sorted(caller.namespaces))}" if role == Need.SUBMIT else role
            for role in roles
        ]
    return printable(f"{caller.name} ({caller.source}) has {' and '.join(roles) or 'none'}")
