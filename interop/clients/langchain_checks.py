"""What the checks of LangChain's models have in common: the conversation, the tool, the answer as a class, and checks
that hold for each model. `make_model` makes a model of this name behind the gateway."""

from collections.abc import Callable
from typing import Any

from checks import QUESTION, check, equal, holds, weather
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

ASKED: list[Any] = [SystemMessage("Be brief."), HumanMessage(QUESTION)]


class Weather(BaseModel):
    """The weather of a city"""

    city: str = Field(description="The city")
    degrees: int = Field(description="How warm it is")


@tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def check_stream(make_model: Callable[..., BaseChatModel], **options: Any) -> None:
    """`options` are those of the model that streams."""

    @check("stream: the chunks make the text, and bring usage")
    def stream() -> None:
        chunks = list(make_model(**options).stream("Hello there"))
        whole: Any = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        equal(whole.text, make_model().invoke("Hello there").text)
        holds(len(chunks) > 3 and whole.usage_metadata["output_tokens"] > 0, whole)


def check_tools(make_model: Callable[..., BaseChatModel]) -> None:
    @check("bind_tools: two calls, their results, an answer")
    def tools() -> None:
        bound = make_model().bind_tools([get_weather])
        calling: Any = bound.invoke(ASKED)
        equal([call["args"] for call in calling.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])
        results = [get_weather.invoke(call) for call in calling.tool_calls]
        holds(all(isinstance(result, ToolMessage) for result in results), results)
        answer: Any = bound.invoke([*ASKED, calling, *results])
        holds("21 degrees in Paris" in answer.text and "Tokyo" in answer.text, answer)

    @check("bind_tools, streamed: the chunks make the calls")
    def tools_streamed() -> None:
        first, *rest = make_model().bind_tools([get_weather]).stream(ASKED)
        whole: Any = first
        for chunk in rest:
            whole += chunk
        equal([call["args"] for call in whole.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])
