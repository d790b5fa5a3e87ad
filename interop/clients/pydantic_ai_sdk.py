"""Pydantic AI with OpenAI's Chat Completions."""

from checks import KEY, V1
from pydantic_ai import NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_checks import Weather, run_checks


def make_model(name: str) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=V1, api_key=KEY))


run_checks(make_model, "an answer as a class: by a tool, by the response format", (Weather, NativeOutput(Weather)))
