"""LangChain's ChatOpenAI with the Responses API: invoke, stream, bound tools, answers as classes, errors."""

from typing import Any

import openai
from checks import KEY, MODELS_OF_JSON, V1, check, equal, holds, raises, run
from langchain_checks import ASKED, Weather, check_stream, check_tools, get_weather
from langchain_openai import ChatOpenAI


def model(name: str = "demo", **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=V1, api_key=KEY, max_retries=0, use_responses_api=True, **options)


@check("invoke: text, usage and status")
def invoke() -> None:
    reply = model().invoke("Hello there")
    holds(reply.text and reply.usage_metadata["output_tokens"] > 0 and reply.usage_metadata["input_tokens"] > 0, reply)
    equal(reply.response_metadata["status"], "completed")


check_stream(model)


check_tools(model)


@check("with_structured_output: by a function and by a schema")
def structured() -> None:
    for method in ("function_calling", "json_schema"):
        answer = model().with_structured_output(Weather, method=method).invoke("The weather in Paris, please")
        holds(isinstance(answer, Weather), answer)
    for name in MODELS_OF_JSON:
        holds(isinstance(model(name).with_structured_output(Weather, method="json_schema").invoke("Paris?"), Weather))


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
