"""LangChain's ChatOpenAI with the Responses API: invoke, stream, bound tools, answers as classes, errors."""

from typing import Any

import openai
from checks import KEY, QUESTION, V1, check, equal, holds, raises, run, weather
from langchain_core.messages import HumanMessage, SystemMessage
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
    return ChatOpenAI(model=name, base_url=V1, api_key=KEY, max_retries=0, use_responses_api=True, **options)


@check("invoke: text, usage and status")
def invoke() -> None:
    reply = model().invoke("Hello there")
    holds(reply.text and reply.usage_metadata["output_tokens"] > 0 and reply.usage_metadata["input_tokens"] > 0, reply)
    equal(reply.response_metadata["status"], "completed")


@check("stream: the chunks make the text, and bring usage")
def stream() -> None:
    chunks = list(model().stream("Hello there"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    equal(whole.text, model().invoke("Hello there").text)
    holds(len(chunks) > 3 and whole.usage_metadata["output_tokens"] > 0, whole)


@check("bind_tools: two calls, their results, an answer")
def tools() -> None:
    bound = model().bind_tools([get_weather])
    calling = bound.invoke(ASKED)
    equal([call["args"] for call in calling.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])
    results = [get_weather.invoke(call) for call in calling.tool_calls]
    answer = bound.invoke([*ASKED, calling, *results])
    holds("21 degrees in Paris" in answer.text and "Tokyo" in answer.text, answer)


@check("bind_tools, streamed: the chunks make the calls")
def tools_streamed() -> None:
    first, *rest = model().bind_tools([get_weather]).stream(ASKED)
    whole = first
    for chunk in rest:
        whole += chunk
    equal([call["args"] for call in whole.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])


@check("with_structured_output: by a function and by a schema")
def structured() -> None:
    for method in ("function_calling", "json_schema"):
        answer = model().with_structured_output(Weather, method=method).invoke("The weather in Paris, please")
        holds(isinstance(answer, Weather), answer)


@check("`use_previous_response_id`: continued, or refused by a gateway that stores nothing")
def previous() -> str:
    bound = model(use_previous_response_id=True).bind_tools([get_weather])
    calling = bound.invoke(ASKED)
    history: list[Any] = [*ASKED, calling, *(get_weather.invoke(call) for call in calling.tool_calls)]
    try:
        answer = bound.invoke(history)
    except openai.BadRequestError as error:
        equal(error.code, "previous_response_not_found")
        return "refused"
    holds("21 degrees in Paris" in answer.text, answer)
    return "continued"


@check("NotFoundError for an unknown model, and an error for an interrupted stream")
def errors() -> None:
    raises(openai.NotFoundError, lambda: model("nobody").invoke("Hello there"))
    raises(Exception, lambda: list(model("cut").stream("Hello there")))


run("langchain-openai")
