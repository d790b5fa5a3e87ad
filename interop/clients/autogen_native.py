"""Checks of AutoGen: its own messages at /v1/chat."""

from typing import Any

from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import (
    MessageFactory,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_core import CancellationToken, Image
from autogen_core.models import CreateResult, FunctionExecutionResult, UserMessage
from autogen_shared import agent
from checks import DOT, QUESTION, WEATHER, check, equal, frames, holds, whole


def dumped(*messages: Any) -> list[Any]:
    return [message.dump() for message in messages]


ASKED = TextMessage(content=QUESTION, source="user")
TOLD: Any = {"format": "autogen", "tools": [WEATHER]}


def executed(request: ToolCallRequestEvent) -> ToolCallExecutionEvent:
    results = [
        FunctionExecutionResult(content="21 degrees", name=call.name, call_id=call.id, is_error=False)
        for call in request.content
    ]
    return ToolCallExecutionEvent(content=results, source=request.source)


@check("/v1/chat: every message of a whole reply loads, and goes back as history")
def native() -> None:
    reply = whole(**TOLD, messages=dumped(ASKED))
    created = [MessageFactory().create(message) for message in reply["messages"]]
    equal([message.type for message in created], ["ThoughtEvent", "ThoughtEvent", "ToolCallRequestEvent"])
    equal([call.name for call in created[-1].content], ["get_weather"] * 2)
    answer = whole(**TOLD, messages=dumped(ASKED, *created, executed(created[-1])))
    final = MessageFactory().create(answer["messages"][-1])
    holds(isinstance(final, TextMessage) and "21 degrees" in final.content and final.models_usage, final)


@check("/v1/chat: an image is accepted")
def native_picture() -> None:
    shown = MultiModalMessage(content=["What is this?", Image.from_base64(DOT)], source="user")
    created = MessageFactory().create(whole(format="autogen", messages=dumped(shown))["messages"][-1])
    holds("image/png" in created.to_text(), created)


@check("/v1/chat: every event of a stream loads; chunks make the messages that they name")
def native_stream() -> None:
    *events, result = frames(**TOLD, messages=dumped(ASKED))
    loaded = [MessageFactory().create(event) for event in events]
    received: dict[str, str] = {}
    for event in loaded:
        if isinstance(event, ModelClientStreamingChunkEvent):
            received[event.full_message_id] = received.get(event.full_message_id, "") + event.content
    whole = {event.id: event.content for event in loaded if isinstance(event, TextMessage | ThoughtEvent)}
    equal(received, whole)
    equal(result["type"], "TaskResult")
    messages = [MessageFactory().create(message) for message in result["messages"]]
    kept = TaskResult(messages=messages, stop_reason=result["stop_reason"])
    equal(kept.messages[-1].type, "ToolCallRequestEvent")


@check("/v1/chat: the stream in the form of version 0.7.5 itself")
def native_compat() -> None:
    *events, _ = frames(**TOLD, messages=dumped(ASKED), autogen_stream="compat")
    loaded = [MessageFactory().create(event) for event in events]
    equal(loaded[-1].type, "ToolCallRequestEvent")


@check("/v1/chat: the view of a model client loads as CreateResult")
def native_model() -> None:
    *chunks, last = frames(**TOLD, messages=dumped(ASKED), autogen_stream="model")
    result = CreateResult.model_validate(last)
    holds(all(isinstance(chunk, str) for chunk in chunks), chunks)
    equal((result.finish_reason, len(result.content)), ("function_calls", 2))


@check("/v1/chat: the messages of an agent go back as history, for that agent")
async def transcript() -> None:
    result = await agent().run(task=QUESTION)
    thanks = TextMessage(content="Thank you", source="user")
    reply = whole(format="autogen", messages=dumped(*result.messages, thanks), agent="helper")
    holds(MessageFactory().create(reply["messages"][-1]).to_text())


@check("/v1/chat: the messages that agents send to a model are accepted unchanged")
async def core() -> None:
    context = [message.model_dump(mode="json") for message in await agent_context()]
    holds(whole(format="autogen", messages=context)["messages"])


async def agent_context() -> list[Any]:
    helper = agent()
    await helper.on_messages([ASKED], CancellationToken())
    return [*await helper.model_context.get_messages(), UserMessage(content="Thank you", source="user")]


@check("/v1/chat: an agent that takes the reply into its state goes on")
async def state() -> None:
    reply = whole(format="autogen", messages=dumped(TextMessage(content="Hello there", source="user")))
    created = MessageFactory().create(reply["messages"][-1])
    result = await agent().run(task=[TextMessage(content="Hello there", source="user"), created, ASKED])
    holds("21 degrees" in result.messages[-1].to_text(), result)


@check("/v1/chat: an error is an event of a type of its own")
def native_error() -> None:
    *_, last = frames(model="broken", format="autogen", messages=dumped(ASKED))
    equal((last["type"], last["source"]), ("error", "system"))
