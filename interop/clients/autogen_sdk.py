"""AutoGen: its OpenAI client and an agent at /v1/chat/completions, and its own messages at /v1/chat."""

from typing import Any

import openai
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import (
    MessageFactory,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from autogen_core.models import CreateResult, FunctionExecutionResult, ModelInfo, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from checks import DOT, KEY, QUESTION, V1, WEATHER, check, equal, frames, holds, run, weather, whole
from pydantic import BaseModel

HELLO = [UserMessage(content="Hello there", source="user")]


def client(model: str = "demo", **options: Any) -> OpenAIChatCompletionClient:
    known = ModelInfo(vision=True, function_calling=True, json_output=True, family="r1", structured_output=True)
    return OpenAIChatCompletionClient(model=model, base_url=V1, api_key=KEY, model_info=known, max_retries=0, **options)


async def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def agent(**options: Any) -> AssistantAgent:
    return AssistantAgent("helper", client(), tools=[get_weather], reflect_on_tool_use=True, **options)


@check("create: text, usage, finish reason")
async def create() -> None:
    result = await client().create(HELLO)
    equal(result.finish_reason, "stop")
    holds(result.content and result.usage.completion_tokens > 0, result)


@check("create: the thought of a whole reply")
async def create_thought() -> None:
    holds((await client().create(HELLO)).thought)


@check("create: two calls of a tool")
async def create_calls() -> None:
    tool = FunctionTool(get_weather, description="The weather of a city")
    result = await client().create([UserMessage(content=QUESTION, source="user")], tools=[tool])
    equal((result.finish_reason, [call.name for call in result.content]), ("function_calls", ["get_weather"] * 2))


@check("create_stream: chunks, thought and usage")
async def create_stream() -> None:
    *chunks, result = [item async for item in client().create_stream(HELLO, include_usage=True)]
    holds(isinstance(result, CreateResult) and result.thought and result.usage.completion_tokens > 0, result)
    holds("".join(chunks).endswith(result.content), chunks)


@check("create: an answer as a class")
async def structured() -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    result = await client().create(HELLO, json_output=Weather)
    holds(Weather.model_validate_json(result.content))


@check("create: a picture is taken")
async def picture() -> None:
    result = await client().create([UserMessage(content=["What is this?", Image.from_base64(DOT)], source="user")])
    holds("image/png" in result.content, result)


@check("an AssistantAgent with a tool: calls, results, an answer")
async def assistant() -> None:
    result = await agent().run(task=QUESTION)
    kinds = [message.type for message in result.messages]
    holds("ToolCallRequestEvent" in kinds and "ToolCallExecutionEvent" in kinds, kinds)
    holds("21 degrees" in result.messages[-1].to_text() and "Tokyo" in result.messages[-1].to_text(), result)


@check("an AssistantAgent with a tool, streamed")
async def assistant_streamed() -> None:
    items = [item async for item in agent(model_client_stream=True).run_stream(task=QUESTION)]
    holds(any(isinstance(item, ModelClientStreamingChunkEvent) for item in items), items)
    holds("21 degrees" in items[-1].messages[-1].to_text(), items[-1])


@check("a team of two agents, whose messages have names")
async def team() -> None:
    members = [AssistantAgent(name, client()) for name in ("writer", "critic")]
    result = await RoundRobinGroupChat(members, termination_condition=MaxMessageTermination(4)).run(task="Hello there")
    spoken = [message.source for message in result.messages if isinstance(message, TextMessage)]
    equal(spoken, ["user", "writer", "critic", "writer"])


@check("errors are those of OpenAI's SDK, also in a stream")
async def errors() -> None:
    for model, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError), ("broken", openai.APIError)):
        try:
            _ = [item async for item in client(model).create_stream(HELLO)]
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__} for {model}")


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
    said = [MessageFactory().create(message) for message in reply["messages"]]
    equal([message.type for message in said], ["ThoughtEvent", "ThoughtEvent", "ToolCallRequestEvent"])
    equal([call.name for call in said[-1].content], ["get_weather"] * 2)
    answer = whole(**TOLD, messages=dumped(ASKED, *said, executed(said[-1])))
    final = MessageFactory().create(answer["messages"][-1])
    holds(isinstance(final, TextMessage) and "21 degrees" in final.content and final.models_usage, final)


@check("/v1/chat: a picture is taken")
def native_picture() -> None:
    shown = MultiModalMessage(content=["What is this?", Image.from_base64(DOT)], source="user")
    said = MessageFactory().create(whole(format="autogen", messages=dumped(shown))["messages"][-1])
    holds("image/png" in said.to_text(), said)


@check("/v1/chat: every event of a stream loads; chunks make the messages that they name")
def native_stream() -> None:
    *events, result = frames(**TOLD, messages=dumped(ASKED))
    loaded = [MessageFactory().create(event) for event in events]
    told: dict[str, str] = {}
    for event in loaded:
        if isinstance(event, ModelClientStreamingChunkEvent):
            told[event.full_message_id] = told.get(event.full_message_id, "") + event.content
    whole = {event.id: event.content for event in loaded if isinstance(event, TextMessage | ThoughtEvent)}
    equal(told, whole)
    equal(result["type"], "TaskResult")
    messages = [MessageFactory().create(message) for message in result["messages"]]
    kept = TaskResult(messages=messages, stop_reason=result["stop_reason"])
    equal(kept.messages[-1].type, "ToolCallRequestEvent")


@check("/v1/chat: the stream as 0.7.5 itself tells it")
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


@check("/v1/chat: what an agent has said goes back as history, for that agent")
async def transcript() -> None:
    result = await agent().run(task=QUESTION)
    thanks = TextMessage(content="Thank you", source="user")
    reply = whole(format="autogen", messages=dumped(*result.messages, thanks), agent="helper")
    holds(MessageFactory().create(reply["messages"][-1]).to_text())


@check("/v1/chat: what agents send a model goes as it is")
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
    said = MessageFactory().create(reply["messages"][-1])
    result = await agent().run(task=[TextMessage(content="Hello there", source="user"), said, ASKED])
    holds("21 degrees" in result.messages[-1].to_text(), result)


@check("/v1/chat: an error is an event of a type of its own")
def native_error() -> None:
    *_, last = frames(model="broken", format="autogen", messages=dumped(ASKED))
    equal((last["type"], last["source"]), ("error", "system"))


run("autogen-agentchat")
