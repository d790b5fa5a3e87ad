"""Anthropic's SDK for Python: whole and streamed, tools, the tool runner, token counts, errors."""

from typing import Any

import anthropic
from checks import DOT, KEY, MODELS_OF_JSON, PARLEY, QUESTION, check, equal, holds, raises, run, weather
from pydantic import BaseModel

CLIENT = anthropic.Anthropic(base_url=PARLEY, api_key=KEY, max_retries=0)
HELLO: dict[str, Any] = {"model": "demo", "max_tokens": 500, "messages": [{"role": "user", "content": "Hello there"}]}
TOOL: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED: dict[str, Any] = {**HELLO, "messages": [{"role": "user", "content": QUESTION}], "tools": [TOOL]}


class Weather(BaseModel):
    city: str
    degrees: int


def text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@check("a whole reply has a thought, text, usage and a request id")
def whole() -> None:
    message = CLIENT.messages.create(**HELLO)
    equal([block.type for block in message.content], ["thinking", "text"])
    holds(message.usage.output_tokens > 0 and message._request_id and message.model == "demo", message)
    equal(message.stop_reason, "end_turn")


@check("a stream: the deltas make the whole")
def streamed() -> None:
    with CLIENT.messages.stream(**HELLO) as stream:
        deltas = "".join(stream.text_stream)
        message = stream.get_final_message()
    equal(deltas, text(message))
    equal(text(message), text(CLIENT.messages.create(**HELLO)))


@check("async: create and stream")
async def later() -> None:
    client = anthropic.AsyncAnthropic(base_url=PARLEY, api_key=KEY, max_retries=0)
    async with client.messages.stream(**HELLO) as stream:
        message = await stream.get_final_message()
    equal(text(message), text(await client.messages.create(**HELLO)))


@check("tools: two calls, their results with the thought, an answer")
def tools() -> None:
    with CLIENT.messages.stream(**ASKED) as stream:
        reply = stream.get_final_message()
    calls = [block for block in reply.content if block.type == "tool_use"]
    equal([call.input for call in calls], [{"city": "Paris"}, {"city": "Tokyo"}])
    equal(reply.stop_reason, "tool_use")
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": weather(call.input["city"])} for call in calls
    ]
    history = [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    answer = CLIENT.messages.create(**{**ASKED, "messages": [*ASKED["messages"], *history]})
    holds("21 degrees in Paris" in text(answer) and "Tokyo" in text(answer), answer)


@check("the tool runner, which asks for a thread first")
def runner() -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return weather(city)

    answer = CLIENT.beta.messages.tool_runner(**{**ASKED, "tools": [get_weather]}).until_done()
    holds("21 degrees in Paris" in text(answer), answer)


@check("an answer as a class")
def structured() -> None:
    asked = {**HELLO, "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    for name in MODELS_OF_JSON:
        parsed = CLIENT.messages.parse(**{**asked, "model": name}, output_format=Weather)
        holds(isinstance(parsed.parsed_output, Weather), parsed)


@check("an image is accepted")
def picture() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": DOT}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    holds("image/png" in text(CLIENT.messages.create(**{**HELLO, "messages": [{"role": "user", "content": content}]})))


@check("tokens are counted, and the models listed")
def counted() -> None:
    holds(CLIENT.messages.count_tokens(model="demo", messages=ASKED["messages"], tools=[TOOL]).input_tokens > 10)
    holds("demo" in [model.id for model in CLIENT.models.list()])
    equal(CLIENT.models.retrieve("demo").display_name, "demo")


@check("errors have their classes: unknown model, bad request, rate limit, failing server")
def errors() -> None:
    def ask(**fields: Any) -> Any:
        return lambda: CLIENT.messages.create(**{**HELLO, **fields})

    raises(anthropic.NotFoundError, ask(model="nobody"))
    raises(anthropic.BadRequestError, ask(max_tokens=0))
    raises(anthropic.RateLimitError, ask(model="busy"))
    raises(anthropic.InternalServerError, ask(model="failing"))


@check("an interrupted stream is an error")
def broken() -> None:
    def read(model: str) -> None:
        with CLIENT.messages.stream(**{**HELLO, "model": model}) as stream:
            stream.get_final_message()

    for model in ("broken", "cut"):
        raises(anthropic.APIStatusError, lambda model=model: read(model))


run("anthropic")
