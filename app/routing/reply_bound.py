"""How many tokens the reply to a request may have at most, for what is reserved of the limits of spending."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.chat.messages import ChatRequest
from app.params import find_max_tokens, read_number
from app.routing.route import Deployment, ModelRoute
from app.upstream.api import find_api

_OTHER_LIMITS = (
    *("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens", "n_predict", "num_predict"),
    *("max_length", "maxOutputTokens"),
)
"""Fields of the caller's own that may replace the limit which is sent: chat completions, TGI and transformers,
llama.cpp, Ollama, Gemini."""
_CHOICES = ("n", "best_of", "num_return_sequences", "candidateCount", "candidate_count")
"""Fields of the caller's own that may let a server write several replies: chat completions, transformers, Gemini."""
_CONTAINERS = ("options", "generationConfig", "generation_config")
"""Objects that have these fields, too: Ollama's and Gemini's."""


def find_most_reply_tokens(routes: Iterable[ModelRoute], request: ChatRequest, unknown: int) -> int:
    """Return how many tokens the reply of any of these models may have. `unknown` is for a model of which neither the
    request nor its configuration says it. With a second request that may be sent meanwhile, both count."""
    return max(_find_most(route, request, unknown) * (1 if route.hedge_after is None else 2) for route in routes)


def _find_most(route: ModelRoute, request: ChatRequest, unknown: int) -> int:
    limit = find_max_tokens(route.defaults, request.params)
    budget = request.params.get("thinking_budget", route.defaults.get("thinking_budget"))
    thinking = budget if isinstance(budget, int) else 0
    extra = request.params.get("extra_body", route.defaults.get("extra_body")) or {}
    fields = extra if request.own_body is None else {**request.own_body, **extra}
    others, choices = list(_list_values(fields, _OTHER_LIMITS)), map(read_number, _list_values(fields, _CHOICES))
    return max(_find_most_of(one, limit, others, thinking, unknown) for one in route.deployments) * max(1, *choices, 1)


def _list_values(fields: Mapping[str, Any], names: Sequence[str]) -> Iterator[Any]:
    yield from (fields[name] for name in names if name in fields)
    for container in _CONTAINERS:
        inner = fields.get(container)
        if isinstance(inner, dict):
            yield from _list_values(inner, names)


def _find_most_of(deployment: Deployment, limit: int | None, others: list[Any], thinking: int, unknown: int) -> int:
    profile, api = deployment.profile, find_api(deployment.target.api)
    largest = profile.max_output_tokens or unknown
    if limit is None:
        limit = profile.default_max_tokens if api.needs_max_tokens else largest
    elif deployment.target.api == "chat_completions":
        limit += thinking  # some servers do not count reasoning towards the limit of the reply
    limit = max(limit, profile.min_output_tokens or 0)
    for other in others:
        limit = max(limit, read_number(other) or largest)
    return limit
