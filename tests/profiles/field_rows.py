"""For each field of a profile a request of which the field changes something: what is sent, or what comes back.

The bodies are those of a client of chat completions, if the row names no other client. A row has values of other fields
where a field needs them; where a value depends on the API, `apis` has that of the API.
"""

import base64
import io
from dataclasses import dataclass, field
from typing import Any, Literal

from PIL import Image

Json = dict[str, Any]
Client = Literal["chat_completions", "responses", "messages", "gemini"]


def _draw(form: str, size: int = 8) -> str:
    out = io.BytesIO()
    Image.effect_noise((size, size), 90).convert("RGB").save(out, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def _user(content: Any = "Hi") -> Json:
    return {"role": "user", "content": content}


def _image(url: str) -> Json:
    return _user([{"type": "text", "text": "See."}, {"type": "image_url", "image_url": {"url": url}}])


def _function(name: str = "look", **schema: Any) -> Json:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, **schema}
    return {"type": "function", "function": {"name": name, "description": "Looks.", "parameters": parameters}}


def _call(arguments: str = '{"a":1}', id_: str = "call_1", name: str = "look", **more: Any) -> Json:
    one = {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}
    return {"role": "assistant", "content": None, "tool_calls": [one]}


def _result(content: Any = "seen", id_: str = "call_1") -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": content}


HI: Json = {"messages": [_user()]}
OFFER: Json = {**HI, "tools": [_function()]}
TURN: Json = {"tools": [_function()], "messages": [_user(), _call(), _result()]}
IMAGE: Json = {"messages": [_image(_draw("PNG"))]}
REMOTE: Json = {"messages": [_image("https://pictures.example.com/a.png")]}
TEXT_FILE: Json = {
    "messages": [
        _user([{"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,d29yZHM="}}])
    ]
}
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}
FORMAT: Json = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
THOUGHT: Json = {**_call(), "reasoning_content": "Let me look."}
SIGNED: Json = {
    **_call(),
    "reasoning_content": "Hm.",
    "reasoning_details": [
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "anthropic-claude-v1"}
    ],
}
LONG: Json = {"messages": [_user("one " * 80), {"role": "assistant", "content": "two " * 80}, _user("three")]}


@dataclass(frozen=True)
class Row:
    """`value` is compared with `before`, or with the value that the kind of server has."""

    value: Any
    body: Json
    fields: Json = field(default_factory=dict)
    """Of other fields, and of this one before."""
    text: str = "Hello."
    """Of the model's reply."""
    call: bool = False
    """The reply to a first request has reasoning and a call."""
    clients: dict[str, Json] = field(default_factory=dict)
    """Bodies of the clients of other APIs, for servers of these."""
    headers: dict[str, str] = field(default_factory=dict)
    apis: dict[str, Json] = field(default_factory=dict)
    """By API: `value`, `body` and further `fields` there, if they are others."""
    client: Client = "chat_completions"

    def body_for(self, api: str) -> Json:
        """Return the body that is sent to a server of this API."""
        found: Json = self.clients.get(api) or self.apis.get(api, {}).get("body", self.body)
        return found


ROWS: dict[str, Row] = {
    "inline_think": Row("off", HI, {"inline_think": "leading"}, "<think>a</think>b"),
    "think_tags": Row(["<r>", "</r>"], HI, {"inline_think": "leading"}, "<r>a</r>b"),
    "think_interrupt": Row("<tool_call>", HI, {"inline_think": "leading"}, "<think>a\n<tool_call>b"),
    "answer_tags": Row("none", HI, {"inline_think": "leading"}, "<think>a</think><response>b</response>"),
    "native_tools": Row(False, OFFER, {"native_tools": True}),
    "fncall_prompt_type": Row("qwen", OFFER, {"native_tools": False}),
    "special_code_mode": Row(
        True,
        {**HI, "tools": [_function("code_interpreter", properties={"code": {"type": "string"}})]},
        {"native_tools": False},
    ),
    "text_tools": Row("none", OFFER, text='<tool_call>{"name": "look", "arguments": {"a": 1}}</tool_call>'),
    "empty_replies": Row("accept", HI, text=""),
    "replay_reasoning": Row("none", {**TURN, "messages": [_user(), THOUGHT, _result()]}),
    "encrypted_reasoning": Row(True, HI, {"encrypted_reasoning": False}),
    "reasoning_summary": Row("auto", HI),
    "replay_turns": Row(
        "tool_turns", {"messages": [_user(), {**_user("A."), "role": "assistant", "reasoning_content": "r"}, _user()]}
    ),
    "replay_blank_reasoning": Row(True, TURN),
    "blank_reasoning": Row("-", TURN, {"replay_blank_reasoning": True}),
    "thought_only_turns": Row(
        False,
        {"messages": [_user(), {"role": "assistant", "content": "", "reasoning_content": "r"}, _user()]},
        {"thought_only_turns": True},
    ),
    "restore_reasoning": Row(True, TURN, {"restore_reasoning": False}, call=True),
    "replay_details": Row(
        True,
        {**TURN, "messages": [_user(), SIGNED, _result()]},
        {"replay_details": False},
        call=True,
        apis={"messages": {"body": TURN, "fields": {"restore_reasoning": True, "replay_extra_content": False}}},
    ),
    "unsigned_thinking": Row("drop", {**TURN, "messages": [_user(), THOUGHT, _result()]}),
    "blank_texts": Row(
        True,
        HI,
        {"blank_texts": False},
        clients={"messages": {"max_tokens": 9, "messages": [_user([{"type": "text", "text": " "}]), _user()]}},
    ),
    "thinking_binding": Row("drop_block", {**HI, "enable_thinking": True}),
    "replay_extra_content": Row(
        False,
        {**TURN, "messages": [_user(), _call(extra_content={"google": {"thought_signature": "c2ln"}}), _result()]},
        {"replay_extra_content": True},
    ),
    "missing_signature": Row("skip", TURN, {"missing_signature": "none", "restore_reasoning": False}),
    "thinking_switch": Row(
        "none", {**HI, "enable_thinking": True, "thinking_budget": 2000}, apis={"gemini": {"value": "gemini_budget"}}
    ),
    "thinks_by_default": Row(True, {**HI, **FORMAT}, {"formats_while_thinking": "explain"}),
    "efforts": Row(
        ["low"],
        {**HI, "reasoning_effort": "high"},
        {"thinking_switch": "reasoning_effort"},
        apis={
            "messages": {"fields": {"thinking_switch": "adaptive"}},
            "gemini": {"fields": {"thinking_switch": "level"}},
        },
    ),
    "effort_excludes": Row(["budget"], {**HI, "reasoning_effort": "high", "thinking_budget": 2000}),
    "thinking_budget": Row("none", {**HI, "thinking_budget": 2000}),
    "max_thinking_budget": Row(
        1500, {**HI, "thinking_budget": 2000}, apis={"gemini": {"fields": {"thinking_switch": "gemini_budget"}}}
    ),
    "default_system": Row({"en": "Be brief."}, HI),
    "system": Row("none", {"messages": [{"role": "system", "content": "Be brief."}, _user()]}),
    "needs_user": Row(True, {"messages": [{"role": "system", "content": "Be brief."}]}),
    "alternate": Row(True, {"messages": [_user(), _user("You.")]}),
    "assistant_after_tool": Row(True, {**TURN, "messages": [*TURN["messages"], _user()]}),
    "continuation": Row(
        "refuse", {"messages": [_user(), {"role": "assistant", "content": "So"}]}, {"assistant_last": True}
    ),
    "assistant_last": Row(
        False, {"messages": [_user(), {"role": "assistant", "content": "So"}]}, {"assistant_last": True}
    ),
    "max_input_tokens": Row(100, LONG),
    "tokenizer": Row(
        "",
        {"messages": [_user("zqx " * 80), {"role": "assistant", "content": "A."}, _user()]},
        {"max_input_tokens": 200},
    ),
    "media_tokens": Row({"image": 100_000}, IMAGE, {"max_input_tokens": 5000}),
    "media": Row([], IMAGE),
    "inline_media": Row(["image"], REMOTE, {"inline_media": []}),
    "passed_urls": Row("any", {"messages": [_image("http://10.0.0.1/a.png")]}, {"inline_media": []}),
    "audio": Row(
        "audio_url",
        {"messages": [_user([{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}])]},
    ),
    "image_formats": Row(["png"], {"messages": [_image(_draw("GIF"))]}),
    "max_image_pixels": Row(4, IMAGE),
    "max_image_short_side": Row(2, IMAGE),
    "max_media_bytes": Row(120, IMAGE),
    "tool_media": Row(
        True,
        {**TURN, "messages": [_user(), _call(), _result([{"type": "image_url", "image_url": {"url": _draw("PNG")}}])]},
        {"tool_media": False},
    ),
    "file_text": Row(False, TEXT_FILE, {"media": []}),
    "name_media": Row("untaken", IMAGE, {"media": []}),
    "video_frames": Row("images", {"messages": [_user([{"type": "video", "video": [_draw("PNG"), _draw("PNG")]}])]}),
    "max_output_tokens": Row(5, {**HI, "max_tokens": 9}),
    "min_output_tokens": Row(50, {**HI, "max_tokens": 9}),
    "default_max_tokens": Row(50, HI),
    "max_temperature": Row(0.5, {**HI, "temperature": 0.9}),
    "sampling_excludes_top_p": Row(True, {**HI, "temperature": 0.9, "top_p": 0.9}, {"sampling_excludes_top_p": False}),
    "max_tokens_field": Row("max_completion_tokens", {**HI, "max_tokens": 9}),
    "max_stop_words": Row(1, {**HI, "stop": ["a", "b"]}),
    "renamed": Row({"temperature": "heat"}, {**HI, "temperature": 0.9}),
    "lacks": Row(["temperature"], {**HI, "temperature": 0.9}),
    "web_search_options": Row(True, {**HI, "web_search_options": {}}, {"web_search_options": False}),
    "extra_fields": Row([], {**HI, "unknown_of_all": 1}),
    "allowed_fields": Row(["vector_store_ids"], {**HI, "vector_store_ids": ["v"]}),
    "tool_choice_required": Row("none", {**OFFER, "tool_choice": "required"}),
    "named_tool_choice": Row(False, {**OFFER, "tool_choice": {"type": "function", "function": {"name": "look"}}}),
    "tool_choice_none": Row(False, {**OFFER, "tool_choice": "none"}, {"tool_choice_none": True}),
    "forced_choice_while_thinking": Row("auto", {**OFFER, "tool_choice": "required", "enable_thinking": True}),
    "parallel_tool_calls": Row(False, {**OFFER, "parallel_tool_calls": False}, {"parallel_tool_calls": True}),
    "check_output": Row("enforce", {**HI, **FORMAT}),
    "response_formats": Row([], {**HI, **FORMAT}),
    "formats_beside_tools": Row(False, {**OFFER, **FORMAT}, {"formats_beside_tools": True}),
    "formats_while_thinking": Row("explain", {**HI, **FORMAT, "enable_thinking": True}, {"thinks_by_default": True}),
    "names": Row("all", {"messages": [{**_user(), "name": "ann"}]}),
    "tool_names": Row(True, TURN),
    "empty_content": Row("omit", TURN),
    "text_parts": Row(True, HI),
    "tool_schema": Row("openapi", {**HI, "tools": [_function(additionalProperties=False)]}),
    "format_schema": Row("anthropic", {**HI, **FORMAT}, {"format_schema": "json"}),
    "call_ids": Row("alphanumeric9", TURN, apis={"gemini": {"value": "none"}}),
    "parameter_alternatives": Row(False, {**HI, "tools": [_function(anyOf=[{"required": ["a"]}])]}),
    "typed_parameters": Row(True, {**HI, "tools": [_function(properties={"a": {"enum": ["x"]}})]}),
    "client_tools": Row(
        False,
        HI,
        {"client_tools": True},
        clients={"responses": {"input": "Hi", "tools": [{"type": "custom", "name": "patch"}]}},
    ),
    "max_function_name": Row(
        16, {**HI, "tools": [_function("look_far_into_the_distance")]}, {"max_function_name": None}
    ),
    "function_names": Row(
        "dotted", {**HI, "tools": [_function("look.far")]}, {"max_function_name": 64, "function_names": "plain"}
    ),
    "max_call_id": Row(29, {**TURN, "messages": [_user(), _call(id_="c" * 60), _result(id_="c" * 60)]}),
    "valid_arguments": Row(False, {**TURN, "messages": [_user(), _call("not JSON"), _result()]}),
    "caller_fields": Row(["user"], {"input": "Hi", "user": "u"}, {"passed_bodies": False}, client="responses"),
    "session_header": Row("x-session", HI, headers={"x-session-id": "s"}),
    "cache_control": Row(
        True,
        {"messages": [_user([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}])]},
        {"cache_control": False},
    ),
    "takes": Row(
        "all",
        HI,
        clients={
            "responses": {"input": "Hi", "tools": [{"type": "web_search"}]},
            "messages": {"max_tokens": 9, **HI, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "gemini": {"contents": [{"parts": [{"text": "Hi"}]}], "serviceTier": "flex"},
        },
    ),
    "passed_bodies": Row(
        False,
        HI,
        clients={
            "responses": {"input": [{"role": "user", "content": "Hi", "odd": 1}]},
            "messages": {"max_tokens": 9, "messages": [{**_user(), "odd": 1}]},
            "gemini": {"contents": [{"parts": [{"text": "Hi"}], "odd": 1}]},
        },
    ),
    "stream": Row("never", HI),
    "obfuscation_option": Row(True, {**HI, "stream": True}, {"obfuscation_option": False}),
    "stream_usage": Row(False, HI),
    "reports_length": Row(False, {**HI, "max_tokens": 25}),
}
