"""AgentScope 2.x: its OpenAI model and an agent at /v1/chat/completions, and its own messages at /v1/chat."""

from typing import Any

import openai
from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.event import AgentEvent
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    ToolResultState,
    UserMsg,
)
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit
from checks import DOT, KEY, QUESTION, V1, WEATHER, check, check_pages, equal, frames, holds, run, weather, whole
from pydantic import TypeAdapter

HELLO = [UserMsg("user", "Hello there")]
ASKED = UserMsg("user", QUESTION)
DOT_SOURCE = Base64Source(data=DOT, media_type="image/png")
EVENT: TypeAdapter[Any] = TypeAdapter(AgentEvent)
TOLD: Any = {"format": "agentscope2", "tools": [WEATHER]}


def model(name: str = "demo", stream: bool = True) -> OpenAIChatModel:
    credential = OpenAICredential(api_key=KEY, base_url=V1)
    return OpenAIChatModel(credential, name, stream=stream, max_retries=0, client_kwargs={"max_retries": 0})


def kinds(content: Any) -> list[str]:
    return [block.type for block in content]


async def streamed(name: str = "demo", **options: Any) -> list[Any]:
    return [response async for response in await model(name)(**options)]


def dumped(*messages: Msg) -> list[Any]:
    return [message.model_dump(mode="json") for message in messages]


async def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city (str): The city.
    """
    return weather(city)


@check("a whole reply: thinking, text, usage")
async def answers() -> None:
    response = await model(stream=False)(HELLO)
    equal(kinds(response.content), ["thinking", "text"])
    holds(response.usage.output_tokens > 0, response.usage)


@check("a stream: thinking and text, usage at the end")
async def answers_streamed() -> None:
    last = (await streamed(messages=HELLO))[-1]
    equal((last.is_last, kinds(last.content)), (True, ["thinking", "text"]))
    holds(last.usage.output_tokens > 0, last.usage)


@check("two calls of a tool, whole and streamed")
async def calls() -> None:
    for last in (
        await model(stream=False)([ASKED], tools=[WEATHER]),
        (await streamed(messages=[ASKED], tools=[WEATHER]))[-1],
    ):
        found = [(block.name, block.input) for block in last.content if block.type == "tool_call"]
        equal(found, [("get_weather", '{"city": "Paris"}'), ("get_weather", '{"city": "Tokyo"}')])


@check("an image is accepted, as its formatter writes it and at /v1/chat")
async def picture() -> None:
    shown = UserMsg("user", [TextBlock(text="What is this?"), DataBlock(source=DOT_SOURCE)])
    response = await model(stream=False)([shown])
    holds("image/png" in response.content[-1].text, response)
    reply = Msg.model_validate(whole(format="agentscope2", messages=dumped(shown))["msg"])
    holds("image/png" in (reply.get_text_content() or ""), reply)


@check("an Agent with a tool: calls, results, an answer")
async def agent() -> None:
    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="")
    toolkit = Toolkit(tools=[FunctionTool(get_weather, is_read_only=True, permission=allowed)])
    helper = Agent("helper", "Be brief.", model(), toolkit=toolkit)
    reply = await helper.reply(ASKED)
    holds("21 degrees" in (reply.get_text_content() or ""), reply)
    history = dumped(ASKED, reply, UserMsg("user", "Thank you"))
    holds(Msg.model_validate(whole(format="agentscope2", messages=history)["msg"]).get_text_content())


@check("errors are those of OpenAI's SDK, also in a stream")
async def errors() -> None:
    for name, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError), ("broken", openai.APIError)):
        try:
            await streamed(name, messages=HELLO)
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__} for {name}")


def answered(whole_reply: Msg) -> Msg:
    output, state = [TextBlock(text="21 degrees")], ToolResultState.SUCCESS
    results = [
        ToolResultBlock(id=block.id, name=block.name, output=output, state=state)
        for block in whole_reply.content
        if block.type == "tool_call"
    ]
    return whole_reply.model_copy(update={"content": [*whole_reply.content, *results]})


@check("/v1/chat: a whole reply loads as Msg, and goes back as history")
def native() -> None:
    whole_reply = Msg.model_validate(whole(**TOLD, messages=dumped(ASKED))["msg"])
    equal(kinds(whole_reply.content), ["thinking", "text", "tool_call", "tool_call"])
    holds(whole_reply.usage, whole_reply)
    answer = Msg.model_validate(whole(**TOLD, messages=dumped(ASKED, answered(whole_reply)))["msg"])
    holds("21 degrees" in (answer.get_text_content() or ""), answer)


@check("/v1/chat: append_event turns a stream into the message of the whole reply")
def native_stream() -> None:
    events = [EVENT.validate_python(frame) for frame in frames(**TOLD, messages=dumped(ASKED))]
    equal((events[0].type, events[-1].type), ("REPLY_START", "REPLY_END"))
    whole_reply = AssistantMsg(events[0].name, [], id=events[0].reply_id)
    for event in events:
        whole_reply.append_event(event)
    entire = Msg.model_validate(whole(**TOLD, messages=dumped(ASKED))["msg"])
    own = {"id", "created_at", "finished_at"}
    received = [[block.model_dump(exclude=own) for block in msg.content] for msg in (whole_reply, entire)]
    equal(received[0], received[1])
    holds(whole_reply.finished_at and whole_reply.usage, whole_reply)
    answer = whole(**TOLD, messages=dumped(ASKED, answered(whole_reply)))["msg"]
    holds("21 degrees" in (Msg.model_validate(answer).get_text_content() or ""), answer)


@check("/v1/chat: an error ends the reply, and append_event accepts it")
def native_error() -> None:
    received = frames(model="broken", format="agentscope2", messages=dumped(ASKED))
    events = [EVENT.validate_python(frame) for frame in received]
    whole_reply = AssistantMsg(events[0].name, [], id=events[0].reply_id)
    for event in events:
        whole_reply.append_event(event)
    holds(
        whole_reply.finished_reason == "error" and whole_reply.error and whole_reply.get_text_content() == "Half a",
        whole_reply,
    )


check_pages("agentscope")
run("agentscope")
