"""A client may send any type in any place, and a server refuse what it gets: that is no defect of the gateway."""

import json
import random
from collections.abc import Sequence
from typing import Any

import httpx

from tests.api.odd_bodies import BODIES, OddBody, list_bodies
from tests.api.sample_replies import answer_shortly
from tests.each_case import each_case
from tests.effort import LONG
from tests.in_process_gateway import Answer, ModelServer, Running

BOUND = 100
"""How many bodies are sent if not all are: the same in every run."""
_URLS = {
    "chat": {"base_url": "http://chat.test/v1"},
    "deepseek": {"base_url": "http://chat.test/v1", "kind": "deepseek"},
    "messages": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic"},
    "messages2": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic_compatible"},
    "responses": {"base_url": "http://responses.test/v1", "api": "responses", "kind": "openai"},
    "responses2": {"base_url": "http://responses.test/v1", "api": "responses"},
    "gemini": {"base_url": "http://gemini.test/v1beta", "api": "gemini"},
}
_DEFAULTS: Sequence[dict[str, Any]] = (
    {},
    {"enable_thinking": True},
    {"reasoning_effort": "high"},
    {"thinking_budget": 100, "stop": ["x"], "temperature": 0.5},
    {"extra_body": {"metadata": {"a": 1}}, "max_tokens": 7},
)
MODELS = {
    f"{name}-{number}": {"upstreams": [name], "max_retries": 0, "defaults": defaults}
    for name in _URLS
    for number, defaults in enumerate(_DEFAULTS)
}
OWN = {
    "/v1/messages": ("messages", "messages2"),
    "/v1/responses": ("responses", "responses2"),
    "/v1beta/models/{}:generateContent": ("gemini",),
}
"""The servers of a client's own API, which get nearly its own body."""
REFUSALS = (
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "Function call is missing a thought_signature",
    "The encrypted content could not be verified: invalid_encrypted_content",
    "Unknown name \"id\" at 'contents[0]'",
    'Unknown name "parametersJsonSchema"',
    "Thinking level is not supported",
    "Thinking is not supported",
    "This model only works in thinking mode",
    "unknown field enable_thinking, thinking_budget",
)
SETTINGS = {"upstreams": _URLS, "models": MODELS, "server": {"log_level": "error"}}


class _Server:
    """A model server that refuses bodies while it has a message."""

    def __init__(self) -> None:
        self.refusal = ""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not self.refusal:
            return answer_shortly(request)
        error = {"message": self.refusal, "type": "invalid_request_error", "code": 400, "status": "INVALID_ARGUMENT"}
        return httpx.Response(400, json={"error": error})


def post(gateway: Running, endpoint: str, model: str, body: Any) -> Answer:
    if "{}" not in endpoint and isinstance(body, dict) and "model" in body:
        body = {**body, "model": model}
    return gateway.post(endpoint.format(model), json.dumps(body).encode(), {"x-parley-cache": "off"})


def choose(bodies: Sequence[OddBody]) -> Sequence[OddBody]:
    return bodies if LONG else random.Random(71).sample(bodies, BOUND)


def test_no_value_of_a_body_is_a_defect() -> None:
    server, roll, failed = _Server(), random.Random(71), list[str]()
    with Running(SETTINGS, ModelServer(server)) as gateway:
        for odd in choose(list(list_bodies())):
            own = [f"{name}-{roll.randrange(len(_DEFAULTS))}" for name in OWN.get(odd.endpoint, ())]
            for model in (*own, roll.choice(list(MODELS))):
                server.refusal = roll.choice(("", roll.choice(REFUSALS)))
                answer = post(gateway, odd.endpoint, model, odd.write())
                if answer.status == 500 or b"internal_error" in answer.body:
                    failed.append(f"{odd}, {model}, {server.refusal}: {answer.status} {answer.body[:100]!r}")
    assert failed == []


@each_case(
    "odd",
    [
        OddBody("/v1/responses", ("tools", 1, "type"), ["odd"]),
        OddBody("/v1/responses", ("tools", 1, "type"), {"odd": 1}),
        OddBody("/v1/responses", ("include",), True),
        OddBody("/v1/responses", ("include",), 7),
    ],
)
def test_what_was_a_defect_is_a_mistake_of_the_caller_or_none(odd: OddBody) -> None:
    with Running(SETTINGS, ModelServer(_Server())) as gateway:
        for name in OWN[odd.endpoint]:
            assert post(gateway, odd.endpoint, f"{name}-0", odd.write()).status in (200, 400, 422)


@each_case("endpoint", BODIES)
def test_each_body_is_taken_as_it_is_or_refused_for_what_its_model_lacks(endpoint: str) -> None:
    with Running(SETTINGS, ModelServer(_Server())) as gateway:
        for name in _URLS:
            assert post(gateway, endpoint, f"{name}-0", BODIES[endpoint]).status in (200, 400, 422)
