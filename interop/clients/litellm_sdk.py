"""LiteLLM's SDK: its openai provider, whole and streamed, tools, reasoning, errors."""

from typing import Any

import litellm
from checks import KEY, QUESTION, V1, WEATHER, check, check_pages, equal, holds, raises, run, weather
from pydantic import BaseModel

HELLO: list[Any] = [{"role": "user", "content": "Hello there"}]
ASKED: list[Any] = [{"role": "user", "content": QUESTION}]
litellm.telemetry = False
litellm.suppress_debug_info = True


def at(name: str = "demo") -> dict[str, Any]:
    return {"model": f"openai/{name}", "api_base": V1, "api_key": KEY, "num_retries": 0, "max_retries": 0}


@check("a whole reply has reasoning, text, usage and a finish reason")
def whole() -> None:
    reply = litellm.completion(messages=HELLO, **at())
    choice = reply.choices[0]
    holds(choice.message.reasoning_content and choice.message.content, choice)
    holds(choice.finish_reason == "stop" and reply.usage.total_tokens > 0, reply)


@check("a stream has reasoning, text and usage")
def stream() -> None:
    options: Any = {"include_usage": True}
    chunks = list(litellm.completion(messages=HELLO, stream=True, stream_options=options, **at()))
    thought = "".join(getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    whole = litellm.completion(messages=HELLO, **at()).choices[0].message
    equal((thought, text), (whole.reasoning_content, whole.content))
    holds(getattr(chunks[-1], "usage", None), chunks[-1])


@check("async: a whole reply and a stream")
async def later() -> None:
    reply = await litellm.acompletion(messages=HELLO, **at())
    pieces = [
        c.choices[0].delta.content or "" async for c in await litellm.acompletion(messages=HELLO, stream=True, **at())
    ]
    equal("".join(pieces), reply.choices[0].message.content)


@check("tools: two calls, their results, an answer")
def tools() -> None:
    message = litellm.completion(messages=ASKED, tools=[WEATHER], **at()).choices[0].message
    equal(len(message.tool_calls), 2)
    results = [
        {"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": weather("Paris")}
        for call in message.tool_calls
    ]
    history = [*ASKED, message.model_dump(), *results]
    holds("21 degrees" in litellm.completion(messages=history, tools=[WEATHER], **at()).choices[0].message.content)


@check("tools, streamed: stream_chunk_builder puts the calls together")
def tools_streamed() -> None:
    chunks = list(litellm.completion(messages=ASKED, tools=[WEATHER], stream=True, **at()))
    choice = litellm.stream_chunk_builder(chunks).choices[0]
    arguments = [call.function.arguments for call in choice.message.tool_calls]
    equal((choice.finish_reason, arguments), ("tool_calls", ['{"city": "Paris"}', '{"city": "Tokyo"}']))


@check("an answer as a class")
def structured() -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    reply = litellm.completion(messages=HELLO, response_format=Weather, **at())
    holds(Weather.model_validate_json(reply.choices[0].message.content))


@check("its own error classes for an unknown model, a wrong message, a server asked too often, one that fails")
def errors() -> None:
    wrong: list[Any] = [*HELLO, {"role": "tool", "tool_call_id": "nobody", "content": "lost"}]
    raises(litellm.NotFoundError, lambda: litellm.completion(messages=HELLO, **at("nobody")))
    refused: Any = (litellm.BadRequestError, litellm.UnprocessableEntityError)
    raises(refused, lambda: litellm.completion(messages=wrong, **at()))
    raises(litellm.RateLimitError, lambda: litellm.completion(messages=HELLO, **at("busy")))
    failing: Any = (litellm.InternalServerError, litellm.BadGatewayError, litellm.APIError)
    raises(failing, lambda: litellm.completion(messages=HELLO, **at("failing")))


@check("an error in a stream that broke off")
def broken() -> None:
    for name in ("broken", "cut"):
        raises(openai_error(), lambda name=name: list(litellm.completion(messages=HELLO, stream=True, **at(name))))


def openai_error() -> Any:
    import openai

    return openai.APIError


check_pages("litellm")
run("litellm")
