"""LangChain's ChatOpenAI: invoke, stream, bound tools, answers as classes, errors."""

from typing import Any

import openai
from checks import DOT, KEY, QUESTION, V1, check, equal, holds, raises, run, weather
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

ASKED: list[Any] = [SystemMessage("Be brief."), HumanMessage(QUESTION)]


class Weather(BaseModel):
    """The weather of a city"""

    city: str = Field(description="The city")
    degrees: int = Field(description="How warm it is")


@tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def model(name: str = "demo", **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=V1, api_key=KEY, max_retries=0, **options)


@check("invoke: text, usage and finish reason")
def invoke() -> None:
    reply = model().invoke("Hello there")
    holds(reply.text and reply.usage_metadata["output_tokens"] > 0, reply)
    equal(reply.response_metadata["finish_reason"], "stop")


@check("the reasoning of a reply")
def reasoning() -> None:
    holds(model().invoke("Hello there").additional_kwargs.get("reasoning_content"))


@check("stream: the chunks make the text, and bring usage")
def stream() -> None:
    chunks = list(model(stream_usage=True).stream("Hello there"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    equal(whole.text, model().invoke("Hello there").text)
    holds(len(chunks) > 3 and whole.usage_metadata["output_tokens"] > 0, whole)


@check("async: ainvoke and astream")
async def later() -> None:
    pieces = [chunk.text async for chunk in model().astream("Hello there")]
    equal("".join(pieces), (await model().ainvoke("Hello there")).text)


@check("bind_tools: two calls, their results, an answer")
def tools() -> None:
    bound = model().bind_tools([get_weather])
    calling = bound.invoke(ASKED)
    equal([call["args"] for call in calling.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])
    results = [get_weather.invoke(call) for call in calling.tool_calls]
    holds(all(isinstance(result, ToolMessage) for result in results), results)
    answer = bound.invoke([*ASKED, calling, *results])
    holds("21 degrees in Paris" in answer.text and "Tokyo" in answer.text, answer)


@check("bind_tools, streamed: the chunks make the calls")
def tools_streamed() -> None:
    first, *rest = model().bind_tools([get_weather]).stream(ASKED)
    whole = first
    for chunk in rest:
        whole += chunk
    equal([call["args"] for call in whole.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])


@check("with_structured_output: by the response format, by a function, by JSON mode")
def structured() -> None:
    for method in ("json_schema", "function_calling"):
        answer = model().with_structured_output(Weather, method=method).invoke("The weather in Paris, please")
        holds(isinstance(answer, Weather), answer)
    holds(isinstance(model().with_structured_output(None, method="json_mode").invoke("Hello there"), dict))


@check("an image is accepted")
def picture() -> None:
    image = {"type": "image", "base64": DOT, "mime_type": "image/png"}
    message = HumanMessage(content=[{"type": "text", "text": "What is this?"}, image])
    holds("image/png" in model().invoke([message]).text)


@check("errors are those of OpenAI's SDK, also in a stream")
def errors() -> None:
    raises(openai.NotFoundError, lambda: model("nobody").invoke("Hello there"))
    raises(openai.RateLimitError, lambda: model("busy").invoke("Hello there"))
    for name in ("broken", "cut"):
        raises(openai.APIError, lambda name=name: list(model(name).stream("Hello there")))


run("langchain-openai")
