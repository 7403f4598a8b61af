"""What keeps strangers out of an agent: certificates, loopback, or nothing at all and saying so.

Owns the agent's `Trust` while it runs: its files are looked at every few seconds, new ones are in use from
the next connection on, and open connections are judged again.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elfmesh.addresses import is_loopback
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.control.jobs.load import INSECURE
from elfmesh.errors import ConfigError

if TYPE_CHECKING:
    from elfmesh.api.identity.trust import Trust

log = logging.getLogger("elf.security")
_HINT = "Give the agent certificates ([tls], --tls DIR or --token; see `elf ca`)."
LOOK_S = 2.0
"""How long a new certificate or an entry of the deny list may go unnoticed."""


class Security:
    """How one agent is kept from strangers.

    Args:
        config: of the agent.

    Attributes:
        trust: whose certificates are believed; None: there are none.

    Raises:
        ConfigError: the certificates cannot be used.
    """

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self.trust: Trust | None = None
        self._changed: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None
        self._reported = ""
        tls = config.tls
        if tls.given:
            from elfmesh.control.jobs.signing import check_cryptography

            check_cryptography()
            from elfmesh.api.identity.names import parse_patterns
            from elfmesh.api.identity.trust import Files, Trust

            cert, key, ca, deny = (tls.path(name) for name in ("cert", "key", "ca", "deny"))
            files = Files(cert, key, ca, deny, deny_may_come=not tls.deny)
            self.trust = Trust(files, config.cluster, parse_patterns(tls.names))
        elif config.dangerously_insecure_network:
            log.warning("%s", INSECURE)
        else:
            check_join(config)

    @property
    def agent(self) -> bytes:
        """The agent's id by its certificate; b"" without."""
        return b"" if self.trust is None else self.trust.me.agent

    def describe(self) -> dict[str, Any]:
        """For `elf describe agent`: how strangers are kept out, until when, and what is wrong with it."""
        if self.trust is None:
            insecure = self._config.dangerously_insecure_network
            return {"mode": INSECURE if insecure else "loopback only"}
        until = datetime.datetime.fromtimestamp(self.trust.facts.not_after, datetime.UTC)
        return {
            "mode": "mutual TLS 1.3",
            "certificate": self.trust.facts.serial,
            "expires": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "problem": self.trust.problem or None,
        }

    def watch(self, *changed: Callable[[], object]) -> None:
        """Look at the files from now on; after a change, and now and then, call these."""
        self._changed += changed
        if self.trust is not None:
            self._task = asyncio.get_running_loop().create_task(self._watch(self.trust))

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, trust: Trust) -> None:
        me = trust.me.agent
        while True:
            await asyncio.sleep(LOOK_S)
            if trust.reload():
                log.info("certificates are read again: %s expires %s", *list(self.describe().values())[1:3])
            if trust.me.agent != me:
                trust.problem = "the certificate is now another agent's: a restart would refuse it"
            if trust.problem and trust.problem != self._reported:
                log.error("the newest certificates are not in use: %s", trust.problem)
            self._reported = trust.problem
            for call in self._changed:
                call()


def check_join(config: AgentConfig, source: str = "") -> None:
    """Raise ConfigError if an agent without certificates would believe what answers on another host.

    Args:
        config: of the agent; its certificates may still come from elsewhere (`--tls`, `--token`).
        source: the file that it is from, for the error.
    """
    if config.tls.given or config.dangerously_insecure_network:
        return
    for host, port in config.join_addresses:
        if not is_loopback(host):
            what = f"{host}:{port} is another host, and no certificates are configured"
            raise ConfigError(what, where=f"{source}: join" if source else "join", hint=_HINT)
