"""The agent under a service manager: handles SIGHUP, and sends ready, reloading, alive and stopping in order.

Without a service manager, SIGHUP still reads the configuration again.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
from collections.abc import Callable

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.agent.service.notify import Notifier
from elfmesh.agent.service.reload import Apply, Reload
from elfmesh.agent.service.watchdog import Watchdog
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.storage.spill import SpillStore


class Service:
    """Connects an agent to its service manager. Without `read`, SIGHUP logs that it changes nothing."""

    def __init__(
        self, notifier: Notifier, config: AgentConfig, read: Callable[[], AgentConfig] | None = None
    ) -> None:
        self._notifier, self._config = notifier, config
        self._read = read or (lambda: config)
        self._watching: asyncio.Task[None] | None = None
        self._status = ""

    def start(self, agent: LocalAgent, memory: MemoryBudget, status: str) -> None:
        self._status = status
        reload = Reload(self._config, self._read, settings_of(agent, memory))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._again, reload)
        if self._notifier.watchdog_s is not None:
            # the manager ends an agent that hangs with SIGABRT; the log then shows where it hung
            faulthandler.enable()
        self._notifier.ready(status)
        self._watching = loop.create_task(Watchdog(self._notifier, agent.host).run())

    async def close(self) -> None:
        self._notifier.stopping()
        if self._watching is not None:
            self._watching.cancel()
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    def _again(self, reload: Reload) -> None:
        self._notifier.reloading()
        outcome = reload.again()
        self._notifier.ready(f"{self._status}; reload: {outcome}")


def settings_of(agent: LocalAgent, memory: MemoryBudget) -> dict[str, Apply]:
    """Return the settings that can change while an agent runs, with the functions that apply them."""

    def memory_limit(config: AgentConfig) -> None:
        memory.limit_bytes = config.limits.panes_bytes
        agent.host.held_bytes_max = config.limits.memory_bytes // 4
        for ingest in agent.host.ingests.values():
            ingest.held_bytes_max = agent.host.held_bytes_max

    def disk_limit(config: AgentConfig) -> None:
        agent.frames.limit_bytes = config.limits.disk_bytes

    def standby_limit(config: AgentConfig) -> None:
        agent.control.member_host.copy_store.panes.limit_bytes = config.limits.standby_bytes

    settings: dict[str, Apply] = {
        "limits.memory": memory_limit,
        "limits.disk": disk_limit,
        "limits.standby": standby_limit,
    }
    store = memory.store
    if isinstance(store, SpillStore):

        def spill_limit(config: AgentConfig) -> None:
            store.limit_bytes = config.limits.spill_bytes

        settings["limits.spill"] = spill_limit
    return settings
