"""LangChain's ChatAnthropic: invoke, stream, bound tools, answers as classes, errors."""

from typing import Any

import anthropic
from checks import KEY, PARLEY, check, equal, holds, raises, run
from langchain_anthropic import ChatAnthropic
from langchain_checks import Weather, check_stream, check_tools


def model(name: str = "demo", **options: Any) -> ChatAnthropic:
    return ChatAnthropic(model=name, base_url=PARLEY, api_key=KEY, max_retries=0, max_tokens=500, **options)


@check("invoke: text, usage and stop reason")
def invoke() -> None:
    reply = model().invoke("Hello there")
    holds(reply.text and reply.usage_metadata["output_tokens"] > 0 and reply.usage_metadata["input_tokens"] > 0, reply)
    equal(reply.response_metadata["stop_reason"], "end_turn")


check_stream(model)


check_tools(model)


@check("with_structured_output: by a function")
def structured() -> None:
    answer = model().with_structured_output(Weather).invoke("The weather in Paris, please")
    holds(isinstance(answer, Weather), answer)


@check("NotFoundError for an unknown model, and an error for an interrupted stream")
def errors() -> None:
    raises(anthropic.NotFoundError, lambda: model("nobody").invoke("Hello there"))
    raises(anthropic.APIStatusError, lambda: list(model("cut").stream("Hello there")))


run("langchain-anthropic")
