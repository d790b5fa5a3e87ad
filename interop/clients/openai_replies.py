"""Checks of OpenAI's SDK: replies whole and streamed, sync and async, tools, parameters."""

from typing import Any

import openai
from checks import DOT, KEY, V1, WEATHER, check, equal, holds, weather
from openai_shared import ASKED, CLIENT, HELLO, chat, gathered, results, thoughts


@check("models are listed")
def models() -> None:
    listed = [model.id for model in CLIENT.models.list()]
    holds("demo" in listed, listed)


@check("one model is read")
def one_model() -> None:
    equal(CLIENT.models.retrieve("demo").id, "demo")


@check("a whole reply has reasoning, text, usage and a finish reason")
def whole() -> None:
    reply = chat.create(model="demo", messages=HELLO)
    choice = reply.choices[0]
    holds(choice.message.content and thoughts(choice.message), choice)
    equal((choice.finish_reason, reply.object, choice.message.role), ("stop", "chat.completion", "assistant"))
    holds(reply.usage and reply.usage.total_tokens > 0, reply.usage)


@check("a stream has reasoning, then text, then usage")
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


@check("a stream has the content of the whole reply")
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
    rebuilt = [{"id": c["id"], "type": "function", "function": {k: c[k] for k in ("name", "arguments")}} for c in calls]
    answers = [{"role": "tool", "tool_call_id": c["id"], "content": weather(c["arguments"])} for c in calls]
    history = [*ASKED, {"role": "assistant", "content": made["text"], "tool_calls": rebuilt}, *answers]
    holds("21 degrees" in gathered(list(chat.create(model="demo", messages=history, stream=True)))["text"])


@check("a tool can be demanded, and forbidden")
def choice() -> None:
    named: Any = {"type": "function", "function": {"name": "get_weather"}}
    demanded = chat.create(model="demo", messages=HELLO, tools=[WEATHER], tool_choice=named).choices[0]
    equal(demanded.message.tool_calls[0].function.name, "get_weather")
    forbidden = chat.create(model="demo", messages=ASKED, tools=[WEATHER], tool_choice="none").choices[0]
    equal((forbidden.message.tool_calls, forbidden.finish_reason), (None, "stop"))


@check("images, developer messages and names are accepted")
def parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}", "detail": "low"}}
    rebuilt = [{"type": "text", "text": "What is this?"}, picture]
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": rebuilt, "name": "ann"},
    ]
    holds("image/png" in chat.create(model="demo", messages=messages).choices[0].message.content)


@check("the usual parameters are accepted")
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


@check("the newer parameters are accepted")
def newer() -> None:
    reply = chat.create(
        model="demo",
        messages=ASKED,
        tools=[WEATHER],
        parallel_tool_calls=False,
        max_completion_tokens=400,
        reasoning_effort="low",
        logit_bias={},
        logprobs=False,
        store=False,
        service_tier="auto",
        verbosity="low",
        safety_identifier="ann",
        prompt_cache_key="k",
    )
    equal(len(reply.choices[0].message.tool_calls), 1)


@check("functions and function_call, as they were before tools")
def functions() -> None:
    named: Any = {"name": "get_weather"}
    reply = chat.create(model="demo", messages=ASKED, functions=[WEATHER["function"]], function_call=named)
    equal(reply.choices[0].message.tool_calls[0].function.name, "get_weather")
    call: Any = {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": "{}"}}
    result: Any = {"role": "function", "name": "get_weather", "content": weather("Paris")}
    holds("21 degrees" in chat.create(model="demo", messages=[*ASKED, call, result]).choices[0].message.content)


@check("every response passes the strict validation of the SDK")
def strict() -> None:
    client = openai.OpenAI(base_url=V1, api_key=KEY, _strict_response_validation=True)
    client.models.list()
    for tools in ([WEATHER], openai.NOT_GIVEN):
        client.chat.completions.create(model="demo", messages=ASKED, tools=tools)
        options: Any = {"stream_options": {"include_usage": True}, "tools": tools}
        list(client.chat.completions.create(model="demo", messages=ASKED, stream=True, **options))
