"""Requests that servers refused, as users of gateways and agents reported them in 2026. Each test names the reports."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from typing_extensions import override

from tests.each_case import each_case
from tests.in_process_gateway import Answer, AnsweringGateway
from tests.upstream.strict_server import reply

Json = dict[str, Any]
KINDS = {
    "anthropic": "messages",
    "anthropic_compatible": "messages",
    "openai": "chat_completions",
    "openai_compatible": "chat_completions",
    "deepseek": "chat_completions",
    "openrouter": "chat_completions",
    "mistral": "chat_completions",
    "vllm": "chat_completions",
}
RESPONSES = ("openai", "openai_compatible")
CHAT, MESSAGES, RESPONSES_PATH = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HI: Json = {"role": "user", "content": "Hi"}
MARK: Json = {"cache_control": {"type": "ephemeral"}}
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
)


def _configure() -> Json:
    upstreams: Json = {}
    for kind, api in [*KINDS.items(), *((kind, "responses") for kind in RESPONSES)]:
        host = f"{kind.replace('_', '-')}.{api.removesuffix('_completions')}.test"
        name = f"{kind}-responses" if api == "responses" else kind
        upstreams[name] = {"base_url": f"http://{host}/v1", "kind": kind, "api": api}
    models: Json = {
        name: {
            "upstreams": [name],
            "max_retries": 0,
            "profile": {} if one["api"] == "chat_completions" else {"stream": "never"},
        }
        for name, one in upstreams.items()
    }
    models["text_results"] = {
        "upstreams": ["anthropic_compatible"],
        "max_retries": 0,
        "profile": {"stream": "never", "tool_media": False},
    }
    return {"upstreams": upstreams, "models": models, "server": {"log_level": "error"}}


class Gateway(AnsweringGateway):
    def __init__(self) -> None:
        super().__init__(_configure())
        self.refuse: Callable[[Json], tuple[int, str] | None] = lambda _: None

    @override
    def _find_answer(self, request: httpx.Request) -> httpx.Response:
        refusal = self.refuse(json.loads(request.content))
        if refusal is not None:
            status, text = refusal
            return httpx.Response(status, json={"error": {"message": text, "type": "invalid_request_error"}})
        return reply(request)

    def ask_model(
        self, path: str, model: str, body: Json, refuse: Callable[[Json], tuple[int, str] | None] | None = None
    ) -> Answer:
        self.refuse = refuse or (lambda _: None)
        self.server.requests.clear()
        return self.post(path, {"model": model, **({"max_tokens": 99} if path == MESSAGES else {}), **body})

    def send(
        self, path: str, model: str, body: Json, refuse: Callable[[Json], tuple[int, str] | None] | None = None
    ) -> Json:
        answer = self.ask_model(path, model, body, refuse)
        assert answer.status == 200, answer.body
        sent: Json = self.sent
        return sent


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


def count_marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(count_marks, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + sum(map(count_marks, value.values()))


def text(value: str, **held: Any) -> Json:
    return {"type": "text", "text": value, **held}


# -- cache marks


@each_case("model", ["anthropic", "anthropic_compatible"])
@each_case(
    "body",
    [
        # griffinmartin/opencode-claude-auth issue 121
        {
            "system": [text("a", **MARK), text("b", **MARK), text("c", **MARK)],
            "messages": [{"role": "user", "content": [text("d", **MARK), text("e", **MARK)]}],
        },
        # weave-os/router pull request 820, strands-agents/harness-sdk pull request 3571
        {
            "tools": [{"name": "f", "input_schema": {"type": "object"}, **MARK}],
            "messages": [{"role": "user", "content": [text(one, **MARK) for one in "abcd"]}],
        },
        # Wei-Shaw/sub2api pull request 2018
        {
            **MARK,
            "tools": [{"name": "f", "input_schema": {"type": "object"}, **MARK}],
            "system": [text("s", **MARK)],
            "messages": [{"role": "user", "content": [text("a", **MARK), text("b", **MARK)]}],
        },
    ],
)
def test_no_more_than_four_marks_are_sent(gateway: Gateway, model: str, body: Json) -> None:
    assert count_marks(gateway.send(MESSAGES, model, body)) == 4


def test_marks_of_a_client_stay_where_they_are(gateway: Gateway) -> None:
    """looplj/axonhub pull request 2342."""
    messages = [
        {"role": "user", "content": [text("a", **MARK)]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [text("c", **MARK)]},
    ]
    assert gateway.send(MESSAGES, "anthropic", {"messages": messages})["messages"] == messages


# -- calls without results, and results without calls


def chat_call(*ids: str) -> Json:
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(id_: str, content: Any = "done") -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": content}


@each_case("model", ["anthropic", "anthropic_compatible", "openai", "deepseek", "vllm", "mistral", "openai-responses"])
@each_case(
    "messages",
    [
        # openclaw/openclaw issues 9769, 8536, 6185, 25596, 5858: a result whose call is gone
        [HI, {"role": "assistant", "content": "so"}, chat_result("gone"), HI],
        [HI, chat_call("a"), chat_result("a"), chat_result("gone"), HI],
        # openclaw/openclaw issues 10310, 10900, 106781: a call whose result is gone
        [HI, chat_call("a"), HI],
        [HI, chat_call("a", "b"), chat_result("a"), HI],
    ],
)
def test_an_interrupted_session_goes_on(gateway: Gateway, model: str, messages: list[Json]) -> None:
    gateway.send(CHAT, model, {"messages": messages})  # the strict server says if pairs are missing


@each_case("arguments", ['{"path": "/tm', "", "null"])
def test_a_call_that_was_cut_is_sent_with_an_object(gateway: Gateway, arguments: str) -> None:
    """openclaw/openclaw issues 50059 and 14322."""
    cut = chat_call("a")
    cut["tool_calls"][0]["function"]["arguments"] = arguments
    sent = gateway.send(CHAT, "anthropic", {"messages": [HI, cut, chat_result("a", "aborted"), HI]})
    assert isinstance(sent["messages"][1]["content"][0]["input"], dict)


# -- Claude Code


@each_case("model", ["openai", "anthropic_compatible", "vllm", "mistral"])
def test_a_system_message_inside_messages_is_taken(gateway: Gateway, model: str) -> None:
    """codeaashu/free-claude-code issue 1, fuergaosi233/claude-code-proxy issue 83."""
    sent = gateway.send(MESSAGES, model, {"messages": [HI, {"role": "system", "content": "wsysx"}, HI]})
    assert "wsysx" in json.dumps(sent)
    assert model != "anthropic_compatible" or all(one["role"] != "system" for one in sent["messages"])


def test_empty_texts_are_left_out(gateway: Gateway) -> None:
    """anthropics/claude-code issue 59812."""
    messages = [{"role": "user", "content": [text("Hi"), text("")]}, {"role": "assistant", "content": [text("")]}, HI]
    for model in ("anthropic", "anthropic_compatible"):
        assert '"text": ""' not in json.dumps(gateway.send(MESSAGES, model, {"messages": messages}))


def test_what_only_anthropic_knows_is_left_out_elsewhere(gateway: Gateway) -> None:
    """yomorun/yomo pull request 1259."""
    sent = gateway.send(MESSAGES, "anthropic_compatible", {"messages": [HI], "context_management": {"edits": []}})
    assert "context_management" not in sent


# -- Codex


FUNCTION: Json = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
NAMESPACE: Json = {
    "type": "namespace",
    "name": "functions",
    "description": "",
    "tools": [{**FUNCTION, "name": "inner"}],
}


def item(role: str, value: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": value}]}


def test_tools_that_are_no_functions_do_not_reach_other_servers(gateway: Gateway) -> None:
    """CommandCodeAI/command-code issue 885."""
    tools = [FUNCTION, {"type": "custom", "name": "apply_patch"}, {"type": "web_search"}, NAMESPACE]
    for model in ("openai_compatible-responses", "openai", "vllm"):
        sent = gateway.send(RESPONSES_PATH, model, {"input": [item("user", "Hi")], "tools": tools})
        kinds = {tool["type"] for tool in sent["tools"]}
        assert "web_search" not in kinds, model
        assert model == "openai_compatible-responses" or kinds == {"function"}


@each_case("model", ["openai", "vllm", "anthropic_compatible", "openai_compatible-responses"])
def test_searches_for_tools_in_the_history_are_taken(gateway: Gateway, model: str) -> None:
    """CommandCodeAI/command-code issues 893 and 745."""
    call = {
        "type": "tool_search_call",
        "call_id": "c1",
        "status": "completed",
        "execution": "client",
        "arguments": {"query": "x"},
    }
    output = {
        "type": "tool_search_output",
        "call_id": "c1",
        "status": "completed",
        "execution": "client",
        "tools": [FUNCTION],
    }
    answer = gateway.ask_model(
        RESPONSES_PATH, model, {"input": [item("user", "Hi"), call, output, item("user", "wgox")]}
    )
    assert answer.status == 200, answer.body
    assert "wgox" in gateway.server.requests[-1].content.decode()


@each_case("model", ["openai", "vllm", "anthropic_compatible", "mistral"])
def test_developers_messages_and_additional_tools_are_taken(gateway: Gateway, model: str) -> None:
    """farion1231/cc-switch issue 7451."""
    more = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [NAMESPACE]}
    items = [more, item("developer", "wdevx"), item("developer", "wmorex"), item("user", "Hi")]
    sent = gateway.send(RESPONSES_PATH, model, {"input": items})
    assert "wdevx" in json.dumps(sent) and "wmorex" in json.dumps(sent) and '"developer"' not in json.dumps(sent)
    assert "inner" in json.dumps(sent["tools"])


def test_additional_tools_reach_openai_whole(gateway: Gateway) -> None:
    """10/chatgpt-codex-proxy issue 9."""
    more = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [NAMESPACE]}
    sent = gateway.send(RESPONSES_PATH, "openai-responses", {"input": [more, item("user", "Hi")]})
    assert sent["input"][0] == more and "tools" not in sent


# -- the Responses API


def test_the_text_of_a_turn_stands_before_its_calls(gateway: Gateway) -> None:
    """continuedev/continue issue 11994."""
    turn = {**chat_call("a"), "content": "I look."}
    sent = gateway.send(CHAT, "openai-responses", {"messages": [HI, turn, chat_result("a"), HI]})
    assert [one["type"] for one in sent["input"]] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


@each_case(
    "message",
    [
        # continuedev/continue issue 9628, openai/openai-agents-js issue 929
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        # NousResearch/hermes-agent pull request 10217
        (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    ],
)
def test_reasoning_that_openai_does_not_take_back_is_left_out(gateway: Gateway, message: tuple[int, str]) -> None:
    def refuse(body: Json) -> tuple[int, str] | None:
        return message if any(one.get("type") == "reasoning" for one in body["input"]) else None

    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    sent = gateway.send(
        RESPONSES_PATH, "openai-responses", {"input": [item("user", "Hi"), thought, item("user", "so")]}, refuse
    )
    assert [one["type"] for one in sent["input"]] == ["message", "message"]


def test_ids_of_other_items_are_left_out(gateway: Gateway) -> None:
    """continuedev/continue pull request 11785."""
    call = {"type": "function_call", "id": "msg_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    sent = gateway.send(RESPONSES_PATH, "openai-responses", {"input": [item("user", "Hi"), call, output]})
    assert sent["input"][1].get("id", "fc_").startswith("fc_")


def test_several_items_of_reasoning_have_ids_of_their_own(gateway: Gateway) -> None:
    """TanStack/ai pull request 1347."""
    thoughts = [
        {"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": f"gAA{at}"} for at in (1, 2)
    ]
    sent = gateway.send(
        RESPONSES_PATH,
        "openai-responses",
        {"input": [item("user", "Hi"), *thoughts, item("assistant", "so"), item("user", "go")]},
    )
    assert [one.get("encrypted_content") for one in sent["input"][1:3]] == ["gAA1", "gAA2"]


def test_json_object_is_asked_for_in_the_other_api(gateway: Gateway) -> None:
    """diegosouzapw/OmniRoute pull request 11529."""
    body = {"messages": [{"role": "user", "content": "JSON, please"}], "response_format": {"type": "json_object"}}
    assert gateway.send(CHAT, "openai-responses", body)["text"] == {"format": {"type": "json_object"}}


# -- reasoning of DeepSeek


@each_case("model", ["deepseek", "openrouter"])
@each_case("thinking", [{}, {"reasoning_effort": "high"}])
def test_turns_with_calls_have_their_reasoning(gateway: Gateway, model: str, thinking: Json) -> None:
    """JohnnyZ93/oai-compatible-copilot issues 202 and 260, danny-avila/LibreChat issue 13366,
    esengine/DeepSeek-Reasonix issue 10210, langchain-ai/docs issue 3765."""
    turn = {**chat_call("a"), "reasoning_content": "wthoughtx"}
    sent = gateway.send(CHAT, model, {"messages": [HI, turn, chat_result("a"), HI], **thinking})
    assert "wthoughtx" in json.dumps(sent["messages"][1])


@each_case("thinking", [{"thinking": {"type": "disabled"}}, {}])
def test_turns_of_a_client_that_drops_reasoning_have_a_blank_one(gateway: Gateway, thinking: Json) -> None:
    """OpenMinis/OpenMinis issue 1."""
    sent = gateway.send(CHAT, "deepseek", {"messages": [HI, chat_call("a"), chat_result("a"), HI], **thinking})
    assert sent["messages"][1]["reasoning_content"]


def test_thinking_blocks_of_claude_code_become_reasoning(gateway: Gateway) -> None:
    """claude-code-best/claude-code issue 342."""
    turn = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "wthoughtx", "signature": "s"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        ],
    }
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    sent = gateway.send(MESSAGES, "deepseek", {"messages": [HI, turn, result]})
    assert sent["messages"][1]["reasoning_content"] == "wthoughtx"


def test_signed_thinking_of_litellms_clients_goes_back_to_anthropic(gateway: Gateway) -> None:
    """openai/openai-agents-python issue 1704: without it the turn is refused, and the reasoning is lost."""
    blocks = [
        {"type": "thinking", "thinking": "deep", "signature": "U0lH"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "thinking", "thinking": "unsigned"},
    ]
    turn = {**chat_call("toolu_1"), "thinking_blocks": blocks}
    for more in ({}, {"reasoning_content": "deep"}):
        messages = [HI, {**turn, **more}, chat_result("toolu_1")]
        sent = gateway.send(CHAT, "anthropic", {"messages": messages, "reasoning_effort": "medium"})
        assert sent["messages"][1]["content"][:2] == blocks[:2]
        sent = gateway.send(CHAT, "deepseek", {"messages": messages})
        assert sent["messages"][1]["reasoning_content"] == "deep" and "U0lH" not in str(sent)


# -- functions


@each_case("model", ["openai", "anthropic", "vllm"])
def test_a_function_without_a_name_is_refused_with_its_place(gateway: Gateway, model: str) -> None:
    """BerriAI/litellm issue 24668."""
    tools = [
        {
            "type": "function",
            "function": {"name": "", "description": "", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    answer = gateway.ask_model(CHAT, model, {"messages": [HI], "tools": tools})
    assert answer.status == 400 and "tools[0].function.name" in answer.body.decode()


def test_long_names_of_functions_are_shortened_and_come_back(gateway: Gateway) -> None:
    """aws-samples/sample-apj-sup-sa pull request 137."""
    name = "mcp__" + "server_" * 15
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {}}}]
    sent = gateway.send(MESSAGES, "openai", {"messages": [HI], "tools": tools, "tool_choice": {"type": "none"}})
    assert len(sent["tools"][0]["function"]["name"]) <= 64 and sent["tool_choice"] == "none"


def test_a_message_of_the_user_does_not_follow_a_result_directly(gateway: Gateway) -> None:
    """mistralai/mistral-vibe issue 454."""
    sent = gateway.send(CHAT, "mistral", {"messages": [HI, chat_call("a"), chat_result("a"), HI]})
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


def test_an_effort_reaches_an_unknown_server_as_it_is(gateway: Gateway) -> None:
    """egoist/chatwise-releases issue 1285."""
    sent = gateway.send(CHAT, "openai_compatible", {"messages": [HI], "reasoning_effort": "low"})
    assert sent["reasoning_effort"] == "low"


# -- images of tools


IMAGE_PART = {"type": "image_url", "image_url": {"url": IMAGE}}


@each_case("model", ["openai", "openai_compatible", "mistral"])
def test_images_of_results_are_in_a_message_of_the_user(gateway: Gateway, model: str) -> None:
    """shiaho777/web-to-app issue 750 and pull request 751, NousResearch/hermes-agent pull request 107487,
    Gitlawb/openclaude pull request 237, MayDay-wpf/snow-app pull request 132."""
    results = [chat_result("a", [text("one"), IMAGE_PART]), chat_result("b", [IMAGE_PART])]
    sent = gateway.send(CHAT, model, {"messages": [HI, chat_call("a", "b"), *results]})
    roles = [one["role"] for one in sent["messages"]]
    assert roles[:4] == ["user", "assistant", "tool", "tool"] and roles[-1] == "user"
    assert all(isinstance(one["content"], str) for one in sent["messages"] if one["role"] == "tool")
    assert json.dumps(sent["messages"][-1]).count("data:image/png") == 2


def test_images_of_codex_are_in_a_message_of_the_user(gateway: Gateway) -> None:
    """CommandCodeAI/command-code issue 795."""
    calls = [{"type": "function_call", "call_id": id_, "name": "view_image", "arguments": "{}"} for id_ in "abc"]
    outputs = [
        {
            "type": "function_call_output",
            "call_id": id_,
            "output": [{"type": "input_image", "image_url": IMAGE, "detail": "high"}],
        }
        for id_ in "abc"
    ]
    sent = gateway.send(RESPONSES_PATH, "openai_compatible", {"input": [item("user", "Hi"), *calls, *outputs]})
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert all(isinstance(one["content"], str) for one in sent["messages"] if one["role"] == "tool")


def test_images_of_results_move_where_a_server_of_messages_takes_none(gateway: Gateway) -> None:
    """CommandCodeAI/command-code issue 850."""
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE.partition(",")[2]}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": source}]}
    messages = [
        HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    sent = gateway.send(MESSAGES, "text_results", {"messages": messages})
    results = [one for one in sent["messages"][2]["content"] if one["type"] == "tool_result"]
    assert (
        "image" not in {one["type"] for one in results[0]["content"]}
        if isinstance(results[0]["content"], list)
        else True
    )
    assert any(one["type"] == "image" for one in sent["messages"][2]["content"])
