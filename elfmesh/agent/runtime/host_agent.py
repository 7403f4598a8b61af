"""Runs an agent on a real host, with its directory, sockets and threads, from start to stop.

The module owns the order of starting and stopping. The agent reports each configuration error before the
ready line. In every case it releases its sockets, its threads and the lock of the directory.
"""

from __future__ import annotations

import asyncio
import gc
import glob
import logging
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

import msgspec

from elfmesh.agent.archive.host import Archives
from elfmesh.agent.metrics.page import AgentPage
from elfmesh.agent.net.api_server import ApiServer, cannot_bind
from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.agent.runtime import engine
from elfmesh.agent.runtime.assembly import AgentParts, LocalAgent
from elfmesh.agent.runtime.core import codec
from elfmesh.agent.service.notify import Notifier
from elfmesh.agent.service.service import Service
from elfmesh.agent.service.stopping import LEAVE_S, STOP_S, Stopping, leave
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.agent.settings.gate import gate_of
from elfmesh.agent.settings.security import Security
from elfmesh.agent.sinks.host import Sinks
from elfmesh.api.web.programs import ProgramHost
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.hidden_fields import FieldRules
from elfmesh.control.jobs.row_pages import RowLimits
from elfmesh.control.protocol.events import Recompute, Recomputed
from elfmesh.errors import ElfError, RuntimeFailure, Unreachable
from elfmesh.ingest import traces
from elfmesh.ingest.authority.audit import AuditedApi, open_audit
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.settings import sink_may_carry
from elfmesh.ingest.budget import cgroup
from elfmesh.ingest.budget.priority import lower
from elfmesh.ingest.functions import confinement
from elfmesh.ingest.host import ThreadExecutor, wall_clock_us
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.memory import Seldom
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.stream_infos import format_settings, infos_of, is_plain
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.tap import Taps
from elfmesh.machine import Contact
from elfmesh.plugins import FORMATS, plugins
from elfmesh.storage import starving
from elfmesh.storage.crashes import CrashGuard
from elfmesh.storage.identity import load_identity
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.spill import SpillStore
from elfmesh.storage.storage import DiskStorage, check_private
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from elfmesh.ingest.authority.redact import Redactor
    from elfmesh.ingest.parsers import StreamFormat
    from elfmesh.ingest.sources.stream_times import StreamTimes
    from elfmesh.ingest.worker.reader import Reader

log = logging.getLogger("elf.agent")
Ready = Callable[[str, str, bytes], None]
SWITCH_S = 0.001
"""How long a thread may keep the interpreter lock while the event loop waits for it. Python's default is five
times as long, and the event loop may have to wait several times in a row."""

ATTACH_POLL_S = 0.01
ATTACH_POLLS_MAX = 200
"""Maximum number of waits for a place in the trees of the agent's groups before the ready line."""


def run(
    config: AgentConfig,
    *,
    ready: Ready,
    notifier: Notifier | None = None,
    read: Callable[[], AgentConfig] | None = None,
) -> int:
    """Run an agent until SIGTERM or SIGINT.

    Args:
        config: checked configuration.
        ready: called with API address, overlay address and id when the agent has joined and serves requests.
        notifier: service manager; None: none.
        read: reads the configuration again, on SIGHUP.

    Returns:
        0 after an orderly stop.

    Raises:
        ElfError: the agent could not start, join or continue.
    """
    confinement.hide_memory()
    check_private(config.directory)
    _check_formats(config)
    limits = config.limits
    lower(limits.nice, limits.io_class)
    if limits.engine != "start":
        log.warning("limits.engine has no effect: every agent loads the query engine when it is ready")
    sys.setswitchinterval(SWITCH_S)
    if refused := cgroup.apply(limits.cores, limits.process_bytes):
        log.info("no cgroup of our own, limits are kept without it: %s", refused)
    for name, stream in config.streams.items():
        if stream.path and not glob.glob(stream.path, recursive=True):  # noqa: PTH207 - Path.glob takes no absolute pattern
            log.warning("stream %s: no file is there yet at %s", name, stream.path)
    storage = DiskStorage(config.directory)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            service = Service(notifier or Notifier(), config, read)
            runner.run(_main(config, storage, ready, service))
    finally:
        storage.close()
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _formats_of(config: AgentConfig) -> Callable[[str, StreamConfig], StreamFormat]:
    host = socket.gethostname()

    @cache
    def hide() -> Redactor:
        from elfmesh.ingest.authority.redact import Redactor

        return Redactor(FieldRules(config.fields.deny, config.fields.allow))

    def new_format(name: str, stream: StreamConfig) -> StreamFormat:
        from elfmesh.ingest.stream_formats import format_of

        made = format_of(stream, name=name, host=host)
        made.hide = hide()
        return made

    return new_format


def _readers(
    config: AgentConfig, inputs: Inputs, times: Callable[[str], StreamTimes]
) -> Callable[[str, StreamConfig], Reader]:
    new_format = _formats_of(config)
    format_of_stream = cache(lambda name: new_format(name, config.streams[name]))
    return lambda name, stream: inputs.reader(
        name, stream, format_of_stream(name), for_jobs=True, times=times(name)
    )


def _times_of(config: AgentConfig, name: str) -> StreamTimes:
    """Open the time indexes of a stream, which hold as long as the times of its lines are read as now."""
    from elfmesh.ingest.sources.stream_times import StreamTimes

    stream, hidden = config.streams[name], config.fields
    plugin = plugins(FORMATS).get(stream.format.partition(":")[0])
    read_by = (VERSION, str(plugin), format_settings(stream), hidden.deny, hidden.allow)
    return StreamTimes(config.directory / "times" / name, msgspec.json.encode(read_by, order="sorted"))


def _check_formats(config: AgentConfig) -> None:
    """Make the formats that settings can make wrong, because this is reported before the ready line.

    Formats need Arrow and numpy, so the others are made with the engine.

    Raises:
        ConfigError: settings of a stream are invalid.
    """
    doubtful = {name: stream for name, stream in config.streams.items() if not is_plain(stream)}
    if doubtful:
        infos_of(doubtful)


async def _main(config: AgentConfig, storage: DiskStorage, ready: Ready, service: Service) -> None:
    async with AsyncExitStack() as stack:
        guard, security = CrashGuard(config.directory, time.time), Security(config)
        stopping = stack.enter_context(Stopping(guard.stop, STOP_S + LEAVE_S * config.leaves))
        memory, audit = _memory(config, stack), open_audit(config.audit, storage, wall_clock_us)
        stack.callback(audit.close)
        gate, executor = gate_of(config, storage, wall_clock_us, audit), ThreadExecutor()
        stack.callback(executor.close)
        transport, bound = await _transport(config, security, stack)
        api, (inputs, archives, sinks) = ApiServer(config, security, stack), _ways(config, executor, stack)
        (host, port), identity = config.advertise_address or bound, load_identity(storage, security.agent)
        me = Contact(identity.id, host, port, identity.incarnation, *map(config.domain, ("rack", "region")))
        lookups, limits = LookupTables(config.lookups), config.limits
        times = cache(partial(_times_of, config))
        agent = LocalAgent(
            AgentParts(
                me=me,
                name=config.name or f"{socket.gethostname()}-{me.id.hex()[:6]}",
                labels=config.labels,
                streams=inputs.streams,
                rng=identity.rng,
                transport=transport,
                storage=storage,
                executor=executor,
                compute=engine.LateCompute(RowLimits(most=limits.memory_bytes // 2)),
                results=ResultsLogs(config.directory / "results"),
                open_reader=_readers(config, inputs, times),
                times=times,
                wall_us=wall_clock_us,
                held_bytes_max=limits.memory_bytes // 4,
                memory=memory,
                tidy=Seldom(),
                recheck=_recheck(config, inputs, lookups, gate, guard),
                lookups=lookups,
                inputs=inputs.describe,
                sinks=sinks.describe,
                sink_problems=sinks.problems,
                archives=archives,
                self_check=limits.self_check,
                disk_bytes=limits.disk_bytes,
                cpu_s=time.thread_time,
                scheduler=Scheduler(limits.cores, limits.job_share),
                gate=gate,
                guard=guard,
                security=security.describe,
                late=True,
                forget_after_s=config.control.forget_after_s,
            )
        )
        for end in (agent.pump.stop, sinks.close, inputs.close):  # the pump ends last: the others use it
            stack.push_async_callback(end)
        agent.start(config.join_addresses)
        if not await _joined(agent, config, stopping.asked):
            return
        taps = Taps(inputs.streams, _formats_of(config), executor, gate.policy)
        page, audited = _metrics_page(agent, executor, sinks, stack), AuditedApi(audit, executor)
        programs = ProgramHost(agent.pump.programs, inputs.inserts)
        await api.start(agent.pump, taps, page, programs, audited, agent.loaded.wait)
        stack.push_async_callback(api.close)
        security.watch(transport.reconsider, api.reconsider)
        await inputs.start(agent.frames, agent.host.post_positions)
        ready(api.address, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", me.id)
        stack.push_async_callback(service.close)
        service.start(agent, memory, f"api {api.address}")
        await agent.load_engine()
        _keep_what_is_imported()
        sinks.start(agent.pump.request)
        archives.start()
        await _ended(agent, stopping.asked, leaves=config.leaves)


async def _ended(agent: LocalAgent, stopping: asyncio.Event, *, leaves: bool) -> None:
    """Wait until the agent has to stop, has left or has failed. `leaves`: it leaves when it has to stop."""
    unwatch = starving.watch(agent.lacking(asyncio.get_running_loop()))
    try:
        await _first(stopping.wait(), agent.pump.left.wait(), agent.pump.failed)
    finally:
        unwatch()
    if agent.pump.failed.done():
        raise _fatal(agent.pump.failed.result())
    if leaves and not agent.pump.left.is_set():
        await leave(agent.pump.request)
    log.info("stopping")


def _metrics_page(
    agent: LocalAgent, executor: ThreadExecutor, sinks: Sinks, stack: AsyncExitStack
) -> AgentPage:
    def queues() -> dict[str, int]:
        return {**agent.pump.queues, **executor.waiting}

    page = AgentPage(partial(agent.facts, "agent"), queues, sinks.metrics)
    page.watch_loop()
    stack.callback(page.close)
    traces.begin(str(agent.facts("agent")["name"]), stack)
    return page


def _keep_what_is_imported() -> None:
    gc.collect()
    gc.freeze()


def _ways(
    config: AgentConfig, executor: ThreadExecutor, stack: AsyncExitStack
) -> tuple[Inputs, Archives, Sinks]:
    inputs = Inputs(config.streams, config.directory / "spool", executor)
    stack.push_async_callback(inputs.close)
    archives = Archives(
        inputs.streams, _formats_of(config), config.directory / "archive", socket.gethostname()
    )
    stack.push_async_callback(archives.close)
    inputs.others = archives.positions
    may_carry = partial(sink_may_carry, config.namespaces)
    sinks = Sinks(config.sinks, config.directory / "sinks", may_carry)
    stack.push_async_callback(sinks.close)
    return inputs, archives, sinks


def _recheck(
    config: AgentConfig, inputs: Inputs, lookups: LookupTables, gate: AuthorityGate, guard: CrashGuard
) -> Callable[[Recompute], Recomputed]:
    def recheck(effect: Recompute) -> Recomputed:
        from elfmesh.ingest.worker.recheck import Recheck

        return Recheck(
            inputs.streams,
            _formats_of(config),
            spill_dir=config.directory / "verify",
            labels=config.labels,
            lookups=lookups,
            functions=gate.again,
            guard=guard,
        )(effect)

    return recheck


async def _transport(
    config: AgentConfig, security: Security, stack: AsyncExitStack
) -> tuple[TcpTransport, tuple[str, int]]:
    stack.push_async_callback(security.close)
    trust, lifetime_s = security.trust, config.tls.lifetime_s
    transport = TcpTransport(
        *config.listen_address, codec(), cluster=config.cluster, trust=trust, lifetime_s=lifetime_s
    )
    try:
        bound = await transport.listen()
    except OSError as error:
        raise cannot_bind("listen", config.listen, error) from None
    stack.push_async_callback(transport.close)
    return transport, bound


def _memory(config: AgentConfig, stack: AsyncExitStack) -> MemoryBudget:
    limits = config.limits
    store = None
    if limits.spill_bytes:
        store = SpillStore(config.directory / "spill", limit_bytes=limits.spill_bytes)
        stack.callback(store.close)
    return MemoryBudget(limits.panes_bytes, store, new_lock=threading.Lock, job_share=limits.job_share)


async def _joined(agent: LocalAgent, config: AgentConfig, stopping: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(config.join_timeout_s):
            await _first(agent.pump.joined.wait(), stopping.wait(), agent.pump.failed)
    except TimeoutError:
        raise Unreachable(
            f"no agent answers at {', '.join(config.join)}",
            hint=f"Tried for {config.join_timeout}. Start that agent first, or check --join. If this data"
            " directory was copied from that agent, use an empty one: two agents cannot have one id.",
        ) from None
    if agent.pump.failed.done():
        raise _fatal(agent.pump.failed.result())
    for _ in range(ATTACH_POLLS_MAX):
        if agent.attached or stopping.is_set():
            break
        await asyncio.sleep(ATTACH_POLL_S)
    return agent.pump.joined.is_set()


async def _first(*waits: Awaitable[object]) -> None:
    futures = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, wait in zip(futures, waits, strict=True):
            if future is not wait:
                future.cancel()


def _fatal(error: BaseException) -> ElfError:
    if isinstance(error, ElfError):
        return error
    failure = RuntimeFailure(f"{type(error).__name__}: {error}", hint="This is a bug in elfmesh.")
    failure.__cause__ = error
    return failure
