"""Replies that are held back until they are valid against the request's JSON schema (`check_output = "enforce"`)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.api.asgi import call_in_thread
from app.api.chat import ChatEndpoint, RequestInProgress
from app.api.context import AppContext
from app.api.model_calls import ReplyOfCalls
from app.api.open_replies import PendingReply
from app.api.reply_response import ReplyResponse
from app.calls.read_reply import read_reply
from app.chat.events import Event, Failed, Fault, Finish, OutputOutcome, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Text
from app.chat.stream import Origin, Receiver, Reply
from app.chat.token_usage import as_free
from app.errors import ParleyError, UpstreamFailed
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest
from app.gateway import ReplyOptions
from app.routing import ModelRoute
from app.steps.output_check import MAX_WORK_IN_THREAD, OutputCheck, check_output, describe_check, find_output_schema
from app.tool_loop.loop import OpenedTurn
from app.tool_loop.usage import read_usage, sum_usage
from app.upstream.faults import make_fault

_TICK_SECONDS = 0.5
_MAX_TOLD_CHARACTERS = 16 * 1024
"""How much of an invalid text the error has."""
_ASK_AGAIN = (
    "This reply is not valid against the JSON schema:\n{problems}\n"
    "Reply again with JSON that is valid against the schema, and nothing else."
)


def prepare_checked(
    endpoint: ChatEndpoint[Any],
    context: AppContext,
    request: RequestInProgress,
    parsed: ParsedRequest,
    route: ModelRoute,
    info: ReplyInfo,
    options: ReplyOptions,
) -> tuple[ReplyResponse, PendingReply] | None:
    """Do what `ChatEndpoint.prepare` does for a reply that must be valid; None if the request has no schema."""
    schema = find_output_schema(parsed.request)
    if schema is None:
        return None
    response = endpoint.create_response(request, parsed, info)
    reply = _CheckedReply(schema, parsed.request, endpoint, context, request, route, options, response)
    return response, reply.open(reply.start)


class _HeldReply:
    """A reply that has ended: a `Reply` whose events are all there."""

    def __init__(self, batches: Sequence[list[Event]], fallback_model: str | None) -> None:
        self._batches = batches
        self.fallback_model = fallback_model

    def start(self, receiver: Receiver) -> None:
        receiver.on_batches(self._batches)

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def tick(self, now: float) -> None: ...

    def close(self) -> None: ...


class _CheckedReply(ReplyOfCalls):
    def __init__(self, schema: Mapping[str, Any] | bool, conversation: ChatRequest, *what: Any) -> None:
        super().__init__(*what)
        self._schema = schema
        self._conversation = conversation
        self._path = conversation.paths.param("response_format")
        self._usages: list[dict[str, Any]] = []
        self._calls = 0

    async def start(self) -> Reply:
        """Ask the model, once more with what was wrong, and then the fallbacks. Raises ParleyError; the code
        `output_invalid` means that all replies were invalid. If the second one failed, its error is raised."""
        batches, check = await self._ask(self._conversation)
        if check is None or check.outcome != "invalid":
            return self._hold(batches, check, None if check is None else check.outcome)
        try:
            again, second = await self._ask(_add_problems(self._conversation, check))
        except UpstreamFailed as error:
            last = error.fault
        else:
            if second is None or second.outcome != "invalid":
                told = (
                    f"{describe_check(check, self._path)}; the model was asked once more, and this is its second reply"
                )
                return self._hold(again, second, "asked_again", told)
            last = self._make_fault(second)
        for name in self._route.fallbacks:
            held = await self._ask_fallback(name, check)
            if held is not None:
                return held
        usages = self._usages if last.usage is None else [*self._usages, last.usage]
        raise UpstreamFailed(replace(last, usage=sum_usage(usages)))

    async def _ask_fallback(self, name: str, check: OutputCheck) -> Reply | None:
        """Return the reply of another model; None if it fails or is invalid too."""
        try:
            route = self._request.live.gateway.route(name)
            batches, found = await self._ask(self._conversation, route)
        except ParleyError:
            return None
        if found is not None and found.outcome == "invalid":
            return None
        self._response.set_origin(Origin("miss", None, route.model))
        told = f"{describe_check(check, self._path)}; the model was asked twice, and {route.model} has answered instead"
        return self._hold(batches, found, "fallback", told, model=route.model)

    async def _ask(
        self, conversation: ChatRequest, fallback: ModelRoute | None = None
    ) -> tuple[list[list[Event]], OutputCheck | None]:
        """Return the events of one reply, and its check. None: it need not be valid, because it has calls, is a refusal
        or did not end by itself. Raises ParleyError."""
        number, self._calls = self._calls, self._calls + 1
        turn = await self.open_turn(conversation, number, fallback)
        try:
            batches = await _read(turn)
        finally:
            turn.on_end()
        events = [event for batch in batches for event in batch]
        end = events[-1]
        if isinstance(end, Failed):
            raise UpstreamFailed(end.fault)
        assert isinstance(end, Finish)
        if turn.free and end.usage is not None:
            end = replace(end, usage=as_free(end.usage))
        self._usages.append(read_usage(end))
        texts = [event for event in events if isinstance(event, TextDelta)]
        called = any(isinstance(event, ToolCallDelta) for event in events)
        if end.reason != "stop" or called or any(text.refusal for text in texts):
            return batches, None
        text = "".join([text.text for text in texts])
        return batches, await call_in_thread(check_output, text, self._schema, MAX_WORK_IN_THREAD)

    def _hold(
        self,
        batches: Sequence[list[Event]],
        check: OutputCheck | None,
        outcome: OutputOutcome | None,
        *warnings: str,
        model: str | None = None,
    ) -> Reply:
        """Return the reply as the caller gets it."""
        events = [event for batch in batches for event in batch]
        end = events.pop()
        assert isinstance(end, Finish)
        if check is not None and check.outcome == "mended":
            events = _replace_text(events, check.text)
        if check is not None and check.outcome != "valid":
            warnings = (*warnings, describe_check(check, self._path))
        usage = sum_usage(self._usages) if len(self._usages) > 1 else end.usage
        end = replace(end, usage=usage, output=outcome, warnings=(*end.warnings, *warnings))
        return _HeldReply([[*events, end]], model)

    def _make_fault(self, check: OutputCheck) -> Fault:
        text = check.text if len(check.text) <= _MAX_TOLD_CHARACTERS else f"{check.text[:_MAX_TOLD_CHARACTERS]}…"
        fault = make_fault("output_invalid", f"{describe_check(check, self._path)}; the model was asked twice")
        return replace(fault, detail={"violations": [*check.problems], "text": text})


async def _read(turn: OpenedTurn) -> list[list[Event]]:
    """Return the events of a call to the model once it has ended, and check its timeouts meanwhile."""
    loop = asyncio.get_running_loop()
    reading = loop.create_task(read_reply(turn.reply))
    try:
        while not reading.done():
            await asyncio.wait([reading], timeout=_TICK_SECONDS)
            turn.reply.tick(loop.time())
        return reading.result()
    finally:
        reading.cancel()


def _add_problems(conversation: ChatRequest, check: OutputCheck) -> ChatRequest:
    """Return the conversation with the invalid reply, and what is wrong with it."""
    problems = "\n".join(f"- {problem}" for problem in check.problems)
    told = (
        Message("assistant", (Text(check.text),) if check.text else ()),
        Message("user", (Text(_ASK_AGAIN.format(problems=problems)),)),
    )
    return replace(conversation, messages=(*conversation.messages, *told), continue_last=False)


def _replace_text(events: Sequence[Event], text: str) -> list[Event]:
    """Return the events with this text instead of theirs, where theirs ended."""
    last = max(place for place, event in enumerate(events) if isinstance(event, TextDelta))
    kept = [event for place, event in enumerate(events) if place == last or not isinstance(event, TextDelta)]
    return [TextDelta(text) if isinstance(event, TextDelta) else event for event in kept]
