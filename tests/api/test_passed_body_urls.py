"""URLs in a client's own body lead a server of the same API no further than those of a translated request."""

import json
from typing import Any

import httpx
import pytest
from app.chat.messages import ChatRequest, PassedBody
from app.formats.seal import Seal, write_seal
from app.profiles import Profile
from app.steps.media import passed_url_requests

from tests.in_process_gateway import Answer, ModelServer, Running
from tests.upstream.messages.replies import REPLY

Json = dict[str, Any]
PRIVATE, PUBLIC = "http://10.0.0.1/x", "https://files.test/x"
RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
}


def post(api: str, body: Json, passed_urls: str = "public", status: int = 200) -> tuple[Answer, Json | None]:
    """Return the answer, and what the server was sent: None if nothing."""
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY if api == "messages" else RESPONSE))
    settings: Json = {
        "upstreams": {"s": {"base_url": "http://model.test/v1", "api": api}},
        "models": {
            "m": {
                "upstreams": ["s"],
                "profile": {"media": ["image", "file"], "inline_media": [], "passed_urls": passed_urls, "takes": "all"},
            }
        },
    }
    body = {"model": "m", **({"max_tokens": 9} if api == "messages" else {}), **body}
    with Running(settings, server) as gateway:
        answer = gateway.post(f"/v1/{api}", body)
    assert answer.status == status, answer.body
    return answer, json.loads(server.requests[-1].content) if server.requests else None


def image(url: str) -> Json:
    return {"type": "image", "source": {"type": "url", "url": url}}


def ask(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, *blocks]}]}


def told(*items: Json) -> Json:
    return {"input": [{"type": "message", "role": "user", "content": "Hi"}, *items]}


FUTURE: Json = {"type": "future_block"}
ANSWER: Json = {"role": "assistant", "content": "Yes"}
REFUSED: list[tuple[str, Json]] = [
    ("messages", ask(image(PRIVATE))),
    ("messages", ask(image("file:///etc/passwd"))),
    ("messages", ask(image("/etc/passwd"))),
    ("messages", ask({"type": "document", "source": {"type": "url", "url": PRIVATE}})),
    ("messages", ask(FUTURE, image(PRIVATE))),
    ("messages", ask({"type": "document", "source": {"type": "content", "content": [image(PRIVATE)]}})),
    ("messages", ask(FUTURE, image("file:///etc/passwd"))),
    ("messages", ask({"type": "future_block", "source": {"type": "url", "url": PRIVATE}})),
    ("messages", {**ask(), "mcp_servers": [{"type": "url", "name": "n", "url": PRIVATE}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PRIVATE}]}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": PRIVATE}]}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "file:///x"}]}]}),
    ("responses", told({"type": "future_item", "image_url": PRIVATE})),
    ("responses", told({"type": "future_item", "file_url": "/etc/passwd"})),
    ("responses", {**told(), "tools": [{"type": "mcp", "server_label": "n", "server_url": PRIVATE}]}),
    ("messages", {**ask(), "webhook_url": PRIVATE}),
    ("messages", {**ask(), "x_hooks": {"targets": [{"callbackUri": PRIVATE}]}}),
    ("responses", {**told(), "x_urls": ["https://files.test/x", "//10.0.0.1/x"]}),
    ("messages", ask({"type": "future_block", "uri": PRIVATE})),
    ("responses", told({"type": "future_item", "urls": [PRIVATE]})),
]


@pytest.mark.parametrize(("api", "body"), REFUSED)
def test_a_url_that_no_server_is_sent_is_refused(api: str, body: Json) -> None:
    _, sent = post(api, body, status=400)
    assert sent is None


@pytest.mark.parametrize(("api", "body"), [case for case in REFUSED if PRIVATE in json.dumps(case)])
def test_a_public_url_passes_unchanged(api: str, body: Json) -> None:
    _, sent = post(api, json.loads(json.dumps(body).replace(PRIVATE, PUBLIC)))
    assert sent is not None
    for name in body:
        assert json.dumps(sent[name]) == json.dumps(body[name]).replace(PRIVATE, PUBLIC)


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_a_profile_may_pass_any_url(api: str) -> None:
    body = ask(image(PRIVATE)) if api == "messages" else told({"type": "future_item", "image_url": PRIVATE})
    _, sent = post(api, body, passed_urls="any")
    assert PRIVATE in json.dumps(sent)


def test_names_are_resolved_where_the_profile_says_so() -> None:
    passed = PassedBody("messages", {}, urls=(("messages[0].content[0].source.url", PUBLIC),))
    checks = passed_url_requests(ChatRequest("m", (), passed=passed), Profile(passed_urls="resolved"))
    assert [(one.url, one.purpose) for one in checks] == [(PUBLIC, "resolve")]


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("messages", {"messages": [*ask(image(PRIVATE))["messages"], ANSWER, *ask()["messages"]]}),
        (
            "responses",
            told(
                {"role": "user", "content": [{"type": "input_image", "image_url": PRIVATE}]},
                {"role": "assistant", "content": "Yes"},
                {"role": "user", "content": "Hi"},
            ),
        ),
    ],
)  # fmt: skip
def test_an_old_url_is_not_sent_and_its_entry_is_written_anew(api: str, body: Json) -> None:
    answer, sent = post(api, body)
    assert PRIVATE not in json.dumps(sent)
    assert b"was not sent: the host is not on a public address" in answer.body
    assert sent is not None and sent[next(iter(body))][-1] == body[next(iter(body))][-1]


@pytest.mark.parametrize("item", [image(PRIVATE), {"type": "code_tool_result", "content": [image(PRIVATE)]}])
def test_a_seal_hides_no_url(item: Json) -> None:
    detail = {"type": "provider.item", "item": item, "format": "anthropic-claude-v1"}
    sealed = {"type": "redacted_thinking", "data": write_seal(Seal(details=[detail]))}
    turn = {"role": "assistant", "content": [sealed, {"type": "text", "text": "Yes"}]}
    _, sent = post("messages", {"messages": [*ask()["messages"], turn, *ask()["messages"]]})
    assert PRIVATE not in json.dumps(sent)


def test_an_item_of_reasoning_details_has_no_url_that_is_fetched() -> None:
    item = {"type": "code_tool_result", "content": [image(PRIVATE)]}
    detail = {"type": "provider.item", "item": item, "format": "anthropic-claude-v1"}
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    settings: Json = {
        "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "messages"}},
        "models": {"m": {"upstreams": ["s"]}},
    }
    turn = {"role": "assistant", "content": "Yes", "reasoning_details": [detail]}
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, turn, {"role": "user", "content": "Hi"}]}
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/chat/completions", body)
    assert answer.status == 200
    assert PRIVATE not in server.requests[-1].content.decode()
