"""AgentScope 1.x: its OpenAI model and an agent at /v1/chat/completions, and its own messages at /v1/chat."""

from typing import Any

import openai
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter, OpenAIMultiAgentFormatter
from agentscope.message import Base64Source, ImageBlock, Msg, TextBlock, ToolResultBlock
from agentscope.model import OpenAIChatModel
from agentscope.tool import Toolkit, ToolResponse
from checks import DOT, KEY, QUESTION, V1, WEATHER, check, equal, frames, holds, run, weather, whole

HELLO = [{"role": "user", "content": "Hello there"}]
ASKED = Msg("user", QUESTION, "user")
TOLD: Any = {"format": "agentscope", "tools": [WEATHER]}


def model(name: str = "demo", stream: bool = True) -> OpenAIChatModel:
    options: Any = {"base_url": V1, "max_retries": 0}
    return OpenAIChatModel(name, api_key=KEY, stream=stream, client_kwargs=options)


def kinds(content: Any) -> list[str]:
    return [block["type"] for block in content]


def text(content: Any) -> str:
    return "".join(block["text"] for block in content if block["type"] == "text")


async def streamed(name: str, **options: Any) -> list[Any]:
    return [response async for response in await model(name)(**options)]


def get_weather(city: str) -> ToolResponse:
    """The weather of a city

    Args:
        city (str): The city.
    """
    return ToolResponse(content=[TextBlock(type="text", text=weather(city))])


@check("a whole reply: thinking, text, usage")
async def answers() -> None:
    response = await model(stream=False)(HELLO)
    equal(kinds(response.content), ["thinking", "text"])
    holds(response.usage.output_tokens > 0, response.usage)


@check("a stream: thinking and text grow, usage at the end")
async def answers_streamed() -> None:
    responses = await streamed("demo", messages=HELLO)
    equal(kinds(responses[-1].content), ["thinking", "text"])
    lengths = [len(text(response.content)) for response in responses]
    holds(lengths == sorted(lengths) and responses[-1].usage.output_tokens > 0, lengths)


@check("two calls of a tool, whole and streamed")
async def calls() -> None:
    question = [{"role": "user", "content": QUESTION}]
    for last in (
        await model(stream=False)(question, tools=[WEATHER]),
        (await streamed("demo", messages=question, tools=[WEATHER]))[-1],
    ):
        found = [(block["name"], block["input"]) for block in last.content if block["type"] == "tool_use"]
        equal(found, [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Tokyo"})])


@check("the output of its formatters for a conversation of several agents is accepted")
async def formatted() -> None:
    conversation = [Msg("system", "Be brief.", "system"), Msg("Ann", "Hello there", "user"), Msg("Bob", "Hi", "user")]
    for formatter in (OpenAIChatFormatter(), OpenAIMultiAgentFormatter()):
        holds(text((await model(stream=False)(await formatter.format(conversation))).content))


SHOWN = Msg(
    "user",
    [
        TextBlock(type="text", text="What is this?"),
        ImageBlock(type="image", source=Base64Source(type="base64", media_type="image/png", data=DOT)),
    ],
    "user",
)


@check("an image is accepted, as its formatter writes it and at /v1/chat")
async def picture() -> None:
    response = await model(stream=False)(await OpenAIChatFormatter().format([SHOWN]))
    holds("image/png" in text(response.content), response)
    reply = Msg.from_dict(whole(format="agentscope", messages=[SHOWN.to_dict()])["msg"])
    holds("image/png" in reply.get_text_content(), reply)


@check("a ReActAgent with a tool: calls, results, an answer")
async def agent() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(get_weather)
    helper = ReActAgent("helper", "Be brief.", model(), OpenAIChatFormatter(), toolkit=toolkit)
    helper.set_console_output_enabled(False)
    reply = await helper(ASKED)
    holds("21 degrees" in reply.get_text_content(), reply)
    kept = await helper.memory.get_memory()
    equal(sum(len(msg.get_content_blocks("tool_result")) for msg in kept), 2)
    history = [msg.to_dict() for msg in [*kept, Msg("user", "Thank you", "user")]]
    holds(Msg.from_dict(whole(format="agentscope", messages=history)["msg"]).get_text_content())


@check("errors are those of OpenAI's SDK, also in a stream")
async def errors() -> None:
    for name, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError), ("broken", openai.APIError)):
        try:
            await streamed(name, messages=HELLO)
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__} for {name}")


@check("/v1/chat: a whole reply loads with Msg.from_dict, and goes back as history")
def native() -> None:
    whole_reply = Msg.from_dict(whole(**TOLD, messages=[ASKED.to_dict()])["msg"])
    equal(kinds(whole_reply.content), ["thinking", "text", "tool_use", "tool_use"])
    results = [
        ToolResultBlock(type="tool_result", id=block["id"], name=block["name"], output="21 degrees")
        for block in whole_reply.get_content_blocks("tool_use")
    ]
    history = [ASKED, whole_reply, Msg("system", results, "system")]
    answer = Msg.from_dict(whole(**TOLD, messages=[msg.to_dict() for msg in history])["msg"])
    holds("21 degrees" in answer.get_text_content(), answer)


@check("/v1/chat: every frame of a stream loads, under one id, and only grows")
def native_stream() -> None:
    received = frames(**TOLD, messages=[ASKED.to_dict()])
    whole_reply = [Msg.from_dict(frame["msg"]) for frame in received]
    equal((len({msg.id for msg in whole_reply}), [frame["last"] for frame in received][-1]), (1, True))
    texts = [msg.get_text_content() or "" for msg in whole_reply]
    holds(all(after.startswith(before) for before, after in zip(texts, texts[1:], strict=False)), texts)
    equal(kinds(whole_reply[-1].content), ["thinking", "text", "tool_use", "tool_use"])
    equal(whole_reply[-1].metadata["finish_reason"], "tool_calls")


@check("/v1/chat: an error is the last frame")
def native_error() -> None:
    last = frames(model="broken", format="agentscope", messages=[ASKED.to_dict()])[-1]
    holds(last["last"] and "lost the plot" in last["error"]["message"], last)


run("agentscope")
