"""`TokenUsage`: the tokens of a reply as they are billed, read from its normalized usage."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

MAX_COUNT = 1_000_000_000
"""No reply has more tokens. Servers have sent 2**64 - 1, which is -1 without its sign; the sum of billions of replies
with this many still fits into 64 bits."""
_DIGITS = re.compile(r"[0-9]{1,10}")
MAX_COST = 1_000_000
"""No reply costs more. A server that reports more is wrong: the cost is unknown then."""


OTHER_USERS = "(other users)"
"""The name under which users count that are too many to count each."""


class UsageOwner(Struct, frozen=True):
    """Whose a request is, and for what: its usage is grouped by this. Texts are empty where there is none."""

    key: str = ""
    """The name of the API key, or `issuer:name` with a JWT."""
    team: str = ""
    user: str = ""
    """The end user behind the key."""
    tags: tuple[str, ...] = ()


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
    """Return the tokens of a usage with OpenAI's names; None if it has no number of the prompt or of the reply."""
    if usage is None:
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if (
        type(prompt) is int
        and type(completion) is int
        and 0 <= prompt <= MAX_COUNT
        and 0 <= completion <= MAX_COUNT
        and usage.get("total_tokens") == prompt + completion
        and _DETAILS.isdisjoint(usage)
    ):
        return TokenUsage(prompt, 0, 0, completion)
    if read_count(prompt) is None and read_count(completion) is None:
        return None
    prompt, completion = add_left_out(usage)
    reasoning = _count(usage.get("reasoning_tokens"))
    cached = min(_count(usage.get("cached_tokens")), prompt)
    written = min(_count(usage.get("cache_write_tokens")), prompt - cached)
    return TokenUsage(prompt, cached, written, completion, min(reasoning, completion))


def add_left_out(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return all tokens of the prompt and of the reply of a usage with OpenAI's names.

    Some servers leave a part out of `prompt_tokens` or `completion_tokens` and only add it to `total_tokens`: xAI and
    Gemini their reasoning, Mistral the tokens of audio. The total shows whether they did.
    """
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    reasoning, total = _count(usage.get("reasoning_tokens")), read_count(usage.get("total_tokens"))
    rest = 0 if total is None else total - prompt - completion
    if rest > 0:
        details = usage.get("prompt_tokens_details")
        audio = _count(details.get("audio_tokens")) if isinstance(details, dict) else 0
        if rest in (reasoning, reasoning + audio):
            completion += reasoning
        if rest in (audio, reasoning + audio):
            prompt += audio
    return prompt, completion


_DETAILS = frozenset(("cached_tokens", "cache_write_tokens", "reasoning_tokens"))
"""Most servers report none of these."""


def read_count(value: Any) -> int | None:
    """Return a number of tokens that a server sent, also as 10.0 or "10"; None if it is not a whole number from 0 to
    MAX_COUNT."""
    if type(value) is float and value.is_integer() or (type(value) is str and _DIGITS.fullmatch(value)):
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def _count(value: Any) -> int:
    return read_count(value) or 0


_COST_PARTS = frozenset(("cost_details", "upstream_cost", "cost_in_usd_ticks"))


def as_free(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the usage of a reply whose call was paid for by another request: a cost is 0, without its parts."""
    if "cost" not in usage:
        return usage
    return {name: value for name, value in usage.items() if name not in _COST_PARTS} | {"cost": 0.0}


class CallUsage(Struct, frozen=True):
    """What one call to a model used."""

    tokens: TokenUsage
    cost: float | None = None
    """None if the model has no price and the server reported no cost."""
    estimated: bool = False
    """The tokens are an estimate: the server reported none, or the call ended before it did."""
    fallback_model: str | None = None
    """The model that was called in place of the one that was requested."""


def add_usage(earlier: CallUsage, later: CallUsage) -> CallUsage:
    """Return what two requests to model servers used for one reply, which is that of the later one."""
    costs = [call.cost for call in (earlier, later) if call.cost is not None]
    return CallUsage(
        TokenUsage(*map(sum, zip(astuple(earlier.tokens), astuple(later.tokens), strict=True))),
        sum(costs) if costs else None,
        earlier.estimated or later.estimated,
        later.fallback_model,
    )
