"""OpenAI's Agents SDK in its Chat Completions mode: an agent with a tool to its end, streams, an answer as a class."""

from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from checks import KEY, MODELS_OF_JSON, QUESTION, V1, check, equal, holds, run, weather
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)


class Weather(BaseModel):
    city: str
    degrees: int


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def agent(name: str = "demo", **options: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    model = OpenAIChatCompletionsModel(model=name, openai_client=client)
    return Agent(name="helper", instructions="Be brief.", model=model, **options)


async def stream(helper: Agent[Any], question: str) -> tuple[str, Any]:
    """The text that the deltas make, and the final output."""
    result = Runner.run_streamed(helper, question)
    text = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    return text, result.final_output


@check("a whole reply")
async def whole() -> None:
    result = await Runner.run(agent(), "Hello there")
    holds(result.final_output and result.context_wrapper.usage.output_tokens > 0, result)


@check("a stream: the deltas make the text")
async def streamed() -> None:
    text, output = await stream(agent(), "Hello there")
    holds(text)
    equal(text, output)


@check("a tool: two calls, their results, an answer")
async def tools() -> None:
    result = await Runner.run(agent(tools=[get_weather]), QUESTION)
    equal([item.type for item in result.new_items].count("tool_call_output_item"), 2)
    holds("21 degrees in Paris" in result.final_output and "Tokyo" in result.final_output, result.final_output)


@check("a tool, streamed: an answer")
async def tools_streamed() -> None:
    text, output = await stream(agent(tools=[get_weather]), QUESTION)
    holds("21 degrees in Paris" in output and text.endswith(output), (text, output))


@check("a tool that is demanded")
async def demanded() -> None:
    settings = ModelSettings(tool_choice="required")
    result = await Runner.run(agent(tools=[get_weather], model_settings=settings), QUESTION)
    holds("21 degrees in Paris" in result.final_output, result.final_output)


@check("an answer as a class, after a tool")
async def structured() -> None:
    result = await Runner.run(agent(tools=[get_weather], output_type=Weather), QUESTION)
    holds(isinstance(result.final_output, Weather), result.final_output)
    for name in MODELS_OF_JSON:
        result = await Runner.run(agent(name, output_type=Weather), QUESTION)
        holds(isinstance(result.final_output, Weather), result.final_output)


run("openai-agents")
