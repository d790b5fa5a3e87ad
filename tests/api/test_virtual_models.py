"""Virtual models: the request goes to the model that rules choose, and a session keeps it."""

import hashlib
import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import Answer, AnsweringGateway, ModelServer

RULES: list[dict[str, Any]] = [
    {"when": {"tokens_above": 1500}, "use": "long"},
    {"when": {"media": "image"}, "use": "vl"},
    {"when": {"model": "claude-haiku-*"}, "use": "long"},
    {"when": {"header": {"X-Claude-Code-Agent-Id": "*"}}, "use": "sub"},
    {"when": {"format": "responses", "thinking": True}, "use": "sub"},
]
SETTINGS: dict[str, Any] = {
    "upstreams": {"up": {"base_url": "http://model.test/v1", "kind": "vllm"}},
    "models": {
        "auto": {"use": "small", "rules": RULES, "aliases": ["claude-*", "auto-2"]},
        "small": {"upstreams": ["up"], "profile": {"media": [], "max_input_tokens": 4000}},
        "long": {"upstreams": ["up"], "profile": {"media": []}, "aliases": ["claude-opus-*"]},
        "vl": {"upstreams": ["up"], "profile": {"media": ["image"]}},
        "sub": {"upstreams": ["up"], "profile": {"media": []}},
    },
    "cache": {"url": "null:"},
    "server": {"log_level": "error"},
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


class Gateway(AnsweringGateway):
    def __init__(self, **more: Any) -> None:
        super().__init__({**SETTINGS, **more})

    def ask_messages(self, content: Any = "hi", model: str = "auto", **headers: str) -> Answer:
        body = {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": content}]}
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.post("/v1/messages", body, lines)

    @property
    def asked(self) -> list[str]:
        """The models that the server was asked for."""
        return [json.loads(request.content)["model"] for request in self.server.requests]


def routes(answers: list[Answer]) -> list[str | None]:
    return [answer.headers.get("x-parley-route") for answer in answers]


def test_the_first_rule_that_holds_chooses_and_the_reply_names_what_was_asked_for() -> None:
    with Gateway() as gateway:
        answers = [
            gateway.ask_messages(),
            gateway.ask_messages("word " * 2000),
            gateway.ask_messages([IMAGE]),
            gateway.ask_messages(model="claude-haiku-4-5"),
            gateway.ask_messages(x_claude_code_agent_id="a1"),
        ]
        assert routes(answers) == ["auto/default", "auto/1", "auto/2", "auto/3", "auto/4"]
        assert gateway.asked == ["small", "long", "vl", "long", "sub"]
        assert [answer.json["model"] for answer in answers] == ["auto", "auto", "auto", "claude-haiku-4-5", "auto"]


@each_case(
    "path, body",
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/chat", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_every_endpoint_has_virtual_models(path: str, body: dict[str, Any]) -> None:
    with Gateway() as gateway:
        answer = gateway.post(path, {**body, "model": "auto-2", "stream": False})
        assert (answer.status, routes([answer]), gateway.asked) == (200, ["auto/default"], ["small"])
        assert answer.json.get("model") in ("auto-2", None)


def test_a_condition_sees_the_endpoint() -> None:
    with Gateway() as gateway:
        answer = gateway.post("/v1/responses", {"model": "auto", "input": "hi", "reasoning": {"effort": "low"}})
        assert (answer.status, routes([answer]), gateway.asked) == (200, ["auto/5"], ["sub"])


def test_a_session_keeps_its_model_and_another_one_does_not_have_it() -> None:
    with Gateway() as gateway:
        answers = [
            gateway.ask_messages(x_claude_code_session_id="s1"),
            gateway.ask_messages("word " * 2000, x_claude_code_session_id="s1"),
            gateway.ask_messages("word " * 2000, x_claude_code_session_id="s2"),
            gateway.ask_messages("hi", x_claude_code_session_id="s2"),
            gateway.ask_messages("hi", model="claude-haiku-1", x_claude_code_session_id="s1"),
            gateway.ask_messages("hi", x_claude_code_session_id="s1", x_claude_code_agent_id="a1"),
        ]
        assert routes(answers) == ["auto/default", "auto/kept", "auto/1", "auto/kept", "auto/3", "auto/4"]


@each_case(
    "content, expected",
    [([IMAGE], ["auto/default", "auto/2", "auto/kept"]), ("word " * 6000, ["auto/default", "auto/1", "auto/kept"])],
)
def test_a_session_moves_when_it_no_longer_fits_and_never_back(content: Any, expected: list[str]) -> None:
    with Gateway() as gateway:
        answers = [gateway.ask_messages(one, x_claude_code_session_id=str(expected)) for one in ("hi", content, "and?")]
        assert routes(answers) == expected


def test_if_no_model_fits_the_session_stays_where_it_is() -> None:
    models = {**SETTINGS["models"], "auto": {"use": "small"}}
    with Gateway(models=models) as gateway:
        answers = [gateway.ask_messages(one, x_claude_code_session_id="s1") for one in ("hi", [IMAGE])]
        assert routes(answers) == ["auto/default", "auto/kept"]


def test_the_right_is_that_of_the_virtual_name() -> None:
    keys = {"a": {"sha256": hashlib.sha256(b"key-a").hexdigest(), "models": ["auto"]}}
    with Gateway(keys=keys) as gateway:
        statuses = [gateway.ask_messages(model=model, x_api_key="key-a").status for model in ("auto", "small")]
        assert (statuses, gateway.asked) == ([200, 403], ["small"])


def test_limits_of_the_model_that_answers_hold() -> None:
    models = {**SETTINGS["models"], "small": {**SETTINGS["models"]["small"], "limits": {"requests_per_minute": 1}}}
    with Gateway(models=models) as gateway:
        assert [gateway.ask_messages(one).status for one in ("hi", "hi", [IMAGE])] == [200, 429, 200]


def test_a_refused_request_chooses_nothing_for_its_session() -> None:
    models = {**SETTINGS["models"], "vl": {**SETTINGS["models"]["vl"], "limits": {"requests_per_minute": 1}}}
    with Gateway(models=models) as gateway:
        answers = [
            gateway.ask_messages([IMAGE]),
            gateway.ask_messages([IMAGE], x_claude_code_session_id="s1"),
            gateway.ask_messages(x_claude_code_session_id="s1"),
        ]
        assert [answer.status for answer in answers] == [200, 429, 200]
        assert routes(answers) == ["auto/2", "auto/2", "auto/default"]


def test_the_longest_pattern_wins_and_names_come_first() -> None:
    models = {**SETTINGS["models"], "claude-opus-9": {"upstreams": ["up"]}}
    with Gateway(models=models) as gateway:
        answers = [gateway.ask_messages(model=model) for model in ("claude-opus-4", "claude-opus-9", "claude-x")]
        assert gateway.asked == ["long", "claude-opus-9", "small"]
        assert [answer.json["model"] for answer in answers] == ["claude-opus-4", "claude-opus-9", "claude-x"]
        listed = [row["id"] for row in gateway.get("/v1/models").json["data"]]
        assert "auto-2" in listed and not any("*" in name for name in listed)


def test_the_list_has_the_media_of_all_models_that_may_answer() -> None:
    with Gateway() as gateway:
        rows = {row["id"]: row["parley"] for row in gateway.get("/v1/models").json["data"]}
        assert rows["auto"]["media"] == ["image"] and rows["auto"]["max_input_tokens"] == 4000
        assert rows["small"]["media"] == []


def test_counting_tokens_uses_the_model_and_keeps_nothing() -> None:
    with Gateway() as gateway:
        body = {"model": "auto", "messages": [{"role": "user", "content": [IMAGE]}]}
        counted = gateway.post("/v1/messages/count_tokens", body, {"x-claude-code-session-id": "s1"})
        answer = gateway.ask_messages(x_claude_code_session_id="s1")
        assert (counted.status, routes([counted, answer])) == (200, [None, "auto/default"])


def test_a_virtual_model_may_be_the_default_one() -> None:
    with Gateway(default_model="auto") as gateway:
        answer = gateway.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        assert (answer.status, routes([answer]), answer.json["model"]) == (200, ["auto/default"], "auto")


def test_a_fallback_of_the_model_that_answers_is_used() -> None:
    models = {**SETTINGS["models"], "small": {**SETTINGS["models"]["small"], "fallbacks": ["long"]}}
    with Gateway(models=models) as gateway:
        gateway.server._answer = lambda request: (  # the first model is down
            httpx.Response(500) if json.loads(request.content)["model"] == "small" else ModelServer.short_reply()
        )
        answer = gateway.ask_messages()
        assert (answer.status, routes([answer]), gateway.asked) == (200, ["auto/default"], ["small", "long"])


def test_a_name_of_any_characters_is_one_header() -> None:
    models = {**SETTINGS["models"], "größer\n": {"use": "small"}}
    with Gateway(models=models) as gateway:
        answer = gateway.ask_messages(model="größer\n")
        assert routes([answer]) == ["gr%C3%B6%C3%9Fer%0A/default"]
