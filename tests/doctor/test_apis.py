"""Which APIs the doctor finds at a server, and which of them it advises."""

import json
from typing import Any

import httpx
import pytest
import respx
from app.chat.events import ReasoningDelta, TextDelta, ToolCallDelta
from app.doctor.apis import Shown, describe_apis, describe_best, find_apis, make_shown, reach_by
from app.doctor.model_server import ModelServer, ProbedModel, probe_model
from app.profiles import Profile
from app.upstream.http.client import UpstreamClient

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream

pytestmark = pytest.mark.anyio
TARGET = upstream_target("local", "http://model.test/v1")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def serve(**statuses: int) -> UpstreamClient:
    router = respx.Router(assert_all_called=False)
    for path, status in statuses.items():
        router.post(f"http://model.test/v1/{path.replace('__', '/')}").mock(return_value=httpx.Response(status))
    router.route().mock(return_value=httpx.Response(404))
    return UpstreamClient(MockUpstream(router.async_handler))


@each_case(
    ("statuses", "found"),
    [
        ({"chat__completions": 400, "responses": 422}, ["chat_completions", "responses"]),
        ({"chat__completions": 400, "messages": 400}, ["chat_completions", "messages"]),
        ({"chat__completions": 401, "responses": 401, "messages": 401}, []),
        ({"responses": 405}, []),
    ],
)
async def test_a_path_that_refuses_an_empty_request_is_there(statuses: dict[str, int], found: list[str]) -> None:
    assert await find_apis(TARGET, serve(**statuses), 1.0) == found


def test_the_same_key_goes_where_the_other_api_has_it() -> None:
    keyed = upstream_target("local", "http://model.test/v1", headers=httpx.Headers({"authorization": "Bearer k"}))
    other = reach_by(keyed, "messages")
    assert (other.headers["x-api-key"], str(other.url(other.reply_path))) == ("k", "http://model.test/v1/messages")
    assert reach_by(keyed, "chat_completions") is keyed


def test_an_api_that_the_server_does_not_have_is_a_problem_with_the_line_to_set() -> None:
    [good] = describe_apis("s", TARGET, ["chat_completions", "responses"])
    [bad] = describe_apis("s", TARGET, ["responses"])
    assert (good.status, good.settings) == ("ok", ())
    assert (bad.status, bad.settings) == ("problem", ("[upstreams.local]", 'api = "responses"'))
    assert describe_apis("s", TARGET, []) == []


@each_case(
    ("shown", "settings"),
    [
        ([("chat_completions", False, True), ("responses", True, True)], 'api = "responses"'),
        ([("chat_completions", True, True), ("responses", True, True)], None),
        ([("chat_completions", True, False), ("messages", True, True)], 'api = "messages"'),
        ([("responses", True, True)], None),
    ],
)
def test_an_api_by_which_a_model_shows_more_is_advised(shown: list[Any], settings: str | None) -> None:
    found = describe_best("s", TARGET, [Shown(*one) for one in shown])
    assert [finding.settings[1] for finding in found] == ([settings] if settings else [])


def test_what_a_model_shows_is_reasoning_and_calls() -> None:
    shown = make_shown("responses", [ReasoningDelta("a")], [ToolCallDelta(0, "{}", "a", "f")])
    assert (shown.reasoning, shown.calls, shown.score) == (True, True, 2)
    assert make_shown("responses", [TextDelta("a")], []).score == 0


CALL_AS_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@each_case(("content", "advised"), [("It is sunny.", False), (CALL_AS_TEXT, True)])
async def test_a_call_that_the_model_chose_not_to_make_says_nothing_of_the_api(content: str, advised: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if not request.content or request.content == b"{}":
            return httpx.Response(400)
        if request.url.path.endswith("/chat/completions"):
            chunk = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}
            return httpx.Response(200, content=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
        item = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
        return httpx.Response(200, json={"status": "completed", "output": [item]})

    router = respx.Router(assert_all_called=False)
    router.route().mock(side_effect=answer)
    deployment = ProbedModel("m", "served", Profile(max_output_tokens=100), "local", configured=True)
    server = ModelServer(TARGET, "vllm", [deployment], has_key=False, seconds=5)
    findings = await probe_model(
        server, deployment, UpstreamClient(MockUpstream(router.async_handler)), ["chat_completions", "responses"]
    )
    assert ("apis" in [finding.check for finding in findings]) is advised


async def test_a_model_that_reasons_over_responses_only_gets_that_line() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"{}")
        if "messages" in request.url.path or not body:
            return httpx.Response(404 if "messages" in request.url.path else 400)
        call = {"id": "c", "function": {"name": "get_weather", "arguments": "{}"}}
        if request.url.path.endswith("/chat/completions"):
            delta = {"tool_calls": [{"index": 0, **call}]} if "tools" in body else {"content": "42"}
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
            return httpx.Response(200, content=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
        item: dict[str, Any] = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
        if "tools" in body:
            item = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
        return httpx.Response(200, json={"status": "completed", "output": [item]})

    router = respx.Router(assert_all_called=False)
    router.route().mock(side_effect=answer)
    deployment = ProbedModel("m", "served", Profile(max_output_tokens=100), "local", configured=True)
    server = ModelServer(TARGET, "vllm", [deployment], has_key=False, seconds=5)
    findings = await probe_model(
        server, deployment, UpstreamClient(MockUpstream(router.async_handler)), ["chat_completions", "responses"]
    )
    assert findings[-1].check == "apis" and findings[-1].settings == ("[upstreams.local]", 'api = "responses"')
