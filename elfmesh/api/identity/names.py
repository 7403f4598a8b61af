"""Names in certificates, and the roles that they give.

The module owns the form of elfmesh's own names and the mapping of foreign names; it reads no certificates.
Own names are URIs among the subject's alternative names, which every tool displays:

  elf://CLUSTER/agent/NAME/ID             may speak on the overlay under this id, 40 hexadecimal digits
  elf://CLUSTER/operator/NAME
  elf://CLUSTER/reader/NAME
  elf://CLUSTER/submitter/NAMESPACE       `*`: every namespace

Patterns such as "spiffe://example.org/elf/{name}" map names of another CA (SPIFFE ids, DNS names) to roles.
If there are patterns, only they count. A pattern never gives every namespace, so a wildcard certificate gives
no more than any other.

Invariant: an agent cannot choose its id. The CA writes the id into own names. For a foreign name, the id is
the hash of the name that the foreign CA gave.
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
"""Prefix of a join token."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
"""One label of a DNS name. Names below a name may be in the zone of another owner."""
PLACEHOLDERS = {"name", "namespace"}


class Nameless(RemoteError):
    """Raised if a certificate contains no name of this cluster. The message contains the reason."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Holder of a certificate.

    Attributes:
        name: name for display.
        roles: roles that the names give.
        namespaces: namespaces of a submitter.
        agent: id of an agent, b"" for other holders.
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str] = frozenset()
    agent: bytes = b""

    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.namespaces, "certificate")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A line of `[tls.names]`: a name that contains {name} or {namespace}, and its role."""

    expression: re.Pattern[str]
    role: Role


def parse_patterns(patterns: Mapping[str, str], *, where: str = "tls.names") -> tuple[NamePattern, ...]:
    """Parse the patterns of a configuration.

    Args:
        patterns: "spiffe://...", "elf://..." or "dns:..." with placeholders, mapped to a role.
        where: position for errors.

    Raises:
        ConfigError: a role is unknown, or a pattern would give every holder the same id or namespace.
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
        found.append(NamePattern(re.compile(expression), role))
    return tuple(found)


def bearer(names: Sequence[str], cluster: str, patterns: Sequence[NamePattern] = ()) -> Bearer:
    """Return the holder of a certificate with these names.

    Args:
        names: URIs, and DNS names prefixed with "dns:".
        cluster: own cluster; names of other clusters are ignored.
        patterns: result of `parse_patterns`.

    Raises:
        Nameless: no name is known, or the names are those of two agents.
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
    """Return the URI of a principal that is not an agent; `name` is the namespace of a submitter."""
    return f"{SCHEME}{cluster}/{role}/{name}"


def check_name(name: str, what: str) -> str:
    """Return `name` if it is valid in a URI without escaping; otherwise raise ConfigError."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid {what}", hint="Use letters, digits, '.', '_' and '-', at most 63."
        )
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


def _mapped(text: str, cluster: str, patterns: Sequence[NamePattern]) -> Bearer | None:
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
