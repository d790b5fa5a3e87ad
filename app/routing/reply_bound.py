"""How many tokens the reply to a request may have at most, for what is reserved of the limits of spending."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.chat.messages import ChatRequest
from app.params import find_max_tokens
from app.routing.route import Deployment, ModelRoute
from app.upstream.api import find_api

_OTHER_LIMITS = (
    *("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens", "n_predict", "num_predict"),
    *("max_length", "options"),
)
"""Fields of the caller's own that may replace the limit which is sent: chat completions, TGI and transformers,
llama.cpp, Ollama (also in its `options`)."""


def find_most_reply_tokens(routes: Iterable[ModelRoute], request: ChatRequest, unknown: int) -> int:
    """Return how many tokens the reply of any of these models may have. `unknown` is for a model of which neither the
    request nor its configuration says it. With a second request that may be sent meanwhile, both count."""
    return max(_find_most(route, request, unknown) * (1 if route.hedge_after is None else 2) for route in routes)


def _find_most(route: ModelRoute, request: ChatRequest, unknown: int) -> int:
    limit = find_max_tokens(route.defaults, request.params)
    budget = request.params.get("thinking_budget", route.defaults.get("thinking_budget"))
    thinking = budget if isinstance(budget, int) else 0
    extra = request.params.get("extra_body", route.defaults.get("extra_body")) or {}
    others = _list_limits(extra if request.own_body is None else {**request.own_body, **extra})
    return max(_find_most_of(one, limit, others, thinking, unknown) for one in route.deployments)


def _list_limits(fields: Mapping[str, Any]) -> list[Any]:
    options = fields.get("options")
    inner = _list_limits(options) if isinstance(options, dict) else []
    return [*(fields[name] for name in _OTHER_LIMITS if name in fields and name != "options"), *inner]


def _find_most_of(deployment: Deployment, limit: int | None, others: list[Any], thinking: int, unknown: int) -> int:
    profile, api = deployment.profile, find_api(deployment.target.api)
    largest = profile.max_output_tokens or unknown
    if limit is None:
        limit = profile.default_max_tokens if api.needs_max_tokens else largest
    elif deployment.target.api == "chat_completions":
        limit += thinking  # some servers do not count reasoning towards the limit of the reply
    limit = max(limit, profile.min_output_tokens or 0)
    for other in others:
        limit = max(limit, other if type(other) is int and other > 0 else largest)
    return limit
