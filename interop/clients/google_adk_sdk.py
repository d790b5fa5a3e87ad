"""Google's Agent Development Kit through LiteLLM: an agent with a tool to its end, streams, an answer as a class."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


async def ask(question: str, stream: bool = False, **options: Any) -> tuple[str, str, int]:
    """The text of the partial events, the final text, and the number of results."""
    model = LiteLlm(model="openai/demo", api_base=V1, api_key=KEY)
    runner = InMemoryRunner(agent=LlmAgent(name="helper", model=model, instruction="Be brief.", **options))
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="someone")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    partial, final, results = "", "", 0
    async for event in runner.run_async(
        user_id="someone", session_id=session.id, new_message=message, run_config=config
    ):
        parts = (event.content.parts if event.content else None) or ()
        text = "".join(part.text or "" for part in parts if not part.thought)
        results += len(event.get_function_responses())
        if event.partial:
            partial += text
        elif event.is_final_response():
            final = text
    return partial, final, results


@check("a whole reply")
async def whole() -> None:
    holds((await ask("Hello there"))[1])


@check("a stream: the deltas make the text")
async def stream() -> None:
    partial, final, _ = await ask("Hello there", stream=True)
    holds(final)
    equal(partial, final)


@check("a tool: two calls, their results, an answer, whole and streamed")
async def tools() -> None:
    for stream in (False, True):
        _, answer, results = await ask(QUESTION, stream, tools=[get_weather])
        equal(results, 2)
        holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)


@check("an answer as a class")
async def structured() -> None:
    _, answer, _ = await ask("What is the weather in Paris?", output_schema=Weather)
    equal(Weather.model_validate_json(answer).city, "Paris")


run("google-adk")
