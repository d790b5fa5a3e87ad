"""The loop with a model and servers of tools that follow a script."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from app.chat.events import Event, Failed, Fault, Finish, ServerResult, TextDelta, ToolCallDelta, ToolsListed, TurnEnd
from app.chat.messages import ChatRequest, Media, Message, Text, Tool, ToolCall
from app.chat.server_tools import ServerToolsSummary, ToolAnswer, ToolBounds, ToolCallSummary
from app.chat.stream import Receiver
from app.chat.tool_asks import ServerTools, ToolApproval
from app.errors import InvalidInput, RateLimited, UpstreamFailed
from app.tool_loop.loop import OpenedTurn, ToolLoop

from tests.tool_loop.fake_servers import FakeServers, error_answer, image_answer, make_tool, text_answer

USER = Message("user", (Text("Hi"),))
NOW, SET = make_tool("wx", "now"), make_tool("wx", "set", approval=True)
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def call(number: int, name: str = "wx-now", arguments: str = "{}") -> ToolCallDelta:
    return ToolCallDelta(number, arguments, f"c{number}", name)


CALLS = Finish("tool_calls", USAGE)
DONE: list[Event] = [TextDelta("Done."), Finish("stop", USAGE)]


class Model:
    """Gives one of the scripted turns for each request."""

    def __init__(self, *turns: list[Event] | Exception) -> None:
        self.turns = list(turns)
        self.requests: list[ChatRequest] = []
        self.fallbacks: dict[int, str] = {}
        """The models that answer instead, by the numbers of the turns, from 1."""
        self.ended = 0
        self.closed = 0

    async def open(self, request: ChatRequest, number: int) -> OpenedTurn:
        assert number == len(self.requests)
        self.requests.append(request)
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return OpenedTurn(_Reply(turn, self), cached=False, free=False, on_end=self._count_end)

    def _count_end(self) -> None:
        self.ended += 1


class _Reply:
    def __init__(self, events: list[Event], model: Model) -> None:
        self.fallback_model = model.fallbacks.get(len(model.requests))
        self._events = events
        self._model = model

    def start(self, receiver: Receiver) -> None:
        receiver.on_events([])
        receiver.on_batches([self._events[:1], self._events[1:]] if len(self._events) > 1 else [self._events])

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def tick(self, now: float) -> None: ...

    def close(self) -> None:
        self._model.closed += 1


class Told:
    """A receiver that keeps its events, and the observer of the loop."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.crash: Exception | None = None
        self.summaries: list[ToolCallSummary] = []
        self.summary: ServerToolsSummary | None = None
        self.ended = asyncio.Event()
        self.on_result: Callable[[], None] | None = None

    def on_events(self, events: list[Event]) -> None:
        self.events += events
        if self.on_result is not None and any(type(event) is ServerResult for event in events):
            self.on_result()
        if events and isinstance(events[-1], Finish | Failed):
            self.ended.set()

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        self.crash = error
        self.ended.set()

    def begin_call(self, call_id: str) -> bytes | None:
        return None

    def on_call(self, summary: ToolCallSummary, arguments: str, answer: ToolAnswer, started_ns: int) -> None:
        self.summaries.append(summary)

    def on_end(self, summary: ServerToolsSummary) -> None:
        self.summary = summary

    @property
    def texts(self) -> list[str]:
        return [event.plain_text or "" for event in self.events if type(event) is ServerResult]

    @property
    def end(self) -> Finish | Failed:
        end = self.events[-1]
        assert isinstance(end, Finish | Failed)
        return end


async def reply(
    model: Model, servers: FakeServers, request: ChatRequest | None = None, defaults: dict[str, Any] | None = None
) -> Told:
    told = Told()
    loop = ToolLoop(
        request or ChatRequest("m", (USER,)),
        servers,
        model.open,
        told,
        accepts=lambda kind: kind == "image",
        defaults=defaults or {},
    )
    await loop.open()
    loop.start(told)
    async with asyncio.timeout(5):
        await told.ended.wait()
    loop.close()
    return told


def run(*arguments: Any, **more: Any) -> Told:
    told = asyncio.run(reply(*arguments, **more))
    assert told.crash is None
    return told


def test_the_model_goes_on_with_its_turn_and_the_results() -> None:
    model, servers = (
        Model([TextDelta("I look."), call(0), CALLS], DONE),
        FakeServers([NOW], {"wx-now": text_answer("12")}),
    )
    told = run(model, servers)
    assert [type(event) for event in told.events[:1]] == [ToolsListed]
    assert told.texts == ["12"]
    assert TurnEnd("tool_calls", USAGE) in told.events
    end = told.end
    assert isinstance(end, Finish)
    assert (end.reason, end.usage) == ("stop", {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30})
    assert end.server_tools is told.summary
    roles = [message.role for message in model.requests[1].messages]
    assert roles == ["user", "assistant", "assistant", "tool"]
    assert (model.ended, model.closed, servers.closed) == (2, 2, 1)


def test_results_are_told_in_the_order_of_the_calls_and_as_soon_as_those_before_are_there() -> None:
    async def check() -> None:
        servers = FakeServers([NOW, make_tool("wx", "slow")])
        gate = servers.gates["wx-slow"] = asyncio.Event()
        model = Model([call(0), call(1, "wx-slow"), call(2), CALLS], DONE)
        told = Told()
        told.on_result = gate.set
        loop = ToolLoop(ChatRequest("m", (USER,)), servers, model.open, told, accepts=lambda kind: True, defaults={})
        await loop.open()
        loop.start(told)
        async with asyncio.timeout(5):
            await told.ended.wait()
        results = [event.id for event in told.events if type(event) is ServerResult]
        assert results == ["c0", "c1", "c2"]
        assert servers.most_running == 3

    asyncio.run(check())


def test_no_more_calls_run_at_once_than_the_bound_allows() -> None:
    servers = FakeServers([NOW], bounds=ToolBounds(max_parallel_calls=2))
    run(Model([*map(call, range(5)), CALLS], DONE), servers)
    assert servers.most_running == 2


@pytest.mark.parametrize(
    "end",
    [
        Finish("length", USAGE),
        Finish("content_filter", USAGE),
        Failed(Fault("upstream_incomplete", "cut", transient=True)),
    ],
)
def test_no_tool_runs_for_a_turn_that_did_not_end_well(end: Event) -> None:
    servers = FakeServers([NOW])
    told = run(Model([call(0), end]), servers)
    assert servers.calls == []
    assert isinstance(told.end, Failed) or told.end.reason in ("length", "content_filter")


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (call(0, "made_up"), "Error: there is no tool with the name 'made_up'."),
        (call(0, arguments="[1]"), "Error: the arguments of the call are not a JSON object."),
        (call(0, arguments="{"), "Error: the arguments of the call are not a JSON object."),
        (
            call(0, arguments='{"a":' * 201 + "1" + "}" * 201),
            "Error: the arguments of the call are nested deeper than 200 levels.",
        ),
    ],
)
def test_a_call_that_cannot_be_run_gets_an_error_and_reaches_no_server(delta: ToolCallDelta, text: str) -> None:
    servers = FakeServers([NOW])
    told = run(Model([delta, CALLS], DONE), servers)
    assert (told.texts, servers.calls) == ([text], [])
    assert told.summaries[0].outcome == "not_run"


def test_no_arguments_count_as_an_empty_object() -> None:
    servers = FakeServers([NOW])
    run(Model([call(0, arguments=""), CALLS], DONE), servers)
    assert servers.calls == [("wx-now", {})]


def test_a_defect_in_a_server_is_an_error_result() -> None:
    def fail(arguments: dict[str, Any]) -> ToolAnswer:
        raise RuntimeError("/secret/path")

    told = run(Model([call(0), CALLS], DONE), FakeServers([NOW], {"wx-now": fail}))
    assert told.texts == ["Error: the gateway failed while it ran the tool."]


def test_calls_of_the_client_end_the_reply_when_the_results_are_told() -> None:
    request = ChatRequest("m", (USER,), (Tool("own", {"name": "own"}),))
    told = run(Model([call(0), call(1, "own"), CALLS]), FakeServers([NOW]), request)
    assert told.texts == ["ok"]
    assert isinstance(told.end, Finish)
    assert told.end.reason == "tool_calls"


def test_a_function_with_the_name_of_a_tool_is_refused_at_its_place() -> None:
    tools = ServerTools(function_paths=("tools[1]",))
    request = ChatRequest("m", (USER,), (Tool("wx-now", {"name": "wx-now"}),), server_tools=tools)
    with pytest.raises(InvalidInput) as raised:
        run(Model(), FakeServers([NOW]), request)
    assert [violation.path for violation in raised.value.violations] == ["tools[1].name"]


# Bounds.


@pytest.mark.parametrize(
    ("bounds", "limit"),
    [
        (ToolBounds(max_rounds=1), "rounds"),
        (ToolBounds(max_tokens=15), "tokens"),
        (ToolBounds(max_result_bytes=1), "bytes"),
        (ToolBounds(max_calls=1), "calls"),
    ],
)
def test_a_reply_ends_at_a_bound_when_the_results_are_told(bounds: ToolBounds, limit: str) -> None:
    told = run(Model([call(0), call(1), CALLS]), FakeServers([NOW], bounds=bounds))
    assert len(told.texts) == 2
    end = told.end
    assert isinstance(end, Finish)
    assert end.server_tools is not None
    assert (end.reason, end.server_tools.limit) == ("tool_limit", limit)


def test_tools_that_take_too_long_are_cancelled_and_their_results_say_so() -> None:
    servers = FakeServers([NOW], bounds=ToolBounds(max_seconds=0.02))
    servers.gates["wx-now"] = asyncio.Event()
    told = run(Model([call(0), CALLS]), servers)
    assert servers.cancelled == ["wx-now"]
    assert told.texts == ["Error: the call was stopped, because tools may take 0.02 seconds in one reply."]
    assert isinstance(told.end, Finish)
    assert told.end.reason == "tool_limit"


def test_calls_beyond_the_number_of_the_request_are_not_run_and_then_no_more_are_allowed() -> None:
    request = ChatRequest("m", (USER,), server_tools=ServerTools(max_calls=1))
    model, servers = Model([call(0), call(1), CALLS], DONE), FakeServers([NOW])
    told = run(model, servers, request)
    assert len(servers.calls) == 1
    assert told.summary is not None
    assert [call.outcome for call in told.summary.calls] == ["ok", "not_run"]
    assert model.requests[1].params["function_choice"] == "none"
    assert isinstance(told.end, Finish)
    assert told.end.reason == "stop"


@pytest.mark.parametrize(
    ("params", "defaults", "later"),
    [
        ({"tool_choice": "required"}, {}, {}),
        ({"function_choice": "wx-now"}, {}, {}),
        ({"tool_choice": "none"}, {}, {"function_choice": "none"}),
        ({}, {"tool_choice": "required"}, {"function_choice": "auto"}),
        ({"temperature": 0.5}, {}, {"temperature": 0.5}),
        ({"max_tokens": 100}, {}, {"max_tokens": 95}),
        ({"max_completion_tokens": 100}, {}, {"max_completion_tokens": 95}),
        ({}, {"max_tokens": 100}, {"max_tokens": 95}),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": "a"}],
                }
            },
            {},
            {
                "function_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "a"}],
                }
            },
        ),
    ],
)
def test_a_demanded_call_is_demanded_once_and_tokens_are_those_that_are_left(
    params: dict[str, Any], defaults: dict[str, Any], later: dict[str, Any]
) -> None:
    model = Model([call(0), CALLS], DONE)
    run(model, FakeServers([NOW]), ChatRequest("m", (USER,), params=params), defaults)
    assert model.requests[0].params == params
    assert model.requests[1].params == later


def test_a_reply_without_tokens_left_ends_with_length() -> None:
    told = run(Model([call(0), CALLS]), FakeServers([NOW]), ChatRequest("m", (USER,), params={"max_tokens": 5}))
    assert isinstance(told.end, Finish)
    assert told.end.reason == "length"


# Approval.


def test_a_call_that_needs_approval_is_told_and_not_run() -> None:
    servers = FakeServers([NOW, SET])
    told = run(Model([call(0), call(1, "wx-set"), CALLS]), servers)
    assert servers.calls == [("wx-now", {})]
    assert isinstance(told.end, Finish)
    assert told.end.reason == "tool_approval"


def waiting(*approvals: ToolApproval, arguments: str = '{"at": 7}') -> ChatRequest:
    asked = Message("assistant", (ToolCall("wx-set", arguments, "c7", awaits_approval=True),))
    return ChatRequest("m", (USER, asked), server_tools=ServerTools(approvals=approvals))


def test_an_approved_call_is_run_as_it_stands_in_the_history_before_the_model_is_asked() -> None:
    model, servers = Model(DONE), FakeServers([NOW, SET])
    told = run(model, servers, waiting(ToolApproval("c7", approve=True)))
    assert servers.calls == [("wx-set", {"at": 7})]
    result = told.events[1]
    assert isinstance(result, ServerResult)
    assert (result.id, result.index, result.arguments) == ("c7", -1, '{"at": 7}')
    assert [message.role for message in model.requests[0].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("approvals", "text"),
    [
        ((ToolApproval("c7", approve=False),), "Error: the call was not approved by the user."),
        (
            (ToolApproval("c7", approve=False, reason="too early"),),
            "Error: the call was not approved by the user: too early",
        ),
        ((), "Error: the call was not approved by the user."),
    ],
)
def test_a_call_that_is_refused_or_not_answered_has_an_error_as_its_result(
    approvals: tuple[ToolApproval, ...], text: str
) -> None:
    servers = FakeServers([NOW, SET])
    told = run(Model(DONE), servers, waiting(*approvals))
    assert (told.texts, servers.calls) == ([text], [])


def test_an_approved_call_of_a_tool_that_is_no_longer_offered_is_not_run() -> None:
    servers = FakeServers([NOW])
    told = run(Model(DONE), servers, waiting(ToolApproval("c7", approve=True)))
    assert (told.texts, servers.calls) == (["Error: there is no tool with the name 'wx-set'."], [])


# Results and ends.


def test_media_that_the_model_does_not_take_are_named() -> None:
    sound = ToolAnswer((Media("audio", ("data:audio/wav;base64,AA==",)), Media("file", ("https://x.test/a",))))
    model = Model([call(0), CALLS], [call(1), CALLS], DONE)
    answers = iter([image_answer("See:", "data:image/png;base64,AA=="), sound])
    told = run(model, FakeServers([NOW], {"wx-now": lambda _: next(answers)}))
    results = [event.content for event in told.events if type(event) is ServerResult]
    assert results[0] == (Text("See:"), Media("image", ("data:image/png;base64,AA==",)))
    assert results[1] == (Text("[audio: audio/wav]"), Text("[file: file]"))


def test_an_error_of_a_tool_is_marked_in_the_history() -> None:
    model = Model([call(0), CALLS], DONE)
    run(model, FakeServers([NOW], {"wx-now": error_answer("no")}))
    part = model.requests[1].messages[-1].parts[0]
    assert part.kind == "tool_result"
    assert part.is_error is True


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamFailed(Fault("server_error", "no", transient=True)), "server_error"),
        (RateLimited("too many", 3.0, {}), "rate_limit"),
    ],
)
def test_a_later_call_to_the_model_that_fails_ends_the_reply_with_its_code_and_what_was_used(
    error: Exception, code: str
) -> None:
    told = run(Model([call(0), CALLS], error), FakeServers([NOW]))
    assert told.texts == ["ok"]
    end = told.end
    assert isinstance(end, Failed)
    assert (end.fault.code, end.fault.usage) == (code, USAGE)
    assert end.fault.server_tools is not None
    assert [made.outcome for made in end.fault.server_tools.calls] == ["ok"]


def test_the_first_call_to_the_model_fails_before_the_reply_begins() -> None:
    servers = FakeServers([NOW])
    with pytest.raises(RateLimited):
        run(Model(RateLimited("too many", 3.0, {})), servers)
    assert servers.closed == 1


def test_usage_that_no_server_tells_is_an_estimate_of_the_whole() -> None:
    estimate = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    first: list[Event] = [call(0), Finish("tool_calls", estimated_usage=estimate)]
    told = run(Model(first, [TextDelta("x"), Finish("stop", estimated_usage=estimate)]), FakeServers([NOW]))
    assert isinstance(told.end, Finish)
    assert told.end.usage is None
    assert told.end.estimated_usage == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}


def test_a_reply_that_is_closed_cancels_its_tools_and_asks_the_model_no_more() -> None:
    async def check(act: Callable[[ToolLoop], Awaitable[None]]) -> None:
        servers = FakeServers([NOW])
        servers.gates["wx-now"] = asyncio.Event()
        model, told = Model([call(0), CALLS], DONE), Told()
        loop = ToolLoop(ChatRequest("m", (USER,)), servers, model.open, told, accepts=lambda kind: True, defaults={})
        await loop.open()
        loop.start(told)
        while not servers.running:
            await asyncio.sleep(0)
        await act(loop)
        for _ in range(5):
            await asyncio.sleep(0)
        assert servers.cancelled == ["wx-now"]
        assert (len(model.requests), servers.closed, told.ended.is_set()) == (1, 1, False)

    async def close(loop: ToolLoop) -> None:
        loop.close()
        loop.close()

    asyncio.run(check(close))


def test_the_warnings_of_all_calls_to_the_model_are_told_once() -> None:
    first: list[Event] = [call(0), Finish("tool_calls", USAGE, warnings=("a", "b"))]
    told = run(Model(first, [TextDelta("x"), Finish("stop", USAGE, warnings=("b", "c"))]), FakeServers([NOW]))
    assert isinstance(told.end, Finish)
    assert told.end.warnings == ("a", "b", "c")


@pytest.mark.parametrize("fallbacks", [{2: "other"}, {1: "other", 2: "other"}])
def test_a_fallback_that_answers_a_later_turn_is_told(fallbacks: dict[int, str]) -> None:
    model = Model([call(0), CALLS], DONE)
    model.fallbacks = fallbacks
    end = run(model, FakeServers([NOW])).end
    assert isinstance(end, Finish)
    text = "the model 'm' could not go on: a part of this reply is of its fallback 'other'"
    assert end.warnings == (() if 1 in fallbacks else (text,))
