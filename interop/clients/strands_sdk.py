"""Strands Agents' OpenAIModel: an agent with a tool to its end, streams, an answer as a class."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from pydantic import BaseModel, Field
from strands import Agent, tool
from strands.models.openai import OpenAIModel


class Weather(BaseModel):
    """The weather of a city"""

    city: str = Field(description="The city")
    degrees: int = Field(description="How warm it is")


@tool
def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city: The city
    """
    return weather(city)


def agent(**options: Any) -> Agent:
    model = OpenAIModel(client_args={"base_url": V1, "api_key": KEY, "max_retries": 0}, model_id="demo")
    return Agent(model=model, callback_handler=None, **options)


@check("a whole reply")
def whole() -> None:
    result = agent()("Hello there")
    equal(result.stop_reason, "end_turn")
    holds(str(result).strip() and result.metrics.accumulated_usage["outputTokens"] > 0, result)


@check("a stream: the deltas make the text")
async def stream() -> None:
    text = ""
    async for event in agent().stream_async("Hello there"):
        text += event.get("data", "")
    equal(text.strip(), str(agent()("Hello there")).strip())


@check("a tool: two calls, their results, an answer")
def tools() -> None:
    helper = agent(tools=[get_weather])
    answer = str(helper(QUESTION))
    results = [part for message in helper.messages for part in message["content"] if "toolResult" in part]
    equal(len(results), 2)
    holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)


@check("an answer as a class")
def structured() -> None:
    result = agent()("What is the weather in Paris?", structured_output_model=Weather)
    equal(result.structured_output.city, "Paris")


run("strands-agents")
