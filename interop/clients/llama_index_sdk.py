"""LlamaIndex's OpenAILike: chat, stream, an agent with a tool, answers as classes."""

from typing import Any

from checks import KEY, QUESTION, V1, check, equal, holds, run, weather
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Weather(BaseModel):
    """The weather of a city"""

    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def model(**options: Any) -> OpenAILike:
    return OpenAILike(
        model="demo", api_base=V1, api_key=KEY, is_chat_model=True, is_function_calling_model=True, max_retries=0
    )


HELLO = [ChatMessage(role="user", content="Hello there")]


@check("a whole reply")
def whole() -> None:
    holds(model().chat(HELLO).message.content)


@check("a stream: the deltas make the text")
def stream() -> None:
    text = "".join(part.delta or "" for part in model().stream_chat(HELLO))
    equal(text, model().chat(HELLO).message.content)


@check("async: a whole reply and a stream")
async def later() -> None:
    text = "".join([part.delta or "" async for part in await model().astream_chat(HELLO)])
    equal(text, (await model().achat(HELLO)).message.content)


@check("FunctionAgent: calls, results, an answer, streamed")
async def agent() -> None:
    handler = FunctionAgent(tools=[get_weather], llm=model()).run(QUESTION)
    text = "".join([event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)])
    answer = str(await handler)
    holds("21 degrees in Paris" in answer and "Tokyo" in answer and answer in text, (answer, text))


@check("an answer as a class: by a function, streamed too")
def structured() -> None:
    asked = [ChatMessage(role="user", content="What is the weather in Paris?")]
    equal(model().as_structured_llm(Weather).chat(asked).raw.city, "Paris")
    parts = list(model().as_structured_llm(Weather).stream_chat(asked))
    equal(parts[-1].raw.city, "Paris")


run("llama-index-llms-openai-like")
