"""Pydantic AI with OpenAI's Responses API."""

from checks import KEY, V1
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_checks import Weather, run_checks


def make_model(name: str) -> OpenAIResponsesModel:
    client = AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client))


run_checks(make_model, "an answer as a class, by a tool", (Weather,))
