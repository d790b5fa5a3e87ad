"""Haystack's OpenAIChatGenerator: whole and streamed, an agent with a tool, an answer as a class."""

from typing import Annotated, Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


@tool
def get_weather(city: Annotated[str, "The city"]) -> str:
    """The weather of a city"""
    return weather(city)


def generator(**options: Any) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(model="demo", api_base_url=V1, api_key=Secret.from_token(KEY), max_retries=0, **options)


def asked(text: str) -> list[ChatMessage]:
    return [ChatMessage.from_user(text)]


@check("a whole reply has text, usage and a finish reason")
def whole() -> None:
    (reply,) = generator().run(asked("Hello there"))["replies"]
    holds(reply.text and reply.meta["usage"]["completion_tokens"] > 0, reply)
    equal(reply.meta["finish_reason"], "stop")


@check("a stream: the chunks make the text")
def stream() -> None:
    pieces: list[str] = []
    (reply,) = generator(streaming_callback=lambda chunk: pieces.append(chunk.content)).run(asked("Hello there"))[
        "replies"
    ]
    holds(len(pieces) > 3, pieces)
    equal("".join(pieces), reply.text)


@check("Agent: two calls, their results, an answer, whole and streamed")
def agent() -> None:
    for options in ({}, {"streaming_callback": lambda chunk: None}):
        result = Agent(chat_generator=generator(**options), tools=[get_weather]).run(asked(QUESTION))
        answer = result["last_message"].text
        equal(sum(bool(message.tool_call_results) for message in result["messages"]), 2)
        holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)


@check("an answer as a class")
def structured() -> None:
    form = {"response_format": Weather}
    (reply,) = generator(generation_kwargs=form).run(asked("What is the weather in Paris?"))["replies"]
    equal(Weather.model_validate_json(reply.text).city, "Paris")


run("haystack-ai")
