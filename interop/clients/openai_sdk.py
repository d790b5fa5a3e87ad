"""OpenAI's SDK for Python: whole and streamed, sync and async, tools, helpers, errors."""

from typing import Any

import openai
from checks import DOT, KEY, QUESTION, V1, WEATHER, check, equal, holds, raises, run, weather
from pydantic import BaseModel

CLIENT = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
HELLO: list[Any] = [{"role": "user", "content": "Hello there"}]
ASKED: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
chat = CLIENT.chat.completions


def thoughts(message: Any) -> str:
    return (message.model_extra or {}).get("reasoning_content") or ""


def gathered(chunks: list[Any]) -> dict[str, Any]:
    """What a program that joins deltas by hand makes of them."""
    made: dict[str, Any] = {"thought": "", "text": "", "calls": {}, "finish": None, "usage": None, "order": []}
    for chunk in chunks:
        made["usage"] = chunk.usage or made["usage"]
        for choice in chunk.choices:
            thought = thoughts(choice.delta)
            kinds = [("thought", thought), ("text", choice.delta.content), ("calls", choice.delta.tool_calls)]
            made["order"] += [kind for kind, said in kinds if said and kind not in made["order"]]
            made["thought"] += thought
            made["text"] += choice.delta.content or ""
            made["finish"] = choice.finish_reason or made["finish"]
            for call in choice.delta.tool_calls or []:
                kept = made["calls"].setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                kept["id"] += call.id or ""
                kept["name"] += call.function.name or ""
                kept["arguments"] += call.function.arguments or ""
    return made


def results(calls: list[Any]) -> list[Any]:
    return [{"role": "tool", "tool_call_id": call.id, "content": weather(call.function.arguments)} for call in calls]


@check("models are listed")
def models() -> None:
    listed = [model.id for model in CLIENT.models.list()]
    holds("demo" in listed, listed)


@check("one model is told of")
def one_model() -> None:
    equal(CLIENT.models.retrieve("demo").id, "demo")


@check("a whole reply has reasoning, text, usage and a finish reason")
def whole() -> None:
    reply = chat.create(model="demo", messages=HELLO)
    choice = reply.choices[0]
    holds(choice.message.content and thoughts(choice.message), choice)
    equal((choice.finish_reason, reply.object, choice.message.role), ("stop", "chat.completion", "assistant"))
    holds(reply.usage and reply.usage.total_tokens > 0, reply.usage)


@check("a stream tells reasoning, then text, then usage")
def stream() -> None:
    options: Any = {"include_usage": True}
    chunks = list(chat.create(model="demo", messages=HELLO, stream=True, stream_options=options))
    made = gathered(chunks)
    equal((made["order"], made["finish"]), (["thought", "text"], "stop"))
    equal((chunks[-1].choices, made["usage"].total_tokens > 0), ([], True))
    equal(len({chunk.id for chunk in chunks}), 1)


@check("a stream without include_usage has no chunk of usage")
def no_usage() -> None:
    chunks = list(chat.create(model="demo", messages=HELLO, stream=True))
    holds(all(chunk.usage is None and chunk.choices for chunk in chunks), chunks[-1])


@check("a stream says what the whole reply says")
def alike() -> None:
    whole = chat.create(model="demo", messages=HELLO).choices[0].message
    made = gathered(list(chat.create(model="demo", messages=HELLO, stream=True)))
    equal((made["thought"], made["text"]), (thoughts(whole), whole.content))


@check("async: a whole reply and a stream")
async def later() -> None:
    async with openai.AsyncOpenAI(base_url=V1, api_key=KEY) as client:
        whole = await client.chat.completions.create(model="demo", messages=HELLO)
        chunks = [c async for c in await client.chat.completions.create(model="demo", messages=HELLO, stream=True)]
    equal(gathered(chunks)["text"], whole.choices[0].message.content)


@check("tools: two calls, their results, an answer")
def tools() -> None:
    first = chat.create(model="demo", messages=ASKED, tools=[WEATHER])
    message = first.choices[0].message
    equal((first.choices[0].finish_reason, len(message.tool_calls)), ("tool_calls", 2))
    history = [*ASKED, message, *results(message.tool_calls)]
    second = chat.create(model="demo", messages=history, tools=[WEATHER]).choices[0]
    equal(second.finish_reason, "stop")
    holds("21 degrees" in second.message.content and "Tokyo" in second.message.content, second.message.content)


@check("tools, streamed: two calls with ids of their own, an answer")
def tools_streamed() -> None:
    made = gathered(list(chat.create(model="demo", messages=ASKED, tools=[WEATHER], stream=True)))
    calls = list(made["calls"].values())
    equal((made["finish"], [call["name"] for call in calls]), ("tool_calls", ["get_weather"] * 2))
    holds(len({call["id"] for call in calls}) == 2 and all(call["id"] for call in calls), calls)
    said = [{"id": c["id"], "type": "function", "function": {k: c[k] for k in ("name", "arguments")}} for c in calls]
    answers = [{"role": "tool", "tool_call_id": c["id"], "content": weather(c["arguments"])} for c in calls]
    history = [*ASKED, {"role": "assistant", "content": made["text"], "tool_calls": said}, *answers]
    holds("21 degrees" in gathered(list(chat.create(model="demo", messages=history, stream=True)))["text"])


@check("the stream() helper: events, and a completion put together")
def helper() -> None:
    with chat.stream(model="demo", messages=ASKED, tools=[{**WEATHER}]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    holds({"chunk", "content.delta", "content.done", "tool_calls.function.arguments.done"} <= kinds, kinds)
    equal((final.finish_reason, len(final.message.tool_calls)), ("tool_calls", 2))
    history = [*ASKED, final.message, *results(final.message.tool_calls)]
    holds("21 degrees" in chat.create(model="demo", messages=history).choices[0].message.content)


@check("the async stream() helper: a completion put together")
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

    reply = chat.parse(model="demo", messages=HELLO, response_format=Weather)
    holds(isinstance(reply.choices[0].message.parsed, Weather), reply.choices[0].message)


@check("a tool can be demanded, and forbidden")
def choice() -> None:
    named: Any = {"type": "function", "function": {"name": "get_weather"}}
    demanded = chat.create(model="demo", messages=HELLO, tools=[WEATHER], tool_choice=named).choices[0]
    equal(demanded.message.tool_calls[0].function.name, "get_weather")
    forbidden = chat.create(model="demo", messages=ASKED, tools=[WEATHER], tool_choice="none").choices[0]
    equal((forbidden.message.tool_calls, forbidden.finish_reason), (None, "stop"))


@check("pictures, developer messages and names are taken")
def parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}", "detail": "low"}}
    said = [{"type": "text", "text": "What is this?"}, picture]
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": said, "name": "ann"},
    ]
    holds("image/png" in chat.create(model="demo", messages=messages).choices[0].message.content)


@check("the usual parameters are taken")
def parameters() -> None:
    reply = chat.create(
        model="demo",
        messages=HELLO,
        temperature=0.2,
        top_p=0.9,
        max_tokens=5,
        presence_penalty=0.1,
        frequency_penalty=0.1,
        seed=7,
        stop=["\n\n"],
        user="ann",
        n=1,
        metadata={"a": "b"},
        extra_body={"top_k": 5},
    )
    equal(reply.choices[0].finish_reason, "length")


@check("the request id of the response is that of the SDK")
def request_id() -> None:
    sent = {"x-request-id": "interop-7"}
    equal(chat.create(model="demo", messages=HELLO, extra_headers=sent)._request_id, "interop-7")


@check("a stream that is closed early leaves the client usable")
def left() -> None:
    stream = chat.create(model="demo", messages=HELLO, stream=True)
    next(iter(stream))
    stream.close()
    whole()


@check("the deltas of a quirky server come out as they should")
def quirky() -> None:
    made = gathered(list(chat.create(model="quirky", messages=ASKED, tools=[WEATHER], stream=True)))
    equal((made["thought"], made["text"], made["finish"]), ("Two cities.", "Let me look.", "tool_calls"))
    equal([call["arguments"] for call in made["calls"].values()], ['{"city": "Paris"}', '{"city": "Tokyo"}'])
    holds(len({call["id"] for call in made["calls"].values()} - {""}) == 2, made["calls"])


@check("NotFoundError for a model that is not there")
def not_found() -> None:
    error = raises(openai.NotFoundError, lambda: chat.create(model="nobody", messages=HELLO))
    equal((error.code, error.type), ("model_not_found", "invalid_request_error"))


@check("BadRequestError or UnprocessableEntityError, with the place, for a message that is wrong")
def wrong() -> None:
    kinds: Any = (openai.BadRequestError, openai.UnprocessableEntityError)
    messages: list[Any] = [{"role": "user", "content": [{"type": "picture"}]}]
    error = raises(kinds, lambda: chat.create(model="demo", messages=messages))
    holds(str(error.param).startswith("messages[0]") and error.type == "invalid_request_error", error.body)
    raises(kinds, lambda: chat.create(model="demo", messages=HELLO, n=2))


@check("RateLimitError for a server that is asked too often")
def busy() -> None:
    error = raises(openai.RateLimitError, lambda: chat.create(model="busy", messages=HELLO))
    equal((error.status_code, error.type), (429, "rate_limit_error"))
    equal(error.response.headers.get("retry-after"), "7")


@check("InternalServerError for a server that fails")
def failing() -> None:
    raises(openai.InternalServerError, lambda: chat.create(model="failing", messages=HELLO))


@check("APIError in a stream that its server broke off with an error")
def broken() -> None:
    read: list[Any] = []
    stream = chat.create(model="broken", messages=HELLO, stream=True)
    error = raises(openai.APIError, lambda: read.extend(iter(stream)))
    holds("lost the plot" in error.message, error.message)


@check("APIError in a stream that was cut")
def cut() -> None:
    stream = chat.create(model="cut", messages=HELLO, stream=True)
    raises(openai.APIError, lambda: list(stream))
    raises(openai.APIError, lambda: chat.create(model="cut", messages=HELLO))


@check("async: errors are the same classes")
async def errors_later() -> None:
    async with openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0) as client:
        for model, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError)):
            try:
                await client.chat.completions.create(model=model, messages=HELLO)
            except kind:
                continue
            raise AssertionError(f"no {kind.__name__} for {model}")


run("openai")
