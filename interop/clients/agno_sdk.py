"""Agno's OpenAILike: an agent with a tool to its end, streams, an answer as a class."""

from typing import Any

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def agent(**options: Any) -> Agent:
    return Agent(model=OpenAILike(id="demo", base_url=V1, api_key=KEY), telemetry=False, **options)


@check("a whole reply has text, reasoning and usage")
def whole() -> None:
    result = agent().run("Hello there")
    holds(result.content and result.reasoning_content and result.metrics.output_tokens > 0, result)


@check("a stream: the deltas make the text")
def stream() -> None:
    pieces = [event.content or "" for event in agent().run("Hello there", stream=True) if event.event == "RunContent"]
    equal("".join(pieces), agent().run("Hello there").content)


@check("a tool: two calls, their results, an answer")
def tools() -> None:
    result = agent(tools=[get_weather]).run(QUESTION)
    equal([call.result for call in result.tools], [weather("Paris"), weather("Tokyo")])
    holds("21 degrees in Paris" in result.content and "Tokyo" in result.content, result.content)


@check("a tool, streamed: an answer")
def tools_streamed() -> None:
    events = agent(tools=[get_weather]).run(QUESTION, stream=True)
    text = "".join(event.content or "" for event in events if event.event == "RunContent")
    holds("21 degrees in Paris" in text and "Tokyo" in text, text)


@check("an answer as a class: by the response format")
def structured() -> None:
    answer = agent(output_schema=Weather).run("What is the weather in Paris?").content
    holds(isinstance(answer, Weather), answer)


run("agno")
