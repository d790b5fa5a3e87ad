"""What the checks of AutoGen share: its client and an agent with a tool."""

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from checks import KEY, V1, weather

HELLO = [UserMessage(content="Hello there", source="user")]


def client(model: str = "demo", **options: Any) -> OpenAIChatCompletionClient:
    known = ModelInfo(vision=True, function_calling=True, json_output=True, family="r1", structured_output=True)
    return OpenAIChatCompletionClient(model=model, base_url=V1, api_key=KEY, model_info=known, max_retries=0, **options)


async def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def agent(**options: Any) -> AssistantAgent:
    return AssistantAgent("helper", client(), tools=[get_weather], reflect_on_tool_use=True, **options)
