"""Which fields of records no job may read: names that hold credentials, wherever they stand.

Owns the names and how they are compared. What becomes of the values is `agent.authority.redact`'s business,
and that a job which names such a field is refused `policy`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

DENIED = (
    "authorization",
    "proxy-authorization",
    "*cookie",
    "cookies",
    "*password",
    "*passwords",
    "*passwd",
    "pwd",
    "*passphrase",
    "*token",
    "*secret",
    "*secrets",
    "*secret_key",
    "*access_key",
    "*api_key",
    "*private_key",
    "*credentials",
    "jwt",
)
"""Compared without case and without what is neither letter nor digit: `*cookie` is `Set-Cookie`, too."""

_PLAIN = re.compile(r"[^a-z0-9*?]")
_SEGMENT = re.compile(r"[.\[\]'\"\\/]+")


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    return _PLAIN.sub("", name.lower())


class FieldRules:
    """Names of fields that are kept from jobs.

    Args:
        deny: names or patterns with `*`.
        allow: names or patterns that are not meant by them, such as "csrf_token".
    """

    def __init__(self, deny: Sequence[str] = DENIED, allow: Sequence[str] = ()) -> None:
        self.deny, self.allow = tuple(map(plain, deny)), tuple(map(plain, allow))

    def __bool__(self) -> bool:
        return bool(self.deny)

    def hides(self, name: str) -> bool:
        name = plain(name)
        if not any(fnmatchcase(name, pattern) for pattern in self.deny):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.allow)

    def hides_path(self, path: str) -> bool:
        return any(map(self.hides, _SEGMENT.split(path))) or self.hides(path)


EVERYTHING = FieldRules(())
"""Hides nothing."""
