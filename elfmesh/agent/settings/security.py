"""Secures the connections of an agent: with certificates, by loopback only, or explicitly not at all.

The module owns the agent's `Trust` while it runs. It checks the files every few seconds. New files are used
from the next connection on, and the certificates of open connections are checked again.
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
"""How long a new certificate or an entry of the deny list may remain unnoticed."""


class Security:
    """How the connections of one agent are secured.

    Args:
        config: configuration of the agent.

    Attributes:
        trust: trusted certificates; None: there are no certificates.

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
        """Id of the agent in its certificate; b"" without a certificate."""
        return b"" if self.trust is None else self.trust.me.agent

    def describe(self) -> dict[str, Any]:
        """Describe for `elf describe agent` how connections are secured, the expiry date, and problems."""
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
        """Start checking the files. The functions in `changed` are called after each check."""
        self._changed += changed
        if self.trust is not None:
            self._task = asyncio.get_running_loop().create_task(self._watch(self.trust))

    async def close(self) -> None:
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
    """Raise ConfigError if an agent without certificates would trust an agent on another host.

    Args:
        config: configuration of the agent; its certificates may still come from elsewhere (`--tls`,
            `--token`).
        source: file of the configuration, for the error.
    """
    if config.tls.given or config.dangerously_insecure_network:
        return
    for host, port in config.join_addresses:
        if not is_loopback(host):
            what = f"{host}:{port} is another host, and no certificates are configured"
            raise ConfigError(what, where=f"{source}: join" if source else "join", hint=_HINT)
