"""`ToolLoop`: a reply of several calls to a model, between which the gateway runs the model's calls.

It is the source of a reply like that of one call to a model: it pushes its events to one receiver. Each call to the
model is opened by `OpenTurn`, which prepares, caches and limits it like any other. The events of a turn pass through in
the same call in which they come; only a new turn and the tools take a task.

A tool never fails the reply: whatever happens, its call has a result. Results are emitted in the order of their calls,
so that identical replies stay identical, whichever tool was quicker.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import (
    Event,
    Failed,
    Fault,
    Finish,
    FinishReason,
    ServerResult,
    ToolsListed,
    TurnEnd,
)
from app.chat.hosted_tools import HostedKind
from app.chat.messages import ChatRequest, Media, Message, Text, Tool, ToolCall, ToolResult
from app.chat.server_tools import (
    ModelCall,
    OfferedTool,
    ServerToolsSummary,
    ToolAnswer,
    ToolCallSummary,
    ToolLimit,
    ToolSession,
    refuse_call,
)
from app.chat.stream import Receiver, Reply
from app.chat.token_usage import as_free
from app.errors import InvalidInput, ParleyError, UpstreamFailed, Violation
from app.params import find_max_tokens, parse_allowed_tools
from app.tool_loop.turn import CallIds, Turn, TurnCall
from app.tool_loop.usage import count_tokens, read_usage, sum_usage
from app.tool_loop.waiting import WaitingCall, find_paused, find_waiting, insert_results
from app.upstream.reply.chunk import MAX_NESTING, is_too_deep

log = logging.getLogger("parley.tools")

INVALID_PARAMS = -32602
"""JSON-RPC's code for an unknown tool, and for arguments that are no object."""
NOT_RUN = -32000
"""JSON-RPC's code for errors that an implementation defines."""
TIMED_OUT = -32001
"""The code of MCP's SDKs for a call that took too long."""
_ENDS_WITHOUT_CALLS = ("length", "content_filter")


def do_nothing() -> None: ...


class OpenedTurn(Struct, frozen=True, eq=False):
    """One call to the model that has begun."""

    reply: Reply
    cached: bool
    """It is a stored reply."""
    free: bool = False
    """Another request has paid for it."""
    on_end: Callable[[], None] = do_nothing
    """Called once, when the call has ended or its events are no longer needed."""


OpenTurn: TypeAlias = Callable[[ChatRequest, int], Awaitable[OpenedTurn]]
"""Opens the call to the model with this number, from 0. Raises ParleyError."""


class LoopObserver(Protocol):
    """Learns what a loop does, for the log, the metrics and the traces."""

    def begin_call(self, call_id: str) -> bytes | None:
        """A tool is about to be run. Returns the `traceparent` of the call."""

    def on_call(self, summary: ToolCallSummary, arguments: str, answer: ToolAnswer, started_ns: int) -> None:
        """A call has its result. `started_ns` is in Unix time."""

    def on_end(self, summary: ServerToolsSummary) -> None:
        """The reply ends; its last event comes next."""


class ToolLoop:
    """Implements `Reply`. `open` first, then as any other."""

    def __init__(
        self,
        request: ChatRequest,
        session: ToolSession,
        open_turn: OpenTurn,
        observer: LoopObserver,
        *,
        accepts: Callable[[str], bool],
        defaults: Mapping[str, Any],
        calls_are_text: bool = False,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """`accepts` says whether the model takes a kind of media. `defaults` are the parameters that each call to the
        model has unless the request has others. `calls_are_text`: see `Turn`. `on_close` is called when the reply is
        closed. Raises InvalidInput."""
        self._session = session
        self._bounds = session.bounds
        self._open_turn = open_turn
        self._observer = observer
        self._accepts = accepts
        self._calls_are_text = calls_are_text
        self._on_close = on_close
        self._max_tokens = find_max_tokens(defaults, request.params)
        """The output of all calls to the model together; None: no bound."""
        self._default_choice = defaults.get("function_choice") or defaults.get("tool_choice")
        self._max_calls = None if request.server_tools is None else request.server_tools.max_calls
        self._offered = {tool.name: tool for listed in session.servers for tool in listed.tools}
        self._own = {tool.name for tool in request.tools}
        self._check_names(request)
        approvals = () if request.server_tools is None else request.server_tools.approvals
        paused = find_paused(request.messages, {name for name, tool in self._offered.items() if tool.resumes})
        self._waiting = find_waiting(request.messages, (*approvals, *paused))
        self._ids = CallIds(_list_call_ids(request.messages))
        tools = tuple(Tool(tool.name, tool.to_schema()) for tool in self._offered.values() if not tool.waits)
        self._waiting_tools = tuple(Tool(tool.name, tool.to_schema()) for tool in self._offered.values() if tool.waits)
        self._tool_place = len(tools)
        """Where these go: behind the other tools of the gateway."""
        self._request = replace(request, tools=(*tools, *request.tools), server_tools=None)
        self._listed: Sequence[Event] = [ToolsListed(listed) for listed in session.servers if not listed.hosted]
        """Emitted before the first event of the reply, which is the model's or a result."""
        self._receiver: Receiver | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn: OpenedTurn | None = None
        """The call to the model that is open."""
        self._fallback_model: str | None = None
        self._paused = False
        self._closed = False
        self._rounds = 0
        self._next_index = 0
        self._calls_begun = 0
        """Calls that count for `max_calls` of the bounds and of the request."""
        self._result_bytes = 0
        self._model_calls: list[ModelCall] = []
        self._usages: list[dict[str, Any]] = []
        self._usage_known = False
        """Whether a server has reported any usage."""
        self._warnings: dict[str, None] = {}
        """Those of all calls to the model."""
        self._summaries: list[ToolCallSummary] = []
        self._hosted_calls: dict[HostedKind, int] = {}
        """The calls of each kind that reached a server."""
        self._limit: ToolLimit | None = None
        self._parallel = asyncio.Semaphore(self._bounds.max_parallel_calls)
        self._deadline = asyncio.get_running_loop().time() + self._bounds.max_seconds

    def _check_names(self, request: ChatRequest) -> None:
        """Raises InvalidInput if a function of the caller has the name of a tool."""
        paths = () if request.server_tools is None else request.server_tools.function_paths
        text = "is the name of a tool that this gateway runs in this request: rename the function"
        violations = [
            Violation(f"{paths[place] if place < len(paths) else f'functions[{place}]'}.name", f"{tool.name!r} {text}")
            for place, tool in enumerate(request.tools)
            if tool.name in self._offered
        ]
        if violations:
            raise InvalidInput(violations)

    async def open(self) -> "ToolLoop":
        """Open the first call to the model, unless approved calls are run before it. Raises ParleyError."""
        try:
            if not self._waiting:
                await self._open_next()
        except BaseException:
            self.close()
            raise
        return self

    # Reply.

    @property
    def fallback_model(self) -> str | None:
        return self._fallback_model

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._task = asyncio.get_running_loop().create_task(self._run(receiver))

    def pause(self) -> None:
        self._paused = True
        if self._turn is not None:
            self._turn.reply.pause()

    def resume(self) -> None:
        self._paused = False
        if self._turn is not None:
            self._turn.reply.resume()

    def tick(self, now: float) -> None:
        if self._turn is not None:
            self._turn.reply.tick(now)

    def close(self) -> None:
        """Stop the model and all tools."""
        if self._closed:
            return
        self._closed = True
        self._receiver = None
        task, self._task = self._task, None
        self._close_turn()
        if self._on_close is not None:
            self._on_close()
        if task is not None and not task.done() and task is not asyncio.current_task():
            task.cancel()
            task.add_done_callback(lambda _: self._session.close())
        else:
            self._session.close()

    # The loop.

    async def _run(self, receiver: Receiver) -> None:
        try:
            await self._answer_waiting()
            while not self._closed:
                if self._turn is None:
                    await self._open_next()
                if not await self._take_turn(receiver):
                    return
        except ParleyError as error:
            self._push([Failed(self._make_fault(error))])
        except Exception as error:
            if not self._closed:
                receiver.on_crash(error)

    def _push(self, events: list[Event]) -> None:
        if self._receiver is not None and events:
            self._receiver.on_events(self._begin(events))

    def _begin(self, events: list[Event]) -> list[Event]:
        """Return the events, behind the lists of the tools if they are the first ones of the reply."""
        listed, self._listed = self._listed, ()
        return [*listed, *events] if listed else events

    async def _open_next(self) -> None:
        number, self._rounds = self._rounds, self._rounds + 1
        turn = await self._open_turn(self._request, number)
        if self._closed:
            turn.reply.close()
            turn.on_end()
            return
        self._turn = turn
        name = turn.reply.fallback_model
        if not number:
            self._fallback_model = name
        elif name is not None and name != self._fallback_model:
            text = (
                f"the model {self._request.model!r} could not go on: a part of this reply is of its fallback {name!r}"
            )
            self._warnings[text] = None

    def _close_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.reply.close()
            turn.on_end()

    async def _take_turn(self, receiver: Receiver) -> bool:
        """Emit one turn and the results of its calls. Returns whether another turn follows."""
        opened = self._turn
        if opened is None:  # closed meanwhile
            return False
        turn = Turn(*(self._offered, self._own, self._next_index, self._ids), calls_are_text=self._calls_are_text)
        reader = _TurnReader(turn, receiver, self._begin)
        if self._paused:
            opened.reply.pause()
        opened.reply.start(reader)
        await reader.done
        self._close_turn()
        end = turn.end
        if isinstance(end, Failed):
            self._push([Failed(self._add_past(end.fault))])
            return False
        assert end is not None
        self._next_index = turn.next_index
        if opened.free and end.usage is not None:
            end = replace(end, usage=as_free(end.usage))
        self._count_turn(end, opened.cached)
        messages, calls = turn.finish()
        if not calls or end.reason in _ENDS_WITHOUT_CALLS:
            self._finish(end.reason, end)
            return False
        self._push([TurnEnd(end.reason, end.usage, opened.cached)])
        return await self._run_calls(messages, calls, turn, end)

    async def _run_calls(self, messages: list[Message], calls: list[TurnCall], turn: Turn, end: Finish) -> bool:
        """Run the calls of a turn and emit their results. Returns whether another turn follows."""
        run = [call for call in calls if call.tool is None or not call.tool.approval]
        results = await self._run_all([(call, call.index, "") for call in run])
        reason = self._find_end(waits=len(run) < len(calls), has_own=turn.has_own_calls)
        if reason is not None:
            self._finish(reason, end)
            return False
        self._request = replace(
            self._request,
            messages=(*self._request.messages, *messages, *results),
            params=self._next_params(self._request.params),
            continue_last=False,
        )
        return True

    def _find_end(self, *, waits: bool, has_own: bool) -> FinishReason | None:
        """Return why the reply ends after the results of a turn; None if it goes on."""
        if has_own:
            return "tool_calls"
        if waits:
            return "tool_approval"
        if self._max_tokens is not None and self._tokens_left() <= 0:
            return "length"
        if self._limit is None:
            self._limit = self._find_limit()
        return None if self._limit is None else "tool_limit"

    def _find_limit(self) -> ToolLimit | None:
        """Return the bound that does not allow another turn."""
        bounds = self._bounds
        if asyncio.get_running_loop().time() >= self._deadline:
            return "seconds"
        if self._rounds >= bounds.max_rounds:
            return "rounds"
        if sum(count_tokens(usage, "total_tokens") for usage in self._usages) >= bounds.max_tokens:
            return "tokens"
        if self._result_bytes > bounds.max_result_bytes:
            return "bytes"
        return None

    def _tokens_left(self) -> int:
        assert self._max_tokens is not None
        return self._max_tokens - sum(count_tokens(usage, "completion_tokens") for usage in self._usages)

    def _next_params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters of the next call to the model. A demanded call was made; tokens were used."""
        changed = dict(params)
        given = changed.pop("tool_choice", None)
        choice = changed.pop("function_choice", None) or given or self._default_choice
        if choice == "none":
            changed["function_choice"] = choice
        elif isinstance(choice, dict) and parse_allowed_tools(choice) is not None:
            changed["function_choice"] = _with_mode(choice, "auto")
        elif self._default_choice is not None:
            changed["function_choice"] = "auto"
        if self._max_calls is not None and self._calls_begun >= self._max_calls:
            changed["function_choice"] = "none"
        if self._max_tokens is not None:
            name = "max_completion_tokens" if changed.get("max_completion_tokens") is not None else "max_tokens"
            changed.pop("max_tokens", None)
            changed[name] = self._tokens_left()
        return changed

    # Calls.

    async def _answer_waiting(self) -> None:
        """Run the calls of the conversation that were approved, and answer the others."""
        if not self._waiting:
            return
        calls = [self._make_waiting_call(waiting) for waiting in self._waiting]
        results = await self._run_all(calls, self._waiting)
        paired = list(zip(self._waiting, results, strict=True))
        self._waiting = []
        messages = insert_results(self._request.messages, paired)
        self._request = replace(self._request, messages=messages, continue_last=False)

    def _make_waiting_call(self, waiting: WaitingCall) -> "tuple[TurnCall, int, str]":
        call = waiting.call
        tool = self._offered.get(call.name)
        return TurnCall(-1, waiting.id, call.name, call.arguments, tool), -1, call.arguments

    async def _run_all(
        self, calls: "Sequence[tuple[TurnCall, int, str]]", waiting: Sequence[WaitingCall] = ()
    ) -> list[Message]:
        """Run calls at the same time, and emit their results in the calls' order. Returns the results as messages."""
        messages = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._answer(call, self._refuse(call, waiting[place] if waiting else None)))
                for place, (call, _, _) in enumerate(calls)
            ]
            for (call, index, arguments), task in zip(calls, tasks, strict=True):
                answer, summary = await task
                server, tool = ("", call.name) if call.tool is None else (call.tool.server, call.tool.tool)
                content = self._adapt(answer.content)
                self._result_bytes += answer.size
                self._summaries.append(summary)
                result = ServerResult(call.id, call.name, server, tool, content, answer.error, index, arguments)
                self._push([replace(result, hosted=answer.hosted)])
                self._count_hosted(call.tool, answer)
                is_error = True if answer.error is not None else None
                messages.append(Message("tool", (ToolResult(content, call.name, call.id, is_error),)))
        return messages

    def _count_hosted(self, tool: OfferedTool | None, answer: ToolAnswer) -> None:
        if tool is not None and tool.hosted is not None and answer.outcome != "not_run":
            self._hosted_calls[tool.hosted] = self._hosted_calls.get(tool.hosted, 0) + 1
        if self._waiting_tools and answer.hosted is not None and answer.hosted.entries:
            tools, place = self._request.tools, self._tool_place
            self._request = replace(self._request, tools=(*tools[:place], *self._waiting_tools, *tools[place:]))
            self._waiting_tools = ()

    def _summarize(self, limit: ToolLimit | None = None) -> ServerToolsSummary:
        searches, fetches = self._hosted_calls.get("web_search", 0), self._hosted_calls.get("web_fetch", 0)
        return ServerToolsSummary(tuple(self._model_calls), tuple(self._summaries), limit, searches, fetches)

    def _refuse(self, call: TurnCall, waiting: WaitingCall | None) -> ToolAnswer | None:
        """Return the answer to a call that is not run; None for one that is."""
        if waiting is not None and (waiting.answer is None or not waiting.answer.approve):
            reason = waiting.answer.reason if waiting.answer is not None else None
            text = "the call was not approved by the user"
            return refuse_call(f"{text}: {reason}" if reason else f"{text}.", NOT_RUN)
        if call.tool is None:
            return refuse_call(f"there is no tool with the name {call.name[:100]!r}.", INVALID_PARAMS)
        if _read_arguments(call.arguments) is None:
            return refuse_call(_explain_arguments(call.arguments), INVALID_PARAMS)
        if self._max_calls is not None and self._calls_begun >= self._max_calls:
            return refuse_call(
                f"the call was not run, because this request allows {self._max_calls} calls of tools.", NOT_RUN
            )
        if self._calls_begun >= self._bounds.max_calls:
            self._limit = "calls"
            return refuse_call(
                f"the call was not run, because a reply may have {self._bounds.max_calls} calls of tools.", NOT_RUN
            )
        self._calls_begun += 1
        return None

    async def _answer(self, call: TurnCall, refused: ToolAnswer | None) -> tuple[ToolAnswer, ToolCallSummary]:
        """Run one call unless it is refused, and report it."""
        started_ns, began = time.time_ns(), time.perf_counter()
        answer = refused or await self._call_tool(call)
        milliseconds = round((time.perf_counter() - began) * 1000)
        server, tool = ("", call.name) if call.tool is None else (call.tool.server, call.tool.tool)
        size = _count_text_bytes(answer.content)
        summary = ToolCallSummary(call.id, server, tool, answer.outcome, milliseconds, size)
        self._observer.on_call(summary, call.arguments, answer, started_ns)
        return answer, summary

    async def _call_tool(self, call: TurnCall) -> ToolAnswer:
        tool, arguments = call.tool, _read_arguments(call.arguments)
        assert tool is not None
        assert arguments is not None
        async with self._parallel:
            try:
                async with asyncio.timeout_at(self._deadline):
                    return await self._session.call(tool, arguments, self._observer.begin_call(call.id))
            except TimeoutError:
                self._limit = "seconds"
                text = (
                    f"the call was stopped, because tools may take {self._bounds.max_seconds:g} seconds in one reply."
                )
                return replace(refuse_call(text, TIMED_OUT), outcome="error")
            except Exception:
                log.exception("defect while running the tool %s of %s", tool.tool, tool.server)
                return replace(refuse_call("the gateway failed while it ran the tool.", NOT_RUN), outcome="error")

    def _adapt(self, content: tuple[Text | Media, ...]) -> tuple[Text | Media, ...]:
        """Replace media that the model does not take by their type in words."""
        return tuple(
            part if isinstance(part, Text) or self._accepts(part.media) else Text(f"[{part.media}: {_find_type(part)}]")
            for part in content
        )

    # The end.

    def _count_turn(self, end: Finish, cached: bool) -> None:
        usage = read_usage(end)
        self._usages.append(usage)
        self._usage_known = self._usage_known or end.usage is not None
        self._model_calls.append(ModelCall(end.reason, end.usage, cached))
        self._warnings.update(dict.fromkeys(end.warnings))

    def _finish(self, reason: FinishReason, end: Finish) -> None:
        """Push the end of the reply, which is that of its last turn with the usage of all."""
        limit = self._limit if reason == "tool_limit" else None
        summary = self._summarize(limit)
        self._observer.on_end(summary)
        usage = sum_usage(self._usages)
        estimated = None if self._usage_known or usage is None else _only_totals(usage)
        same = reason == end.reason
        self._push(
            [
                replace(
                    end,
                    reason=reason,
                    usage=usage if self._usage_known else None,
                    estimated_usage=estimated,
                    native_reason=end.native_reason if same else None,
                    stopped_by=end.stopped_by if same else None,
                    warnings=tuple(self._warnings),
                    cacheable=False,
                    server_tools=summary,
                )
            ]
        )

    def _make_fault(self, error: ParleyError) -> Fault:
        """Return an error that came after the reply had begun as the fault that ends it."""
        if isinstance(error, UpstreamFailed):
            return self._add_past(error.fault)
        wait = error.to_dict("").get("retry_after_seconds")
        return self._add_past(Fault(error.code, str(error), error.retryable, retry_after_seconds=wait))

    def _add_past(self, fault: Fault) -> Fault:
        """Return a fault with what was done and used before it."""
        if self._model_calls or self._summaries:
            fault = replace(fault, server_tools=self._summarize())
        if not self._usage_known:
            return fault
        usages = self._usages if fault.usage is None else [*self._usages, fault.usage]
        return replace(fault, usage=sum_usage(usages))


class _TurnReader:
    """The receiver of one reply of the model: passes its events on."""

    def __init__(self, turn: Turn, receiver: Receiver, begin: Callable[[list[Event]], list[Event]]) -> None:
        """`begin` puts what must come first in the reply before its first events."""
        self._turn = turn
        self._receiver = receiver
        self._begin = begin
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_events(self, events: list[Event]) -> None:
        if self.done.done():
            return
        out = self._turn.feed(events)
        if out or not events:  # an empty read shows that the server is alive
            self._receiver.on_events(self._begin(out) if out else out)
        self._check_end()

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if self.done.done():
            return
        out = [emitted for events in batches if (emitted := self._turn.feed(events))]
        if out:
            out[0] = self._begin(out[0])
            self._receiver.on_batches(out)
        self._check_end()

    def on_crash(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def _check_end(self) -> None:
        if self._turn.end is not None and not self.done.done():
            self.done.set_result(None)


def _list_call_ids(messages: Sequence[Message]) -> list[str]:
    return [part.id for message in messages for part in message.parts if isinstance(part, ToolCall) and part.id]


def _count_text_bytes(content: Sequence[Text | Media]) -> int:
    text = "\n".join([part.text for part in content if isinstance(part, Text)])
    return len(text.encode("utf-8", "surrogatepass"))


def _read_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call; None if they are no JSON object, or one that is nested too deeply for the
    connection to a server. No text counts as an empty object."""
    if not text.strip():
        return {}
    data = text.encode("utf-8", "replace")
    if is_too_deep(data):
        return None
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


def _explain_arguments(text: str) -> str:
    if is_too_deep(text.encode("utf-8", "replace")):
        return f"the arguments of the call are nested deeper than {MAX_NESTING} levels."
    return "the arguments of the call are not a JSON object."


def _with_mode(choice: dict[str, Any], mode: str) -> dict[str, Any]:
    inner = choice.get("allowed_tools")
    if isinstance(inner, dict):
        return {**choice, "allowed_tools": {**inner, "mode": mode}}
    return {**choice, "mode": mode}


def _find_type(media: Media) -> str:
    """Return the media type of a data URI, or the kind of the medium."""
    url = media.urls[0]
    type_ = url[len("data:") :].partition(",")[0].partition(";")[0] if url.startswith("data:") else ""
    return type_ or media.media


def _only_totals(usage: dict[str, Any]) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: count_tokens(usage, name) for name in names}
