"""One connection to a server of tools: opened by the first request that needs it, and again after it has failed.

A task of its own holds the SDK's session; requests wait for it, so that what breaks in the session is never an error of
a caller's task. A server that fails again and again is used after growing pauses, and requests fail at once meanwhile.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import mcp_types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from app import __version__
from app.chat.server_tools import ToolAnswer
from app.steps.json_schema import find_schema_mistake
from app.tools.process.entries import read_entries
from app.tools.process.http import BoundedHttp, HttpFailure
from app.tools.process.messages import REQUEST_PREFIX, TOO_DEEP, TOO_LONG, UNREADABLE
from app.tools.process.protocol import STDERR_MARK, CallTool, Line, ListedTool, ServerSpec, State
from app.tools.process.results import fail, read_result
from app.tools.process.stdio import ChildEnd, run_child

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_SLOW_SECONDS = 0.2
"""A failure for which requests have waited so long is followed by a pause."""
_MAX_PAGES = 100
_MAX_SCHEMA_BYTES = 100_000
"""Also of annotations, and of a description in characters."""
_MAX_NAME_CHARACTERS = 256
_REPORT_SECONDS = 0.2
"""So much longer a list may take than a start, so that a start that takes too long is named as such."""
CONNECTION_CLOSED, _METHOD_NOT_FOUND, _TIMED_OUT = -32000, -32601, -32001
NOT_CONFIGURED = "it is no longer configured"
_SDK_UNREADABLE = "Failed to parse "
"""So the SDK begins the error of a call whose answer over HTTP it cannot read; the rest names its own types."""
_REFUSED_REQUESTS = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""What a server may ask of a client that offers it; this one does not."""


class ServerDown(Exception):
    """The server cannot be used; the message is one plain sentence."""


class Reports(Struct, frozen=True):
    """What a connection reports to its owner."""

    log: Callable[[Line, str], None]
    changed: Callable[[], None]
    """A list of tools that was read before may be wrong."""
    state: Callable[[State, int | None, str | None], None]
    """State, process id and error."""


class _Dispatcher(JSONRPCDispatcher[Any]):
    """Refuses what the client has not offered with the code that the specification names for it."""

    async def run(self, on_request: Any, on_notify: Any, *others: Any, **options: Any) -> None:
        async def answer(context: Any, method: str, params: Any) -> Any:
            if method in _REFUSED_REQUESTS:
                raise MCPError(code=_METHOD_NOT_FOUND, message="Method not found")
            return await on_request(context, method, params)

        await super().run(answer, on_notify, *others, **options)


class _Session:
    """A session that is up."""

    def __init__(
        self, dispatcher: _Dispatcher, http: BoundedHttp | None, closed: asyncio.Event, pid: int | None
    ) -> None:
        self.dispatcher = dispatcher
        self.http = http
        self.closed = closed
        self.pid = pid
        self.answered = False
        """A call has been answered."""
        self.failed = False
        """It has ended because of a failure that is noted."""
        self.running = 0
        self._requests = 0

    async def request(
        self, method: str, params: Mapping[str, Any], on_progress: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """Send a request. Raises MCPError, and _HttpFailed. If it is cancelled, the server is notified."""
        self._requests += 1
        id_ = f"{REQUEST_PREFIX}{self._requests}"
        options: CallOptions = {"request_id": id_}
        if on_progress is not None:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                on_progress(f"progress {progress:g}{'' if total is None else f' of {total:g}'} {message or ''}".strip())

            options["on_progress"] = report
        self.running += 1
        try:
            return await self.dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            failure = None if self.http is None else self.http.take_failure(id_)
            if failure is not None:
                raise _HttpFailed(failure, error) from error
            raise
        except asyncio.CancelledError:
            if self.http is not None:
                self.http.abort(id_)
            raise
        finally:
            self.running -= 1


class _HttpFailed(Exception):
    def __init__(self, failure: HttpFailure, error: MCPError) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.error = error.error

    @property
    def lost_session(self) -> bool:
        """Whether the server does not know the session any more, and so has not run the request. Those of older SDKs
        answer 400, with one of several codes, and say "No valid session ID provided"."""
        failure = self.failure
        says_so = self.error.code == -32000 or "session" in failure.body.lower()
        return failure.had_session and (failure.status == 404 or (failure.status == 400 and says_so))


class Connection:
    def __init__(self, spec: ServerSpec, reports: Reports) -> None:
        self._spec = spec
        self._reports = reports
        self._supervisor: asyncio.Task[None] | None = None
        self._session: _Session | None = None
        self._opening: asyncio.Future[_Session] | None = None
        self._close = asyncio.Event()
        self._failures = 0
        """Starts, lists and sessions in a row that brought no answer."""
        self._paused_until = 0.0
        self._is_stale = False
        """The server has changed its list since it was read, and that is reported."""
        self._reason = ""
        """Why it failed last."""
        self._state: tuple[State, str | None] = "idle", None
        """The state that was reported last, and its error."""

    async def aclose(self) -> None:
        """End the session and the child. It cannot be used again."""
        self._close.set()
        if self._supervisor is not None:
            await asyncio.gather(self._supervisor, return_exceptions=True)

    async def list_tools(self) -> list[ListedTool]:
        """Return the tools of all pages. Raises ServerDown."""
        self._check_pause()
        session: _Session | None = None
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._spec.startup_seconds + _REPORT_SECONDS):
                session = await self._get_session()
                return await self._list_tools(session)
        except TimeoutError:
            error = ServerDown(
                f"it did not list its tools within {self._spec.startup_seconds:g} s (startup_timeout_sec)"
            )
        except ServerDown as raised:
            error = raised
        if session is not None:  # a failed start is noted where it fails
            self._note_failed_list(session, str(error), asyncio.get_running_loop().time() - began)
        raise error

    def _note_failed_list(self, session: _Session, reason: str, seconds: float) -> None:
        """Note it, so that later requests do not wait for it as long. A session that did not answer in time ends,
        unless calls are running."""
        if seconds < _SLOW_SECONDS:
            self._set_state("down", reason)
            return
        self._fail(reason, seconds)
        if not session.running:
            session.failed = True
            session.closed.set()

    async def _list_tools(self, session: _Session) -> list[ListedTool]:
        try:
            try:
                tools = await self._read_pages(session)
            except _HttpFailed as error:
                if not error.lost_session:
                    raise
                session = await self._reopen(session)
                tools = await self._read_pages(session)
        except _HttpFailed as error:
            self._end_if_unused(session)
            raise ServerDown(error.failure.reason) from error
        except MCPError as error:
            raise ServerDown(f"it did not list its tools: {_explain_error(error)}") from error
        self._set_state("up")
        return tools

    async def _read_pages(self, session: _Session) -> list[ListedTool]:
        self._is_stale = False
        tools: list[ListedTool] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            try:
                page = await session.request("tools/list", params)
            except MCPError as error:
                if error.error.code == _METHOD_NOT_FOUND:  # a server without tools
                    return tools
                raise
            rows = page.get("tools")
            for row in rows if isinstance(rows, list) else ():
                if len(tools) >= self._spec.max_tools:
                    break
                try:
                    tools.append(read_tool(row))
                except ValueError as error:
                    self._reports.log("warning", f"a listed tool is left out: {error}")
                await asyncio.sleep(0)  # a list of many large schemas must end with its time
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in cursors or len(tools) >= self._spec.max_tools:
                return tools
            cursors.add(cursor)
            params = {"cursor": cursor}
        self._reports.log("warning", f"its list of tools has more than {_MAX_PAGES} pages; the others are left out")
        return tools

    async def call(self, call: CallTool) -> ToolAnswer:
        """Run a tool. It raises nothing but CancelledError."""
        running = asyncio.create_task(self._call(call))
        try:
            done, _ = await asyncio.wait({running}, timeout=call.seconds)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if done:
            return running.result()
        running.cancel()  # not awaited: the message that cancels it may wait for a server that does not read
        return fail(f"the tool did not answer within {call.seconds:.3g} s", _TIMED_OUT)

    async def _call(self, call: CallTool) -> ToolAnswer:
        meta = {} if call.traceparent is None else {"_meta": {"traceparent": call.traceparent}}
        params = {"name": call.tool, "arguments": json.loads(call.arguments), **meta}
        try:
            session = await self._get_session()
            try:
                return await self._send_call(session, params, call)
            except _HttpFailed as error:
                if not error.lost_session:
                    return self._explain_http(session, error)
            session = await self._reopen(session)
            try:
                return await self._send_call(session, params, call)
            except _HttpFailed as error:
                return self._explain_http(session, error)
        except ServerDown as error:
            answer = fail(f"the server of the tool is not available: {error}", CONNECTION_CLOSED)
            return replace(answer, outcome="not_run")

    async def _send_call(self, session: _Session, params: Mapping[str, Any], call: CallTool) -> ToolAnswer:
        try:
            result = await session.request(
                "tools/call", params, lambda text: self._reports.log("debug", f"{call.tool}: {text}")
            )
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED and session.closed.is_set():
                return fail("the server of the tool ended before it answered", CONNECTION_CLOSED)
            self._note_answer(session)
            return fail(_explain_error(error), error.error.code)
        self._note_answer(session)
        answer = read_result(result, call.max_text_bytes, call.max_media_bytes)
        return replace(answer, entries=read_entries(result)) if call.reads_entries and answer.error is None else answer

    def _note_answer(self, session: _Session) -> None:
        session.answered = True
        self._set_state("up")

    def _explain_http(self, session: _Session, error: _HttpFailed) -> ToolAnswer:
        self._end_if_unused(session)
        failure = error.failure
        if failure.status in (400, 404, 422) and error.error.message not in ("Not Found", "Session terminated"):
            return fail(error.error.message, error.error.code)
        return fail(failure.reason, failure.status, "http")

    def _end_if_unused(self, session: _Session) -> None:
        """End a session whose requests fail, so that the next one opens another, unless others still wait."""
        if not session.running:
            session.closed.set()

    async def _get_session(self) -> _Session:
        """Return the session, and open it if there is none. Raises ServerDown."""
        if self._close.is_set():
            raise ServerDown(NOT_CONFIGURED)
        session = self._session
        if session is not None and not session.closed.is_set():
            return session
        while self._opening is None and self._supervisor is not None and not self._supervisor.done():
            await asyncio.wait({self._supervisor})  # the old child must have ended
        if self._opening is None:
            self._check_pause()
            self._opening = asyncio.get_running_loop().create_future()
            self._supervisor = asyncio.create_task(self._supervise(self._opening))
        return await asyncio.shield(self._opening)

    async def _reopen(self, lost: _Session) -> _Session:
        lost.closed.set()
        return await self._get_session()

    def _check_pause(self) -> None:
        """Raises ServerDown while a server that has failed is not asked again."""
        left = self._paused_until - asyncio.get_running_loop().time()
        if left > 0:
            raise ServerDown(f"{self._reason}; it is asked again in {left:.1f} s")

    def _fail(self, reason: str, seconds: float) -> None:
        """Note that the server has brought no answer, for which requests have waited so long: they may not wait for it
        more than half of the time. The first start after a quick failure is made at once."""
        self._failures += 1
        self._reason = reason
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** (self._failures - 2), _LONGEST_PAUSE_SECONDS)
        pause = max(pause if self._failures > 1 else 0.0, seconds if seconds >= _SLOW_SECONDS else 0.0)
        self._paused_until = asyncio.get_running_loop().time() + pause
        self._set_state("down", reason)

    def _set_state(self, state: State, error: str | None = None) -> None:
        if (state, error) != self._state or state != "up":
            self._state = state, error
            self._reports.state(state, None if self._session is None else self._session.pid, error)

    async def _supervise(self, opening: "asyncio.Future[_Session]") -> None:
        self._set_state("starting")
        session: _Session | None = None
        try:
            async with AsyncExitStack() as stack:
                session = await self._try_open(stack, opening)
                if session is not None:
                    await _wait_for_any(session.closed, self._close)
            # The stack has ended the child, which may take some seconds.
        except Exception as error:
            self._reports.log("info", f"its connection ended with {type(error).__name__}")
        if session is None:
            return
        self._session = None
        if self._close.is_set():
            self._set_state("down", NOT_CONFIGURED)
        elif not session.failed:
            self._failures = 0 if session.answered else self._failures
            self._fail("its connection has ended", 0.0)
        self._reports.changed()

    async def _try_open(self, stack: AsyncExitStack, opening: "asyncio.Future[_Session]") -> _Session | None:
        """Open the session for all calls that wait for it; None if that has failed."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._spec.startup_seconds):
                session = await self._open(stack)
        except Exception as error:
            reason = _explain(error, self._spec)
            self._opening = None
            self._fail(reason, asyncio.get_running_loop().time() - began)
            opening.set_exception(ServerDown(reason))
            opening.exception()  # all who waited may have left
            return None
        self._session, self._opening = session, None
        opening.set_result(session)
        return session

    async def _open(self, stack: AsyncExitStack) -> _Session:
        closed = ChildEnd()
        http: BoundedHttp | None = None
        pid: int | None = None

        def report_pid(number: int) -> None:
            nonlocal pid
            pid = number
            self._reports.state("starting", number, None)

        if self._spec.command is None:
            http = BoundedHttp(self._spec.max_message_bytes)
            messages, outgoing = await stack.enter_async_context(_open_http(self._spec, http))
        else:
            child = run_child(self._spec, self._reports.log, report_pid, closed)
            messages, outgoing = await stack.enter_async_context(child)
        dispatcher = _Dispatcher(messages, outgoing)
        info = mcp_types.Implementation(name="parley", version=__version__)
        session = ClientSession(dispatcher=dispatcher, client_info=info, message_handler=self._read_notification)
        await stack.enter_async_context(session)
        opening = asyncio.create_task(_initialize(session))
        watching = asyncio.create_task(closed.wait())
        try:
            await asyncio.wait({opening, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                said = STDERR_MARK + closed.last_line if closed.last_line else ""
                raise ServerDown(f"it ended before it was ready{said}")
            try:
                opening.result()
            except MCPError as error:
                failure = None if http is None else http.take_failure(_FIRST_ID)
                raise ServerDown(_explain_handshake(failure, error)) from error
        finally:
            await _cancel(opening, watching)
        return _Session(dispatcher, http, closed, pid)

    async def _read_notification(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification) and not self._is_stale:
            self._is_stale = True
            self._reports.changed()


_FIRST_ID = 1
"""The id that the SDK gives to `initialize`."""


async def _initialize(session: ClientSession) -> None:
    await session.initialize()


@asynccontextmanager
async def _open_http(spec: ServerSpec, http: BoundedHttp) -> AsyncIterator[tuple[Any, Any]]:
    assert spec.url is not None
    timeout = httpx2.Timeout(spec.startup_seconds, read=None, pool=None)
    headers = {"user-agent": f"parley/{__version__}", "accept-encoding": "identity", **spec.headers}
    async with httpx2.AsyncClient(transport=http, headers=headers, timeout=timeout, trust_env=False) as client:
        opened = streamable_http_client(spec.url, http_client=client, max_sse_event_size=spec.max_message_bytes)
        async with opened as (messages, outgoing):
            yield messages, outgoing


def _explain_handshake(failure: HttpFailure | None, error: MCPError) -> str:
    if failure is None:
        return f"it refused the handshake: {_explain_error(error)}"
    if failure.status in (404, 405):
        return (
            f"{failure.reason}: the url must be that of streamable HTTP (often it ends in /mcp); the older transport "
            "with SSE is not supported"
        )
    if failure.status in (401, 403):
        return f"{failure.reason}: look at bearer_token_env_var and http_headers"
    if 300 <= failure.status < 400:
        return f"{failure.reason}: it redirects elsewhere, which is not followed"
    return failure.reason


def _explain(error: Exception, spec: ServerSpec) -> str:
    """Return one plain sentence, without the command and the address."""
    if isinstance(error, BaseExceptionGroup):
        inner = next((each for each in error.exceptions if isinstance(each, Exception)), None)
        return "its connection failed" if inner is None else _explain(inner, spec)
    match error:
        case ServerDown():
            return str(error)
        case TimeoutError():
            return f"it was not ready within {spec.startup_seconds:g} s (startup_timeout_sec)"
        case FileNotFoundError():
            return "its command, or its cwd, does not exist"
        case PermissionError():
            return "its command, or its cwd, may not be used"
        case OSError():
            return f"it could not be started ({error.strerror})"
        case ValidationError():
            return "its answer to the handshake is not valid"
        case RuntimeError() if "protocol version" in str(error):
            return f"it speaks another version of the protocol ({str(error).rpartition(': ')[2][:40]})"
    return f"its connection failed ({type(error).__name__})"


def read_tool(row: Any) -> ListedTool:
    """Raises ValueError for a tool that cannot be offered. Model servers refuse a whole request for one schema that is
    not valid."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise ValueError("it has no name")
    name, schema, annotations = row["name"], row.get("inputSchema"), row.get("annotations")
    if len(name) > _MAX_NAME_CHARACTERS:
        raise ValueError(f"the name {name[:64]!r}… has more than {_MAX_NAME_CHARACTERS} characters")
    if not isinstance(schema, dict):
        raise ValueError(f"{name[:64]!r} has no inputSchema")
    if None in schema.values():  # some servers write `"required": null` for nothing
        schema = {key: value for key, value in schema.items() if value is not None}
    try:
        encoded = _encode_json(schema)
    except ValueError as error:
        raise ValueError(f"the inputSchema of {name[:64]!r} is not JSON: {error}") from None
    if len(encoded) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"the inputSchema of {name[:64]!r} has more than {_MAX_SCHEMA_BYTES} bytes")
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError(f"the inputSchema of {name[:64]!r} is not that of an object")
    reason = find_schema_mistake(schema)
    if reason is not None:
        raise ValueError(f"the inputSchema of {name[:64]!r} is not a valid JSON schema: {reason}")
    description = row.get("description")
    return ListedTool(
        name,
        description[:_MAX_SCHEMA_BYTES] if isinstance(description, str) else None,
        encoded,
        _encode_annotations(annotations) if isinstance(annotations, dict) else None,
        isinstance(annotations, dict) and annotations.get("readOnlyHint") is True,
    )


def _encode_annotations(annotations: dict[str, Any]) -> bytes | None:
    """Return them as JSON; None if they are none, or too large: they are only hints."""
    with contextlib.suppress(ValueError):
        encoded = _encode_json(annotations)
        return encoded if len(encoded) <= _MAX_SCHEMA_BYTES else None
    return None


def _encode_json(value: dict[str, Any]) -> bytes:
    """Raises ValueError for `NaN`, a number beyond a double, and an integer of thousands of digits."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _explain_error(error: MCPError) -> str:
    """Return what a server says, and what the SDK says of it in plain words."""
    code, message = error.error.code, error.error.message
    if code == mcp_types.PARSE_ERROR and message.startswith(_SDK_UNREADABLE):
        return TOO_DEEP if "recursion limit" in message else UNREADABLE
    if message.startswith("SSE stream ") and "byte limit" in message:
        return TOO_LONG
    if message.startswith("SSE stream ") or (code == CONNECTION_CLOSED and message == "Connection closed"):
        return "the connection to the server of the tool was lost before it answered"
    return message


async def _wait_for_any(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(*waiting)


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
