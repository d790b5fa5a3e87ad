"""Qwen-Agent: its OpenAI client with and without raw API, an agent with a tool, and its own messages at /v1/chat."""

from typing import Any

from checks import (
    DOT,
    KEY,
    QUESTION,
    V1,
    WEATHER,
    check,
    check_pages,
    equal,
    frames,
    holds,
    raises,
    run,
    weather,
    whole,
)
from qwen_agent.agents import Assistant
from qwen_agent.llm import get_chat_model
from qwen_agent.llm.base import ModelServiceError
from qwen_agent.llm.schema import ContentItem, Message
from qwen_agent.tools.base import BaseTool, register_tool

FUNCTION = WEATHER["function"]
HELLO = [{"role": "user", "content": "Hello there"}]
ASKED = [{"role": "user", "content": QUESTION}]


@register_tool("get_weather")
class Weather(BaseTool):
    description = FUNCTION["description"]
    parameters = FUNCTION["parameters"]

    def call(self, params: Any, **_: Any) -> str:
        return weather(self._verify_json_format_args(params)["city"])


def configured(model: str = "demo", **generate: Any) -> dict[str, Any]:
    generate = {"max_retries": 0, **generate}
    return {"model": model, "model_type": "oai", "model_server": V1, "api_key": KEY, "generate_cfg": generate}


def last(replies: Any) -> list[Any]:
    *_, final = replies
    return final


def calls(messages: list[Any]) -> list[str]:
    return [message["function_call"]["name"] for message in messages if message.get("function_call")]


def text(messages: list[Any]) -> str:
    return "".join(message["content"] for message in messages if isinstance(message["content"], str))


def thought(messages: list[Any]) -> str:
    return "".join(message.get("reasoning_content") or "" for message in messages)


@check("raw API, streamed: reasoning and text")
def raw() -> None:
    final = last(get_chat_model(configured(use_raw_api=True)).chat(HELLO, stream=True, delta_stream=False))
    holds(thought(final) and text(final), final)


@check("raw API, streamed: two calls")
def raw_calls() -> None:
    model = get_chat_model(configured(use_raw_api=True))
    final = last(model.chat(ASKED, functions=[FUNCTION], stream=True, delta_stream=False))
    equal(calls(final), ["get_weather"] * 2)


@check("raw API, whole: reasoning, text and two calls")
def raw_whole() -> None:
    model = get_chat_model(configured(use_raw_api=True))
    final = model.chat(ASKED, functions=[FUNCTION], stream=False)
    equal(calls(final), ["get_weather"] * 2)
    holds(thought(final) and text(final), final)


@check("without raw API, streamed: reasoning and text")
def prompted() -> None:
    final = last(get_chat_model(configured(use_raw_api=False)).chat(HELLO, stream=True, delta_stream=False))
    holds(thought(final) and text(final), final)


@check("without raw API, streamed in deltas: the deltas make the text")
def deltas() -> None:
    model = get_chat_model(configured(use_raw_api=False))
    pieces = list(model.chat(HELLO, stream=True, delta_stream=True))
    whole = model.chat(HELLO, stream=False)
    equal("".join(text(piece) for piece in pieces), text(whole))


@check("without raw API, whole: reasoning and text")
def prompted_whole() -> None:
    final = get_chat_model(configured(use_raw_api=False)).chat(HELLO, stream=False)
    holds(thought(final) and text(final), final)


@check("without raw API: functions in the prompt are accepted, and the reply is read")
def prompted_functions() -> None:
    final = get_chat_model(configured(use_raw_api=False)).chat(ASKED, functions=[FUNCTION], stream=False)
    holds(text(final) or calls(final), final)


def assisted(**generate: Any) -> None:
    agent = Assistant(llm=configured(**generate), function_list=["get_weather"], system_message="Be brief.")
    final = last(agent.run(messages=ASKED))
    equal(calls(final), ["get_weather"] * 2)
    results = [message["content"] for message in final if message["role"] == "function"]
    equal(results, [weather("Paris"), weather("Tokyo")])
    holds("21 degrees" in final[-1]["content"], final[-1])


@check("an Assistant with a tool, raw API: both calls, both results, an answer")
def assistant() -> None:
    assisted(use_raw_api=True)


@check("an Assistant with a tool, whole replies of the raw API")
def assistant_whole() -> None:
    agent = Assistant(llm=configured(use_raw_api=True), function_list=["get_weather"])
    final = agent.run_nonstream(messages=ASKED)
    holds("21 degrees" in final[-1]["content"], final[-1])


@check("an Assistant with a tool, its calls in the text of a model without function calling")
def assistant_prompted() -> None:
    agent = Assistant(llm=configured("prompted"), function_list=["get_weather"], system_message="Be brief.")
    final = last(agent.run(messages=[{"role": "user", "content": QUESTION}]))
    equal(calls(final), ["get_weather"])
    equal(final[-1]["content"], "It is 21 degrees in Paris.")


@check("ModelServiceError for an unknown model, and for a stream that was cut")
def errors() -> None:
    for model in ("nobody", "cut", "broken"):
        for generate in ({}, {"use_raw_api": True}):
            chat = get_chat_model(configured(model, **generate))
            raises(ModelServiceError, lambda chat=chat: list(chat.chat(HELLO, stream=True, delta_stream=False)))


@check("/v1/chat: replies load as its Message, and go back as history")
def native() -> None:
    reply = [Message(**message) for message in whole(messages=ASKED, functions=[FUNCTION])["messages"]]
    equal(calls(reply), ["get_weather"] * 2)
    results = [
        Message(role="function", name=message.function_call.name, content="21 degrees", extra=message.extra)
        for message in reply
        if message.function_call
    ]
    history = [*ASKED, *(message.model_dump() for message in [*reply, *results])]
    answer = whole(messages=history, functions=[FUNCTION])
    holds("21 degrees" in Message(**answer["messages"][-1]).content, answer)


@check("/v1/chat: an image is accepted")
def picture() -> None:
    shown = ContentItem(image=f"data:image/png;base64,{DOT}")
    message = Message(role="user", content=[ContentItem(text="What is this?"), shown])
    holds("image/png" in text([Message(**one) for one in whole(messages=[message.model_dump()])["messages"]]))


@check("/v1/chat: the messages of an Assistant go back as history")
def transcript() -> None:
    agent = Assistant(llm=configured(use_raw_api=True), function_list=["get_weather"])
    reply = agent.run_nonstream(messages=ASKED)
    holds(whole(messages=[*ASKED, *reply, {"role": "user", "content": "Thank you"}])["messages"])


@check("/v1/chat: every message of a stream loads as its Message")
def native_stream() -> None:
    received = frames(messages=ASKED, functions=[FUNCTION])
    reply = [Message(**event["message"]) for event in received if event["type"] == "message.completed"]
    equal((calls(reply), received[-1]["type"]), (["get_weather"] * 2, "response.completed"))


check_pages("qwen_agent")
run("qwen-agent")
