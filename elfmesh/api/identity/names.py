"""What a certificate calls its bearer, and which roles those names are.

Owns the spelling of our own names and the mapping of other people's; reads no certificate. Our own are URIs
among the subject's alternative names, which every tool shows:

    elf://CLUSTER/agent/NAME/ID             speaks on the overlay under this id, 40 hexadecimal digits
    elf://CLUSTER/operator/NAME
    elf://CLUSTER/reader/NAME
    elf://CLUSTER/submitter/NAMESPACE       `*`: of every namespace

Names of another CA (SPIFFE ids, DNS names) become roles by patterns such as
"spiffe://example.org/elf/{name}". Where there are patterns, they are all that counts; none of them means
every namespace, so that a wildcard certificate is worth no more than any other.

Invariant: an agent cannot choose its id. In our own names the CA has written it; for others' names it is the
hash of the name, which their CA gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elfmesh.api.identity.principal import EVERY_NAMESPACE, Principal, Role
from elfmesh.errors import ConfigError, RemoteError
from elfmesh.ids import ID_BYTES, named_agent_id

SCHEME = "elf://"
TOKEN_PREFIX = "elfjoin1."
"""Begins a join token."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
"""Of a DNS name: what is below a name may be another owner's zone."""
PLACEHOLDERS = {"name", "namespace"}


class Nameless(RemoteError):
    """A certificate gives its bearer no name of this cluster; the message says why."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who a certificate is for.

    Attributes:
        name: what to call them.
        roles: what they were given.
        namespaces: of a submitter.
        agent: id of an agent, b"" of others.
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str] = frozenset()
    agent: bytes = b""

    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.namespaces, "certificate")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of `[tls.names]`: a name with {name} or {namespace} in it, and the role it means."""

    expression: re.Pattern[str]
    role: Role


def parse_patterns(patterns: Mapping[str, str], *, where: str = "tls.names") -> tuple[Pattern, ...]:
    """The patterns of a configuration.

    Args:
        patterns: "spiffe://...", "elf://..." or "dns:..." with placeholders, to a role.
        where: for errors.

    Raises:
        ConfigError: no role, or a pattern that would give every bearer the same id or namespace.
    """
    found = []
    for text, role_name in patterns.items():
        place = f'{where}."{text}"'
        if role_name not in list(Role):
            raise ConfigError(f"{role_name!r} is not a role", where=place, hint=f"One of {', '.join(Role)}.")
        role = Role(role_name)
        used = _PLACEHOLDER.findall(text)
        wanted = "namespace" if role is Role.SUBMITTER else "name"
        if unknown := set(used) - PLACEHOLDERS:
            raise ConfigError(f"{{{unknown.pop()}}} is not a placeholder", where=place, hint="Use {name}.")
        if used.count(wanted) != 1 or len(used) != len(set(used)):
            raise ConfigError(f"must contain {{{wanted}}} exactly once", where=place)
        one = _LABEL if text.startswith("dns:") else _PART
        expression = "".join(
            f"(?P<{part}>{one})" if number % 2
            else re.escape(part)
            for number, part in enumerate(_PLACEHOLDER.split(text))
        )  # fmt: skip
        found.append(Pattern(re.compile(expression), role))
    return tuple(found)


def bearer(names: Sequence[str], cluster: str, patterns: Sequence[Pattern] = ()) -> Bearer:
    """Who a certificate with these names is for.

    Args:
        names: its URIs, and its DNS names with "dns:" before them.
        cluster: ours; names of others count for nothing.
        patterns: of `parse_patterns`.

    Raises:
        Nameless: it has no name of ours, or means two agents.
    """
    given = [_mapped(name, cluster, patterns) for name in names] if patterns else [
        _own(name, cluster) for name in names if name.startswith(SCHEME)
    ]  # fmt: skip
    known = [each for each in given if each is not None]
    if not known:
        raise Nameless(f"its certificate has no name in cluster {cluster!r}")
    agents = [each for each in known if each.agent]
    if len(agents) > 1:
        raise Nameless("its certificate names two agents")
    best = agents[0] if agents else next((each for each in known if each.name), known[0])
    return Bearer(
        name=best.name or f"submitter of {', '.join(sorted(best.namespaces))}",
        roles=frozenset().union(*(each.roles for each in known)),
        namespaces=frozenset().union(*(each.namespaces for each in known)),
        agent=best.agent,
    )


def agent_uri(cluster: str, name: str, agent: bytes) -> str:
    return f"{SCHEME}{cluster}/{Role.AGENT}/{name}/{agent.hex()}"


def role_uri(cluster: str, role: Role, name: str) -> str:
    """The URI of any other principal; `name` is a submitter's namespace."""
    return f"{SCHEME}{cluster}/{role}/{name}"


def check_name(name: str, what: str) -> str:
    """`name`, if it can stand in a URI as it is; raises ConfigError."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no {what}", hint="Use letters, digits, '.', '_' and '-', at most 63.")
    return name


def _own(uri: str, cluster: str) -> Bearer | None:
    of, _, rest = uri.removeprefix(SCHEME).partition("/")
    kind, _, name = rest.partition("/")
    if of != cluster or kind not in list(Role):
        return None
    role = Role(kind)
    if role is Role.AGENT:
        name, _, digits = name.partition("/")
        if not NAME.fullmatch(name) or not re.fullmatch(rf"[0-9a-f]{{{2 * ID_BYTES}}}", digits):
            raise Nameless(f"its certificate has a malformed agent name {uri!r}")
        return Bearer(name, frozenset({role}), agent=bytes.fromhex(digits))
    return _someone(role, name) if NAME.fullmatch(name) or name == EVERY_NAMESPACE else None


def _someone(role: Role, name: str) -> Bearer | None:
    if role is Role.SUBMITTER:
        return Bearer("", frozenset({role}), frozenset({name}))
    return None if name == EVERY_NAMESPACE else Bearer(name, frozenset({role}))


def _mapped(text: str, cluster: str, patterns: Sequence[Pattern]) -> Bearer | None:
    for pattern in patterns:
        if found := pattern.expression.fullmatch(text):
            parts = found.groupdict()
            if pattern.role is Role.AGENT:
                agent = named_agent_id(cluster, text)
                return Bearer(parts["name"], frozenset({Role.AGENT}), agent=agent)
            one = _someone(pattern.role, parts["namespace" if pattern.role is Role.SUBMITTER else "name"])
            if one is not None and not one.name and parts.get("name"):
                return Bearer(parts["name"], one.roles, one.namespaces)
            return one
    return None
