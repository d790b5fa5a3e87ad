"""Bodies that are sent once more without a field that the server has refused."""

from typing import Any

import msgspec
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused

from tests.each_case import each_case
from tests.linear_time import linear

Json = dict[str, Any]
PLAIN: Json = {"model": "m", "messages": []}


def repair(body: Json, message: str, api: Any = "chat_completions", code: str = "invalid_request") -> Json | None:
    repaired = repair_refused(find_api(api), msgspec.json.encode(body), Fault(code, message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)


@each_case(
    ("name", "message"),
    [
        ("prompt_cache_key", "Validation: Unsupported parameter(s): `prompt_cache_key`"),
        ("prompt_cache_key", 'unknown field "prompt_cache_key"'),
        ("prompt_cache_retention", "prompt_cache_retention is not supported on this model"),
        ("safety_identifier", "Unknown parameter: 'safety_identifier'."),
        ("user", 'Invalid JSON payload received. Unknown name "user": Cannot find field.'),
        ("user", "user: Extra inputs are not permitted"),
        ("metadata", "The 'metadata' parameter is only allowed when 'store' is enabled."),
        ("metadata", "body.metadata: Extra inputs are not permitted"),
        ("stream_options", "stream_options: Extra inputs are not permitted"),
    ],
)
def test_a_field_that_says_nothing_of_the_reply_is_left_out(name: str, message: str) -> None:
    assert repair({**PLAIN, name: "x"}, message) == PLAIN
    assert repair(PLAIN, message) is None
    assert repair({**PLAIN, name: "x"}, message, code="server_error") is None


@each_case(
    "message",
    [
        "the conversation must end with a message of the user",
        "Unsupported role: expected user or assistant",
        "the temperature is too high for this model",
        "temperature must be between 0 and 1, larger ones are not supported",
        "prompt_cache_key must have at most 64 characters",
        "'prompt_cache_key_2' is not supported",
    ],
)
def test_another_refusal_changes_nothing(message: str) -> None:
    assert repair({**PLAIN, "user": "u", "prompt_cache_key": "k", "temperature": 1}, message) is None


def test_servers_of_messages_may_refuse_metadata() -> None:
    assert repair({**PLAIN, "metadata": {}}, "metadata: Extra inputs are not permitted", "messages") == PLAIN


def tool(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


@each_case(
    "message",
    [
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
        "[{'loc': ('body', 'tool_choice'), 'msg': 'Input should be a valid string'}]",
        "tool_choice: must be a string",
    ],
)
def test_a_named_choice_becomes_a_demand_where_only_texts_are_taken(message: str) -> None:
    body = {**PLAIN, "tools": [tool("a"), tool("b")], "tool_choice": tool("b")}
    assert repair(body, message) == {**PLAIN, "tools": [tool("b")], "tool_choice": "required"}
    assert repair({**body, "tool_choice": "auto"}, message) is None
    assert repair({**body, "tool_choice": tool("c")}, message) is None
    flat = {"input": [], "tools": [{"type": "function", "name": "b"}], "tool_choice": {"type": "function", "name": "b"}}
    assert repair(flat, message, "responses") == {**flat, "tool_choice": "required"}


@each_case(
    "message",
    [
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "Your API request included an `assistant` message in the final position, which would pre-fill the `assistant` "
        "response. When using output format, pre-filling the `assistant` response is not supported.",
    ],
)
def test_a_refused_last_message_of_the_assistant_is_in_the_one_of_the_user(message: str) -> None:
    def ask(*messages: Json) -> Json:
        return {"model": "m", "messages": list(messages)}

    user = {"role": "user", "content": "Hi"}
    text: Json = {"type": "text", "text": "{"}
    thought: Json = {"type": "thinking", "thinking": "hm", "signature": "s"}
    folded = ask({"role": "user", "content": [{"type": "text", "text": "Hi"}, text]})
    assert repair(ask(user, {"role": "assistant", "content": "{"}), message, "messages") == folded
    assert repair(ask(user, {"role": "assistant", "content": [thought, text]}), message, "messages") == folded
    result: Json = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    sent = ask({"role": "user", "content": [result]}, {"role": "assistant", "content": [text]})
    assert repair(sent, message, "messages") == ask({"role": "user", "content": [result, text]})
    call: Json = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    for last in ([], [user], [{"role": "assistant", "content": "{"}], [user, {"role": "assistant", "content": [call]}]):
        assert repair(ask(*last), message, "messages") is None


@each_case(
    ("name", "message"),
    [
        ("temperature", "Unsupported parameter: 'temperature' is not supported with this model."),
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) ...",
        ),
        ("temperature", "`temperature` is deprecated for this model."),
        # MoonshotAI/Kimi-K2#124, odysseus-dev/odysseus#3959
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("top_p", "invalid top_p: only 0.95 is allowed for this model"),
        ("reasoning_effort", "Argument not supported on this model: reasoningEffort"),
        ("reasoning_effort", "Model grok-4 does not support parameter reasoningEffort."),
        ("presence_penalty", "Extra inputs are not permitted, field: 'presence_penalty'"),
        ("logit_bias", 'Invalid JSON payload received. Unknown name "logit_bias": Cannot find field.'),
        ("store", "property 'store' is unsupported"),
    ],
)
def test_an_option_that_the_model_does_not_take_is_left_out(name: str, message: str) -> None:
    assert repair({**PLAIN, name: 0}, message) == PLAIN
    assert repair(PLAIN, message) is None


@each_case("api", ["messages", "responses"])
def test_models_of_other_apis_may_take_no_temperature(api: str) -> None:
    assert repair({**PLAIN, "temperature": 0}, "`temperature` is deprecated for this model.", api) == PLAIN


NO_EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'."
)


def test_a_model_that_thinks_without_functions_alone_is_sent_the_effort_none() -> None:
    body = {**PLAIN, "tools": [tool("a")]}
    assert repair(body, NO_EFFORT) == {**body, "reasoning_effort": "none"}
    assert repair({**body, "reasoning_effort": "high"}, NO_EFFORT) == {**body, "reasoning_effort": "none"}
    assert repair({**PLAIN, "reasoning_effort": "high"}, NO_EFFORT) == PLAIN


def test_long_descriptions_of_functions_are_cut_where_a_server_takes_none() -> None:
    message = (
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got "
        "a string with length 2407 instead."
    )

    def offer(text: str) -> Json:
        return {**PLAIN, "tools": [{"type": "function", "function": {"name": "f", "description": text}}, "odd"]}

    assert repair(offer("x" * 2407), message) == offer("x" * 1023 + "…")
    assert repair(offer("x" * 1024), message) is None
    flat = {"input": [], "tools": [{"type": "function", "name": "f", "description": "x" * 2000}]}
    cut = {"input": [], "tools": [{"type": "function", "name": "f", "description": "x" * 1023 + "…"}]}
    assert repair(flat, "Invalid 'tools[0].description': string too long.", "responses") == cut


def test_a_limit_of_tokens_has_the_name_that_the_server_knows() -> None:
    newer = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    assert repair({**PLAIN, "max_tokens": 9}, newer) == {**PLAIN, "max_completion_tokens": 9}
    older = "Extra inputs are not permitted: max_completion_tokens"
    assert repair({**PLAIN, "max_completion_tokens": 9}, older) == {**PLAIN, "max_tokens": 9}
    both = {**PLAIN, "max_completion_tokens": 9, "max_tokens": 9}
    assert repair(both, newer) == {**PLAIN, "max_completion_tokens": 9}


@each_case(
    ("name", "message"),
    [
        ("reasoning_content", "property 'messages.1.reasoning_content' is unsupported"),
        ("reasoning_content", "Extra inputs are not permitted, field: 'messages[1].reasoning_content', value: 'so'"),
        ("extra_content", "Additional properties are not allowed ('extra_content' was unexpected)"),
        ("cache_control", "messages.0.content.0.text.cache_control: Extra inputs are not permitted"),
    ],
)
def test_a_refused_field_of_messages_is_left_out_wherever_it_is(name: str, message: str) -> None:
    def write(**held: Any) -> Json:
        function = {"name": "f", "arguments": '{"reasoning_content": 1}'}
        call = {"id": "1", "type": "function", "function": function, **held}
        turn = {"role": "assistant", "content": [{"type": "text", "text": "so", **held}], "tool_calls": [call], **held}
        return {"model": "m", "messages": [{"role": "user", "content": "Hi"}, turn], "tools": [{**tool("f"), **held}]}

    assert repair(write(**{name: "x"}), message) == write()
    assert repair(write(), message) is None


def test_a_model_without_reasoning_is_asked_for_none() -> None:
    body: Json = {"model": "m", "input": []}
    asks = {**body, "reasoning": {"effort": "high"}, "include": ["reasoning.encrypted_content"]}
    effort = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
    assert repair(asks, effort, "responses") == {**body, "include": ["reasoning.encrypted_content"]}
    encrypted = "Encrypted content is not supported with this model."
    assert repair(asks, encrypted, "responses") == {**body, "reasoning": {"effort": "high"}}
    more = {**body, "include": ["reasoning.encrypted_content", "x"]}
    assert repair(more, encrypted, "responses") == {**body, "include": ["x"]}
    assert repair(body, encrypted, "responses") is None


def test_the_word_json_is_added_where_a_server_demands_it() -> None:
    message = "Response input messages must contain the word 'json' in some form to use 'text.format' of type ..."
    asked = "Reply with one JSON object and nothing else."
    text: Json = {"text": {"format": {"type": "json_object"}}}
    assert repair({"input": "A list?", **text}, message, "responses") == {
        "input": [{"role": "user", "content": f"A list?\n\n{asked}"}],
        **text,
    }
    body: Json = {"model": "m", "response_format": {"type": "json_object"}}
    said = {"role": "assistant", "content": "so"}
    given = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, said]
    sent = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": asked}]}, said]
    assert repair({**body, "messages": given}, message) == {**body, "messages": sent}
    assert repair({**body, "messages": [said]}, message) is None
    assert repair({"model": "m", "messages": given}, message) is None


@each_case(
    ("name", "message"),
    [
        ("strict", "invalid request: tools[0].function.strict is not a valid field"),
        ("strict", "tools.0.custom.strict: Extra inputs are not permitted"),
        ("strict", "Tools with strict=True are not supported by this model"),
        ("eager_input_streaming", "tools.0.custom.eager_input_streaming: Extra inputs are not permitted"),
        ("defer_loading", "tools.3.defer_loading: Extra inputs are not permitted"),
        ("input_examples", "Unknown parameter: 'tools[0].input_examples'"),
    ],
)
def test_a_refused_field_of_functions_is_left_out_of_all(name: str, message: str) -> None:
    def write(**held: Any) -> Json:
        function = {"name": "f", "parameters": {"properties": {name: {}}}, **held}
        return {**PLAIN, "tools": [{"type": "function", "function": function}, {"name": "g", **held}, "odd"]}

    for api in ("chat_completions", "messages"):
        assert repair(write(**{name: True}), message, api) == write()
        assert repair(write(), message, api) is None
    assert repair({**PLAIN, "tools": {}}, message) is None


@each_case(
    "message",
    [
        "The tool_choice parameter does not support being set to required or object in thinking mode",
        "deepseek-reasoner does not support this tool_choice",
        "tool_choice: only 'auto' is supported",
    ],
)
def test_a_demand_for_a_call_becomes_a_choice_where_none_is_taken(message: str) -> None:
    body = {**PLAIN, "tools": [tool("a"), tool("b")]}
    for demand in ("required", "any", tool("b")):
        assert repair({**body, "tool_choice": demand}, message) == {**body, "tool_choice": "auto"}
    for choice in ("auto", "none", None):
        assert repair({**body, "tool_choice": choice}, message) is None


def test_a_format_that_is_refused_is_asked_for_in_words() -> None:
    message = "This response_format type is unavailable now"
    schema: Json = {"type": "object", "properties": {"ä": {"type": "string"}}}
    asked = 'Reply with JSON that is valid against this JSON schema, and nothing else:\n{"type": "object", '
    asked += '"properties": {"ä": {"type": "string"}}}'
    user: Json = {"role": "user", "content": "A list?"}
    sent = {"model": "m", "messages": [{"role": "user", "content": f"A list?\n\n{asked}"}]}
    body: Json = {"model": "m", "messages": [user]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert repair({**body, "response_format": wanted}, message) == sent
    plain = "A list?\n\nReply with one JSON object and nothing else."
    assert repair({**body, "response_format": {"type": "json_object"}}, message) == {
        "model": "m",
        "messages": [{"role": "user", "content": plain}],
    }
    assert repair({**body, "response_format": {"type": "text"}}, message) is None
    assert repair(body, message) is None
    for words in ("Invalid schema for response_format 'x': ...", "response_format.json_schema.schema.a: Extra inputs"):
        assert repair({**body, "response_format": wanted}, f"{words} are not permitted") is None


def test_a_refused_format_of_responses_is_asked_for_in_words() -> None:
    message = "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model"
    body: Json = {"model": "m", "input": "A list?", "text": {"format": {"type": "json_object"}}}
    said = [{"role": "user", "content": "A list?\n\nReply with one JSON object and nothing else."}]
    assert repair(body, message, "responses") == {"model": "m", "input": said}
    body["text"]["verbosity"] = "low"
    assert repair(body, message, "responses") == {"model": "m", "input": said, "text": {"verbosity": "low"}}


@each_case(
    "word",
    [
        *("user: ", "tool_choice ", "metadata unknow", "`stream_options` ", "not supporte", "tool_choice 'objec"),
        *(".strict ", "response_format "),
    ],
)
def test_a_long_refusal_is_read_in_linear_time(word: str) -> None:
    body = {**PLAIN, "user": "u", "metadata": {}, "stream_options": {}, "tool_choice": tool("b"), "tools": [tool("b")]}
    assert linear(lambda size: repair(body, word * size), 500)
