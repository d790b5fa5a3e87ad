"""Requests that are repeated byte for byte."""

import json
from typing import Any

import pytest
from app.access import hash_key
from app.config.settings import Settings

from tests.in_process_gateway import SERVER, ModelServer, Running

CACHED = {**SERVER, "cache": {"url": "memory:", "apply": "always"}}
KEYS = {name: {"sha256": hash_key(f"key-of-{name}-0001")} for name in ("alice", "bob")}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}-0001"}


def labels(gateway: Running, body: dict[str, Any], count: int, caller: str = "") -> list[str]:
    answers = [gateway.post("/v1/chat", body, bearer(caller) if caller else None) for _ in range(count)]
    return [answer.headers["x-parley-cache"] for answer in answers]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"generate_cfg": {"extra_body": {"temprature": 1}}}),
        ("/v1/chat", {"functions": [{"name": "f", "parameters": {"type": "object"}}], "reply_format": "autogen"}),
        ("/v1/chat/completions", {"temperature": 0.5, "metadata": {"a": "b"}}),
        ("/v1/messages", {"max_tokens": 50}),
        ("/v1/responses", {"input": "Hi", "store": False}),
    ],
)
def test_a_repetition_gets_the_same_reply(path: str, body: dict[str, Any], stream: bool) -> None:
    if path != "/v1/responses":
        body = {"messages": CHAT["messages"], **body}
    with Running(CACHED, ModelServer()) as gateway:
        answers = [gateway.post(path, {"model": "m", "stream": stream, **body}) for _ in range(4)]
        assert answers[1].status == 200, answers[1].body
        assert [answer.headers["x-parley-cache"] for answer in answers[1:]] == ["hit"] * 3
        first, *others = [_without_ids(answer.body) for answer in answers[1:]]
        assert others == [first, first]
        assert {answer.headers.get("x-parley-warnings") for answer in answers[2:]} == {
            answers[1].headers.get("x-parley-warnings")
        }


def _without_ids(body: bytes) -> Any:
    """All that does not differ from reply to reply: ids and times are cut out of the text."""
    text = body.decode()
    frames = [line[6:] for line in text.split("\n") if line.startswith("data: {")] or [text]
    return [_strip(json.loads(frame)) for frame in frames]


_VOLATILE = ("id", "response_id", "request_id", "item_id", "created", "created_at", "completed_at", "full_message_id")


def _strip(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip(item) for item in value]
    if isinstance(value, dict):
        return {name: _strip(item) for name, item in value.items() if name not in _VOLATILE}
    return value


def test_callers_who_repeat_each_other_share_nothing_that_they_would_not_share() -> None:
    with Running({**CACHED, "keys": KEYS}, ModelServer()) as gateway:
        assert labels(gateway, CHAT, 3, "alice") == ["miss", "hit", "hit"]
        assert labels(gateway, CHAT, 3, "bob") == ["miss", "hit", "hit"]
        assert labels(gateway, CHAT, 1, "alice") == ["hit"]


def test_a_caller_who_may_not_use_the_model_is_refused_a_repetition() -> None:
    keys = {**KEYS, "eve": {"sha256": hash_key("key-of-eve-0001"), "models": ["other"]}}
    models = {**SERVER["models"], "other": {"upstreams": ["local"]}}
    with Running({**CACHED, "keys": keys, "models": models}, ModelServer()) as gateway:
        assert labels(gateway, CHAT, 3, "alice") == ["miss", "hit", "hit"]
        refused = gateway.post("/v1/chat", CHAT, bearer("eve"))
        assert (refused.status, refused.json["error"]["code"]) == (403, "permission")


def test_a_reload_applies_to_repetitions() -> None:
    new = {**CACHED, "server": {"max_messages": 1}}
    body = {**CHAT, "messages": [{"role": "system", "content": "Be brief."}, *CHAT["messages"]]}
    with Running(CACHED, ModelServer(), load_settings=lambda: Settings.model_validate(new)) as gateway:
        assert labels(gateway, body, 3) == ["miss", "hit", "hit"]
        reloader = gateway.context.reloader
        assert reloader is not None
        assert gateway.loop.run_until_complete(reloader.reload())
        refused = gateway.post("/v1/chat", body)
        assert (refused.status, refused.json["error"]["code"]) == (422, "invalid_request")
