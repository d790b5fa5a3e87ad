"""`POST /v1/convert`: a conversation of one format in another, its losses by name, and what is refused."""

import re
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from app.config.tables.server import Server
from app.formats import FORMATS
from app.formats.base import Options

from tests.conversations.sample_conversations import golden
from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

PLACE = re.compile(r"messages\[\d+\][^ :]*: .+")
PAIRS = list(permutations(FORMATS, 2))
USER = {"role": "user", "content": "Hi"}
TEXT = {"type": "TextMessage", "source": "user", "content": "Hi"}
LATE = {"role": "user", "content": "Hi", "extra": {"mood": "good"}}
each_pair = each_case(("form", "to"), PAIRS)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(server=ModelServer()) as running:
        yield running


def convert(gateway: Running, to: str, messages: Any, **fields: Any) -> Answer:
    return gateway.post("/v1/convert", {"to": to, "messages": messages, **fields})


@each_pair
def test_every_format_becomes_every_other(gateway: Running, form: str, to: str) -> None:
    answer = convert(gateway, to, golden("weather", form), **{"from": form})
    assert (answer.status, answer.json.keys()) == (200, {"messages", "warnings"})
    assert not FORMATS[to].parse(answer.json["messages"], Options()).violations
    assert all(PLACE.fullmatch(warning) for warning in answer.json["warnings"])


@each_pair
def test_auto_reads_what_its_format_reads(gateway: Running, form: str, to: str) -> None:
    messages = golden("weather", form)
    named, found = (convert(gateway, to, messages, **{"from": name}).json for name in (form, "auto"))
    assert named == found


@each_pair
def test_strict_refuses_exactly_what_would_be_warned_of(gateway: Running, form: str, to: str) -> None:
    messages = golden("file", form)
    warnings = convert(gateway, to, messages, **{"from": form}).json["warnings"]
    strict = convert(gateway, to, messages, **{"from": form}, strict=True)
    assert strict.status == (422 if warnings else 200)
    if warnings:
        assert [
            f"{one['param']}: {one['message'].removeprefix(f'to {to}: ')}" for one in violations(strict)
        ] == warnings


def violations(answer: Answer) -> list[dict[str, str]]:
    found: list[dict[str, str]] = answer.json["error"]["violations"]
    return found


def test_a_loss_is_named_with_its_place(gateway: Running) -> None:
    answer = convert(gateway, "openai", [USER, {"role": "assistant", "content": "Ho"}, LATE])
    assert answer.json["warnings"] == ["messages[2]: mood cannot be written in OpenAI's format"]


def test_a_list_is_read_for_the_agent_that_is_named(gateway: Running) -> None:
    conversation = [{"type": "TextMessage", "source": name, "content": name} for name in ("user", "writer", "critic")]
    answer = convert(gateway, "openai", conversation, agent="writer")
    assert [(one["role"], one["content"]) for one in answer.json["messages"]] == [
        ("user", "user"),
        ("assistant", "writer"),
        ("user", "critic"),
    ]


def test_the_name_of_the_assistant_can_be_set(gateway: Running) -> None:
    answer = convert(gateway, "autogen", [USER, {"role": "assistant", "content": "Ho"}], agent_name="friday")
    assert [one["source"] for one in answer.json["messages"]] == ["user", "friday"]


@pytest.mark.parametrize("to", FORMATS)
def test_a_result_without_a_call_before_it_is_a_warning(gateway: Running, to: str) -> None:
    orphan = [USER, {"role": "tool", "tool_call_id": "x", "content": "done"}]
    answer = convert(gateway, to, orphan, **{"from": "openai"})
    body = convert(gateway, to, answer.json["messages"], **{"from": to})
    assert answer.status == 200
    assert body.status == 200 or answer.json["warnings"]
    assert all("name" not in one or one["name"] for one in answer.json["messages"])


@each_case(
    ("body", "param"),
    [
        ({"messages": [USER]}, "to"),
        ({"to": "qwen"}, "messages"),
        ({"to": "qwen", "messages": []}, "messages"),
        ({"to": "qwen", "messages": "Hi"}, "messages"),
        ({"to": "qwen", "messages": [5]}, "messages[0]"),
        ({"to": "qwen", "messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"to": "auto", "messages": [USER]}, "to"),
        ({"to": "french", "messages": [USER]}, "to"),
        ({"from": "french", "to": "qwen", "messages": [USER]}, "from"),
        ({"to": "qwen", "messages": [USER], "strict": "yes"}, "strict"),
        ({"to": "qwen", "messages": [USER], "agent": 5}, "agent"),
        ({"to": "qwen", "messages": [USER], "model": "m"}, "model"),
        ([USER], None),
        (5, None),
        ({"to": "qwen", "messages": [{**USER, "extra": {"a": float("nan")}}]}, "messages[0].extra.a"),
        ({"to": "qwen", "messages": [{**USER, "extra": {"a": [[float("-inf")]]}}]}, "messages[0].extra.a[0][0]"),
        ({"to": "qwen", "messages": [{"role": "user", "content": [{"text": "x"}]}, TEXT]}, "messages[1]"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(gateway: Running, body: Any, param: str | None) -> None:
    answer = gateway.post("/v1/convert", body)
    assert (answer.status, answer.json["error"]["param"]) == (422, param)
    assert violations(answer)[0]["param"] == param


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"to":"qwen","messages":[%b]}' % (b"9" * 5000)])
def test_a_body_that_is_not_json_is_refused(gateway: Running, raw: bytes) -> None:
    answer = gateway.post("/v1/convert", raw)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def nested(depth: int) -> bytes:
    return b'{"to":"agentscope","messages":[{"role":"user","content":"x","extra":{"a":%b}}]}' % (
        b"[" * depth + b"1" + b"]" * depth
    )


def test_what_is_nested_too_deeply_is_refused_with_its_place(gateway: Running) -> None:
    most = Server().max_nesting
    assert gateway.post("/v1/convert", nested(most - 3)).status == 200
    answer = gateway.post("/v1/convert", nested(most))
    assert (answer.status, answer.json["error"]["param"][:20]) == (422, "messages[0].extra.a[")


def test_too_many_messages_are_refused() -> None:
    with Running({**SERVER, "server": {"max_messages": 2}}, ModelServer()) as gateway:
        assert convert(gateway, "openai", [USER] * 2).status == 200
        assert convert(gateway, "openai", [USER] * 3).json["error"]["param"] == "messages"
