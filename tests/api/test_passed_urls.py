"""A URL that a model's server will fetch itself must not lead it into a private network."""

from typing import Any

import pytest

from tests.in_process_gateway import ModelServer, Running

PRIVATE = [
    "http://127.0.0.1/a.png",
    "http://localhost:8001/a.png",
    "http://10.1.2.3/a.png",
    "https://192.168.0.1/a.png",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/a.png",
    "http://[::ffff:10.0.0.1]/a.png",
    "http://metadata.google.internal/a.png",
    "http://printer.local/a.png",
    "http://intranet/a.png",
    "http://intranet./a.png",
    "http://files.default.svc/a.png",
    "http://2130706433/a.png",
    "http://0x7f.1/a.png",
    "http://user:secret@files.test/a.png",
    "http://files.test:22/a.png",
    "HTTP://127.0.0.1/a.png",
]
PUBLIC = "https://files.test/a.png"


def settings(kind: str = "vllm", profile: dict[str, Any] | None = None, allow: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1", "kind": kind}},
        "models": {"m": {"upstreams": ["local"], "profile": profile or {}}},
        "fetch": {"allow": allow},
    }


def qwen(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": "What is it?"}, *parts]}], "stream": False}


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai_compatible", "dashscope", "openai"])
@pytest.mark.parametrize("url", PRIVATE)
def test_a_private_address_is_refused_by_its_place(kind: str, url: str) -> None:
    server = ModelServer()
    with Running(settings(kind), server) as gateway:
        answer = gateway.post("/v1/chat", qwen({"image": PUBLIC}, {"image": url}))
        assert (answer.status, answer.json["error"]["param"]) == (422, "messages[0].content[2].image")
        assert not server.requests


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"video": PRIVATE[0]}, "messages[0].content[1].video"),
        ({"video": [PUBLIC, PRIVATE[0]]}, "messages[0].content[1].video[1]"),
        ({"audio": PRIVATE[0]}, "messages[0].content[1].audio"),
    ],
)
def test_every_kind_of_media_is_looked_at(part: dict[str, Any], path: str) -> None:
    with Running(settings(), ModelServer()) as gateway:
        answer = gateway.post("/v1/chat", qwen(part))
    assert (answer.status, answer.json["error"]["param"]) == (422, path)


def test_all_refused_urls_are_reported_at_once() -> None:
    with Running(settings(), ModelServer()) as gateway:
        answer = gateway.post("/v1/chat", qwen({"image": PRIVATE[0]}, {"image": PUBLIC}, {"image": PRIVATE[1]}))
    places = [one["param"] for one in answer.json["error"]["violations"]]
    assert places == ["messages[0].content[1].image", "messages[0].content[3].image"]


def test_the_openai_endpoint_names_its_own_place() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": PRIVATE[0]}}]
    with Running(settings(), ModelServer()) as gateway:
        answer = gateway.post("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": parts}]})
    assert answer.status == 400
    assert "messages[0].content[1].image_url" in answer.body.decode()


def test_a_name_without_a_dot_is_sent_where_it_is_allowed() -> None:
    server = ModelServer()
    with Running(settings(allow=("minio",)), server) as gateway:
        assert gateway.post("/v1/chat", qwen({"image": "http://minio/a.png"})).status == 200
    assert b"http://minio/a.png" in server.requests[0].content


@pytest.mark.parametrize(
    ("profile", "allow"),
    [({"passed_urls": "any"}, ()), ({}, ("127.0.0.1/32",)), ({"passed_urls": "resolved"}, ("127.0.0.0/8",))],
)
def test_what_is_allowed_goes_on_as_it_is(profile: dict[str, Any], allow: tuple[str, ...]) -> None:
    server = ModelServer()
    with Running(settings(profile=profile, allow=allow), server) as gateway:
        assert gateway.post("/v1/chat", qwen({"image": PRIVATE[0]})).status == 200
    assert PRIVATE[0].encode() in server.requests[0].content


def test_a_public_url_goes_on_as_it_is_and_is_not_looked_up() -> None:
    server = ModelServer()
    with Running(settings(), server) as gateway:
        assert gateway.post("/v1/chat", qwen({"image": PUBLIC})).status == 200
    assert PUBLIC.encode() in server.requests[0].content


def test_a_name_that_leads_to_a_private_address_is_refused_where_the_profile_asks() -> None:
    server = ModelServer()

    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.215.14", "10.0.0.1"] if host == "inside.test" else ["93.184.215.14"]

    with Running(settings(profile={"passed_urls": "resolved"}), server, resolve) as gateway:
        answer = gateway.post("/v1/chat", qwen({"image": "http://inside.test/a.png"}))
        assert (answer.status, answer.json["error"]["param"]) == (422, "messages[0].content[1].image")
        assert gateway.post("/v1/chat", qwen({"image": PUBLIC})).status == 200
    assert len(server.requests) == 1
