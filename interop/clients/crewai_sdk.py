"""CrewAI's LLM class and a crew of one agent with a tool, streams, an answer as a class."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


@tool("get_weather")
def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def model(**options: Any) -> LLM:
    return LLM(model="openai/demo", base_url=V1, api_key=KEY, **options)


@check("a reply, whole and streamed")
def replies() -> None:
    text = model().call("Hello there")
    holds("demonstration model" in text, text)
    equal(model(stream=True).call("Hello there"), text)


@check("an answer as a class")
def structured() -> None:
    answer = model(response_format=Weather).call("What is the weather in Paris?")
    found = answer if isinstance(answer, Weather) else Weather.model_validate_json(answer)
    equal(found.city, "Paris")


@check("a crew with a tool: calls, results, an answer")
def crew() -> None:
    helper = Agent(role="helper", goal="Answer", backstory="None", tools=[get_weather], llm=model(), max_iter=4)
    task = Task(description=QUESTION, expected_output="An answer", agent=helper)
    answer = Crew(agents=[helper], tasks=[task]).kickoff().raw
    holds("21 degrees in Paris" in answer, answer)


run("crewai")
