"""What `POST /v1/chat/completions` takes, passes on and refuses, and how it says so."""

import json
from typing import Any, cast

import pytest
from app.api.asgi import LARGE_BYTES
from app.gateway import Gateway
from msgspec.structs import replace

from tests.api.completion_requests import QUESTION, TOOL, Json, ask, profiled, refusing, sent
from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

NAMED = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}
LISTED: Json = {"functions": [TOOL["function"]]}


def refused(**body: Any) -> Json:
    """The error; nothing was sent to the model server."""
    server = ModelServer()
    answer = ask(server, **body)
    error: Json = answer.json["error"]
    assert not server.requests
    assert answer.json.keys() == {"error"}
    assert error.keys() >= {"message", "type", "param", "code"}
    assert (answer.status, error["status"], error["type"]) == (error["status"], answer.status, "invalid_request_error")
    return error


# -- what is sent ----------------------------------------------------------


@each_case(
    ("body", "expected"),
    [
        ({"max_completion_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"n": 1}, {"n": 1}),
        ({"n": None, "stop": None, "tools": None, "user": None}, {}),
        ({"stop": "x"}, {"stop": "x"}),
        ({"stop": ["x", "y"]}, {"stop": ["x", "y"]}),
        ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
        ({"response_format": SCHEMA}, {"response_format": SCHEMA}),
        ({"temperature": 0, "top_p": 0.5, "seed": 7}, {"temperature": 0, "top_p": 0.5, "seed": 7}),
        ({"logit_bias": {"5": -100}}, {"logit_bias": {"5": -100}}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"logprobs": False, "top_logprobs": 0, "modalities": ["text"]}, {}),
        ({"metadata": {"k": "v"}}, {}),
        ({"cache": {"mode": "off"}}, {}),
        ({"cancel_on_disconnect": 30}, {}),
        ({"cancel_on_disconnect": None}, {}),
        ({"tool_choice": "none"}, {}),
        ({"parallel_tool_calls": False}, {}),
        ({"tools": []}, {}),
    ],
)
def test_an_option_is_sent_under_the_servers_name(body: Json, expected: Json) -> None:
    assert sent(**body) == expected


@pytest.mark.parametrize(
    "body",
    [
        {"user": "u", "store": True, "service_tier": "auto", "safety_identifier": "s", "prompt_cache_key": "p"},
        {"chat_template_kwargs": {"enable_thinking": False}, "guided_json": {"type": "object"}},
        {"verbosity": "low", "an_option_of_tomorrow": {"a": [1, None, {}]}},
    ],
)
def test_what_the_gateway_does_not_know_is_passed_on(body: Json) -> None:
    assert sent(**body) == body


@pytest.mark.parametrize("field", ["lang", "request_timeout", "max_retries", "max_input_tokens", "fncall_prompt_type"])
def test_what_is_the_gateways_own_business_is_not_sent(field: str) -> None:
    value: Json = {
        "lang": "zh",
        "request_timeout": 5,
        "max_retries": 1,
        "max_input_tokens": 900,
        "fncall_prompt_type": "qwen",
    }
    assert sent(**{field: value[field]}) == {}


def test_null_takes_a_models_default_away() -> None:
    defaults = {"temperature": 0.5, "stop": ["x"], "max_tokens": 9, "top_p": 0.1}
    settings = {**SERVER, "models": {"m": {"upstreams": ["local"], "defaults": defaults}}}
    assert sent(settings, temperature=None, stop=None, max_completion_tokens=None) == {"top_p": 0.1}


def test_the_gateways_own_options_work_here_too() -> None:
    messages = [{"role": "user", "content": "word " * 500}, {"role": "assistant", "content": "so"}, *QUESTION]
    expected = sent(messages=messages, max_input_tokens=100)
    assert len(json.dumps(expected["messages"])) < 1000


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("f", NAMED),
        (NAMED, NAMED),
    ],
)
def test_a_tool_choice_may_have_every_form(choice: Any, expected: Any) -> None:
    assert sent(tools=[TOOL], tool_choice=choice) == {"tools": [TOOL], "tool_choice": expected}


@pytest.mark.parametrize(("choice", "expected"), [("auto", "auto"), ("none", "none"), ({"name": "f"}, NAMED)])
def test_functions_of_old_are_tools(choice: Any, expected: Any) -> None:
    assert sent(**LISTED, function_call=choice) == {"tools": [TOOL], "tool_choice": expected}


@pytest.mark.parametrize("parallel", [True, False])
def test_whether_calls_may_be_parallel_is_passed_on(parallel: bool) -> None:
    assert sent(tools=[TOOL], parallel_tool_calls=parallel)["parallel_tool_calls"] is parallel


def test_a_strict_tool_stays_strict() -> None:
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    assert sent(tools=[strict])["tools"] == [strict]


# -- what is refused ----------------------------------------------------------


@each_case(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"n": "1"}, "n"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "a", "format": "wav"}}, "audio"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": {"continuous_usage_stats": True}}, "stream_options.continuous_usage_stats"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": 5}, "stop"),
        ({"logit_bias": {"5": "x"}}, 'logit_bias["5"]'),
        ({"response_format": "json"}, "response_format"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": None}, "messages"),
        ({"tools": "x"}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        ({"tools": [{"type": "web_search", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOL], **LISTED}, None),
        ({"tools": [TOOL], "tool_choice": "g"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": 5}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"name": "f"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({**LISTED, "function_call": "g"}, "function_call"),
        ({**LISTED, "function_call": {"name": "g"}}, "function_call"),
        ({**LISTED, "function_call": {}}, "function_call.name"),
        ({**LISTED, "function_call": 5}, "function_call"),
        ({"extra_body": {"top_k": 1}}, "extra_body"),
        ({"generate_cfg": {"top_k": 1}}, "generate_cfg"),
        ({"format": "qwen"}, "format"),
        ({"reply_format": "autogen"}, "reply_format"),
        ({"include_usage": True}, "include_usage"),
        ({"cache": {"mode": "sometimes"}}, "cache.mode"),
        ({"cancel_on_disconnect": -1}, "cancel_on_disconnect"),
        ({"cancel_on_disconnect": "30"}, "cancel_on_disconnect"),
        ({"cancel_on_disconnect": float("inf")}, "cancel_on_disconnect"),
        ({"response_format": {"type": "text", "x": float("inf")}}, "response_format.x"),
        ({"odd": {"x": [float("nan")]}}, "odd.x[0]"),
        ({"": float("nan")}, '[""]'),
        ({"very odd": float("nan")}, '["very odd"]'),
    ],
)
def test_what_cannot_be_done_is_refused_by_the_callers_name_for_it(body: Json, param: str | None) -> None:
    error = refused(**body)
    assert (error["param"], error["code"], error["status"]) == (param, "invalid_request", 400)
    assert error["message"].startswith(f"{param or 'body'}: ")
    assert "generate_cfg." not in error["message"]


def test_all_violations_are_reported_at_once() -> None:
    error = refused(n=2, audio={"voice": "a"}, stream_options={"x": 1}, messages=[{"role": "user"}], tools=[5])
    assert [one["param"] for one in error["violations"]] == [
        "audio",
        "stream_options.x",
        "n",
        "messages[0].content",
        "tools[0]",
    ]
    error = refused(prediction={"a": 1}, messages=[{"role": "user"}], tools=[5])
    assert [one["param"] for one in error["violations"]] == ["prediction", "messages[0].content", "tools[0]"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"5", b"\xff", b"null"])
def test_a_body_that_is_not_a_json_object_is_an_error_in_openais_shape(raw: bytes) -> None:
    with Running() as gateway:
        answer = gateway.post("/v1/chat/completions", raw)
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")


def test_a_body_that_is_too_long_is_an_error_in_openais_shape() -> None:
    answer = ask(settings={**SERVER, "server": {"max_body_bytes": 1024}}, user="u" * 1024)
    assert (answer.status, answer.json["error"]["type"]) == (413, "invalid_request_error")


def test_a_wrong_method_and_a_defect_are_errors_in_openais_shape() -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("boom")

    with Running() as gateway:
        method = gateway.get("/v1/chat/completions")
        context = gateway.context
        context.live = replace(context.live, gateway=cast(Gateway, Broken()))
        defect = gateway.post("/v1/chat/completions", {"model": "m", "messages": QUESTION})
    assert (method.status, method.json["error"]["type"]) == (405, "invalid_request_error")
    assert (defect.status, defect.json["error"]["type"]) == (500, "server_error")


def test_a_busy_gateway_answers_in_openais_shape() -> None:
    with Running({**SERVER, "server": {"max_queued_requests": 0}}) as gateway:
        gateway.context.admission.in_progress = gateway.context.settings.server.max_concurrent_requests
        answer = gateway.post("/v1/chat/completions", {"model": "m", "messages": QUESTION})
    assert (answer.status, answer.json["error"]["type"]) == (503, "overloaded_error")


# -- what the model server refuses ----------------------------------------------------------


@each_case("stream", [True, False])
@each_case(
    ("status", "error", "expected", "kind"),
    [
        (400, {"message": "bad", "type": "invalid_request_error"}, 400, "invalid_request_error"),
        (401, {"message": "no", "code": "invalid_api_key"}, 502, "authentication_error"),
        (403, {"message": "no"}, 502, "permission_error"),
        (404, {"message": "no", "code": "model_not_found"}, 404, "invalid_request_error"),
        (429, {"message": "slow down", "code": "rate_limit_exceeded"}, 429, "rate_limit_error"),
        (429, {"message": "pay", "code": "insufficient_quota"}, 429, "insufficient_quota"),
        (500, {"message": "oops"}, 502, "server_error"),
        (503, {"message": "busy"}, 503, "overloaded_error"),
    ],
)
def test_a_refusal_of_the_model_server_is_an_error_in_openais_shape(
    status: int, error: Json, expected: int, kind: str, stream: bool
) -> None:
    answer = ask(refusing(status, error), stream=stream, max_retries=0)
    assert (answer.status, answer.json["error"]["type"]) == (expected, kind)
    assert answer.json["error"]["upstream"]["status"] == status


def test_the_wait_before_a_retry_is_in_openais_headers() -> None:
    answer = ask(refusing(429, {"message": "slow down"}, {"retry-after": "7"}), max_retries=0)
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("7", "7000")


# -- who asks ----------------------------------------------------------


@pytest.mark.parametrize("key", [None, "Bearer sk-x", "bearer sk-x", "Bearer ", "Basic eDp5", "sk-x", "Bearer \xe9"])
def test_a_callers_key_is_never_sent_on(key: str | None) -> None:
    server = ModelServer()
    settings = {"upstreams": {"local": {**SERVER["upstreams"]["local"], "api_key": "ours"}}, "models": SERVER["models"]}
    body = json.dumps({"model": "m", "messages": QUESTION}).encode()
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/chat/completions", body, {"authorization": key} if key else None)
    (request,) = server.requests
    assert (answer.status, request.headers["authorization"]) == (200, "Bearer ours")


# -- profiles ----------------------------------------------------------


def test_prompted_tools_are_explained_and_not_sent() -> None:
    expected = sent(profiled(native_tools=False), tools=[TOOL], messages=QUESTION)
    assert "tools" not in expected
    assert '"name": "f"' in json.dumps(expected["messages"][0]["content"]).replace('\\"', '"')


def test_a_server_that_takes_few_fields_is_sent_no_other() -> None:
    few = profiled(extra_fields=["user"])
    assert sent(few, user="u", temperature=1) == {"user": "u", "temperature": 1}
    answer = ask(settings=few, user="u", mood="good")
    assert (answer.status, answer.json["error"]["param"]) == (400, "mood")


@pytest.mark.parametrize("native", [True, False])
def test_a_tool_that_is_not_there_is_refused_by_the_callers_name_for_the_choice(native: bool) -> None:
    answer = ask(settings=profiled(native_tools=native), tools=[TOOL], tool_choice="g")
    assert (answer.status, answer.json["error"]["param"]) == (400, "tool_choice")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("body", "param"),
    [({"tools": [TOOL], "tool_choice": "g"}, "tool_choice"), ({**LISTED, "function_call": "g"}, "function_call")],
)
def test_a_large_request_is_refused_in_the_same_words(stream: bool, body: Json, param: str) -> None:
    small = ask(stream=stream, **body)
    large = ask(stream=stream, **body, messages=[{"role": "user", "content": "x" * LARGE_BYTES}])
    assert (large.status, large.json["error"]["param"]) == (400, param)
    assert {**large.json["error"], "request_id": ""} == {**small.json["error"], "request_id": ""}


def test_a_call_without_a_result_is_warned_of_by_its_place_among_the_calls() -> None:
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in ("a", "b")]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]
    answer = ask(messages=messages, tools=[TOOL])
    [warning] = json.loads(answer.headers["x-parley-warnings"])
    assert answer.status == 200 and warning.startswith("messages[1].tool_calls[1]: ")


def test_the_warning_of_a_result_without_a_call_says_how_to_fix_it() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "x", "content": "1"}]
    [warning] = json.loads(ask(messages=messages, tools=[TOOL]).headers["x-parley-warnings"])
    assert warning.startswith("messages[1]: tool result with the id 'x' has no matching call before it: add ")
    assert "None" not in warning


@each_case(
    ("body", "warning"),
    [
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens and max_completion_tokens are two names of one"),
        ({"max_output_tokens": 50}, "max_output_tokens was lowered from 50 to 9"),
        ({"top_k": 5}, "top_k was not sent"),
    ],
)
def test_a_warning_names_the_fields_of_the_callers_body(body: Json, warning: str) -> None:
    settings = profiled(max_output_tokens=9, lacks=["top_k"])
    assert warning in str(ask(settings=settings, **body).json["warnings"])
