"""Hidden fields: fields that no job may read, because their names indicate credentials.

Owns the names and their comparison. `agent.authority.redact` removes the values; `policy` refuses jobs that
name such a field.
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
"""Patterns; the comparison ignores case and all characters except letters and digits, so that `*cookie`
matches `Set-Cookie`."""

_PLAIN = re.compile(r"[^a-z0-9*?]")
_SEGMENT = re.compile(r"[.\[\]'\"\\/]+")


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    return _PLAIN.sub("", name.lower())


class FieldRules:
    """Names of hidden fields.

    Args:
        deny: names or patterns with `*`.
        allow: exceptions from `deny`, such as "csrf_token".
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
