"""Semantic Kernel's OpenAIChatCompletion: whole and streamed, a plugin that is called, an answer as a class."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from openai import AsyncOpenAI
from pydantic import BaseModel
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


class Weather(BaseModel):
    city: str
    degrees: int


class Plugin:
    @kernel_function(description="The weather of a city")
    def get_weather(self, city: str) -> str:
        return weather(city)


def service() -> OpenAIChatCompletion:
    client = AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return OpenAIChatCompletion(ai_model_id="demo", async_client=client)


def asked(text: str) -> ChatHistory:
    history = ChatHistory(system_message="Be brief.")
    history.add_user_message(text)
    return history


def settings(**options: Any) -> OpenAIChatPromptExecutionSettings:
    return OpenAIChatPromptExecutionSettings(**options)


async def stream(text: str, how: Any, **options: Any) -> str:
    pieces = service().get_streaming_chat_message_content(asked(text), how, **options)
    return "".join([str(piece) async for piece in pieces if piece is not None])


@check("a whole reply")
async def whole() -> None:
    holds(str(await service().get_chat_message_content(asked("Hello there"), settings())))


@check("a stream: the deltas make the text")
async def streamed() -> None:
    text = str(await service().get_chat_message_content(asked("Hello there"), settings()))
    equal(await stream("Hello there", settings()), text)


@check("a plugin: two calls, their results, an answer, whole and streamed")
async def tools() -> None:
    kernel = Kernel()
    kernel.add_plugin(Plugin(), "weather")
    how = settings(function_choice_behavior=FunctionChoiceBehavior.Auto())
    answer = str(await service().get_chat_message_content(asked(QUESTION), how, kernel=kernel))
    holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)
    answer = await stream(QUESTION, how, kernel=kernel)
    holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)


@check("an answer as a class")
async def structured() -> None:
    how = settings(response_format=Weather)
    answer = str(await service().get_chat_message_content(asked("What is the weather in Paris?"), how))
    equal(Weather.model_validate_json(answer).city, "Paris")


run("semantic-kernel")
