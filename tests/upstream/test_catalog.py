"""The models that a server lists, as the gateway remembers them."""

import asyncio
from typing import Any

import httpx
import pytest
import respx
from app.errors import UpstreamFailed
from app.upstream.catalog import MAX_MODELS, SHOWN, Catalog, join_names, suggest_model
from app.upstream.http.client import UpstreamClient

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream

pytestmark = pytest.mark.anyio

URL = "http://model.test/v1/models"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def listed(*names: Any) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"id": name} for name in names]})


def make_catalog(*answers: httpx.Response | Exception) -> tuple[Catalog, respx.Route]:
    """A catalog of a server that answers so, one request after the other, and the route that counts them."""
    router = respx.Router()
    route = router.get(URL).mock(side_effect=[*answers])
    client = UpstreamClient(MockUpstream(router.async_handler))
    return Catalog(upstream_target("local", "http://model.test/v1"), client), route


async def test_a_list_is_fetched_once_for_all_who_ask_for_it() -> None:
    catalog, route = make_catalog(listed("a", "b"))
    assert await asyncio.gather(*(catalog.names() for _ in range(5))) == [("a", "b")] * 5
    assert await catalog.names() == ("a", "b")
    assert route.call_count == 1


async def test_a_list_that_is_too_old_or_expired_is_fetched_again() -> None:
    catalog, route = make_catalog(listed("a"), listed("b"), listed("c"))
    assert await catalog.names() == ("a",)
    assert await catalog.names(max_age_seconds=-1.0) == ("b",)
    catalog.expire()
    assert await catalog.names() == ("c",)
    assert route.call_count == 3


async def test_a_failure_is_told_again_for_a_moment_and_is_not_expired() -> None:
    catalog, route = make_catalog(httpx.ConnectError("no"))
    for _ in range(2):
        with pytest.raises(UpstreamFailed, match="lists no models"):
            await catalog.names()
        catalog.expire()
    assert route.call_count == 1


async def test_a_caller_that_leaves_does_not_stop_the_request_for_the_others() -> None:
    gate = asyncio.Event()
    router = respx.Router()

    async def answer(_: httpx.Request) -> httpx.Response:
        await gate.wait()
        return listed("a")

    route = router.get(URL).mock(side_effect=answer)
    catalog = Catalog(
        upstream_target("local", "http://model.test/v1"), UpstreamClient(MockUpstream(router.async_handler))
    )
    leaving, staying = asyncio.create_task(catalog.names()), asyncio.create_task(catalog.names())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await staying == ("a",)
    assert leaving.cancelled() and route.call_count == 1


async def test_closing_ends_the_request() -> None:
    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return listed()

    router = respx.Router()
    router.get(URL).mock(side_effect=never)
    catalog = Catalog(
        upstream_target("local", "http://model.test/v1"), UpstreamClient(MockUpstream(router.async_handler))
    )
    asking = asyncio.create_task(catalog.names())
    await asyncio.sleep(0.01)
    await asyncio.wait_for(catalog.aclose(), 1)
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_names_that_are_none_twice_or_too_long_are_left_out() -> None:
    catalog, _ = make_catalog(listed("b", "a", "b", "", None, 7, "x" * 257, "y" * 256))
    assert await catalog.names() == ("b", "a", "y" * 256)


async def test_a_long_list_is_cut() -> None:
    catalog, _ = make_catalog(listed(*(f"model-{number}" for number in range(MAX_MODELS + 5))))
    assert len(await catalog.names()) == MAX_MODELS


@each_case(
    ("names", "text"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["a"] * SHOWN, ", ".join(["a"] * SHOWN)),
        (["a"] * (SHOWN + 3), ", ".join(["a"] * SHOWN) + " and 3 more"),
        (["x" * 101], "x" * 100 + "…"),
    ],
)
def test_names_are_joined_to_a_list_that_stays_short(names: list[str], text: str) -> None:
    assert join_names(names) == text


@each_case(
    ("known", "end"),
    [(["qwen3", "llama"], "; did you mean 'qwen3'?"), (["llama"], "; available models: llama"), ([], "")],
)
def test_a_model_that_is_not_there_ends_with_the_nearest_or_with_those_that_are(known: list[str], end: str) -> None:
    assert suggest_model("Qwen-3", known) == end
