"""What is wrong with a base_url under which the server knows no path."""

import asyncio

import httpx
import pytest
import respx
from app.chat.events import Fault
from app.upstream.base_urls import BaseUrlCheck, has_no_such_path, suggest_base_urls
from app.upstream.http.client import UpstreamClient

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream

pytestmark = pytest.mark.anyio

SERVER = "http://model.test"
NO_PATH = Fault("not_found", "Not Found", False, 404)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@each_case(
    ("base_url", "suggested"),
    [
        (SERVER, [(f"{SERVER}/v1", "lacks /v1")]),
        (f"{SERVER}/", [(f"{SERVER}/v1", "lacks /v1")]),
        (f"{SERVER}/v1", [(SERVER, "must not end with /v1")]),
        (f"{SERVER}/v1/v1", [(f"{SERVER}/v1", "has /v1 twice")]),
        (f"{SERVER}/v1/models", [(f"{SERVER}/v1", "ends with /models")]),
        (
            f"{SERVER}/responses",
            [(SERVER, "ends with /responses"), (f"{SERVER}/v1", "ends with /responses and lacks /v1")],
        ),
        (f"{SERVER}/v1/chat/completions/", [(f"{SERVER}/v1", "ends with /chat/completions")]),
    ],
)
def test_the_likeliest_base_url_comes_first(base_url: str, suggested: list[tuple[str, str]]) -> None:
    assert [*suggest_base_urls(base_url)] == suggested


@each_case(
    ("message", "status", "about_path"),
    [
        ("Not Found", 404, True),
        ("Method Not Allowed", 405, True),
        ("no route for /v1/models", 404, True),
        ("the model server lists no models: Not Found", 404, True),
        ("The model `x` does not exist", 404, False),
        ("model_not_found", 404, False),
        ("Not Found", 400, False),
        ("Not Found", None, False),
    ],
)
def test_an_error_about_a_model_is_none_about_the_path(message: str, status: int | None, about_path: bool) -> None:
    assert has_no_such_path(Fault("not_found", message, False, status)) is about_path


def test_a_404_in_the_words_of_a_refusal_is_not_about_the_path() -> None:
    words = "No endpoints found that support tool use."
    assert not has_no_such_path(Fault("invalid_request", words, False, 404))
    assert has_no_such_path(Fault("invalid_request", "Method Not Allowed", False, 405))


def make_check(router: respx.Router) -> BaseUrlCheck:
    return BaseUrlCheck(UpstreamClient(MockUpstream(router.async_handler)))


async def test_a_server_is_probed_once_for_all_who_meet_the_error() -> None:
    router = respx.Router(assert_all_called=False)
    works = router.get(f"{SERVER}/v1/models").respond(200, json={"data": []})
    router.route().respond(404)
    check, target = make_check(router), upstream_target("local", SERVER)
    found = await asyncio.gather(*(check.explain(NO_PATH, target) for _ in range(3)), check.explain(NO_PATH, target))
    assert {(fault.message, fault.cause) for fault in found} == {
        ("the model server has no such path (404): its base_url probably lacks /v1", "wrong_base_url")
    }
    assert works.call_count == 1
    await check.aclose()


async def test_a_path_that_exists_is_no_mistake_of_the_base_url() -> None:
    router = respx.Router(assert_all_called=False)
    router.post(f"{SERVER}/v1/chat/completions").respond(422)
    router.route().respond(404)
    check = make_check(router)
    assert await check.find_working_url(upstream_target("local", f"{SERVER}/v1")) is None
    explained = await check.explain(NO_PATH, upstream_target("local", f"{SERVER}/v1"))
    assert (explained.message, explained.cause) == ("Not Found; is its base_url right?", "no_such_path")


async def test_a_server_that_does_not_answer_the_probe_leaves_the_error_as_it_is() -> None:
    router = respx.Router()
    router.route().mock(side_effect=httpx.ConnectError("gone"))
    assert await make_check(router).find_working_url(upstream_target("local", SERVER)) is None


async def test_another_error_is_not_probed() -> None:
    router = respx.Router()
    fault = Fault("invalid_request", "no", False, 400)
    assert await make_check(router).explain(fault, upstream_target("local", SERVER)) is fault
