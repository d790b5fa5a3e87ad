"""Checks of Pydantic AI that hold for each of its models: an agent with a tool to its end, streams, answers, errors."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

from checks import DOT, QUESTION, check, equal, holds, run, weather
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResultEvent


class Weather(BaseModel):
    city: str
    degrees: int


def parts(messages: Any, kind: type[Any]) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


def run_checks(make_model: Callable[[str], Model], structured_check: str, output_types: Sequence[Any]) -> None:
    """Run all checks. `make_model` makes a model of this name behind the gateway; each of `output_types` is a way to
    answer as `Weather`, which `structured_check` names."""

    def agent(**options: Any) -> Agent[Any, Any]:
        return Agent(make_model("demo"), instructions="Be brief.", **options)

    def with_tool() -> Agent[Any, Any]:
        helper = agent()

        @helper.tool_plain
        def get_weather(city: str) -> str:
            """The weather of a city"""
            return weather(city)

        return helper

    @check("a reply has text, a thought and usage")
    async def answers() -> None:
        result = await agent().run("Hello there")
        holds(result.output and parts(result.all_messages(), ThinkingPart), result)
        holds(result.usage.output_tokens > 0, result.usage)

    @check("an agent with a tool: calls, results, an answer")
    async def tools() -> None:
        result = await with_tool().run(QUESTION)
        counts = [len(parts(result.all_messages(), kind)) for kind in (ToolCallPart, ToolReturnPart)]
        equal(counts, [2, 2])
        holds("21 degrees in Paris" in result.output and "Tokyo" in result.output, result.output)

    @check("an agent with a tool, streamed: the deltas make the answer")
    async def streamed() -> None:
        texts: dict[int, str] = {}
        async with with_tool().run_stream_events(QUESTION) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    texts[event.index] = event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    texts[event.index] += event.delta.content_delta
                elif isinstance(event, AgentRunResultEvent):
                    result = event.result
        holds("21 degrees in Paris" in result.output and result.output in texts.values(), (result.output, texts))

    @check("a second request, with the messages of the first as history")
    async def history() -> None:
        first = await with_tool().run(QUESTION)
        kept = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
        second = await with_tool().run("Thank you", message_history=kept)
        holds(second.output, second)

    @check(structured_check)
    async def structured() -> None:
        for kind in output_types:
            result = await agent(output_type=kind).run("What is the weather in Paris?")
            holds(isinstance(result.output, Weather), result.output)

    @check("an image is accepted")
    async def picture() -> None:
        content = BinaryContent(base64.b64decode(DOT), media_type="image/png")
        holds("image/png" in (await agent().run(["What is this?", content])).output)

    @check("ModelHTTPError for an unknown model, and for a server that reports its rate limit")
    async def errors() -> None:
        for name, status in (("nobody", 404), ("busy", 429)):
            try:
                await Agent(make_model(name)).run("Hello there")
            except ModelHTTPError as error:
                equal(error.status_code, status)
            else:
                raise AssertionError(f"no error for {name}")

    @check("an interrupted stream is an error")
    async def broken() -> None:
        for name in ("broken", "cut"):
            try:
                async with Agent(make_model(name)).run_stream("Hello there") as result:
                    await result.get_output()
            except Exception as error:
                holds(not isinstance(error, AssertionError), error)
            else:
                raise AssertionError(f"no error for {name}")

    run("pydantic-ai-slim")
