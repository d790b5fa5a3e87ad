"""`TokenUsage`: the tokens of a reply as they are billed, read from its normalized usage."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class TokenUsage(Struct, frozen=True):
    input: int = 0
    """All tokens of the prompt, with those that the server read from its cache or wrote to it."""
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    """All tokens that the model generated, reasoning included."""
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


def read_token_usage(usage: Mapping[str, Any] | None) -> TokenUsage | None:
    """Return the tokens of a usage with OpenAI's names; None if it has no number of the prompt or of the reply.

    Some servers leave a part out of `prompt_tokens` or `completion_tokens` and only add it to `total_tokens`: xAI and
    Gemini their reasoning, Mistral the tokens of audio. The total shows whether they did.
    """
    if usage is None:
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int and type(completion) is not int:
        return None
    if (
        type(prompt) is int
        and type(completion) is int
        and min(prompt, completion) >= 0
        and usage.get("total_tokens") == prompt + completion
        and _DETAILS.isdisjoint(usage)
    ):
        return TokenUsage(prompt, 0, 0, completion)
    prompt, completion = _count(prompt), _count(completion)
    reasoning, total = _count(usage.get("reasoning_tokens")), usage.get("total_tokens")
    rest = total - prompt - completion if type(total) is int else 0
    if rest > 0:
        details = usage.get("prompt_tokens_details")
        audio = _count(details.get("audio_tokens")) if isinstance(details, dict) else 0
        if rest in (reasoning, reasoning + audio):
            completion += reasoning
        if rest in (audio, reasoning + audio):
            prompt += audio
    cached = min(_count(usage.get("cached_tokens")), prompt)
    written = min(_count(usage.get("cache_write_tokens")), prompt - cached)
    return TokenUsage(prompt, cached, written, completion, min(reasoning, completion))


_DETAILS = frozenset(("cached_tokens", "cache_write_tokens", "reasoning_tokens"))
"""Most servers report none of these."""


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


class CallUsage(Struct, frozen=True):
    """What one call to a model used."""

    tokens: TokenUsage
    cost: float | None = None
    """None if the model has no price and the server reported no cost."""
    estimated: bool = False
    """The tokens are an estimate: the server reported none, or the call ended before it did."""
    fallback_model: str | None = None
    """The model that was called in place of the one that was requested."""
