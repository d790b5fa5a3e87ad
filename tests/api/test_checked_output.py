"""Replies to requests with a JSON schema are checked: warned of, mended, asked for again, or refused."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from app.steps import json_schema

from tests.api.checked_requests import (
    BAD,
    CHAT,
    FENCED,
    GOOD,
    MESSAGES,
    PARLEY,
    RESPONSES,
    SCHEMA,
    ask,
    body,
    say,
    settings,
    warnings,
)
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed


@each_case("path", [CHAT, PARLEY, MESSAGES, RESPONSES])
def test_prose_for_a_schema_is_a_warning_in_every_format(path: str) -> None:
    with Running(settings("warn"), ModelServer(say(BAD))) as gateway:
        answer = ask(gateway, path, body(path))
    assert answer.status == 200 and BAD in answer.body.decode()
    assert "is not valid against the schema of" in answer.body.decode()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (GOOD, None),
        (FENCED, "only without its fence"),
        ('{"a": "x"}', "$.a: 'x' is not of type 'integer'"),
        ("", "the text is empty"),
    ],
)
def test_what_a_check_says(text: str, warning: str | None) -> None:
    with Running(settings("warn"), ModelServer(say(text, text))) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
    found = [line for line in warnings(answer) if "schema" in line]
    assert (found == []) if warning is None else (warning in found[0])


def test_an_invalid_reply_is_not_cached_and_a_valid_one_is() -> None:
    models = ModelServer(say(BAD, GOOD))
    with Running({**settings("warn"), "cache": {"url": "memory:", "apply": "always"}}, models) as gateway:
        for cached in ("miss", "miss", "hit"):
            answer = ask(gateway, CHAT, body(CHAT))
            assert answer.headers["x-parley-cache"] == cached
    assert len(models.requests) == 2


@each_case(
    "given",
    [
        {"finish": "content_filter"},
        {"finish": "tool_calls", "calls": True},
    ],
)
@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_a_reply_that_is_filtered_or_calls_is_not_checked(mode: str, given: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    with Running(settings(mode), ModelServer(say(BAD, **given))) as gateway:
        answer = ask(gateway, CHAT, body(CHAT, tools=tools))
    assert answer.status == 200
    assert [line for line in warnings(answer) if "schema of" in line] == []
    assert answer.json["choices"][0]["finish_reason"] == given["finish"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_fence_is_taken_off_and_nothing_else_is_sent(stream: bool) -> None:
    models = ModelServer(say(FENCED))
    with Running(settings("enforce"), models) as gateway:
        answer = ask(gateway, CHAT, body(CHAT, stream=stream))
    text = answer.body.decode()
    if stream:
        deltas = [frame["choices"][0]["delta"].get("content") or "" for frame in frames(answer) if frame["choices"]]
        assert json.loads("".join(deltas)) == {"a": 1}
    else:
        assert json.loads(answer.json["choices"][0]["message"]["content"]) == {"a": 1}
    assert "fence" in text and "```" not in text
    assert len(models.requests) == 1


def frames(answer: Answer) -> list[Any]:
    return [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line.startswith("data: {")]


def test_the_model_is_told_what_is_wrong_and_asked_once_more() -> None:
    models = ModelServer(say(BAD, GOOD))
    with Running(settings("enforce"), models) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
        metrics = gateway.ask("GET", "/metrics").body.decode()
    assert answer.json["choices"][0]["message"]["content"] == GOOD
    assert answer.json["usage"]["total_tokens"] == 30
    assert BAD not in answer.body.decode()
    second = json.loads(models.requests[1].content)["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == BAD and "the text is not JSON" in second[2]["content"]
    assert json.dumps(SCHEMA).replace(" ", "") in second[2]["content"]
    assert any("is not valid against the schema" in line and "asked once more" in line for line in warnings(answer))
    assert 'parley_output_checks_total{model="m",outcome="asked_again"} 1.0' in metrics
    assert 'parley_tokens_total{key="",kind="output",model="m"} 10.0' in metrics


def test_then_the_fallback_answers() -> None:
    models = ModelServer(say(BAD, BAD, GOOD))
    with Running(settings("enforce", fallbacks=["other"]), models) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
        metrics = gateway.ask("GET", "/metrics").body.decode()
    assert answer.json["choices"][0]["message"]["content"] == GOOD
    assert json.loads(models.requests[2].content)["model"] == "other"
    assert answer.json["model"] == "other"
    assert any("asked twice, and other has answered" in line for line in warnings(answer))
    assert 'parley_output_checks_total{model="m",outcome="fallback"} 1.0' in metrics


@each_case(("path", "fallbacks"), [(CHAT, []), (CHAT, ["other"]), (PARLEY, []), (MESSAGES, []), (RESPONSES, [])])
def test_then_it_is_an_error_with_the_violations_and_the_text(path: str, fallbacks: list[str]) -> None:
    models = ModelServer(say(BAD, '{"a": "x"}', BAD))
    with Running(settings("enforce", fallbacks=fallbacks), models) as gateway:
        answer = ask(gateway, path, body(path))
        metrics = gateway.ask("GET", "/metrics").body.decode()
    assert answer.status == 502
    text = answer.body.decode()
    assert "output_invalid" in text and "is not of type" in text and "the model was asked twice" in text
    if path in (CHAT, PARLEY):
        detail = answer.json["error"]["upstream"]["detail"]
        assert detail == {"violations": ["$.a: 'x' is not of type 'integer'"], "text": '{"a": "x"}'}
    assert 'parley_output_checks_total{model="m",outcome="invalid"} 1.0' in metrics
    assert len(models.requests) == 2 + len(fallbacks)


@each_case(("fallbacks", "status"), [([], 503), (["other"], 200)])
def test_a_failure_when_asked_once_more_has_the_usage_of_both_and_the_fallbacks_are_asked(
    fallbacks: list[str], status: int
) -> None:
    failed = b'data: {"error":{"message":"Overloaded","code":503}}\n\n'
    answers = [say(BAD), lambda _: streamed(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', failed)]
    model = ModelServer(lambda request: (answers.pop(0) if answers else say(GOOD))(request))
    with Running(settings("enforce", fallbacks=fallbacks), model) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
    assert answer.status == status
    told = answer.json.get("error", answer.json)["usage"]
    assert told["total_tokens"] == (30 if fallbacks else 15)


def test_a_schema_that_cannot_be_checked_is_no_error() -> None:
    with Running(settings("enforce"), ModelServer(say(GOOD))) as gateway:
        answer = ask(gateway, CHAT, body(CHAT, {"$ref": "http://elsewhere.test/schema"}))
    assert answer.status == 200
    assert any("was not checked" in line and "elsewhere.test" in line for line in warnings(answer))


def test_a_failure_of_the_server_stays_what_it_is() -> None:
    with Running(settings("enforce"), ModelServer(lambda _: httpx.Response(500))) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
    assert (answer.status, answer.json["error"]["code"]) == (502, "server_error")


def test_without_a_schema_nothing_is_held_back() -> None:
    with Running(settings("enforce"), ModelServer(say(BAD))) as gateway:
        answer = ask(gateway, CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}]})
    assert answer.json["choices"][0]["message"]["content"] == BAD


@each_case(("path", "mode"), [(CHAT, "warn"), (CHAT, "enforce"), (PARLEY, "enforce"), (RESPONSES, "enforce")])
def test_json_mode_is_checked_too(path: str, mode: str) -> None:
    format_ = {"type": "json_object"}
    changes: dict[str, dict[str, Any]] = {
        CHAT: {"response_format": format_},
        PARLEY: {"generate_cfg": {"response_format": format_}},
        RESPONSES: {"text": {"format": format_}},
    }
    models = ModelServer(say(BAD, GOOD))
    with Running(settings(mode), models) as gateway:
        answer = ask(gateway, path, body(path, **changes[path]))
    text = answer.body.decode()
    assert answer.status == 200
    if mode == "warn":
        assert BAD in text and any("is not valid against response_format" in line for line in warnings(answer))
    else:
        assert BAD not in text and "asked once more" in text
        assert "This reply is not JSON" in models.requests[1].content.decode()


@each_case(
    ("path", "end"),
    [
        (CHAT, '"finish_reason":"length"'),
        (PARLEY, '"finish_reason":"length"'),
        (MESSAGES, '"stop_reason":"max_tokens"'),
        (RESPONSES, '"incomplete_details":{"reason":"max_output_tokens"}'),
    ],
)
@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_a_reply_that_is_cut_is_told_as_such(path: str, end: str, mode: str) -> None:
    models = ModelServer(say('{"a": ', finish="length"))
    with Running(settings(mode), models) as gateway:
        answer = ask(gateway, path, body(path))
        metrics = gateway.get("/metrics").body.decode()
    text = answer.body.decode()
    assert answer.status == 200 and end in text
    assert "the reply reached its limit of tokens before its JSON was complete" in text
    assert 'parley_output_checks_total{model="m",outcome="unchecked"} 1.0' in metrics
    assert len(models.requests) == 1


def refuse(_: httpx.Request) -> httpx.Response:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"refusal": "I cannot."}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    return streamed(*[f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks], b"data: [DONE]\n\n")


@each_case(
    ("path", "told"),
    [
        (CHAT, '"refusal":"I cannot."'),
        (PARLEY, '"refusal":true'),
        (MESSAGES, '"stop_reason":"refusal"'),
        (RESPONSES, '"type":"refusal","refusal":"I cannot."'),
    ],
)
@pytest.mark.parametrize("mode", ["warn", "enforce"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_reaches_every_format_and_is_not_invalid(path: str, told: str, mode: str, stream: bool) -> None:
    models = ModelServer(refuse)
    with Running(settings(mode), models) as gateway:
        answer = ask(gateway, path, body(path, stream=stream))
        metrics = gateway.get("/metrics").body.decode()
    text = answer.body.decode()
    assert answer.status == 200 and told in text and "I cannot." in text
    assert "not valid" not in text
    assert "parley_output_checks_total{" not in metrics
    assert len(models.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_of_a_messages_server_is_not_invalid(stream: bool) -> None:
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "I cannot."}]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    reply = {**message, "id": "m", "model": "m", "stop_reason": "refusal", "usage": usage}
    tree = settings("enforce")
    tree["upstreams"]["local"] = {"base_url": "http://model.test", "api": "messages"}
    with Running(tree, ModelServer(lambda _: httpx.Response(200, json=reply))) as gateway:
        answers = [ask(gateway, path, body(path, stream=stream)) for path in (CHAT, MESSAGES, RESPONSES)]
    for answer, told in zip(answers, ('"content_filter"', '"stop_reason":"refusal"', '"content_filter"'), strict=True):
        assert answer.status == 200 and told in answer.body.decode() and "I cannot." in answer.body.decode()


def test_an_empty_reply_is_asked_for_again() -> None:
    models = ModelServer(say("", GOOD))
    with Running(settings("enforce"), models) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
    assert answer.json["choices"][0]["message"]["content"] == GOOD
    assert "the text is empty" in json.loads(models.requests[-1].content)["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_new_schema_is_read_in_a_thread_once(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def watch(data: bytes) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return make(data)

    make = json_schema._make_validator
    monkeypatch.setattr(json_schema, "_make_validator", watch)
    schema = {**SCHEMA, "title": f"read once {stream}"}
    with Running(settings("warn"), ModelServer(say(GOOD, GOOD))) as gateway:
        for _ in range(2):
            assert ask(gateway, CHAT, body(CHAT, schema, stream=stream)).status == 200
    assert threads == [False]


@each_case(
    ("mode", "formats", "outcome", "told"),
    [
        ("warn", ["json_schema"], "valid", ""),
        ("warn", ["json_object"], "explained", "was sent as json_object"),
        ("warn", [], "explained", "was not sent"),
        ("enforce", ["json_schema"], "valid", ""),
        ("enforce", [], "explained", "was not sent"),
    ],
)
def test_the_metric_says_whether_the_format_was_sent_or_explained(
    mode: str, formats: list[str], outcome: str, told: str
) -> None:
    tree = settings(mode)
    tree["models"]["m"]["profile"] = {"check_output": mode, "response_formats": formats}
    with Running(tree, ModelServer(say(GOOD))) as gateway:
        answer = ask(gateway, CHAT, body(CHAT))
        metrics = gateway.get("/metrics").body.decode()
    assert f'parley_output_checks_total{{model="m",outcome="{outcome}"}} 1.0' in metrics
    assert [told in line for line in warnings(answer)] == ([True] if told else [])


def answer_as_messages(request: httpx.Request) -> httpx.Response:
    """Answer with prose over the Messages API."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": BAD}]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    if not json.loads(request.content).get("stream"):
        return httpx.Response(200, json={**message, "id": "m", "model": "m", "stop_reason": "end_turn", "usage": usage})
    start = {**message, "id": "m", "model": "m", "content": [], "stop_reason": None, "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": BAD}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return streamed(*[f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events])


@each_case(("mode", "told"), [("warn", True), ("off", False)])
@pytest.mark.parametrize("stream", [False, True])
def test_the_reply_to_a_body_that_is_passed_on_is_checked(mode: str, told: bool, stream: bool) -> None:
    tree = settings(mode)
    tree["upstreams"]["local"] = {"base_url": "http://model.test", "api": "messages"}
    with Running(tree, ModelServer(answer_as_messages)) as gateway:
        answer = ask(gateway, MESSAGES, body(MESSAGES, stream=stream))
        metrics = gateway.get("/metrics").body.decode()
    text = answer.body.decode()
    assert BAD in text and "was translated" not in text
    assert ("is not valid against the schema of output_config.format" in text) is told
    assert ('parley_output_checks_total{model="m",outcome="invalid"} 1.0' in metrics) is told


class Endless(httpx.AsyncByteStream):
    """White space behind the JSON, without end."""

    def __init__(self) -> None:
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = GOOD
        while True:
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': content}}]})}\n\n".encode()
            content = " \n" * 50
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("mode", ["warn", "enforce"])
@pytest.mark.parametrize("stream", [False, True])
def test_white_space_without_end_ends_the_reply_and_the_call(mode: str, stream: bool) -> None:
    endless = Endless()
    headers = {"content-type": "text/event-stream"}
    with Running(
        settings(mode), ModelServer(lambda _: httpx.Response(200, headers=headers, stream=endless))
    ) as gateway:
        answer = ask(gateway, CHAT, body(CHAT, stream=stream))
    text = answer.body.decode()
    assert answer.status == 200 and '"finish_reason":"stop"' in text and "white space behind its JSON" in text
    assert endless.closed
