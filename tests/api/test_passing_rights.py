"""What a key may not choose, name, fetch or spend in requests that are no conversation."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key
from app.endpoints.body import read_fields
from app.endpoints.kinds import ENDPOINTS
from app.routing.passing import estimate_usage
from typing_extensions import override

from tests.api.held_server import Held
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

SMALL, FULL = "sk-parley-small-0123456789", "sk-parley-full-0123456789"
PRIVATE = "http://169.254.169.254/latest"
SERVED = {"e": "embeddings", "r": "rerank", "m": "moderations", "i": "images", "a": "audio", "s": "speech"}
SETTINGS: dict[str, Any] = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {
        **{name: {"upstreams": ["local"], "endpoints": [served]} for name, served in SERVED.items()},
        "any": {
            "upstreams": ["local"],
            "endpoints": ["embeddings", "images"],
            "profile": {"passed_urls": "any", "allowed_fields": ["file_id", "fallbacks"]},
        },
        "falls": {"upstreams": ["broken"], "endpoints": ["embeddings"], "fallbacks": ["e"], "vector_space": "s"},
    },
    "keys": {
        "small": {"sha256": hash_key(SMALL), "models": [*SERVED, "any"]},
        "full": {"sha256": hash_key(FULL)},
    },
    "server": {"log_level": "error"},
}
SETTINGS["upstreams"]["broken"] = {"base_url": "http://broken.test/v1"}
SETTINGS["models"]["falls"]["profile"] = {"passed_urls": "any"}
SETTINGS["models"]["e"]["vector_space"] = "s"


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.host == "broken.test":
        return httpx.Response(500, json={})
    return httpx.Response(200, json={"data": [{"index": 0, "embedding": [0.5]}], "results": [], "text": "x"})


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(SETTINGS, ModelServer(answer)) as running:
        yield running


def post(gateway: Running, path: str, body: Any, key: str = FULL) -> tuple[int, str | None]:
    """Return the status, and what is refused."""
    headers = {"authorization": f"Bearer {key}"}
    if isinstance(body, bytes):
        headers["content-type"] = "multipart/form-data; boundary=XX"
    answered = gateway.post(path, body, headers)
    refused = answered.json.get("error") if answered.status >= 400 else None
    return answered.status, None if refused is None else refused["param"]


def make_form(**fields: str) -> bytes:
    head = '--XX\r\ncontent-disposition: form-data; name="'
    parts = [f'{head}{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    return "".join([*parts, f'{head}file"; filename="a.wav"\r\n\r\nRIFF\r\n--XX--\r\n']).encode()


AUDIO = "/v1/audio/transcriptions"


@each_case(
    ("path", "body", "param"),
    [
        ("/v1/embeddings", {"model": "e", "input": [{"image": PRIVATE}]}, "input[0].image"),
        ("/v1/rerank", {"model": "r", "query": "a", "documents": [{"image": PRIVATE}]}, "documents[0].image"),
        ("/v1/moderations", {"model": "m", "input": [{"image_url": {"url": PRIVATE}}]}, "input[0].image_url.url"),
        ("/v1/images/generations", {"model": "i", "prompt": "a", "webhook_url": PRIVATE}, "webhook_url"),
        (AUDIO, make_form(model="a", url=PRIVATE), "url"),
        ("/v1/embeddings", {"model": "e", "input": [{"image": "https://files.example.org/a.png"}]}, None),
        ("/v1/embeddings", {"model": "any", "input": [{"image": PRIVATE}]}, None),
        (AUDIO, make_form(model="a", url="https://files.example.org/a.wav"), None),
    ],
)
def test_a_private_address_is_refused_by_its_place(gateway: Running, path: str, body: Any, param: str | None) -> None:
    status, refused = post(gateway, path, body)
    assert (status, refused) == (200 if param is None else 422, param) or (status, refused) == (400, param)


def test_a_fallback_is_not_sent_a_url_that_only_the_first_model_may_have(gateway: Running) -> None:
    assert post(gateway, "/v1/embeddings", {"model": "falls", "input": "a"})[0] == 200
    status, _ = post(gateway, "/v1/embeddings", {"model": "falls", "input": [{"image": PRIVATE}]})
    assert status >= 400


@each_case(
    ("path", "body", "param"),
    [
        ("/v1/images/edits", {"model": "i", "prompt": "a", "images": [{"file_id": "f"}]}, "images[0].file_id"),
        ("/v1/audio/speech", {"model": "s", "input": "a", "voice": {"id": "voice_1"}}, "voice"),
        (AUDIO, make_form(model="a", file_id="f"), "file_id"),
        ("/v1/images/edits", {"model": "any", "prompt": "a", "images": [{"file_id": "f"}]}, None),
        (
            "/v1/embeddings",
            {"model": "e", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "messages[0].content[0].file.file_id",
        ),
        ("/v1/rerank", {"model": "r", "query": "a", "documents": [{"text": "a", "file_id": "f"}]}, None),
    ],
)
def test_no_key_names_what_is_in_the_account(gateway: Running, path: str, body: Any, param: str | None) -> None:
    assert post(gateway, path, body) == (200 if param is None else 403, param)


@each_case(
    ("fields", "param"),
    [
        ({"api_base": "http://a.example"}, "api_base"),
        ({"fallbacks": "b"}, "fallbacks"),
        ({"metadata[model]": "b"}, "metadata[model]"),
        ({"language": "en", "timestamp_granularities[]": "word"}, None),
    ],
)
def test_a_form_chooses_no_other_model(gateway: Running, fields: dict[str, str], param: str | None) -> None:
    status, refused = post(gateway, AUDIO, make_form(model="a", **fields), SMALL)
    assert (status, refused is None) == (200 if param is None else 403, param is None)
    assert post(gateway, AUDIO, make_form(model="a", **fields))[0] == 200


def test_a_field_of_which_the_value_counts_is_given_once(gateway: Running) -> None:
    form = make_form(model="a", n="1").replace(
        b"--XX--", b'--XX\r\ncontent-disposition: form-data; name="n"\r\n\r\n9\r\n--XX--'
    )
    assert post(gateway, AUDIO, form) == (400, "n")


@each_case("value", ["1e999", "9" * 5000])
def test_a_value_that_cannot_be_read_is_a_mistake_of_the_caller(gateway: Running, value: str) -> None:
    raw = f'{{"model": "e", "input": "a", "x": {value}}}'.encode()
    answered = gateway.post("/v1/embeddings", raw, {"authorization": f"Bearer {SMALL}"})
    assert (answered.status, answered.json["error"]["param"]) == (400, "x")


class _Form:
    content_type = "multipart/form-data"
    size = 600_000


@each_case(
    ("name", "fields", "units"),
    [
        ("images", {"n": 10}, {"images": 10}),
        ("images", {"batch_size": "4"}, {"images": 4}),
        ("images", {"n": -1}, {"images": 1}),
        ("speech", {"input": "word"}, {"characters": 4}),
        ("rerank", {}, {"searches": 1}),
        ("audio", {}, {"seconds": 600}),
        ("embeddings", {"input": "word", "n": 5}, {}),
    ],
)
def test_what_is_billed_beside_tokens_is_known_before(name: str, fields: Any, units: dict[str, int]) -> None:
    endpoint = next(one for one in ENDPOINTS if one.name == name)
    body = read_fields(json.dumps({"model": "m", **fields}).encode())
    form: Any = _Form() if name == "audio" else None
    found = estimate_usage(endpoint, body, form).most_units
    assert {unit: number for unit, number in found.items() if number} == units


class HeldImages(Held):
    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await super().handle_async_request(request)
        return httpx.Response(200, json={"data": [{"b64_json": "AA"}] * 10})


def test_all_images_of_a_request_in_progress_are_reserved(tmp_path: Path) -> None:
    rows = {
        **SETTINGS,
        "models": {"i": {**SETTINGS["models"]["i"], "price": {"input": 0, "output": 0, "per_image": 1}}},
        "keys": {"full": {"sha256": hash_key(FULL), "limits": {"spend_per_day": 5}}},
        "state": {"url": f"sqlite:///{tmp_path}/state.db"},
    }
    server, headers = HeldImages(), {"authorization": f"Bearer {FULL}"}
    body = [json.dumps({"model": "i", "prompt": "a", "n": 10}).encode()]
    with Running(rows, server) as running:

        async def ask_beside() -> tuple[int, int]:
            first = asyncio.create_task(running.ask_async("POST", "/v1/images/generations", body, headers))
            await server.asked.wait()
            second = await running.ask_async("POST", "/v1/images/generations", body, headers)
            server.may.set()
            return (await first).status, second.status

        assert running.loop.run_until_complete(ask_beside()) == (200, 429)
