"""Reads the configuration again while the agent runs, and applies the settings that can change.

Other settings need a restart and are named. A wrong configuration changes nothing. Only the names of settings
are logged, because some values are secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from elfmesh.agent.settings.config import AgentConfig
from elfmesh.errors import ElfError

log = logging.getLogger("elf.agent")
Apply = Callable[[AgentConfig], None]


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """Result of a reload: settings that were applied, and settings that need a restart.

    `problem` is not empty if nothing was changed.
    """

    applied: tuple[str, ...] = field(default=())
    restart: tuple[str, ...] = field(default=())
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"the configuration is wrong, nothing was changed: {self.problem}"
        parts = [f"changed: {', '.join(self.applied)}"] if self.applied else []
        parts += [f"needs a restart: {', '.join(self.restart)}"] if self.restart else []
        return "; ".join(parts) or "nothing has changed"


class Reload:
    """Reads the configuration again. `settings` maps dotted names to the functions that apply them."""

    def __init__(
        self, config: AgentConfig, read: Callable[[], AgentConfig], settings: Mapping[str, Apply]
    ) -> None:
        self._now, self._read, self._settings = flat(config), read, settings

    def again(self) -> ReloadResult:
        """Read the configuration, apply what can be applied, and log the outcome.

        Settings that need a restart are named each time.
        """
        try:
            config = self._read()
            outcome = self._apply(config)
        except (ElfError, OSError) as error:
            outcome = ReloadResult(problem=" ".join(str(error).split()))
        log.log(logging.ERROR if outcome.problem else logging.INFO, "reload: %s", outcome)
        return outcome

    def _apply(self, config: AgentConfig) -> ReloadResult:
        new = flat(config)
        names = sorted(name for name in self._now.keys() | new.keys() if self._now.get(name) != new.get(name))
        applied = []
        for setting, apply in self._settings.items():
            ours = [name for name in names if name == setting or name.startswith(f"{setting}.")]
            if ours:
                apply(config)
                applied += ours
        for name in applied:
            self._now[name] = new.get(name)
        return ReloadResult(tuple(sorted(applied)), tuple(name for name in names if name not in applied))


def flat(config: AgentConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):  # an empty table has no settings
            for key, each in value.items():
                walk(f"{prefix}.{key}" if prefix else str(key), each)
        else:
            found[prefix] = value

    walk("", msgspec.to_builtins(config))
    return found
