"""What a check of a model server finds: whether it can be reached, takes the key, and has the configured models."""

import asyncio
from typing import Any

import httpx
import pytest
import respx
from app.upstream.check import UpstreamReport, check_all, check_upstream
from app.upstream.http.client import UpstreamClient

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream

pytestmark = pytest.mark.anyio

SERVER = "http://model.test"
LIST = {"data": [{"id": "qwen3", "owned_by": "vllm"}, {"id": "llama"}]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def check(router: respx.Router, *wanted: str, base_url: str = f"{SERVER}/v1") -> UpstreamReport:
    transport = MockUpstream(router.async_handler)
    return await check_upstream(upstream_target("local", base_url), wanted, UpstreamClient(transport))


def serving(*paths: str, listed: Any = LIST) -> respx.Router:
    """A server with these paths, of which `/models` lists models."""
    router = respx.Router(assert_all_called=False)
    for path in paths:
        if path.endswith("/models"):
            router.get(f"{SERVER}{path}").respond(200, json=listed)
        else:
            router.post(f"{SERVER}{path}").respond(400, json={"error": {"message": "no messages"}})
    router.route().respond(404, json={"detail": "Not Found"})
    return router


async def test_a_server_that_works_is_reported_with_its_models_and_its_likely_kind() -> None:
    report = await check(serving("/v1/models"), "qwen3")
    assert (report.result, report.works, report.models) == ("works", True, ("qwen3", "llama"))
    assert report.lines == ["works; models: qwen3, llama"]
    assert report.likely_kind == "vllm"


async def test_a_configured_model_that_is_not_listed_is_named_with_the_nearest() -> None:
    report = await check(serving("/v1/models"), "qwen-3", "other")
    assert report.works
    assert report.lines[1:] == [
        "it does not list 'qwen-3'; did you mean 'qwen3'?",
        "it does not list 'other'; available models: qwen3, llama",
    ]


@each_case("listed", [{"data": []}, {"data": None}, [], {"data": [{"name": "x"}, 1]}])
async def test_a_list_without_models_is_no_fault(listed: Any) -> None:
    report = await check(serving("/v1/models", listed=listed), "qwen3")
    assert (report.works, report.lines, report.likely_kind) == (True, ["works; it lists no models"], None)


@each_case(
    ("fields", "tokens"),
    [
        ({"max_model_len": 32768}, 32768),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 40960}}, 4096),
        ({"context_length": 200000, "context_window": None}, 200000),
        ({"max_model_len": 0, "meta": 1}, None),
        ({"max_model_len": True}, None),
        ({}, None),
    ],
)
async def test_the_context_of_a_model_is_what_the_server_lists(fields: Any, tokens: int | None) -> None:
    report = await check(serving("/v1/models", listed={"data": [{"id": "qwen3", **fields}, {"name": "x"}]}))
    assert report.contexts == ({} if tokens is None else {"qwen3": tokens})


@each_case("status", [401, 403])
async def test_a_key_that_is_refused_is_to_be_corrected(status: int) -> None:
    router = respx.Router()
    router.get(f"{SERVER}/v1/models").respond(status, json={"error": {"message": "no such key"}})
    report = await check(router)
    assert (report.result, report.works) == ("key_refused", False)
    assert report.lines[0].startswith(f"the server refuses the key ({status})") and "no such key" in report.lines[0]
    assert report.lines[1:] == ["correct api_key or headers"]


@each_case(
    ("base_url", "paths", "mistake", "working"),
    [
        ("", ("/v1/models",), "lacks /v1", "/v1"),
        ("/v1/v1", ("/v1/models",), "has /v1 twice", "/v1"),
        ("/v1/chat/completions", ("/v1/models",), "ends with /chat/completions", "/v1"),
        ("/chat/completions", ("/v1/models",), "ends with /chat/completions and lacks /v1", "/v1"),
        ("/v1", ("/models",), "must not end with /v1", ""),
        ("", ("/v1/chat/completions",), "lacks /v1", "/v1"),
    ],
)
async def test_a_base_url_that_would_work_is_named(
    base_url: str, paths: tuple[str, ...], mistake: str, working: str
) -> None:
    report = await check(serving(*paths), base_url=SERVER + base_url)
    assert (report.result, report.working_url) == ("wrong_base_url", SERVER + working)
    assert report.lines[1:] == [f"base_url probably {mistake}: set it to '{SERVER}{working}'"]


async def test_a_server_without_a_list_works_if_it_has_the_path_of_chat_completions() -> None:
    report = await check(serving("/v1/chat/completions"))
    assert (report.result, report.works) == ("no_list", True)


@each_case(
    ("answer", "text", "advice"),
    [
        (httpx.ConnectError("refused"), "the connection could not be made", "read the server's log"),
        (httpx.ConnectTimeout("slow"), "connect timeout", "connect_seconds"),
        (httpx.ReadTimeout("slow"), "first byte timeout", "overloaded"),
        (httpx.Response(500, json={"error": "out of memory"}), "out of memory", "own message"),
        (httpx.Response(302, headers={"location": "/login"}), "a redirect (302)", "base_url"),
        (httpx.Response(200, content=b"<html>"), "not a JSON list of models", "base_url"),
    ],
)
async def test_a_server_that_fails_is_reported_with_what_it_did(
    answer: Exception | httpx.Response, text: str, advice: str
) -> None:
    router = respx.Router()
    router.get(f"{SERVER}/v1/models").mock(side_effect=[answer])
    report = await check(router)
    assert (report.result, report.works) == ("failed", False)
    assert text in report.text and advice in report.advice, report


async def test_servers_are_checked_at_the_same_time_and_reported_in_order() -> None:
    running = most = 0

    async def check_one(number: int, client: UpstreamClient) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01 / (number + 1))
        running -= 1
        return number

    assert await check_all(range(40), check_one) == list(range(40))
    assert most == 16
