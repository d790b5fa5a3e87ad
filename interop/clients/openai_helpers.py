"""Checks of OpenAI's SDK: the helpers that put a stream or an answer together."""

import openai
from checks import KEY, MODELS_OF_JSON, V1, WEATHER, check, equal, holds
from openai_shared import ASKED, HELLO, chat, results
from pydantic import BaseModel


@check("the stream() helper: events, and an assembled completion")
def helper() -> None:
    with chat.stream(model="demo", messages=ASKED, tools=[{**WEATHER}]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    holds({"chunk", "content.delta", "content.done", "tool_calls.function.arguments.done"} <= kinds, kinds)
    equal((final.finish_reason, len(final.message.tool_calls)), ("tool_calls", 2))
    history = [*ASKED, final.message, *results(final.message.tool_calls)]
    holds("21 degrees" in chat.create(model="demo", messages=history).choices[0].message.content)


@check("the async stream() helper: an assembled completion")
async def helper_later() -> None:
    async with openai.AsyncOpenAI(base_url=V1, api_key=KEY) as client:
        async with client.chat.completions.stream(model="demo", messages=HELLO) as stream:
            text = "".join([event.delta async for event in stream if event.type == "content.delta"])
            final = await stream.get_final_completion()
    equal(final.choices[0].message.content, text)


@check("the parse() helper: an answer as a class")
def parse() -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    for model in MODELS_OF_JSON:
        reply = chat.parse(model=model, messages=HELLO, response_format=Weather)
        holds(isinstance(reply.choices[0].message.parsed, Weather), reply.choices[0].message)
