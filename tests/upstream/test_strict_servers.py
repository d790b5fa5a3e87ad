"""Bodies of clients of every format, odd but legal ones too, go through the gateway to servers that are as strict as
`strict_rules` says. None of them refuses what it is sent, and everything in a client's body is in what is sent, or a
warning names it; or the gateway refuses the request and says where.

`FUZZ=long` tries 60 times as many, other ones in every run.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from app.profiles import KINDS, find_profile

from tests.conversations.random_conversations import PNG, WRITERS
from tests.effort import LONG
from tests.in_process_gateway import Answer, ModelServer, Running
from tests.upstream.own_bodies import find_api_name
from tests.upstream.recorded_bodies import BODIES
from tests.upstream.strict_bodies import PATHS, describe, make_body
from tests.upstream.strict_rules import CHAT, GEMINI, MESSAGES, RESPONSES, RULES, Rule, find_refusal
from tests.upstream.strict_server import reply

Json = dict[str, Any]
BODIES_OF_A_SERVER = 1500 if LONG else 25
SERVERS = [
    *((CHAT, kind) for kind in sorted(KINDS) if kind not in ("anthropic", "anthropic_compatible", "vertex")),
    *((MESSAGES, kind) for kind in ("anthropic", "anthropic_compatible", "deepseek", "lmstudio", "vllm")),
    *((RESPONSES, kind) for kind in ("openai", "openai_compatible", "vllm", "xai")),
    *((GEMINI, kind) for kind in ("gemini", "openai_compatible")),
]
REFUSED = (400, 422)


def name_model(api: str, kind: str) -> str:
    return f"{api}-{kind}"


def configure() -> Json:
    upstreams = {
        name_model(api, kind): {
            "base_url": f"http://{kind.replace('_', '-')}.{api.removesuffix('_completions')}.test/v1",
            "kind": kind,
            "api": api,
        }
        for api, kind in SERVERS
    }
    models = {
        name: {"upstreams": [name], "max_retries": 0, "profile": {"stream": "never"} if "chat" not in name else {}}
        for name in upstreams
    }
    return {"upstreams": upstreams, "models": models, "server": {"log_level": "error"}}


class Strict:
    def __init__(self) -> None:
        self.server = ModelServer(reply)
        self.running = Running(configure(), self.server)

    def send(self, path: str, body: Json, model: str) -> tuple[Answer, Json | None]:
        """Return the answer, and what the server was sent; None if it was sent nothing."""
        self.server.requests.clear()
        named = body if "{}" in path else {**body, "model": model}
        answer = self.running.post(path.format(model), named)
        return answer, json.loads(self.server.requests[-1].content) if self.server.requests else None


@pytest.fixture(scope="module")
def strict() -> Iterator[Strict]:
    strict = Strict()
    with strict.running:
        yield strict


OWN = {"/v1/messages": MESSAGES, "/v1/responses": RESPONSES, "/v1beta": GEMINI}
"""The APIs that clients of some paths speak themselves."""


def is_own(path: str, api: str, kind: str) -> bool:
    """Whether the server is of the client's own API and takes everything of it: what the client got wrong, the server
    says itself."""
    return any(path.startswith(begin) and api == own for begin, own in OWN.items()) and (
        api == GEMINI or find_profile(kind, api).takes == "all"
    )


def check(strict: Strict, api: str, kind: str, path: str, body: Json, words: list[str]) -> bool:
    """Send a body and check what becomes of it. Returns whether the server was sent something that it takes."""
    answer, sent = strict.send(path, body, name_model(api, kind))
    if sent is None:
        assert answer.status in REFUSED, describe(body, answer)
        return False
    if answer.status != 200:
        assert is_own(path, api, kind), describe(find_refusal(sent, api, kind), body, sent)
        return False
    text = json.dumps(sent, ensure_ascii=False)
    lost = [word for word in words if word not in text]
    assert not lost or "x-parley-warnings" in answer.headers, describe(lost, body, sent)
    return True


@pytest.mark.parametrize(("api", "kind"), SERVERS)
def test_no_strict_server_refuses_what_it_is_sent(strict: Strict, api: str, kind: str) -> None:
    dice = Random(None if LONG else f"{api} {kind}")
    taken = 0
    for number in range(BODIES_OF_A_SERVER):
        path, body, words = make_body(list(WRITERS)[number % len(WRITERS)], dice)
        taken += check(strict, api, kind, path, body, words)
    assert taken > BODIES_OF_A_SERVER // 4


@pytest.mark.parametrize(("api", "kind"), SERVERS)
def test_no_strict_server_refuses_a_recorded_body(strict: Strict, api: str, kind: str) -> None:
    for body in BODIES if LONG else BODIES[:: max(1, len(BODIES) // 8)]:
        path = PATHS["responses" if find_api_name(body) == RESPONSES else "anthropic"]
        check(strict, api, kind, path, {**body, "stream": False}, [])


def test_an_image_is_sent_or_named(strict: Strict) -> None:
    url = f"data:image/png;base64,{PNG}"
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    for api, kind in SERVERS:
        answer, sent = strict.send(PATHS["openai"], body, name_model(api, kind))
        assert (sent is None and answer.status in REFUSED) or PNG[:40] in json.dumps(sent), (api, kind, answer)


@pytest.mark.parametrize("rule", RULES, ids=lambda one: f"{one.api}-{one.name}-{'-'.join(one.kinds)}")
def test_each_rule_is_of_a_server_that_is_tried(rule: Rule) -> None:
    assert rule.source
    assert all((rule.api, kind) in SERVERS for kind in rule.kinds)
