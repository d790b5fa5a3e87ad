"""Replies before which the conversation is summarized, because it is too long: `compact_20260112` of Anthropic's API.

The model is asked for the summary, without tools, and then for the reply to the summary and the last message of the
user. The summary is in the reply, before everything else: the client sends it with later requests, in which it replaces
what was before it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from app.api.checked_replies import CheckedCalls
from app.api.context import AppContext
from app.api.model_calls import TICK_SECONDS, ReplyOfCalls, TurnLimits, TurnReply
from app.api.open_replies import PendingReply
from app.api.reply_opening import ReplyOpener
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.calls.known_reply import KnownReply
from app.calls.read_reply import read_reply
from app.chat.context_edits import COMPACTION, Compact
from app.chat.events import NEXT_MESSAGE, Event, Extra, Failed, Finish, TextDelta, is_end
from app.chat.messages import ChatRequest, Message, Text
from app.chat.stream import Receiver, Reply
from app.chat.token_usage import as_free
from app.errors import ParleyError, UpstreamFailed
from app.formats.base import SUMMARY_QUESTION, ReplyInfo, make_summary
from app.formats.body import ParsedRequest
from app.formats.responses.whole_summary import WholeSummary
from app.gateway import ReplyOptions
from app.routing import ModelRoute
from app.steps.context_edits import split_last_message
from app.steps.output_demands import find_demand
from app.tool_loop.loop import OpenedTurn
from app.tool_loop.usage import read_usage, sum_usage

Json = dict[str, Any]


def prepare_compacted(
    opener: ReplyOpener,
    context: AppContext,
    request: RequestInProgress,
    parsed: ParsedRequest,
    route: ModelRoute,
    info: ReplyInfo,
    options: ReplyOptions,
    edit: Compact,
) -> tuple[ReplyResponse, PendingReply]:
    """Do what `ChatEndpoint.prepare` does for a reply with a summary."""
    response = opener.create_response(request, parsed, info)
    calls = _CompactedCalls(opener, context, request, route, options, response)
    return response, calls.open(partial(calls.start, parsed.request, edit))


class _CompactedCalls(CheckedCalls):
    async def start(self, conversation: ChatRequest, edit: Compact) -> Reply:
        """Open the reply. Without a summary, it is that to the whole conversation. Raises ParleyError."""
        begun = await begin_compacted(self, self._response, conversation, edit)
        if begun.conversation is None:
            return begun.end()
        return begun.go_on(await self._open_reply(begun.conversation))

    @override
    async def _reserve(self, conversation: ChatRequest, number: int, route: ModelRoute) -> TurnLimits | None:
        """Reserve nothing more: all calls are one request, whose reservation is settled with what they use together."""
        return None

    async def _open_reply(self, conversation: ChatRequest) -> OpenedTurn:
        demand = find_demand(conversation) if self._route.enforces_output else None
        self._calls = 1  # the summary was the first
        if demand is not None:
            return await self.open_demanded(conversation, demand)
        return await self.open_turn(conversation, 1)


class BegunReply(Struct, frozen=True):
    """A reply before which the model was asked for a summary."""

    conversation: ChatRequest | None
    """What the rest of the reply answers; None: the reply is the summary alone."""
    events: list[Event]
    """The beginning of the reply; empty without a summary."""
    usages: tuple[Json, ...]

    def end(self) -> Reply:
        return KnownReply([*self.events, Finish("stop", _list_iterations(self.usages), COMPACTION)])

    def go_on(self, turn: OpenedTurn) -> Reply:
        """Return the whole reply, of which `turn` is the rest."""
        return _CompactedReply(turn, self.events, self.usages)


async def begin_compacted(
    calls: ReplyOfCalls, response: ReplyResponse, conversation: ChatRequest, edit: Compact
) -> BegunReply:
    """Ask the model for a summary. If it makes none, the conversation stays whole, and the reply has a warning."""
    try:
        text, used = await _summarize(calls, conversation, edit)
    except ParleyError as error:
        response.add_warnings([f"{edit.path}: the conversation was not summarized: {error.message}"])
        usage = error.fault.usage if isinstance(error, UpstreamFailed) else None
        return BegunReply(conversation, [], () if usage is None else (usage,))
    summary: list[Event] = [Extra({COMPACTION: text}, NEXT_MESSAGE)]
    if edit.pauses:
        return BegunReply(None, summary, (used,))
    system, last = split_last_message(conversation.messages)
    messages = (*system, make_summary(text, edit.path), *last)
    return BegunReply(replace(conversation, messages=messages, source=None, known=None), summary, (used,))


async def _summarize(calls: ReplyOfCalls, conversation: ChatRequest, edit: Compact) -> tuple[str, Json]:
    """Return the summary, and what it used. Raises ParleyError, also if it is not whole."""
    question = Message("user", (Text(edit.instructions or SUMMARY_QUESTION),), path=edit.path)
    asked = replace(
        conversation,
        messages=(*conversation.messages, question),
        tools=(),
        server_tools=None,
        params={},
        source=None,
        known=None,
    )
    turn = await calls.open_turn(asked, 0)
    try:
        batches = await read_reply(turn.reply, tick_seconds=TICK_SECONDS)
    finally:
        turn.on_end()
    events = WholeSummary().feed([event for events in batches for event in events])
    end = events[-1]
    if isinstance(end, Failed):
        raise UpstreamFailed(end.fault)
    assert isinstance(end, Finish)
    text = "".join(event.text for event in events if type(event) is TextDelta).strip()
    usage = read_usage(end)
    return text, as_free(usage) if turn.free else usage


class _CompactedReply(TurnReply):
    """A call to the model, behind what comes first. Its usage is that of all calls."""

    def __init__(self, turn: OpenedTurn, first: list[Event], usages: Sequence[Json]) -> None:
        super().__init__(turn)
        self._first = first
        self._usages = usages
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._first:
            receiver.on_events(self._first)
        self._turn.reply.start(self)

    def on_events(self, events: list[Event]) -> None:
        assert self._receiver is not None
        self._receiver.on_events(self._change_end(events) if is_end(events) else events)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert self._receiver is not None
        self._receiver.on_batches([self._change_end(events) if is_end(events) else events for events in batches])

    def on_crash(self, error: Exception) -> None:
        assert self._receiver is not None
        self._receiver.on_crash(error)

    def _change_end(self, events: list[Event]) -> list[Event]:
        end = events[-1]
        if isinstance(end, Finish):
            usage = read_usage(end)
            own = as_free(usage) if self._turn.free else usage
            return [*events[:-1], replace(end, usage=_list_iterations([*self._usages, own]), estimated_usage=None)]
        assert isinstance(end, Failed)
        known = [*self._usages, *([] if end.fault.usage is None else [end.fault.usage])]
        return [*events[:-1], Failed(replace(end.fault, usage=sum_usage(known)))]


def _list_iterations(usages: Sequence[Json]) -> Json | None:
    """Return the sum of the usages, with each of them: that of the summary, and that of the reply."""
    total = sum_usage(usages)
    return None if total is None else {**total, "iterations": list(usages)}
