"""How many tokens a reply may have at most."""

from typing import Any

from app.chat.messages import ChatRequest, PassedBody
from app.profiles import Profile
from app.routing import ModelRoute
from app.routing.reply_bound import find_most_reply_tokens
from app.routing.route import Deployment
from msgspec.structs import replace

from tests.default_limits import upstream_target
from tests.each_case import each_case

UNKNOWN = 32_768


def make_route(api: str = "chat_completions", defaults: dict[str, Any] | None = None, **profile: Any) -> ModelRoute:
    target = upstream_target("box", "http://127.0.0.1:1/v1", api=api)
    return ModelRoute("m", (Deployment(target, "m", Profile(**profile)),), defaults or {})


@each_case(
    ("route", "params", "most"),
    [
        (make_route(), {"max_tokens": 9}, 9),
        (make_route(), {"max_completion_tokens": 9}, 9),
        (make_route(defaults={"max_tokens": 7}), {}, 7),
        (make_route(defaults={"max_tokens": 7}), {"max_tokens": 9}, 9),
        (make_route(defaults={"max_tokens": 7}), {"max_tokens": None}, UNKNOWN),
        (make_route("messages", default_max_tokens=8000), {}, 8000),
        (make_route(max_output_tokens=5000), {}, 5000),
        (make_route("responses", max_output_tokens=5000), {}, 5000),
        (make_route(), {}, UNKNOWN),
        (make_route(min_output_tokens=16), {"max_tokens": 1}, 16),
        (make_route(), {"max_tokens": 9, "thinking_budget": 100}, 109),
        (make_route("messages"), {"max_tokens": 9, "thinking_budget": 100}, 9),
        (make_route(), {"max_tokens": 9, "extra_body": {"max_tokens": 70}}, 70),
        (make_route(), {"max_tokens": 9, "extra_body": {"max_tokens": 5}}, 9),
        (make_route(), {"max_tokens": 9, "extra_body": {"max_tokens": None}}, UNKNOWN),
        (make_route(), {"max_tokens": 9, "extra_body": {"options": {"num_predict": -1}}}, UNKNOWN),
        (make_route(), {"max_tokens": 9, "extra_body": {"options": "x", "n_predict": 80}}, 80),
        (make_route(defaults={"extra_body": {"max_new_tokens": 77}}), {"max_tokens": 9}, 77),
        (make_route("gemini"), {"max_tokens": 9, "extra_body": {"generationConfig": {"maxOutputTokens": 60}}}, 60),
        (make_route("gemini"), {"max_tokens": 9, "extra_body": {"generation_config": {"candidate_count": 4}}}, 36),
        (make_route(), {"max_tokens": 9, "extra_body": {"n": "3", "best_of": 5.0}}, 45),
        (make_route(), {"max_tokens": 9, "extra_body": {"n": -3, "best_of": True, "candidateCount": [2]}}, 9),
        (make_route(), {"max_tokens": 9, "extra_body": {"num_return_sequences": 1e30}}, 9_000_000_000),
    ],
)
def test_the_bound_of_a_reply_is_what_the_server_is_told(route: ModelRoute, params: dict[str, Any], most: int) -> None:
    assert find_most_reply_tokens([route], ChatRequest("m", (), params=params), UNKNOWN) == most


def test_the_largest_bound_of_all_models_that_may_answer_counts_and_two_requests_count_twice() -> None:
    small, large = make_route(max_output_tokens=5), make_route(max_output_tokens=50)
    assert find_most_reply_tokens([small, large], ChatRequest("m", ()), UNKNOWN) == 50
    assert find_most_reply_tokens([replace(small, hedge_after=1.0)], ChatRequest("m", ()), UNKNOWN) == 10


def test_the_limit_of_a_clients_own_body_counts_under_each_name() -> None:
    body = PassedBody("messages", {"max_tokens": 9, "max_new_tokens": 60})
    request = ChatRequest("m", (), params={"max_tokens": 9}, passed=body)
    assert find_most_reply_tokens([make_route("messages")], request, UNKNOWN) == 60


def test_each_candidate_of_a_clients_own_body_counts() -> None:
    body = PassedBody("gemini", {"generationConfig": {"maxOutputTokens": 9, "candidateCount": 8}})
    request = ChatRequest("m", (), params={"max_tokens": 9}, passed=body)
    assert find_most_reply_tokens([make_route("gemini")], request, UNKNOWN) == 72
