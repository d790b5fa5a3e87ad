"""Replies that are held back until they are valid against the request's JSON schema (`check_output = "enforce"`).

What is checked is a turn: a reply of the model that may be asked for again. A reply without tools of the gateway is one
turn; with them it has several, and those with calls are not checked.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from app.api.asgi import call_in_thread
from app.api.context import AppContext
from app.api.model_calls import TICK_SECONDS, ReplyOfCalls, TurnReply
from app.api.open_replies import PendingReply
from app.api.reply_opening import ReplyOpener
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.chat.events import End, Event, Failed, Fault, Finish, OutputOutcome, is_end
from app.chat.messages import ChatRequest
from app.chat.stream import Receiver, Reply
from app.chat.token_usage import as_free
from app.errors import ParleyError, UpstreamFailed
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest
from app.gateway import ReplyOptions
from app.routing import ModelRoute
from app.steps.json_schema import Stop
from app.steps.output_check import MAX_WORK_IN_THREAD, OutputCheck, describe_check
from app.steps.output_demands import Demand, find_demand, find_json_demand
from app.tool_loop.loop import OpenedTurn
from app.tool_loop.usage import read_usage, sum_usage
from app.upstream.faults import make_fault

if TYPE_CHECKING:
    from app.guards.admission import RequestGuard

_MAX_TOLD_CHARACTERS = 16 * 1024
"""How much of an invalid text the error has."""


def prepare_checked(
    opener: ReplyOpener,
    context: AppContext,
    request: RequestInProgress,
    parsed: ParsedRequest,
    route: ModelRoute,
    info: ReplyInfo,
    options: ReplyOptions,
) -> tuple[ReplyResponse, PendingReply] | None:
    """Do what `ChatEndpoint.prepare` does for a reply that must be valid; None if the request demands nothing."""
    demand = find_demand(parsed.request)
    if demand is None:
        return None
    response = opener.create_response(request, parsed, info)
    calls = CheckedCalls(opener, context, request, route, options, response)
    return response, calls.open(partial(_open_single, calls, parsed.request, demand))


async def _open_single(calls: "CheckedCalls", conversation: ChatRequest, demand: Demand) -> Reply:
    return (await calls.open_demanded(conversation, demand)).reply


class CheckedCalls(ReplyOfCalls):
    """Opens one reply, and each call to the model in it, whose text must be valid."""

    _calls = 0
    """How many calls to models were opened."""

    async def open_checked(self, conversation: ChatRequest, number: int) -> OpenedTurn:
        """Open the turn with this number of a reply with tools of the gateway. Raises ParleyError."""
        demand = find_json_demand(conversation)
        assert demand is not None
        return await self.open_demanded(conversation, demand)

    async def open_demanded(self, conversation: ChatRequest, demand: Demand) -> OpenedTurn:
        """Open a turn, for which the model may be called several times: once, once more with what was wrong, and then
        the fallbacks. It is open as soon as it need not be checked, because it has another call or a refusal; else at
        its end.

        Raises ParleyError; the code `output_invalid` means that all replies were invalid. If the second one failed,
        its error is raised.
        """
        guard = self._request.guard
        turn = await _CheckedTurn(self._open_numbered, self._find_fallbacks(), demand, conversation, guard).open()
        name, response = turn.reply.fallback_model, self._response
        if name is not None and response.first_at is None:
            response.set_origin(replace(response.info.origin, fallback_model=name))
        return turn

    async def _open_numbered(self, conversation: ChatRequest, fallback: ModelRoute | None = None) -> OpenedTurn:
        number, self._calls = self._calls, self._calls + 1
        return await self.open_turn(conversation, number, fallback)

    def _find_fallbacks(self) -> Iterator[ModelRoute]:
        for name in self._route.fallbacks:
            try:
                yield self._request.live.gateway.route(name)
            except ParleyError:
                continue


class _OpenCall(Protocol):
    async def __call__(self, conversation: ChatRequest, fallback: ModelRoute | None = None) -> OpenedTurn:
        """Open a call to the model, or to another one. Raises ParleyError."""


class _CheckedTurn:
    """The calls to the model for one turn, until one of them is valid."""

    def __init__(
        self,
        open_call: _OpenCall,
        fallbacks: Iterator[ModelRoute],
        demand: Demand,
        conversation: ChatRequest,
        guard: "RequestGuard | None",
    ) -> None:
        self._guard = guard
        self._open_call = open_call
        self._fallbacks = fallbacks
        self._demand = demand
        self._conversation = conversation
        self._usages: list[dict[str, Any]] = []
        """Those of the calls whose replies are not passed on."""

    async def open(self) -> OpenedTurn:
        held, check = await self._ask(self._conversation)
        if check is None or check.outcome != "invalid":
            return self._pass_on(held, check, None if check is None else check.outcome)
        self._discard(held)
        try:
            again, second = await self._ask(self._demand.ask_again(self._conversation, check))
        except UpstreamFailed as error:
            last = error.fault
        else:
            if second is None or second.outcome != "invalid":
                invalid = describe_check(check, self._demand.words)
                warning = f"{invalid}; the model was asked once more, and this is its second reply"
                return self._pass_on(again, second, "asked_again", warning)
            self._discard(again)
            last = self._make_fault(second)
        for route in self._fallbacks:
            turn = await self._ask_fallback(route, check)
            if turn is not None:
                return turn
        raise UpstreamFailed(_add_usages(last, self._usages))

    async def _ask_fallback(self, route: ModelRoute, check: OutputCheck) -> OpenedTurn | None:
        """Return the turn of another model; None if it fails or is invalid too."""
        try:
            held, found = await self._ask(self._conversation, route)
        except ParleyError as error:
            if isinstance(error, UpstreamFailed) and error.fault.usage is not None:
                self._usages.append(error.fault.usage)
            return None
        if found is not None and found.outcome == "invalid":
            self._discard(held)
            return None
        invalid = describe_check(check, self._demand.words)
        warning = f"{invalid}; the model was asked twice, and {route.model} has answered instead"
        held.fallback_model = held.fallback_model or route.model
        return self._pass_on(held, found, "fallback", warning)

    async def _ask(
        self, conversation: ChatRequest, fallback: ModelRoute | None = None
    ) -> "tuple[_HeldReply, OutputCheck | None]":
        """Return a reply, and its check. None: it need not be valid, because it has calls, is a refusal or did not end
        by itself. Raises ParleyError."""
        held, stop = _HeldReply(await self._open_call(conversation, fallback), self._demand), Stop()
        try:
            await _wait_until_known(held)
            end = held.end
            if isinstance(end, Failed):
                raise UpstreamFailed(end.fault)
            if end is None or end.reason not in self._demand.ends or held.exempt:
                return held, None
            return held, await call_in_thread(self._check, held.events, stop)
        except BaseException:
            stop.wanted = True
            held.close()
            raise

    def _check(self, events: list[Event], stop: Stop) -> OutputCheck:
        """Check a reply as the client gets it. What is found goes back to the model, so its values are masked."""
        guard = self._guard
        if guard is None:
            return self._demand.check(events, MAX_WORK_IN_THREAD, stop)
        check = self._demand.check(guard.restore_events(events), MAX_WORK_IN_THREAD, stop)
        problems = tuple(map(guard.mask_text, check.problems))
        return replace(check, text=guard.mask_output(check.text), problems=problems)

    def _discard(self, held: "_HeldReply") -> None:
        """Close an invalid reply, whose usage counts."""
        assert isinstance(held.end, Finish)
        self._usages.append(read_usage(held.end))
        held.close()

    def _pass_on(
        self, held: "_HeldReply", check: OutputCheck | None, outcome: OutputOutcome | None, *warnings: str
    ) -> OpenedTurn:
        """Return the turn as its reader gets it. Its usage is that of all calls."""
        if check is not None and check.outcome == "mended":
            held.replace_events(self._demand.repair(held.events, check))
        if check is not None and check.outcome != "valid":
            warnings = (*warnings, describe_check(check, self._demand.words))
        held.change_end(_EndChange(tuple(self._usages), None if check is None else outcome, warnings))
        return OpenedTurn(held, held.cached and not self._usages)

    def _make_fault(self, check: OutputCheck) -> Fault:
        text = check.text if len(check.text) <= _MAX_TOLD_CHARACTERS else f"{check.text[:_MAX_TOLD_CHARACTERS]}…"
        fault = make_fault("output_invalid", f"{describe_check(check, self._demand.words)}; the model was asked twice")
        return replace(fault, detail={"violations": [*check.problems], "text": text})


def _add_usages(fault: Fault, usages: Sequence[dict[str, Any]]) -> Fault:
    """Return a fault with the usage of earlier calls, too."""
    if not usages:
        return fault
    return replace(fault, usage=sum_usage(usages if fault.usage is None else [*usages, fault.usage]))


class _EndChange(Struct, frozen=True):
    """What the end of a reply has besides what its own call ended with."""

    usages: tuple[dict[str, Any], ...] = ()
    """Those of earlier calls."""
    outcome: OutputOutcome | None = None
    warnings: tuple[str, ...] = ()

    def apply(self, events: list[Event]) -> list[Event]:
        end = events[-1] if events else None
        if isinstance(end, Failed):
            return [*events[:-1], Failed(_add_usages(end.fault, self.usages))]
        if not isinstance(end, Finish):
            return events
        usage = sum_usage([*self.usages, read_usage(end)]) if self.usages else end.usage
        warnings = (*end.warnings, *self.warnings)
        kept = self.outcome is None or (self.outcome == "valid" and end.output in ("mended", "explained"))
        outcome = end.output if kept else self.outcome
        return [*events[:-1], replace(end, usage=usage, output=outcome, warnings=warnings)]


class _HeldReply(TurnReply):
    """A call to the model whose events are held back until it is known whether they are checked, and then given to its
    reader. It is the receiver of the call."""

    def __init__(self, turn: OpenedTurn, demand: Demand) -> None:
        super().__init__(turn)
        self._demand = demand
        self.exempt = False
        """It need not obey the demand."""
        self._batches: list[list[Event]] = []
        self._receiver: Receiver | None = None
        self._crash: Exception | None = None
        self._change = _EndChange()
        self.cached = turn.cached
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done at the end, and at the first event that exempts the reply from the check."""
        turn.reply.start(self)

    @property
    def end(self) -> End | None:
        """None if the reply goes on."""
        last = self._batches[-1][-1] if self._batches and self._batches[-1] else None
        return last if isinstance(last, Finish | Failed) else None

    @property
    def events(self) -> list[Event]:
        """Those so far."""
        return [event for batch in self._batches for event in batch]

    def replace_events(self, events: list[Event]) -> None:
        self._batches = [events]

    def change_end(self, change: _EndChange) -> None:
        self._change = change

    # Receiver of the call.

    def on_events(self, events: list[Event]) -> None:
        events = self._count_free(events)
        if self._receiver is not None:
            self._receiver.on_events(self._change.apply(events))
            return
        self._batches.append(events)
        if self.known.done():
            return
        self.exempt = any(map(self._demand.exempts, events))
        if self.exempt or is_end(events):
            self.known.set_result(None)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        if self._receiver is not None:
            self._receiver.on_crash(error)
            return
        self._crash = error
        if not self.known.done():
            self.known.set_exception(error)

    def _count_free(self, events: list[Event]) -> list[Event]:
        """Return the events, whose end costs nothing if another request has paid for it."""
        end = events[-1] if events else None
        if not self._turn.free or not isinstance(end, Finish) or end.usage is None:
            return events
        return [*events[:-1], replace(end, usage=as_free(end.usage))]

    # Reply.

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        held, self._batches = self._batches, []
        receiver.on_batches([self._change.apply(events) for events in held])
        if self._crash is not None:
            receiver.on_crash(self._crash)


async def _wait_until_known(held: _HeldReply) -> None:
    """Wait until it is known whether a reply is checked, and check its timeouts meanwhile."""
    loop = asyncio.get_running_loop()
    while not held.known.done():
        await asyncio.wait([held.known], timeout=TICK_SECONDS)
        held.tick(loop.time())
    held.known.result()
