"""A call that was demanded and does not come: the caller is told, and nobody gets the reply from the cache."""

from typing import Any

import httpx
import pytest

from tests.api.completion_requests import DONE, QUESTION, TOOL, called, event, frame, profiled, server_sending
from tests.in_process_gateway import SERVER, ModelServer, Running

Json = dict[str, Any]
CACHED = {"cache": {"url": "memory:"}}
G = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}
ANSWERS_TEXT = server_sending(event({"content": "no"}), event({}, "stop"), DONE)
CALLS_G = server_sending(called(0, "c1", "g", "{}"), event({}, "tool_calls"), DONE)
AUDIO = {"message": {"role": "assistant", "audio": {"id": "a", "data": "UklGRgAAAABXQVZF", "transcript": "Hi"}}}


def ask(gateway: Running, **cfg: Any) -> Any:
    body = {"model": "m", "messages": QUESTION, "tools": [TOOL, G], "generate_cfg": cfg, "stream": False}
    return gateway.post("/v1/chat", body)


@pytest.mark.parametrize(
    ("server", "choice", "what"),
    [
        (ANSWERS_TEXT, "required", "a call,"),
        (ANSWERS_TEXT, "f", "a call of 'f'"),
        (CALLS_G, "f", "a call of 'f'"),
        (CALLS_G, {"type": "function", "function": {"name": "f"}}, "a call of 'f'"),
    ],
)
@pytest.mark.parametrize("name", ["function_choice", "tool_choice"])
def test_a_demanded_call_that_does_not_come_is_warned_of_and_not_kept(
    server: ModelServer, choice: Any, what: str, name: str
) -> None:
    with Running({**SERVER, **CACHED}, server) as gateway:
        first, second = ask(gateway, **{name: choice}), ask(gateway, **{name: choice})
    assert [one.headers["x-parley-cache"] for one in (first, second)] == ["miss", "miss"]
    [warning] = first.json["warnings"]
    assert what in warning


@pytest.mark.parametrize(
    ("server", "choice"), [(CALLS_G, "required"), (CALLS_G, "g"), (ANSWERS_TEXT, "auto"), (ANSWERS_TEXT, None)]
)
def test_without_a_demand_or_with_the_call_there_is_no_warning(server: ModelServer, choice: Any) -> None:
    with Running({**SERVER, **CACHED}, server) as gateway:
        first, second = ask(gateway, function_choice=choice), ask(gateway, function_choice=choice)
    assert (first.json["warnings"], second.headers["x-parley-cache"]) == ([], "hit")


def test_a_reply_without_a_demand_does_not_answer_a_demand() -> None:
    settings = {**profiled(tool_choice_required="none"), **CACHED}
    with Running(settings, server_sending(event({"content": "no"}), event({}, "stop"), DONE)) as gateway:
        plain, demanded = ask(gateway), ask(gateway, function_choice="required")
    assert demanded.headers["x-parley-cache"] == "miss"
    assert any("requires a call" in warning for warning in demanded.json["warnings"])
    assert plain.json["warnings"] == []


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_reply_has_beside_text_comes_from_the_cache_as_it_came(stream: bool) -> None:
    server = ModelServer(
        lambda _: httpx.Response(200, json={"choices": [{"index": 0, **AUDIO, "finish_reason": "stop"}]})
    )
    with Running({**SERVER, **CACHED}, server) as gateway:
        body = {"model": "m", "messages": QUESTION, "stream": stream}
        first, second = gateway.post("/v1/chat", body), gateway.post("/v1/chat", body)
    assert second.headers["x-parley-cache"] == "hit"
    for answer in (first, second):
        assert b"data:audio/wav;base64,UklGRgAAAABXQVZF" in answer.body


def test_a_reply_that_an_error_followed_is_not_kept() -> None:
    late = frame({"error": {"message": "disk full"}})
    with Running({**SERVER, **CACHED}, server_sending(event({"content": "Hi"}, "stop"), late)) as gateway:
        first, second = ask(gateway), ask(gateway)
    assert "disk full" in first.json["warnings"][0]
    assert second.headers["x-parley-cache"] == "miss"
