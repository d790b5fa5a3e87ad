"""`McpServers`: the configured servers of tools, what a reply may use of them, and its calls."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.access import ModelGlobs
from app.chat.hosted_tools import HostedAsk, HostedKind
from app.chat.messages import Message, Text
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer, ToolBounds, refuse_call
from app.chat.tool_asks import ServerAsk, make_tool_name
from app.errors import Busy, Forbidden, InvalidInput, Violation
from app.limits.values import describe_caller
from app.tools.hosted import CallServer, CheckAddresses, HostedSession, HostedTool, HostedUse
from app.tools.process.client import ConnectionEvents, ProcessFailed, ToolProcessClient
from app.tools.process.protocol import STDERR_MARK, ListedTool, ServerSpec, State, StateChanged
from app.upstream.redaction import Redactor
from app.validation.nearest import suggest_name

log = logging.getLogger("parley.tools")
log.addHandler(logging.NullHandler())  # the commands, which configure no log, show errors themselves

LIST_SECONDS = 300.0
"""How long a list of tools is used if its server reports no change."""
_NOT_RUN_CODE = -32000
_OTHER_ADDRESS = (
    "is not the address of a configured server: name a server that the gateway's operator configured, without this"
)


class ConfiguredServer(Struct, frozen=True):
    """What the configuration says of a server."""

    spec: ServerSpec
    tool_seconds: float
    max_result_bytes: int
    max_media_bytes: int
    max_concurrent_calls: int
    required: bool = False
    enabled_tools: tuple[str, ...] | None = None
    """None: all."""
    disabled_tools: tuple[str, ...] = ()
    approval: bool | tuple[str, ...] = False
    """Whether all calls need approval, or the tools whose calls do."""
    keys: ModelGlobs = ModelGlobs(("*",))
    models: ModelGlobs = ModelGlobs(("*",))
    shared: bool = True
    """One connection serves all replies; else each reply has its own."""
    secrets: tuple[str, ...] = ()

    def needs_approval(self, tool: str) -> bool:
        return self.approval if isinstance(self.approval, bool) else tool in self.approval

    def serves(self, tool: str) -> bool:
        return (self.enabled_tools is None or tool in self.enabled_tools) and tool not in self.disabled_tools


class ServerStatus(Struct, frozen=True):
    name: str
    state: State
    error: str | None
    """Why it is down."""
    tools: tuple[str, ...]
    """Those of the last list that the configuration leaves."""
    calls: int
    """In progress."""
    starts: int


class StartCounter(Protocol):
    def count_tool_server_start(self, server: str) -> None: ...


class McpServers:
    """The servers of one process; it implements `app.chat.server_tools.ToolServers`. Nothing is started before a reply
    needs a server, except those that are required."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._processes: set[ToolProcessClient] = set()
        """Those of the servers, and of former ones that are still used."""
        self._model_tools: Mapping[str, Sequence[ServerAsk]] = {}
        self._bounds = ToolBounds()
        self._hosted: Mapping[HostedKind, HostedTool] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def configure(
        self,
        servers: Collection[ConfiguredServer],
        model_tools: Mapping[str, Sequence[ServerAsk]],
        bounds: ToolBounds = ToolBounds(),  # noqa: B008  # it is frozen
        starts: StartCounter | None = None,
        hosted: Collection[HostedTool] = (),
    ) -> None:
        """Use these servers and bounds from now on; call it again after a reload of the configuration.

        `model_tools` are the tools that models offer with every request; those of `hosted` are offered to requests that
        ask for a search or a fetch. A server that was removed or changed ends once no reply uses it.
        """
        self._model_tools, self._bounds = model_tools, bounds
        names = {server.spec.name: server for server in servers}
        for name, known in list(self._servers.items()):
            if names.get(name) != known.configured:
                self._servers.pop(name).retire()
        for name, configured in names.items():
            if name not in self._servers:
                process = ToolProcessClient()
                self._processes.add(process)
                self._servers[name] = _Server(configured, process, self._end_process, starts)
        self._servers = {name: self._servers[name] for name in names}
        self._hosted = {one.kind: one for one in hosted if one.server in names}

    def start_required(self) -> None:
        """Start the servers that are required; call it in the event loop, after `configure`."""
        for server in self._servers.values():
            if server.configured.required and not server.known:
                task = asyncio.get_running_loop().create_task(_try_list(server))
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)

    def names(self) -> list[str]:
        return list(self._servers)

    def list_status(self) -> list[ServerStatus]:
        return [server.status() for server in self._servers.values()]

    def list_for_model(self, model: str, key: str | None) -> dict[str, tuple[str, ...]]:
        """Return the servers that a request for this model may name, with the tools that are known. `key` is the name
        of the caller's API key; None: of all."""
        usable = (server for server in self._servers.values() if server.configured.models.match(model))
        return {
            server.configured.spec.name: server.tool_names()
            for server in usable
            if key is None or server.configured.keys.match(key)
        }

    def process_ids(self) -> list[int]:
        """The tool processes that have been started."""
        return [process.pid for process in self._processes if process.pid is not None]

    def is_offered(self, model: str) -> bool:
        return model in self._model_tools

    async def open(self, asks: Sequence[ServerAsk], key: str, model: str, *, approvable: bool) -> "McpSession":
        """See `ToolServers.open`. A server of the model's own tools that the key may not use is left out."""
        return await self._open(self._choose(asks, key, model), approvable=approvable, may_refuse=True)

    async def open_for_operator(self, names: Collection[str]) -> "McpSession":
        """Open a session with these servers, which is not bound to keys and models. One that cannot be used is in it,
        with its error."""
        return await self._open([ServerAsk(name) for name in names], approvable=True, may_refuse=False)

    async def _open(self, asks: Sequence[ServerAsk], *, approvable: bool, may_refuse: bool) -> "McpSession":
        used = [(self._servers[ask.server], ask) for ask in asks]
        session = McpSession(self._bounds)
        for server, _ in used:
            session.use(server)
        try:
            lists = await asyncio.gather(*(_list_or_error(server) for server, _ in used))
            for (server, ask), listed in zip(used, lists, strict=True):
                if isinstance(listed, str) and server.configured.required and may_refuse:
                    reason = listed.partition(STDERR_MARK)[0]
                    raise Busy(f"the server of tools {server.name!r} cannot be used now: {reason}; try again later")
                session.offer(server, ask, listed, approvable=approvable)
        except BaseException:
            session.close()
            raise
        return session

    async def aclose(self) -> None:
        for server in self._servers.values():
            server.retire()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        processes, self._processes = self._processes, set()
        await asyncio.gather(*(process.aclose() for process in processes), *self._ending)

    # Searches and fetches in the words of a client's API.

    def find_hosted(self, kind: HostedKind, model: str) -> HostedTool | None:
        """Return what runs a search or a fetch for this model; None if nothing is configured."""
        found = self._hosted.get(kind)
        return found if found is not None and found.models.match(model) else None

    def list_hosted(self, model: str, key: str | None) -> list[HostedKind]:
        """Return which searches and fetches this model gets. `key` is the name of the caller's API key; None: of
        all."""
        found = [one for one in self._hosted.values() if one.models.match(model)]
        return [one.kind for one in found if key is None or self.explain_refusal(one, key, model) is None]

    def explain_refusal(self, hosted: HostedTool, key: str, model: str) -> str | None:
        """Return why a caller with this model may not use it; None if it may."""
        try:
            self._check(ServerAsk(hosted.server), key, model)
        except Forbidden as error:
            return str(error)
        return None

    def add_hosted(
        self,
        session: "McpSession",
        asks: Sequence[tuple[HostedTool, HostedAsk]],
        messages: Sequence[Message],
        check_addresses: CheckAddresses,
    ) -> HostedSession:
        """Return the session with the searches and fetches of a request beside its other tools."""
        uses = [HostedUse(tool, ask, self._make_caller(session, tool)) for tool, ask in asks]
        return HostedSession(session, uses, messages, check_addresses)

    def open_hosted(
        self,
        asks: Sequence[tuple[HostedTool, HostedAsk]],
        messages: Sequence[Message],
        check_addresses: CheckAddresses,
    ) -> HostedSession:
        """Return a session with nothing but these searches and fetches."""
        return self.add_hosted(McpSession(self._bounds), asks, messages, check_addresses)

    def _make_caller(self, session: "McpSession", tool: HostedTool) -> CallServer:
        server = self._servers[tool.server]
        session.use(server)
        reads_entries = tool.kind == "web_search"
        call = partial(session.call_tool, server, tool.tool, reads_entries=reads_entries)
        return CallServer(call, server.configured.max_result_bytes)

    def _end_process(self, process: ToolProcessClient) -> None:
        """End the process of a server that is no longer used."""
        if process not in self._processes:
            return
        self._processes.discard(process)
        if process.is_used:
            task = asyncio.get_running_loop().create_task(process.aclose())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _choose(self, asks: Sequence[ServerAsk], key: str, model: str) -> list[ServerAsk]:
        """Return what the request asks for, then what the model offers beside. Raises InvalidInput and Forbidden."""
        chosen: dict[str, ServerAsk] = {}
        violations: list[Violation] = []
        for ask in asks:
            if ask.server in chosen:
                violations.append(Violation(ask.path, f"the server of tools {ask.server!r} is named twice"))
            elif ask.server not in self._servers and ask.url is not None:
                violations.append(Violation(ask.url_path, _OTHER_ADDRESS))
            elif ask.server not in self._servers:
                violations.append(Violation(ask.path, self._explain_unknown(ask.server, key, model)))
            else:
                chosen[ask.server] = ask
        if violations:
            raise InvalidInput(violations)
        for ask in chosen.values():
            self._check(ask, key, model)
        for ask in self._model_tools.get(model, ()):
            server = self._servers.get(ask.server)
            if server is not None and ask.server not in chosen and server.configured.keys.match(key):
                chosen[ask.server] = ask
        return list(chosen.values())

    def _explain_unknown(self, name: str, key: str, model: str) -> str:
        known = list(self.list_for_model(model, key))
        listed = f"available: {', '.join(known[:20])}" if known else "the gateway's operator has configured none"
        return f"there is no server of tools {name[:64]!r}{suggest_name(name, known) or f'; {listed}'}"

    def _check(self, ask: ServerAsk, key: str, model: str) -> None:
        """Raises Forbidden, and InvalidInput for an address that is not the configured one."""
        configured = self._servers[ask.server].configured
        if not configured.keys.match(key):
            who = describe_caller(key) if key else "a request without an API key"
            raise Forbidden(f"{who} may not use the server of tools {ask.server!r}", ask.path or None)
        if not configured.models.match(model):
            raise Forbidden(
                f"the model {model[:200]!r} may not use the server of tools {ask.server!r}", ask.path or None
            )
        if ask.url is not None and ask.url != configured.spec.url:
            raise InvalidInput([Violation(ask.url_path, _OTHER_ADDRESS)])


@asynccontextmanager
async def open_configured(servers: Collection[ConfiguredServer], names: Collection[str]) -> "AsyncIterator[McpSession]":
    """Start some of the servers for an operator's command, and end them afterwards."""
    started = McpServers()
    started.configure(servers, {})
    try:
        yield await started.open_for_operator(names)
    finally:
        await started.aclose()


class _Server:
    def __init__(
        self,
        configured: ConfiguredServer,
        process: ToolProcessClient,
        end_process: Callable[[ToolProcessClient], None],
        starts: StartCounter | None,
    ) -> None:
        self.configured = configured
        self.process = process
        self._end_process = end_process
        self._start_counter = starts
        self.redactor = Redactor(configured.secrets)
        self.slots = asyncio.Semaphore(configured.max_concurrent_calls)
        self.known: tuple[ListedTool, ...] = ()
        """The last list."""
        self.calls = 0
        self._listed_at: float | None = None
        """None: the list may have changed."""
        self._changes = 0
        self._listing: asyncio.Task[tuple[ListedTool, ...]] | None = None
        self._connection: int | None = None
        self._state: State = "idle"
        self._error: str | None = None
        self._starts = 0
        self._sessions = 0
        self._retired = False

    @property
    def name(self) -> str:
        return self.configured.spec.name

    def use(self) -> None:
        self._sessions += 1

    def release(self) -> None:
        self._sessions -= 1
        self._end_if_unused()

    def retire(self) -> None:
        """End the connection once no reply uses it."""
        self._retired = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if not self._retired or self._sessions:
            return
        if self._connection is not None:
            self.process.remove(self._connection)
            self._connection = None
        self._end_process(self.process)

    def connect(self) -> int:
        """Return the number of the connection that all replies share."""
        if self._connection is None:
            events = ConnectionEvents(self._note_change, self._note_state, self.redact)
            self._connection = self.process.add(self.configured.spec, events)
        return self._connection

    def connect_alone(self) -> int:
        """Return the number of a connection for one reply. Its state is not that of the server."""
        return self.process.add(self.configured.spec, ConnectionEvents(_ignore, self._count_start, self.redact))

    async def list_tools(self) -> tuple[ListedTool, ...]:
        """Return the tools that the configuration leaves. Raises ProcessFailed."""
        now = asyncio.get_running_loop().time()
        if self._listed_at is not None and now - self._listed_at < LIST_SECONDS:
            return self.known
        if self._listing is None:
            self._listing = asyncio.create_task(self._fetch_list())
            self._listing.add_done_callback(self._end_listing)
        return await asyncio.shield(self._listing)

    def _end_listing(self, task: "asyncio.Task[tuple[ListedTool, ...]]") -> None:
        self._listing = None
        if not task.cancelled():
            task.exception()  # all who waited may have left

    async def _fetch_list(self) -> tuple[ListedTool, ...]:
        changes = self._changes
        tools = await self.process.list_tools(self.connect(), 2 * self.configured.spec.startup_seconds)
        self.known = tuple(tool for tool in tools if self.configured.serves(tool.name))
        if self._changes == changes:
            self._listed_at = asyncio.get_running_loop().time()
        return self.known

    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.known)

    def status(self) -> ServerStatus:
        return ServerStatus(self.name, self._state, self._error, self.tool_names(), self.calls, self._starts)

    def redact(self, text: str) -> str:
        return self.redactor.remove_secrets(text)

    def _note_change(self) -> None:
        self._changes += 1
        self._listed_at = None

    def _note_state(self, change: StateChanged) -> None:
        error = None if change.error is None else self.redact(change.error)
        if change.state == "down" and self._retired:
            log.info("MCP server %r has ended", self.name, extra={"fields": {"server": self.name}})
        elif change.state == "down":
            log.warning("MCP server %r is down: %s", self.name, error, extra={"fields": {"server": self.name}})
        elif change.state == "up":
            log.info("MCP server %r is up", self.name, extra={"fields": {"server": self.name}})
        self._state, self._error = change.state, error
        self._count_start(change)

    def _count_start(self, change: StateChanged) -> None:
        if change.state == "starting" and change.pid is None:
            self._starts += 1
            if self._start_counter is not None:
                self._start_counter.count_tool_server_start(self.name)


async def _try_list(server: _Server) -> None:
    try:
        await server.list_tools()
    except ProcessFailed as error:
        reason = server.redact(str(error))
        log.warning("the required MCP server %r cannot be used: %s", server.name, reason)


async def _list_or_error(server: _Server) -> tuple[ListedTool, ...] | str:
    try:
        return await server.list_tools()
    except ProcessFailed as error:
        return server.redact(str(error))


def _find_violations(configured: ConfiguredServer, ask: ServerAsk, listed: Sequence[ListedTool]) -> Iterator[Violation]:
    """Find what a request may not say of the tools of a server."""
    known = [tool.name for tool in listed]
    for name, path in zip(ask.tools.names or (), ask.name_paths, strict=False):
        if name not in known:
            text = f"{ask.server!r} has no tool {name[:64]!r}{suggest_name(name, known)}"
            yield Violation(path, text)
    if ask.approval is None or not ask.approval_path:
        return
    for tool in listed:
        never = ask.approval.asks(tool.name, read_only=tool.read_only) is False
        wanted = ask.tools.accepts(tool.name, read_only=tool.read_only)
        if wanted and never and configured.needs_approval(tool.name):
            text = f"calls of {tool.name!r} need approval: the gateway's operator wants it"
            yield Violation(ask.approval_path, text)
            return


class McpSession:
    """The tools of one reply; it implements `app.chat.server_tools.ToolSession`."""

    def __init__(self, bounds: ToolBounds) -> None:
        self.bounds = bounds
        self.servers: list[ListedServer] = []
        self.warnings: list[str] = []
        self._used: dict[str, _Server] = {}
        self._own_connections: dict[str, int] = {}
        self._names: set[str] = set()

    def use(self, server: _Server) -> None:
        if self._used.get(server.name) is not server:
            server.use()
        self._used[server.name] = server

    def offer(self, server: _Server, ask: ServerAsk, listed: tuple[ListedTool, ...] | str, *, approvable: bool) -> None:
        """Add the tools of a server; `listed` is a text if it has no list. Raises InvalidInput if the request names a
        tool that it does not have, or wants less approval than the operator."""
        if isinstance(listed, str):
            reason, _, line = listed.partition(STDERR_MARK)
            self.warnings.append(f"the tools of the server {server.name!r} are absent: {reason}")
            self.servers.append(ListedServer(server.name, (), reason, last_line=line))
            return
        violations = list(_find_violations(server.configured, ask, listed))
        if violations:
            raise InvalidInput(violations)
        known = {tool.name for tool in listed}
        absent = [name for name in ask.tools.names or () if name not in known]
        if absent:
            shown = ", ".join(repr(name[:64]) for name in absent[:10])
            self.warnings.append(f"the server of tools {server.name!r} does not offer {shown}")
        tools: list[OfferedTool] = []
        for tool in listed:
            if ask.tools.accepts(tool.name, read_only=tool.read_only):
                self._offer_tool(server, ask, tool, tools, approvable=approvable)
        self.servers.append(ListedServer(server.name, tuple(tools)))

    def _offer_tool(
        self, server: _Server, ask: ServerAsk, tool: ListedTool, tools: list[OfferedTool], *, approvable: bool
    ) -> None:
        name = make_tool_name(server.name, tool.name)
        asked = None if ask.approval is None else ask.approval.asks(tool.name, read_only=tool.read_only)
        approval = server.configured.needs_approval(tool.name) or asked is True
        if name in self._names:
            self.warnings.append(
                f"the tool {tool.name!r} of {server.name!r} is left out: another has the name {name!r}"
            )
        elif approval and not approvable:
            self.warnings.append(
                f"the tool {tool.name!r} of {server.name!r} is left out: it needs approval, and this format has no "
                "words for that"
            )
        else:
            self._names.add(name)
            tools.append(_make_offered(server.name, name, tool, approval=approval))

    async def call(self, tool: OfferedTool, arguments: dict[str, Any], traceparent: bytes | None) -> ToolAnswer:
        return await self.call_tool(self._used[tool.server], tool.tool, arguments, traceparent)

    async def call_tool(
        self,
        server: _Server,
        tool: str,
        arguments: dict[str, Any],
        traceparent: bytes | None,
        *,
        reads_entries: bool = False,
    ) -> ToolAnswer:
        """Run a tool of a server that the session uses. `reads_entries`: the answer has the pages that it names."""
        server.calls += 1
        try:
            return await self._call(server, tool, arguments, traceparent, reads_entries=reads_entries)
        finally:
            server.calls -= 1

    async def _call(
        self,
        server: _Server,
        tool: str,
        arguments: dict[str, Any],
        traceparent: bytes | None,
        *,
        reads_entries: bool,
    ) -> ToolAnswer:
        loop, seconds = asyncio.get_running_loop(), server.configured.tool_seconds
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                await server.slots.acquire()
        except TimeoutError:
            most = server.configured.max_concurrent_calls
            text = f"{most} calls of this server run already, and none ended within {seconds:g} s"
            return refuse_call(text, _NOT_RUN_CODE)
        try:
            left = max(0.01, deadline - loop.time())
            sent = self._send(server, tool, arguments, left, traceparent, reads_entries=reads_entries)
            return _redact(await sent, server)
        except ProcessFailed as error:
            reason = server.redact(str(error)).partition(STDERR_MARK)[0]
            return refuse_call(f"the server of the tool is not available: {reason}", _NOT_RUN_CODE)
        finally:
            server.slots.release()

    async def _send(
        self,
        server: _Server,
        tool: str,
        arguments: dict[str, Any],
        seconds: float,
        traceparent: bytes | None,
        *,
        reads_entries: bool,
    ) -> ToolAnswer:
        configured = server.configured
        return await server.process.call(
            self._find_connection(server),
            tool,
            msgspec.json.encode(arguments),
            seconds,
            configured.max_result_bytes,
            configured.max_media_bytes,
            None if traceparent is None else traceparent.decode("ascii", "replace"),
            reads_entries=reads_entries,
        )

    def _find_connection(self, server: _Server) -> int:
        if server.configured.shared:
            return server.connect()
        if server.name not in self._own_connections:
            self._own_connections[server.name] = server.connect_alone()
        return self._own_connections[server.name]

    def close(self) -> None:
        for name, connection in self._own_connections.items():
            self._used[name].process.remove(connection)
        for server in self._used.values():
            server.release()
        self._used, self._own_connections = {}, {}


def _make_offered(server: str, name: str, tool: ListedTool, *, approval: bool) -> OfferedTool:
    annotations = None if tool.annotations is None else msgspec.json.decode(tool.annotations)
    schema = msgspec.json.decode(tool.schema)
    return OfferedTool(name, server, tool.name, tool.description, schema, approval, tool.read_only, annotations)


def _redact(answer: ToolAnswer, server: _Server) -> ToolAnswer:
    """Remove the secrets of the configuration from an error."""
    if answer.error is None:
        return answer
    content = tuple(Text(server.redact(part.text)) if isinstance(part, Text) else part for part in answer.content)
    return replace(answer, content=content, error=replace(answer.error, message=server.redact(answer.error.message)))


def _ignore() -> None: ...
