"""Pydantic AI with Anthropic's Messages API."""

from anthropic import AsyncAnthropic
from checks import KEY, PARLEY
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai_checks import Weather, run_checks


def make_model(name: str) -> AnthropicModel:
    client = AsyncAnthropic(base_url=PARLEY, api_key=KEY, max_retries=0)
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


run_checks(make_model, "an answer as a class, by a tool", (Weather,))
