"""Checks of AutoGen: its OpenAI client, agents and a team at /v1/chat/completions."""

import openai
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import (
    ModelClientStreamingChunkEvent,
    TextMessage,
)
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import Image
from autogen_core.models import CreateResult, UserMessage
from autogen_core.tools import FunctionTool
from autogen_shared import HELLO, agent, client, get_weather
from checks import DOT, MODELS_OF_JSON, QUESTION, check, equal, holds
from pydantic import BaseModel


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

    for model in MODELS_OF_JSON:
        result = await client(model).create(HELLO, json_output=Weather)
        holds(Weather.model_validate_json(result.content))


@check("create: an image is accepted")
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
    sources = [message.source for message in result.messages if isinstance(message, TextMessage)]
    equal(sources, ["user", "writer", "critic", "writer"])


@check("errors are those of OpenAI's SDK, also in a stream")
async def errors() -> None:
    for model, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError), ("broken", openai.APIError)):
        try:
            _ = [item async for item in client(model).create_stream(HELLO)]
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__} for {model}")
