"""`cache_control` goes to servers that know it and is named in a warning elsewhere; so is any key that is not read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conversations.features import PNG
from tests.conversations.sample_conversations import convert
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
MARK = {"type": "ephemeral", "ttl": "1h"}
KNOWING = ("openrouter", "dashscope", "proxy")
OTHERS = ("plain", "openai", "vllm", "deepseek", "mistral")
KINDS = ("openrouter", "dashscope", "openai", "vllm", "deepseek", "mistral")
ADDRESS = {"base_url": "http://model.test/v1"}
MODELS = {
    "upstreams": {"local": ADDRESS, **{kind: {**ADDRESS, "kind": kind} for kind in KINDS}},
    "models": {
        "plain": {"upstreams": ["local"]},
        "proxy": {"upstreams": ["local"], "profile": {"cache_control": True}},
        "merging": {"upstreams": ["local"], "profile": {"cache_control": True, "system": "merged"}},
        "prompted": {"upstreams": ["local"], "profile": {"cache_control": True, "native_tools": False}},
        **{kind: {"upstreams": [kind]} for kind in KINDS},
    },
}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


class Gateway:
    def __init__(self, running: Running, server: ModelServer) -> None:
        self.running = running
        self._server = server

    def sent(self, model: str, messages: list[Json], form: str = "openai", **fields: Any) -> tuple[Json, list[str]]:
        """(the body that the model server gets, warnings)."""
        request = {"model": model, "format": form, "reply_format": "qwen", "stream": False, "messages": messages}
        answer = self.running.post("/v1/chat", request | fields)
        assert answer.status == 200, answer.body
        return json.loads(self._server.requests[-1].content), answer.json["warnings"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(MODELS, server) as running:
        yield Gateway(running, server)


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def marked(value: str) -> Json:
    return text(value, cache_control=MARK)


MESSAGES: list[Json] = [
    {"role": "system", "content": [text("Be kind."), marked("A long book.")]},
    {"role": "user", "content": [marked("Hi")]},
    {"role": "assistant", "content": [marked("Let me look.")], "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": [text("seen"), marked("all")]},
]
TOOLS = [{**LOOK, "cache_control": MARK}]


@pytest.mark.parametrize("model", KNOWING)
def test_a_server_that_knows_the_mark_gets_it_where_it_stood(gateway: Gateway, model: str) -> None:
    body, warnings = gateway.sent(model, MESSAGES, tools=TOOLS)
    assert [one["content"] for one in body["messages"]] == [one["content"] for one in MESSAGES]
    assert body["tools"] == TOOLS
    assert warnings == []


@pytest.mark.parametrize("model", OTHERS)
def test_another_server_is_not_sent_the_mark_and_the_caller_gets_a_warning(gateway: Gateway, model: str) -> None:
    body, warnings = gateway.sent(model, MESSAGES, tools=TOOLS)
    assert "cache_control" not in json.dumps(body)
    assert body["messages"][0]["content"] == "Be kind.\nA long book."
    assert body["messages"][3]["content"] == "seen\nall"
    places = [
        "messages[0].content[1]",
        "messages[1].content[0]",
        "messages[2].content[0]",
        "messages[3].content[1]",
        "tools[0]",
    ]
    assert [one.partition(" ")[0] for one in warnings] == [f"{place}.cache_control" for place in places]


def test_an_image_keeps_its_mark(gateway: Gateway) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}, "cache_control": MARK}
    body, _ = gateway.sent("proxy", [{"role": "user", "content": [image]}])
    assert body["messages"] == [{"role": "user", "content": [image]}]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "look", "cache_control": MARK},
        {"type": "function", "function": {"name": "look", "cache_control": MARK}},
    ],
)
def test_a_mark_in_a_function_stands_beside_it(gateway: Gateway, tool: Json) -> None:
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    body, warnings = gateway.sent("proxy", [{"role": "user", "content": "Hi"}], "qwen", functions=[tool])
    assert body["tools"] == [{"type": "function", "function": function, "cache_control": MARK}]
    assert warnings == []
    body, [warning] = gateway.sent("plain", [{"role": "user", "content": "Hi"}], "qwen", functions=[tool])
    assert body["tools"] == [{"type": "function", "function": function}]
    assert warning.startswith("functions[0]") and ".cache_control was not sent" in warning


def test_merged_messages_keep_what_is_cached_apart(gateway: Gateway) -> None:
    systems: list[Json] = [{"role": "system", "content": [marked("a")]}, {"role": "system", "content": "b"}]
    body, _ = gateway.sent("merging", [*systems, {"role": "user", "content": "Hi"}])
    assert body["messages"][0]["content"] == [marked("a"), text("\n\nb")]


def test_a_rewritten_prompt_has_no_marks(gateway: Gateway) -> None:
    body, warnings = gateway.sent("prompted", [{"role": "user", "content": [marked("Hi")]}], tools=[LOOK])
    assert "cache_control" not in json.dumps(body)
    assert len(warnings) == 1


def test_a_translation_keeps_a_mark_or_warns_of_its_loss() -> None:
    messages = [{"role": "user", "content": [text("Hi"), marked("Ho")]}]
    assert convert("openai", "openai", messages) == (messages, [])
    for to in ("agentscope", "agentscope2"):
        there, warnings = convert("openai", to, messages)
        assert there[0]["content"][1]["cache_control"] == MARK
        assert not [one for one in warnings if "cache_control" in one]
        assert convert(to, "openai", there)[0] == messages
    for to in ("qwen", "autogen"):
        _, warnings = convert("openai", to, messages)
        assert "messages[0].content[1].cache_control: cannot be written in this format" in warnings


# -- AgentScope's blocks ----------------------------------------------------------------------

IN_BASE64 = {"type": "base64", "media_type": "image/png", "data": PNG}
RESULT = {"type": "tool_result", "id": "1", "name": "look"}


def by(role: str, *blocks: Json) -> Json:
    return {"name": role, "role": role, "content": list(blocks)}


def agentscope(form: str) -> list[Json]:
    """A conversation that has a mark in every place where there can be one."""
    call: Json = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    image: Json = {"type": "image", "source": IN_BASE64}
    if form == "agentscope2":
        call = {"type": "tool_call", "id": "1", "name": "look", "input": "{}"}
        image = {"type": "data", "source": IN_BASE64}
    answers = [by("assistant", {**RESULT, "output": [text("seen"), marked("all")]})]
    if form == "agentscope":
        answers = [by("system", *one["content"]) for one in answers]
    return [
        by("system", marked("A long book.")),
        by("user", text("Hi"), {**image, "cache_control": MARK}),
        by("assistant", marked("Let me look."), call),
        *answers,
    ]


@pytest.mark.parametrize("form", ["agentscope", "agentscope2"])
@pytest.mark.parametrize("model", KNOWING)
def test_a_mark_of_a_block_goes_to_a_server_that_knows_it(gateway: Gateway, form: str, model: str) -> None:
    body, warnings = gateway.sent(model, agentscope(form), form, tools=[LOOK])
    system, user, assistant, tool = body["messages"]
    assert system["content"] == [marked("A long book.")]
    assert [part.get("cache_control") for part in user["content"]] == [None, MARK]
    assert user["content"][1]["type"] == "image_url"
    assert assistant["content"] == [marked("Let me look.")]
    assert tool["content"] == [text("seen"), marked("all")]
    assert warnings == []


@pytest.mark.parametrize("form", ["agentscope", "agentscope2"])
def test_a_mark_of_a_block_is_named_where_a_server_does_not_know_it(gateway: Gateway, form: str) -> None:
    body, warnings = gateway.sent("plain", agentscope(form), form, tools=[LOOK])
    assert "cache_control" not in json.dumps(body)
    places = ["messages[0].content[0]", "messages[1].content[1]", "messages[2].content[0]"]
    places.append("messages[3].content[0].output[1]")
    assert [one.partition(" ")[0] for one in warnings] == [f"{place}.cache_control" for place in places]


@pytest.mark.parametrize("form", ["agentscope", "agentscope2"])
@pytest.mark.parametrize("output", ["seen", [text("seen")]])
def test_a_mark_of_a_whole_result_stands_at_its_end(gateway: Gateway, form: str, output: Any) -> None:
    messages = agentscope(form)
    messages[3]["content"] = [{**RESULT, "output": output, "cache_control": MARK}]
    body, warnings = gateway.sent("proxy", messages, form, tools=[LOOK])
    assert body["messages"][3]["content"] == [marked("seen")]
    assert warnings == []


@pytest.mark.parametrize("form", ["agentscope", "agentscope2"])
def test_marks_of_blocks_survive_a_translation_and_back(form: str) -> None:
    messages = agentscope(form)
    there, _ = convert(form, "openai", messages)
    again, _ = convert("openai", form, there)
    assert json.dumps(again).count("cache_control") == 4
    assert convert(form, "openai", again)[0] == there
    assert convert(form, form, messages)[0] == messages


@pytest.mark.parametrize("form", ["agentscope", "agentscope2"])
def test_a_mark_that_is_no_object_is_refused(gateway: Gateway, form: str) -> None:
    body = {"model": "proxy", "format": form, "messages": [by("user", text("Hi", cache_control=True))]}
    answer = gateway.running.post("/v1/chat", body)
    assert (answer.status, answer.json["error"]["param"]) == (422, "messages[0].content[0].cache_control")


# -- keys that are not read ----------------------------------------------------------------

IMAGE = {"type": "base64", "media_type": "image/png", "data": PNG}
UNKNOWN: list[tuple[str, Json, list[str]]] = [
    ("openai", {"role": "user", "content": [text("Hi", mood=1)]}, ["content[0].mood"]),
    (
        "openai",
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.org/a.png", "size": 3}}]},
        ["content[0].image_url.size"],
    ),
    (
        "autogen",
        {"type": "UserMessage", "source": "user", "content": ["Hi", {"data": IMAGE["data"], "mood": 1}]},
        ["content[1].mood"],
    ),
    (
        "agentscope",
        {"name": "u", "role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "cache_control": MARK}]},
        ["content[0].cache_control"],
    ),
    (
        "agentscope",
        {"name": "u", "role": "user", "content": [{"type": "image", "source": {**IMAGE, "mood": 1}}]},
        ["content[0].source.mood"],
    ),
    (
        "agentscope2",
        {"name": "u", "role": "user", "content": [{"type": "text", "text": "Hi", "id": "b", "mood": 1}]},
        ["content[0].mood"],
    ),
]


@pytest.mark.parametrize(("form", "message", "places"), UNKNOWN)
def test_an_unknown_key_of_a_content_part_is_named(
    gateway: Gateway, form: str, message: Json, places: list[str]
) -> None:
    _, warnings = gateway.sent("plain", [message], form)
    assert [one.partition(" ")[0] for one in warnings] == [f"messages[0].{place}" for place in places]


def test_an_unknown_key_of_qwen_agents_content_is_refused_as_it_refuses_it(gateway: Gateway) -> None:
    message = {"role": "user", "content": [{"text": "Hi", "mood": 1}]}
    answer = gateway.running.post("/v1/chat", {"model": "plain", "messages": [message]})
    assert (answer.status, answer.json["error"]["param"]) == (422, "messages[0].content[0].mood")


@pytest.mark.parametrize("form", ["qwen", "openai"])
def test_an_unknown_key_of_a_tool_is_named(gateway: Gateway, form: str) -> None:
    tool = {**LOOK, "mood": 1, "function": {**LOOK["function"], "examples": [1]}}  # type: ignore[dict-item]  # a test's
    body, warnings = gateway.sent("plain", [{"role": "user", "content": "Hi"}], form, tools=[tool])
    assert body["tools"] == [{"type": "function", "function": tool["function"]}]
    assert [one.partition(" ")[0] for one in warnings] == ["tools[0].mood", "tools[0].function.examples"]


def test_keys_that_hold_nothing_are_not_named(gateway: Gateway) -> None:
    _, warnings = gateway.sent("plain", [{"role": "user", "content": [text("Hi", annotations=[], mood=None)]}])
    assert warnings == []


# -- fields that only their provider reads ------------------------------------------------------------

SIGNED = {**CALL, "extra_content": {"google": {"thought_signature": "s"}}, "mood": 1}
SAID_AND_CALLED: list[Json] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Look", "extra_content": {"google": {}, "s": 1}, "tool_calls": [CALL, SIGNED]},
    {"role": "tool", "tool_call_id": "1", "content": "seen"},
    {"role": "tool", "tool_call_id": "2", "content": "seen"},
]
SAID_AND_CALLED[1]["tool_calls"][1] = {**SIGNED, "id": "2"}


def test_fields_of_a_call_go_to_a_server_that_takes_them(gateway: Gateway) -> None:
    body, warnings = gateway.sent("plain", SAID_AND_CALLED, tools=[LOOK])
    assert (body["messages"], warnings) == (SAID_AND_CALLED, [])


def test_fields_of_a_call_that_a_server_does_not_take_are_named(gateway: Gateway) -> None:
    body, warnings = gateway.sent("openai", SAID_AND_CALLED, tools=[LOOK])
    assert "extra_content" not in json.dumps(body) and "mood" not in json.dumps(body)
    why = "was not sent: this model's server does not accept it"
    assert warnings == [
        f"messages[1].tool_calls[1].extra_content {why}",
        f"messages[1].tool_calls[1].mood {why}",
        f"messages[1]: extra_content {why}",
    ]


def test_a_warning_names_the_fields_of_a_call_that_is_written_as_text(gateway: Gateway) -> None:
    _, warnings = gateway.sent("prompted", SAID_AND_CALLED, tools=[LOOK])
    assert warnings == [
        "messages[1].tool_calls[1].extra_content was not sent: tool calls are sent as text",
        "messages[1].tool_calls[1].mood was not sent: tool calls are sent as text",
    ]


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("field", ["extra_content", "reasoning_details", "reasoning_content", "reasoning"])
def test_a_field_of_assistants_on_another_message_is_named(gateway: Gateway, field: str, role: str) -> None:
    value: Any = {"extra_content": {"a": 1}, "reasoning_details": [{"a": 1}]}.get(field, "Hm")
    messages = [*SAID_AND_CALLED[:1], {**SAID_AND_CALLED[1], "extra_content": None, "tool_calls": [CALL]}]
    messages.append({"role": "tool", "tool_call_id": "1", "content": "seen"})
    messages.append({"role": "user", "content": "Hi"})
    at = 2 if role == "tool" else 3
    messages[at] = {**messages[at], field: value}
    _, warnings = gateway.sent("plain", messages, tools=[LOOK])
    assert warnings == [f"messages[{at}].{field} was not sent: only an assistant message can have it"]


def test_an_id_of_a_call_on_a_message_that_is_no_result_is_named(gateway: Gateway) -> None:
    _, warnings = gateway.sent("plain", [{"role": "user", "content": "Hi", "tool_call_id": "1"}])
    assert warnings == ["messages[0].tool_call_id was not sent: only a message of role tool can have it"]
