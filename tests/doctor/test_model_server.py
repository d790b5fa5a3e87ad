"""What the doctor learns of a model from three requests: its reasoning, its limit of output tokens, its functions."""

import json
from typing import Any

import httpx
import pytest
import respx
from app.doctor.findings import Finding
from app.doctor.model_server import ModelServer, ProbedModel, probe_model
from app.doctor.probes import HUGE_OUTPUT
from app.profiles import Profile
from app.upstream.http.client import UpstreamClient

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream

pytestmark = pytest.mark.anyio

URL = "http://model.test/v1/chat/completions"
TARGET = upstream_target("local", "http://model.test/v1")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def streamed(**delta: Any) -> httpx.Response:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    return httpx.Response(200, content=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())


def refused(message: str, status: int = 400) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}})


CALL = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
CALLED = streamed(tool_calls=[CALL])
THOUGHT = streamed(reasoning_content="17 + 25 is 42.", content="42")


async def probe(
    tools: httpx.Response = CALLED,
    reasoning: httpx.Response = THOUGHT,
    huge: httpx.Response | None = None,
    **profile: Any,
) -> tuple[dict[str, Finding], list[Any]]:
    """The findings by the name of their check, and the bodies of the requests."""
    router = respx.Router(assert_all_called=False)
    router.post(URL, json__max_tokens=HUGE_OUTPUT).mock(return_value=huge or streamed(content="OK"))
    router.post(URL, json__tools__0__type="function").mock(return_value=tools)
    router.post(URL).mock(return_value=reasoning)
    deployment = ProbedModel("m", "served", Profile(**profile), "local", configured=True)
    server = ModelServer(TARGET, "vllm", [deployment], has_key=False, seconds=5)
    found = await probe_model(server, deployment, UpstreamClient(MockUpstream(router.async_handler)))
    return {finding.check: finding for finding in found}, [json.loads(call.request.content) for call in router.calls]


async def test_a_model_that_can_all_is_asked_three_times() -> None:
    findings, bodies = await probe()
    assert [(check, finding.status) for check, finding in findings.items()] == [
        ("reasoning", "ok"),
        ("max_tokens", "ok"),
        ("tools", "ok"),
    ]
    assert [body["max_tokens"] for body in bodies] == [1024, HUGE_OUTPUT, 1024]
    assert {body["model"] for body in bodies} == {"served"}


@each_case(
    ("message", "status"), [("tools are not supported by this model", 400), ("tools param requires --jinja flag", 500)]
)
async def test_a_server_without_tools_gets_the_line_that_explains_them_in_the_prompt(message: str, status: int) -> None:
    findings, _ = await probe(tools=refused(message, status))
    assert (findings["reasoning"].status, findings["tools"].status) == ("ok", "problem")
    assert message in findings["tools"].message
    assert findings["tools"].settings == ("[models.m.profile]", "native_tools = false")


async def test_no_more_is_asked_than_the_profile_leaves_open() -> None:
    findings, bodies = await probe(native_tools=False, max_output_tokens=100)
    assert (findings["tools"].status, len(bodies)) == ("ok", 1)


CONTEXT = (
    "This model's maximum context length is {context} tokens. However, you requested 1000000 output "
    "tokens and your prompt "
    "contains at least 20 input tokens, for a total of at least 1000020 tokens."
)


@each_case(
    ("message", "status", "want"),
    [
        (CONTEXT.format(context=32768), 400, ("problem", "max_output_tokens = 8192")),
        (CONTEXT.format(context=131072), 400, ("ok", None)),
        ("Range of max_tokens should be [1, 16384]", 400, ("problem", "max_output_tokens = 16384")),
        ("Range of max_tokens should be [1, 65536]", 400, ("ok", None)),
        ("max_tokens is too large", 400, None),
        ("requires more credits, or fewer max_tokens", 402, None),
    ],
)
async def test_the_limit_of_output_tokens_is_written_where_clients_ask_for_more(
    message: str, status: int, want: tuple[str, str | None] | None
) -> None:
    findings, _ = await probe(huge=refused(message, status))
    assert findings["tools"].status == "ok"
    finding = findings.get("max_tokens")
    if want is None:
        assert finding is None
        return
    assert finding is not None
    expected = () if want[1] is None else ("[models.m.profile]", want[1])
    assert (finding.status, finding.settings) == (want[0], expected)


async def test_calls_and_reasoning_in_the_content_get_the_lines_that_read_them() -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    tools, reasoning = streamed(content=f"I call it.</think>{call}"), streamed(content="It is 42.</think>42")
    findings, _ = await probe(tools, reasoning)
    assert findings["tools"].settings == ("[models.m.profile]", 'text_tools = "hermes"')
    assert findings["reasoning"].settings == ("[models.m.profile]", 'inline_think = "forced_open"')
    assert findings["tools"].status == findings["reasoning"].status == "problem"
    findings, _ = await probe(tools, reasoning, text_tools="hermes", inline_think="forced_open")
    assert {finding.status for finding in findings.values()} == {"ok"}


async def test_another_name_for_the_limit_of_tokens_is_all_that_is_found() -> None:
    findings, bodies = await probe(reasoning=refused("Use 'max_completion_tokens' instead of 'max_tokens'."))
    assert [*findings] == ["request"]
    assert findings["request"].settings == ("[models.m.profile]", 'max_tokens_field = "max_completion_tokens"')
    assert len(bodies) == 1


@each_case("answer", [refused("no", 500), refused("slow down", 429), refused("no key", 401)])
async def test_a_model_that_fails_is_a_problem_and_not_asked_again(answer: httpx.Response) -> None:
    findings, bodies = await probe(reasoning=answer)
    assert ([*findings], findings["reply"].status, len(bodies)) == (["reply"], "problem", 1)


@each_case("answer", [refused("no", 500), refused("slow down", 429), refused("no key", 401)])
async def test_a_failure_is_no_lack_of_tools(answer: httpx.Response) -> None:
    findings, _ = await probe(tools=answer)
    assert (findings["tools"].status, findings["tools"].settings) == ("problem", ())
