"""A request that is repeated byte for byte is not parsed again, and gets the reply that it would get otherwise."""

import json
from typing import Any

import app.api.repeated_requests as repeated_requests
import pytest
from app.access import hash_key
from app.api.chat_schema import parse_chat_body
from app.api.repeated_requests import MAX_BODY_BYTES, RepeatedRequest, RepeatedRequests
from app.config.settings import Settings
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.request_limits import RequestLimits

from tests.in_process_gateway import SERVER, ModelServer, Running

CACHED = {**SERVER, "cache": {"url": "memory:", "apply": "always"}}
KEYS = {name: {"sha256": hash_key(f"key-of-{name}-0001")} for name in ("alice", "bob")}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that were parsed."""
    bodies: list[bytes] = []

    def parse(raw: bytes, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
        bodies.append(raw)
        return parse_chat_body(raw, limits)

    monkeypatch.setattr("app.main.parse_chat_body", parse)
    return bodies


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}-0001"}


def labels(gateway: Running, body: dict[str, Any], count: int, caller: str = "") -> list[str]:
    answers = [gateway.post("/v1/chat", body, bearer(caller) if caller else None) for _ in range(count)]
    return [answer.headers["x-parley-cache"] for answer in answers]


def test_a_body_that_a_stored_reply_has_answered_is_not_parsed_again(parsed: list[bytes]) -> None:
    with Running(CACHED, ModelServer()) as gateway:
        assert labels(gateway, CHAT, 4) == ["miss", "hit", "hit", "hit"]
        assert len(parsed) == 2
        assert labels(gateway, {**CHAT, "stream": True}, 2) == ["hit", "hit"]
        assert len(parsed) == 3


def test_nothing_is_kept_of_other_requests(parsed: list[bytes]) -> None:
    with Running(CACHED, ModelServer()) as gateway:
        labels(gateway, CHAT, 2)
        parsed.clear()
        large = {**CHAT, "messages": [{"role": "user", "content": "x" * MAX_BODY_BYTES}]}
        assert labels(gateway, large, 4) == ["miss", "hit", "hit", "hit"]
        unstored = {**CHAT, "cache": {"mode": "off"}}
        assert labels(gateway, unstored, 3) == ["bypass"] * 3
        refreshed = {**CHAT, "cache": {"mode": "refresh"}}
        assert labels(gateway, refreshed, 3) == ["refresh"] * 3
        assert [gateway.post("/v1/chat", {**CHAT, "messages": []}).status for _ in range(3)] == [422] * 3
        assert len(parsed) == 4 + 3 + 3 + 3


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
        reloader = gateway.app.context.reloader
        assert reloader is not None
        assert gateway.loop.run_until_complete(reloader.reload())
        refused = gateway.post("/v1/chat", body)
        assert (refused.status, refused.json["error"]["code"]) == (422, "invalid_request")


LIVE: Any = object()


def kept(body: bytes) -> RepeatedRequest:
    parts: Any = None
    return RepeatedRequest(body, parts, parts, parts)


def test_the_request_that_was_not_repeated_for_longest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_requests, "MAX_BYTES", 30)
    monkeypatch.setattr(repeated_requests, "MAX_REQUESTS", 3)
    requests = RepeatedRequests()

    def names() -> str:
        return "".join(name for name in "abcde" if requests.find(name.encode() * 10, LIVE))

    for name in "abc":
        requests.add(kept(name.encode() * 10), LIVE)
    assert names() == "abc"
    requests.find(b"a" * 10, LIVE)
    requests.add(kept(b"d" * 10), LIVE)
    assert names() == "acd"
    requests.add(kept(b"a" * 10), LIVE)
    assert names() == "acd", "counted once"
    requests.add(kept(b"e" * 11), LIVE)
    assert requests.find(b"e" * 11, LIVE) is not None
    assert names() == "d", "41 bytes, and then 31, were too many"
    for number in range(4):
        requests.add(kept(b"%d" % number), LIVE)
    assert [requests.find(b"%d" % number, LIVE) is not None for number in range(4)] == [False, True, True, True]


def test_a_request_is_kept_as_long_as_the_configuration_with_which_it_was_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_requests, "MAX_BYTES", 10)
    requests = RepeatedRequests()
    new: Any = object()
    requests.add(kept(b"a" * 8), LIVE)
    assert requests.find(b"a" * 8, LIVE) is not None
    assert requests.find(b"a" * 8, new) is None
    requests.add(kept(b"b" * 9), new)
    assert requests.find(b"b" * 9, new) is not None
    assert requests.find(b"a" * 8, new) is None
    assert requests.find(b"a" * 8, LIVE) is requests.find(b"b" * 9, LIVE) is None
    requests.add(kept(b"c"), new)
    assert requests.find(b"b" * 9, new) is not None, "the bytes of what was dropped still count"
