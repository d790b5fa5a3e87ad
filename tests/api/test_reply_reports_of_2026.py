"""What users of clients, gateways and model servers reported in 2026 of replies and requests of chats, tried here. Each
test names the report. Those of more than one server are rows in `tests/faults` and `tests/upstream/test_learned_rules`.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import Answer, AnsweringGateway, ModelServer, Running, streamed

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HI: Json = {"role": "user", "content": "Hi"}
PATCH = "*** Begin Patch\n*** End Patch"
SETTINGS: Json = {
    "upstreams": {
        "local": {"base_url": "http://model.test/v1"},
        "vllm": {"base_url": "http://vllm.test/v1", "kind": "vllm"},
        "claude": {"base_url": "http://claude.test/v1", "kind": "anthropic", "api": "messages"},
        "codex": {"base_url": "http://codex.test/v1", "kind": "vllm", "api": "responses"},
    },
    "models": {name: {"upstreams": [name], "max_retries": 0} for name in ("local", "vllm", "claude", "codex")},
    "server": {"log_level": "error"},
}


class _Gateway(AnsweringGateway):
    def ask_model(self, path: str, model: str, answer: httpx.Response, **body: Any) -> Answer:
        limit = {"max_tokens": 30} if path == MESSAGES else {}
        asked = {"input": "Hi"} if path == RESPONSES else {"messages": [HI]}
        return self.exchange(path, {"model": model, **limit, **asked, **body}, answer)


@pytest.fixture(scope="module")
def gateway() -> Iterator[_Gateway]:
    with _Gateway(SETTINGS) as gateway:
        yield gateway


def stream(*events: Json) -> httpx.Response:
    """Events of chat completions or of messages."""
    lines = []
    for one in events:
        name = f"event: {one['type']}\n" if "type" in one else ""
        lines.append(f"{name}data: {json.dumps(one)}\n\n")
    return streamed("".join(lines).encode())


def chunk(reason: str | None = None, usage: Json | None = None, **delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": usage}


def call(name: str, arguments: str) -> Json:
    return {
        "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]
    }


def read_events(answer: Answer) -> list[Json]:
    lines = answer.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


START: Json = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}},
}
USED: Json = {**START, "message": {**START["message"], "usage": {"input_tokens": 9, "output_tokens": 0}}}
TOOL_USE: Json = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}


def end(reason: str) -> list[Json]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}, {"type": "message_stop"}]


def open_block(index: int, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop_block(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def test_a_message_without_a_call_does_not_end_with_one(gateway: _Gateway) -> None:
    # mastra-ai/mastra#14187: clients run no call, and ask again for ever
    answer = gateway.ask_model(MESSAGES, "claude", stream(START, *end("tool_use")), stream=True)
    assert read_events(answer)[-2]["delta"]["stop_reason"] == "end_turn"
    whole = {**START["message"], "content": [TOOL_USE], "stop_reason": "end_turn"}
    told = [START, open_block(0, **TOOL_USE), stop_block(0), *end("end_turn")]
    assert (
        read_events(gateway.ask_model(MESSAGES, "claude", stream(*told), stream=True))[-2]["delta"]["stop_reason"]
        == "tool_use"
    )
    assert (
        json.loads(gateway.ask_model(MESSAGES, "claude", httpx.Response(200, json=whole)).body)["stop_reason"]
        == "tool_use"
    )


def test_input_of_a_call_with_the_index_of_a_text_is_of_the_open_call(gateway: _Gateway) -> None:
    # sgl-project/sglang#26795
    begun = [START, open_block(0, type="text", text=""), delta(0, type="text_delta", text="I look")]
    given = delta(0, type="input_json_delta", partial_json='{"a": 1}')
    answer = gateway.ask_model(
        MESSAGES,
        "claude",
        stream(*begun, open_block(1, **TOOL_USE), given, stop_block(0), *end("tool_use")),
        stream=True,
    )
    events = read_events(answer)
    starts = [one for one in events if one["type"] == "content_block_start"]
    assert [one["content_block"]["type"] for one in starts] == ["text", "tool_use"]
    assert [one["index"] for one in events if "partial_json" in json.dumps(one)] == [starts[1]["index"]]


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_a_call_that_its_limit_has_cut_ends_so_at_vllm(gateway: _Gateway, path: str) -> None:
    # vllm-project/vllm#58228
    usage = {"prompt_tokens": 5, "completion_tokens": 30, "total_tokens": 35}
    limit = {"max_output_tokens" if path == RESPONSES else "max_tokens": 30}
    cut = stream(chunk(**call("f", '{"a": "b')), chunk("tool_calls", usage))
    reply = json.loads(gateway.ask_model(path, "vllm", cut, **limit).body)
    reason = reply["choices"][0]["finish_reason"] if path == CHAT else reply.get("stop_reason") or reply.get("status")
    assert reason in ("length", "max_tokens", "incomplete")


@each_case("arguments", [{"patch": PATCH}, {"command": ["apply_patch", PATCH]}, {"input": PATCH, "workdir": "/a"}])
def test_the_text_of_a_custom_tool_may_have_another_name(gateway: _Gateway, arguments: Json) -> None:
    # farion1231/cc-switch PR 3669
    answered = stream(chunk("tool_calls", **call("apply_patch", json.dumps(arguments))))
    reply = json.loads(
        gateway.ask_model(RESPONSES, "local", answered, tools=[{"type": "custom", "name": "apply_patch"}]).body
    )
    assert [(one["type"], one["input"]) for one in reply["output"]] == [("custom_tool_call", PATCH)]


def test_thinking_may_be_on_without_a_budget(gateway: _Gateway) -> None:
    # experientiallabs/experiential#905
    said = stream(chunk("stop", content="Hello"))
    answer = gateway.ask_model(MESSAGES, "local", said, thinking={"type": "enabled"})
    assert (answer.status, gateway.sent["enable_thinking"], "thinking_budget" in gateway.sent) == (200, True, False)
    whole = {**START["message"], "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
    answer = gateway.ask_model(MESSAGES, "claude", httpx.Response(200, json=whole), thinking={"type": "enabled"})
    assert (answer.status, gateway.sent["thinking"]["type"]) == (200, "enabled")


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_a_wait_in_words_reaches_the_client(gateway: _Gateway, path: str) -> None:
    # lbjlaq/Antigravity-Manager#3414
    error = {"error": {"message": "No available accounts: All accounts limited. Wait 29s.", "type": "server_error"}}
    answer = gateway.ask_model(path, "local", httpx.Response(503, json=error))
    assert (answer.status >= 500, answer.headers["retry-after"]) == (True, "29")


def test_messages_that_are_too_large_are_told_as_a_long_prompt(gateway: _Gateway) -> None:
    # MoonshotAI/kimi-code#476
    error = {"error": {"message": "total message size 10176584 exceeds limit 2097152", "type": "invalid_request_error"}}
    answer = gateway.ask_model(MESSAGES, "local", httpx.Response(400, json=error))
    assert "prompt is too long" in answer.body.decode()


def find_calls(path: str, reply: Json) -> list[tuple[str, Any]]:
    """The calls of a whole reply."""
    if path == CHAT:
        calls = reply["choices"][0]["message"].get("tool_calls") or []
        return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls]
    if path == MESSAGES:
        return [(one["name"], one["input"]) for one in reply["content"] if one["type"] == "tool_use"]
    return [(one["name"], json.loads(one["arguments"])) for one in reply["output"] if one["type"] == "function_call"]


TOOLS: Json = {
    CHAT: [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}],
    MESSAGES: [{"name": "search", "input_schema": {"type": "object"}}],
    RESPONSES: [{"type": "function", "name": "search", "parameters": {"type": "object"}}],
}


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_a_call_that_comes_as_text_and_as_a_call_is_made_once(gateway: _Gateway, path: str) -> None:
    # Blaizzy/mlx-vlm#900
    text = '<|tool_call>call:search{query:<|"|>AI<|"|>}<tool_call|>'
    again = {**call("search", '{"query": "AI"}'), "extra_content": {"google": {"thought_signature": "c2ln"}}}
    answer = gateway.ask_model(path, "local", stream(chunk(content=text), chunk("stop", **again)), tools=TOOLS[path])
    assert find_calls(path, json.loads(answer.body)) == [("search", {"query": "AI"})]
    assert text not in json.loads(answer.body).get("content", "")


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_another_call_behind_one_in_the_text_is_made_too(gateway: _Gateway, path: str) -> None:
    text = '<|tool_call>call:search{query:<|"|>AI<|"|>}<tool_call|>'
    parts = [chunk(**call("search", '{"query": ')), chunk(**call("", '"ML"}')), chunk("tool_calls")]
    answer = gateway.ask_model(path, "local", stream(chunk(content=text), *parts), tools=TOOLS[path])
    assert find_calls(path, json.loads(answer.body)) == [("search", {"query": "AI"}), ("search", {"query": "ML"})]


WHOLE: Json = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "OK"}, "finish_reason": "stop"}],
}


def test_a_reply_in_a_field_of_an_object_is_read(gateway: _Gateway) -> None:
    # cline/cline#12647
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    for body in ({"success": True, "data": {**WHOLE, "usage": usage}}, {"output": WHOLE, "usage": usage}):
        reply = json.loads(gateway.ask_model(CHAT, "local", httpx.Response(200, json=body)).body)
        assert (reply["choices"][0]["message"]["content"], reply["usage"]["total_tokens"]) == ("OK", 5)
    failed = httpx.Response(200, json={"error": {"message": "no credits"}, "data": WHOLE})
    assert gateway.ask_model(CHAT, "local", failed).status >= 400


@each_case("glue", ["", "\n", " "])
def test_events_without_the_line_break_between_them_are_read(gateway: _Gateway, glue: str) -> None:
    # decolua/9router#3492
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    whole = json.dumps({**WHOLE, "usage": usage})
    reply = json.loads(gateway.ask_model(CHAT, "local", streamed(f"{whole}{glue}data: [DONE]\n\n".encode())).body)
    assert (reply["choices"][0]["message"]["content"], reply["usage"]["total_tokens"]) == ("OK", 5)
    first, last = json.dumps(chunk(content="It is }data: {")), json.dumps(chunk("stop", usage, content="]."))
    reply = json.loads(gateway.ask_model(CHAT, "local", streamed(f"data: {first}{glue}data: {last}\n\n".encode())).body)
    assert reply["choices"][0]["message"]["content"] == "It is }data: {]."
    broken = streamed(f"data: {first}{glue}data: {{bad}}\n\n".encode())
    assert gateway.ask_model(CHAT, "local", broken).status == 502


@each_case("path", [MESSAGES, RESPONSES])
def test_reasoning_that_a_server_counts_apart_is_a_part_of_the_output(gateway: _Gateway, path: str) -> None:
    # Wei-Shaw/sub2api#5771
    details = {"completion_tokens_details": {"reasoning_tokens": 2809}}
    usage = {"prompt_tokens": 10120, "completion_tokens": 1499, "total_tokens": 14428, **details}
    reply = json.loads(gateway.ask_model(path, "local", stream(chunk(content="Hi"), chunk("stop", usage))).body)
    assert (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]) == (10120, 4308)


def test_a_call_has_the_same_id_to_the_end_of_the_reply(gateway: _Gateway) -> None:
    # vllm-project/vllm PR 56285: Codex pairs the items of the end with the earlier ones
    item: Json = {"type": "function_call", "status": "completed", "name": "search", "arguments": "{}"}
    early, late = {**item, "id": "7a", "call_id": "call_7a"}, {**item, "id": "fc_9", "call_id": "chatcmpl-tool-9"}
    response: Json = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [late]}
    events: list[Json] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**early, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "7a", "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": early},
        {"type": "response.completed", "response": response},
    ]
    found = read_events(gateway.ask_model(RESPONSES, "codex", stream(*events), tools=TOOLS[RESPONSES], stream=True))
    ids = {one["item"]["call_id"] for one in found if "item" in one}
    ids |= {one["call_id"] for one in found[-1]["response"]["output"]}
    assert ids == {"call_7a"}


@each_case(
    "parts",
    [("now.</think>\n\nYes, it is.",), ("now.</thi", "nk>\n\nYes,", " it is."), tuple("now.</think>\n\nYes, it is.")],
)
def test_a_rest_of_reasoning_in_the_content_is_reasoning(gateway: _Gateway, parts: tuple[str, ...]) -> None:
    # vllm-project/vllm#51641: the server holds the last characters back when the request has stop words
    said = stream(chunk(reasoning="I answer "), *(chunk(content=part) for part in parts), chunk("stop"))
    reply = gateway.ask_model(CHAT, "vllm", said, stop=["STOP!"])
    message = json.loads(reply.body)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("I answer now.", "Yes, it is.")


@each_case(
    "content",
    [
        "`</think>` ends a thought.",
        "The tag </think> ends it.",
        "A tag </think> ends it.",
        "<think>a</think>\nb",
        "a < b",
        "Hi",
        "Hi all</think>\nb",
    ],
)
def test_an_answer_about_tags_is_not_reasoning(gateway: _Gateway, content: str) -> None:
    for parts in ((content,), content):
        said = stream(chunk(reasoning="I think."), *(chunk(content=part) for part in parts), chunk("stop"))
        reply = gateway.ask_model(CHAT, "vllm", said, stop=["STOP!"])
        message = json.loads(reply.body)["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("I think.", content)


THOUGHTS_OFF: dict[str, Json] = {
    CHAT: {"chat_template_kwargs": {"enable_thinking": False}},
    RESPONSES: {"reasoning": {"effort": "none"}},
    MESSAGES: {"thinking": {"type": "disabled"}},
}


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_an_answer_in_the_field_of_reasoning_is_one_where_thinking_is_off(gateway: _Gateway, path: str) -> None:
    # vllm-project/vllm#40466, ggml-org/llama.cpp#27134; with thinking it stays reasoning
    told = stream(chunk(reasoning="It is "), chunk(reasoning="Paris."), chunk("stop"))
    off, on = (gateway.ask_model(path, "vllm", told, **more).json for more in (THOUGHTS_OFF[path], {}))
    assert find_answer(path, off) == "It is Paris."
    assert find_answer(path, on) == ""


def find_answer(path: str, reply: Json) -> str:
    if path == CHAT:
        return reply["choices"][0]["message"]["content"] or ""
    parts = reply["content"] if path == MESSAGES else [p for i in reply["output"] for p in i["content"] or ()]
    return "".join(part["text"] for part in parts if part["type"] in ("text", "output_text"))


def test_a_closing_tag_behind_reasoning_in_a_field_is_no_text(gateway: _Gateway) -> None:
    # anomalyco/opencode#36569
    told = stream(
        chunk(reasoning_content="I look."), chunk(content="</thinki"), chunk(content="ng>\n\nHere."), chunk("stop")
    )
    assert find_answer(CHAT, gateway.ask_model(CHAT, "local", told).json) == "Here."


MERGED = ['{"a": "D:', '\\\\x"}', '{"a"', ': "D:\\\\y"', "}"]


@each_case("parts", [MERGED, ["".join(MERGED)], ["".join(MERGED)[:-9], "".join(MERGED)[-9:]], [*"".join(MERGED)]])
def test_calls_that_a_server_of_messages_has_merged_are_calls_of_its_own_clients(
    gateway: _Gateway, parts: list[str]
) -> None:
    # sgl-project/sglang#16371
    inputs = [delta(0, type="input_json_delta", partial_json=part) for part in parts]
    told = stream(USED, open_block(0, **TOOL_USE), *inputs, stop_block(0), *end("tool_use"))
    events = read_events(gateway.ask_model(MESSAGES, "claude", told, stream=True, tools=TOOLS[MESSAGES]))
    given: dict[int, str] = {}
    for one in events:
        if one["type"] == "content_block_delta":
            given[one["index"]] = given.get(one["index"], "") + one["delta"]["partial_json"]
    assert [*given.values()] == ['{"a": "D:\\\\x"}', '{"a": "D:\\\\y"}']
    ids = [one["content_block"]["id"] for one in events if one["type"] == "content_block_start"]
    assert len(set(ids)) == 2


@each_case("parts", [MERGED, ["".join(MERGED)], [*"".join(MERGED)]])
def test_calls_that_a_server_of_responses_has_merged_are_calls_of_its_own_clients(
    gateway: _Gateway, parts: list[str]
) -> None:
    called: Json = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "status": "completed"}
    place = {"output_index": 0, "item_id": "fc_1"}
    head: Json = {"id": "r", "object": "response", "model": "m"}
    whole = {**called, "arguments": "".join(parts)}
    events: list[Json] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**called, "arguments": ""}},
        *[{"type": "response.function_call_arguments.delta", **place, "delta": part} for part in parts],
        {"type": "response.function_call_arguments.done", **place, "arguments": "".join(parts)},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": head | {"status": "completed", "output": [whole]}},
    ]
    answer = gateway.ask_model(RESPONSES, "codex", stream(*events), stream=True, tools=TOOLS[RESPONSES])
    output = read_events(answer)[-1]["response"]["output"]
    assert [item["arguments"] for item in output] == ['{"a": "D:\\\\x"}', '{"a": "D:\\\\y"}']


@each_case("path", [CHAT, MESSAGES, RESPONSES])
def test_signed_blocks_of_a_server_of_chats_come_back_from_clients_of_every_api(path: str) -> None:
    # LiteLLM in front of Anthropic: without its blocks the next turn is refused, or thinks without them
    blocks: list[Json] = [
        {"type": "thinking", "thinking": "I add.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
    ]
    told = [
        chunk(reasoning_content="I add.", thinking_blocks=[{"type": "thinking", "thinking": "I add."}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "c2ln"}]),
        chunk(thinking_blocks=blocks[1:]),
        chunk(**call("search", "{}")),
        chunk("tool_calls"),
    ]
    server = ModelServer(lambda _: stream(*told))
    with Running(SETTINGS, server) as gateway:
        asked: Json = {"model": "local", "tools": TOOLS[path], "messages": [HI], "max_tokens": 30}
        if path == RESPONSES:
            asked = {"model": "local", "tools": TOOLS[path], "input": [HI], "store": False}
        reply = gateway.post(path, asked).json
        if path == CHAT:
            asked["messages"] += [
                reply["choices"][0]["message"],
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
            ]
        elif path == MESSAGES:
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
            asked["messages"] += [
                {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": [result]},
            ]
        else:
            asked["input"] += [*reply["output"], {"type": "function_call_output", "call_id": "c1", "output": "x"}]
        assert gateway.post(path, asked).status == 200
    assert json.loads(server.requests[-1].content)["messages"][1]["thinking_blocks"] == blocks


def test_clients_of_messages_get_no_end_of_a_block_that_has_not_begun(gateway: _Gateway) -> None:
    # QuantumNous/new-api#5482: the SDK finds blocks by their place in a list
    told = [USED, open_block(0, type="thinking", thinking=""), delta(0, type="thinking_delta", thinking="I look.")]
    told += [stop_block(0), stop_block(1), open_block(2, type="text", text="")]
    told += [delta(2, type="text_delta", text="Done."), stop_block(2), stop_block(3), *end("end_turn")]
    events = read_events(gateway.ask_model(MESSAGES, "claude", stream(*told), stream=True))
    kinds = [(one["type"], one["index"]) for one in events if "index" in one]
    block = ("content_block_start", "content_block_delta", "content_block_stop")
    assert [one for one in kinds if one[0] in block] == [(kind, index) for index in (0, 1) for kind in block]


def test_clients_of_messages_get_a_usage_in_each_event_that_they_read_it_from(gateway: _Gateway) -> None:
    # earendil-works/pi#6567, Alishahryar1/free-claude-code#209: clients crash without it
    blocks = [open_block(0, type="text", text=""), delta(0, type="text_delta", text="Hi"), stop_block(0)]
    *_, last = end("end_turn")
    bare = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    for told in ([START, *blocks, *end("end_turn")], [USED, *blocks, bare, last]):
        events = read_events(gateway.ask_model(MESSAGES, "claude", stream(*told), stream=True))
        begun, ended = events[0]["message"]["usage"], events[-2]["usage"]
        assert all(type(begun[name]) is int for name in ("input_tokens", "output_tokens"))
        assert type(ended["output_tokens"]) is int
        assert [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"] == ["Hi"]


def test_clients_of_messages_get_the_end_of_each_block_before_the_next_one(gateway: _Gateway) -> None:
    told = [USED, open_block(0, type="text", text=""), delta(0, type="text_delta", text="I look.")]
    told += [open_block(1, **TOOL_USE), delta(1, type="input_json_delta", partial_json="{}"), *end("tool_use")]
    events = read_events(gateway.ask_model(MESSAGES, "claude", stream(*told), stream=True))
    kinds = [(one["type"], one["index"]) for one in events if "index" in one]
    assert [kind for kind in kinds if kind[0] != "content_block_delta"] == [
        (f"content_block_{step}", index) for index in (0, 1) for step in ("start", "stop")
    ]


@each_case(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
        {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "output_tokens_details": {}},
        {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "input_tokens_details": {"text_tokens": 9}},
        {"input_tokens": 9, "output_tokens": 4},
    ],
)
def test_clients_of_responses_get_all_numbers_of_a_usage(gateway: _Gateway, usage: Json) -> None:
    # BigPizzaV3/CodexPlusPlus#1908, 6Kmfi6HP/opencode2api#11, pingmike2/freebuff2api-wokers#10: Codex ends the turn
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    done = {**item, "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
    head: Json = {"id": "r", "object": "response", "model": "m"}
    events: list[Json] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": head | {"status": "completed", "output": [done], "usage": usage}},
    ]
    got = read_events(gateway.ask_model(RESPONSES, "codex", stream(*events), stream=True))
    told = got[-1]["response"]["usage"]
    assert (told["input_tokens"], told["output_tokens"], told["total_tokens"]) == (9, 4, 13)
    assert type(told["input_tokens_details"]["cached_tokens"]) is int
    assert type(told["output_tokens_details"]["reasoning_tokens"]) is int
    # The server names no item in its delta; clients find the item by that name.
    assert {one["item_id"] for one in got if "item_id" in one} == {"msg_1"}
    assert got[-1]["response"]["output"] == [done]
