"""smolagents: its model class, whole and streamed, with tools and response formats."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from smolagents import ChatMessage, MessageRole, OpenAIModel, ToolCallingAgent, tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}


@tool
def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city: The city
    """
    return weather(city)


def model() -> OpenAIModel:
    return OpenAIModel(model_id="demo", api_base=V1, api_key=KEY)


def asked(text: str) -> list[Any]:
    return [ChatMessage(role=MessageRole.USER, content=text)]


@check("a whole reply")
def whole() -> None:
    reply = model().generate(asked("Hello there"))
    holds(reply.content and reply.token_usage.output_tokens > 0, reply)


@check("a stream: the deltas make the text")
def stream() -> None:
    text = "".join(delta.content or "" for delta in model().generate_stream(asked("Hello there")))
    equal(text, model().generate(asked("Hello there")).content)


@check("a tool is called, whole and streamed")
def tools() -> None:
    calls = model().generate(asked(QUESTION), tools_to_call_from=[get_weather]).tool_calls
    equal([call.function.arguments for call in calls], ['{"city": "Paris"}', '{"city": "Tokyo"}'])
    deltas = list(model().generate_stream(asked(QUESTION), tools_to_call_from=[get_weather]))
    holds(any(delta.tool_calls for delta in deltas), deltas)


@check("ToolCallingAgent: calls, results, a final answer")
def agent() -> None:
    for stream in (False, True):
        helper = ToolCallingAgent(
            tools=[get_weather], model=model(), max_steps=4, verbosity_level=0, stream_outputs=stream
        )
        answer = helper.run(QUESTION)
        called = [call.name for step in helper.memory.steps for call in getattr(step, "tool_calls", None) or ()]
        equal(called, ["get_weather", "get_weather", "final_answer"])
        holds("21 degrees" in str(answer), answer)


@check("a response format")
def structured() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
    holds('"city": "Paris"' in model().generate(asked("The weather in Paris"), response_format=form).content)


run("smolagents")
