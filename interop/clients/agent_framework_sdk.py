"""Microsoft's Agent Framework over chat completions: an agent with a tool to its end, streams, an answer as a class."""

from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from pydantic import BaseModel, ConfigDict


class Weather(BaseModel):
    model_config = ConfigDict(extra="forbid")
    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def agent(**options: Any) -> Any:
    client = OpenAIChatCompletionClient(model="demo", base_url=V1, api_key=KEY)
    return Agent(client=client, instructions="Be brief.", **options)


@check("a whole reply")
async def whole() -> None:
    result = await agent().run("Hello there")
    holds(result.text and result.usage_details["output_token_count"] > 0, result)


@check("a stream: the deltas make the text")
async def stream() -> None:
    text = "".join([update.text async for update in agent().run("Hello there", stream=True)])
    equal(text, (await agent().run("Hello there")).text)


@check("a tool: two calls, their results, an answer, whole and streamed")
async def tools() -> None:
    answer = (await agent(tools=[get_weather]).run(QUESTION)).text
    holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)
    text = "".join([update.text async for update in agent(tools=[get_weather]).run(QUESTION, stream=True)])
    holds("21 degrees in Paris" in text and "Tokyo" in text, text)


@check("an answer as a class")
async def structured() -> None:
    result = await agent().run("What is the weather in Paris?", options={"response_format": Weather})
    equal(result.value.city, "Paris")


run("agent-framework-openai")
