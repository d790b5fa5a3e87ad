"""LangChain's ChatOpenAI: invoke, stream, bound tools, answers as classes, errors."""

from typing import Any

import openai
from checks import DOT, KEY, MODELS_OF_JSON, V1, check, equal, holds, raises, run
from langchain_checks import Weather, check_stream, check_tools
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI


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


check_stream(model, stream_usage=True)


@check("async: ainvoke and astream")
async def later() -> None:
    pieces = [chunk.text async for chunk in model().astream("Hello there")]
    equal("".join(pieces), (await model().ainvoke("Hello there")).text)


check_tools(model)


@check("with_structured_output: by the response format, by a function, by JSON mode")
def structured() -> None:
    for method in ("json_schema", "function_calling"):
        answer = model().with_structured_output(Weather, method=method).invoke("The weather in Paris, please")
        holds(isinstance(answer, Weather), answer)
    for name in MODELS_OF_JSON:
        holds(isinstance(model(name).with_structured_output(Weather, method="json_schema").invoke("Paris?"), Weather))
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
