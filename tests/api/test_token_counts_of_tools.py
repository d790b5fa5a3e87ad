"""The counts of tokens have the tools that the gateway would offer, and run none of them."""

from typing import Any, cast

from tests.in_process_gateway import SERVER, ModelServer, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool

Json = dict[str, Any]
SERVERS = [{"type": "url", "name": "wx"}]
TOOLSET = [{"type": "mcp_toolset", "mcp_server_name": "wx"}]
QUESTION = [{"role": "user", "content": "x"}]
MESSAGES: Json = {"model": "m", "messages": QUESTION}
RESPONSES: Json = {"model": "m", "input": "x"}
ASKED = [
    ("/v1/messages/count_tokens", MESSAGES, {"mcp_servers": SERVERS, "tools": TOOLSET}),
    ("/v1/responses/input_tokens", RESPONSES, {"tools": [{"type": "mcp", "server_label": "wx"}]}),
]


def test_the_tools_of_the_gateway_are_counted_and_not_run() -> None:
    model, servers = ModelServer(), FakeServers([make_tool("wx", "get_weather")], always=False)
    with Running(SERVER, model) as gateway:
        gateway.context.tools = cast(Any, servers)
        for path, body, more in ASKED:
            plain, counted = gateway.post(path, body).json, gateway.post(path, {**body, **more}).json
            assert counted["input_tokens"] > plain["input_tokens"]
    assert (model.requests, servers.calls, servers.closed) == ([], [], 2)


def test_the_tools_that_a_model_always_offers_are_counted() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        path, body, _ = ASKED[0]
        plain = gateway.post(path, body).json["input_tokens"]
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "get_weather")]))
        assert gateway.post(path, body).json["input_tokens"] > plain


def test_a_server_is_refused_where_none_is_configured() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        for path, body, more in ASKED:
            answer = gateway.post(path, {**body, **more})
            assert answer.status == 400
            assert "there is no server of tools 'wx'" in answer.json["error"]["message"]
