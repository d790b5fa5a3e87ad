"""The options of a request in the body that a server takes, and the warnings about the others."""

from typing import Any

import msgspec
import pytest
from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Message, Text, Tool
from app.errors import InvalidInput
from app.formats.body import ParsedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.request_limits import RequestLimits
from app.params import PREFERRED_EFFORT, UNSENT, GenerateCfg
from app.profiles import KINDS, Profile, find_profile
from app.upstream.api import is_deterministic
from app.upstream.chat_completions.request import _write_tool, build
from msgspec.structs import replace

from tests.each_case import each_case
from tests.upstream.sample_histories import Json, body, calls, options, request, returns, user, warnings

LIMITS = RequestLimits(max_messages=10, max_content_items=10, max_functions=10, max_nesting=20)
EMPTY: Json = {"type": "object", "properties": {}}
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {}}}, "strict": True}


def wrong(*messages: Json, tools: tuple[str, ...] = (), **params: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        build(request(*messages, tools=tools, **params), "m", Profile())
    return [(found.path, found.message) for found in caught.value.violations]


@each_case("kind", KINDS)
def test_a_body_streams_and_asks_for_usage_where_the_server_knows_how(kind: str) -> None:
    got = body(kind)
    usage = {} if kind in ("mistral", "llamacpp_python") else {"stream_options": {"include_usage": True}}
    assert got == {"model": "m", "messages": [user("q")], "stream": True, **usage}


def test_functions_are_tools_as_they_were_given() -> None:
    asked = ChatRequest("m", request().messages, (Tool("f", FUNCTION), Tool("g", {"name": "g"})))
    assert build(asked, "m", Profile())[0]["tools"] == [
        {"type": "function", "function": FUNCTION},
        {"type": "function", "function": {"name": "g", "parameters": EMPTY}},
    ]


def test_bare_and_wrapped_functions_come_to_the_same() -> None:
    asked = {"messages": [user("q")], "functions": [FUNCTION, {"type": "function", "function": {"name": "g"}}]}
    parsed = parse_chat_body(msgspec.json.encode(asked), LIMITS)
    assert isinstance(parsed, ParsedRequest)
    assert [(tool.name, tool.schema) for tool in parsed.request.tools] == [("f", FUNCTION), ("g", {"name": "g"})]


def test_without_functions_there_is_no_list_of_tools() -> None:
    assert "tools" not in body()


NEWER_LIMIT = {"openai"}
"""The kinds of servers that know `max_completion_tokens` alone."""
NAMED = {"type": "function", "function": {"name": "f"}}


@each_case(
    ("kind", "choice", "want"),
    [
        ("vllm", "auto", "auto"),
        ("vllm", "none", "none"),
        ("vllm", "required", "required"),
        ("transformers", "auto", "auto"),
        ("vllm", "f", NAMED),
        ("vllm", NAMED, NAMED),
        (
            "vllm",
            {"type": "function", "function": {"name": "auto"}},
            {"type": "function", "function": {"name": "auto"}},
        ),
        ("mistral", "required", "any"),
        ("mistral", "f", NAMED),
        ("moonshot", "none", "none"),
        ("ollama", "auto", "auto"),
        ("llamacpp_python", "f", NAMED),
    ],
)
def test_a_tool_choice_has_the_form_of_the_server(kind: str, choice: Any, want: Any) -> None:
    for name in ("function_choice", "tool_choice"):
        assert body(kind, tools=("f", "auto"), **{name: choice})["tool_choice"] == want
        assert warnings(kind, tools=("f", "auto"), **{name: choice}) == []


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("moonshot", "required"),
        ("llamacpp_python", "required"),
        ("ollama", "required"),
        ("ollama", "f"),
        ("zhipu", "required"),
        ("zhipu", "f"),
        ("transformers", "f"),
    ],
)
def test_a_choice_that_the_server_cannot_make_is_warned_of(kind: str, choice: str) -> None:
    assert "tool_choice" not in body(kind, tools=("f",), function_choice=choice)
    [warning] = warnings(kind, tools=("f",), function_choice=choice)
    assert warning.startswith("generate_cfg.function_choice was not sent")


@pytest.mark.parametrize("kind", ["ollama", "transformers", "zhipu"])
def test_a_server_that_ignores_the_choice_of_no_function_is_offered_none(kind: str) -> None:
    got = body(kind, tools=("f",), tool_choice="none", parallel_tool_calls=False)
    assert (got.get("tools"), got.get("tool_choice")) == (None, None)
    assert warnings(kind, tools=("f",), tool_choice="none") == []


def test_llamacpp_which_ignores_a_name_is_given_the_named_function_alone() -> None:
    got = body("llamacpp", tools=("f", "g"), function_choice="g")
    assert (got["tool_choice"], [tool["function"]["name"] for tool in got["tools"]]) == ("required", ["g"])


def test_a_profile_says_none_for_a_server_without_the_word() -> None:
    profile = Profile(tool_choice_required="none")
    assert "tool_choice" not in build(request(tools=("f", "g"), function_choice="required"), "m", profile)[0]
    assert build(request(tools=("f", "g"), function_choice="none"), "m", profile)[0]["tool_choice"] == "none"


def test_a_server_without_named_tool_choice_gets_only_that_function() -> None:
    profile = Profile(named_tool_choice=False)
    got, warned = build(request(tools=("f", "g"), function_choice="g"), "m", profile)
    assert (got["tool_choice"], warned) == ("required", [])
    assert [tool["function"]["name"] for tool in got["tools"]] == ["g"]


@pytest.mark.parametrize("choice", ["h", {"type": "function", "function": {"name": "h"}}, {"type": "auto"}, ""])
def test_a_choice_that_is_no_function_is_refused_under_its_own_name(choice: Any) -> None:
    for name in ("function_choice", "tool_choice"):
        [(path, message)] = wrong(tools=("f", "g"), **{name: choice})
        assert path == f"generate_cfg.{name}"
        assert message.startswith("must be auto, none, required or one of the functions (f, g), not ")


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_functions_a_choice_of_nothing_is_no_choice(choice: str) -> None:
    assert options(function_choice=choice) == {}


@pytest.mark.parametrize("choice", ["required", "f", NAMED])
def test_without_functions_none_can_be_chosen(choice: Any) -> None:
    assert wrong(tool_choice=choice) == [
        ("generate_cfg.tool_choice", "needs functions to choose from, but the request has none")
    ]


@pytest.mark.parametrize("name", ["parallel_function_calls", "parallel_tool_calls"])
@pytest.mark.parametrize("value", [True, False])
def test_parallel_calls_go_by_either_name_and_only_beside_functions(name: str, value: bool) -> None:
    assert options("openai_compatible", ("f",), **{name: value}) == {"parallel_tool_calls": value}
    assert options("openai_compatible", (), **{name: value}) == {}


@pytest.mark.parametrize("kind", ["ollama", "deepseek", "zhipu", "gemini", "llamacpp_python", "transformers"])
def test_one_call_at_a_time_gives_a_warning_where_the_server_has_no_such_option(kind: str) -> None:
    assert options(kind, tools=("f",), parallel_function_calls=False) == {}
    [warning] = warnings(kind, tools=("f",), parallel_function_calls=False)
    assert warning.startswith("generate_cfg.parallel_function_calls was not sent")
    assert warnings(kind, tools=("f",), parallel_function_calls=True) == []


@each_case("kind", KINDS)
@each_case("name", ["max_tokens", "max_completion_tokens"])
def test_max_tokens_is_sent_once_under_the_servers_name(kind: str, name: str) -> None:
    word = "max_completion_tokens" if kind in NEWER_LIMIT else "max_tokens"
    assert options(kind, (), **{name: 5}) == {word: 5}


def test_of_two_token_limits_the_smaller_one_is_sent_with_a_warning() -> None:
    both: list[Json] = [{"max_tokens": 9, "max_completion_tokens": 7}, {"max_tokens": 7, "max_completion_tokens": 9}]
    for given in both:
        assert options(**given) == {"max_tokens": 7}
        [warning] = warnings(**given)
        assert warning.startswith("generate_cfg.max_tokens and generate_cfg.max_completion_tokens")
    assert options(max_tokens=7, max_completion_tokens=7) == {"max_tokens": 7}
    assert warnings(max_tokens=7, max_completion_tokens=7) == []


def test_a_token_limit_beyond_the_models_is_lowered_with_a_warning() -> None:
    profile = Profile(max_output_tokens=8192)
    for name in ("max_tokens", "max_completion_tokens"):
        large: Json = {name: 32000}
        got, [warning] = build(request(**large), "m", profile)
        assert got["max_tokens"] == 8192
        assert warning.startswith(f"generate_cfg.{name} was lowered from 32000 to 8192")
        got, warned = build(request(**{**large, name: 8192}), "m", profile)
        assert (got["max_tokens"], warned) == (8192, [])
    assert "max_tokens" not in build(request(), "m", profile)[0]


def test_a_temperature_beyond_the_servers_is_lowered_with_a_warning() -> None:
    for kind in ("zhipu", "moonshot"):
        assert options(kind, temperature=1.5) == {"temperature": 1}
        [warning] = warnings(kind, temperature=1.5)
        assert warning.startswith("generate_cfg.temperature was lowered from 1.5 to 1")
        assert (options(kind, temperature=0.7), warnings(kind, temperature=0.7)) == ({"temperature": 0.7}, [])
    assert options("vllm", temperature=1.5) == {"temperature": 1.5}


SAMPLING: Json = {"min_p": 0.1, "repetition_penalty": 1.1, "seed": 1, "top_k": 20}
LACK_SAMPLERS = {
    "ollama",
    "transformers",
    "groq",
    "xai",
    "openai",
    "deepseek",
    "moonshot",
    "zhipu",
    "gemini",
    "vertex",
}
LACKING = {
    "seed": {"deepseek", "moonshot", "zhipu", "gemini", "vertex"},
    "min_p": LACK_SAMPLERS | {"mistral"},
}
RENAMED = {
    "llamacpp": {"repetition_penalty": "repeat_penalty"},
    "llamacpp_python": {"repetition_penalty": "repeat_penalty"},
    "mistral": {"seed": "random_seed"},
}


@each_case("kind", KINDS)
@each_case("name", SAMPLING)
def test_a_way_to_sample_has_the_servers_name_or_the_caller_is_warned(kind: str, name: str) -> None:
    lacks = kind in LACKING.get(name, LACK_SAMPLERS)
    word = RENAMED.get(kind, {}).get(name, name)
    assert options(kind, **{name: SAMPLING[name]}) == ({} if lacks else {word: SAMPLING[name]})
    want = [f"generate_cfg.{name} was not sent: this model's server has no such parameter"] if lacks else []
    assert warnings(kind, **{name: SAMPLING[name]}) == want


def test_gemini_is_sent_no_frequency_penalty() -> None:
    assert options("gemini", frequency_penalty=0.1, presence_penalty=0.2) == {"presence_penalty": 0.2}
    [warning] = warnings("gemini", frequency_penalty=0.1)
    assert warning.startswith("generate_cfg.frequency_penalty was not sent")


def test_every_other_option_is_sent_unchanged() -> None:
    plain: Json = {
        "frequency_penalty": 0.1,
        "logit_bias": {"1": 2.0},
        "n": 1,
        "presence_penalty": 0.2,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "stop": ["a", "b"],
        "temperature": 0.0,
        "top_p": 0.5,
    }
    assert options(**plain) == plain
    assert options(stop="a") == {"stop": "a"}
    assert options(stop=[]) == {}


def test_the_gateways_own_options_are_never_sent() -> None:
    ours: Json = {name: "x" for name in UNSENT}
    assert options("openai_compatible", (), **ours) == {}
    assert set(GenerateCfg.model_fields) >= UNSENT


def test_extra_body_is_sent_as_it_is_and_wins() -> None:
    assert options(temperature=1, extra_body={"temperature": 2, "guided_json": {}}) == {
        "temperature": 2,
        "guided_json": {},
    }


def test_an_object_of_extra_body_is_laid_over_the_gateways() -> None:
    extra = {"chat_template_kwargs": {"preserve_thinking": True, "thinking": True}}
    got = options("vllm", enable_thinking=False, extra_body=extra)
    assert got == {"chat_template_kwargs": {"enable_thinking": False, "thinking": True, "preserve_thinking": True}}


def test_all_violations_are_reported_at_once() -> None:
    extra = {"stream": False, "model": "x", "ok": 1}
    found = wrong(user("q"), calls("f"), user("r"), tools=("f",), function_choice="g", extra_body=extra)
    assert [path for path, _ in found] == [
        "messages[1].function_call",
        "generate_cfg.function_choice",
        "generate_cfg.extra_body.model",
        "generate_cfg.extra_body.stream",
    ]


def test_private_keys_of_messages_never_reach_the_body() -> None:
    secret = {"extra": {"function_id": "a", "turn": "t9", "secret": "hush", "usage": {"hush": 1}}}
    steps = [{**calls("f"), **secret}, {**returns("f"), **secret}]
    sent = msgspec.json.encode(body("openai_compatible", {**user("q"), **secret}, *steps, tools=("f",))).decode()
    assert all(word not in sent for word in ("hush", "extra", "t9", "function_id", "turn"))


@each_case("kind", KINDS)
def test_equal_requests_give_equal_bytes(kind: str) -> None:
    params: Json = {
        "temperature": 1,
        "top_p": 0.5,
        "enable_thinking": True,
        "max_tokens": 5,
        "extra_body": {"b": 1, "a": 2},
    }
    turned = {**dict(reversed(params.items())), "extra_body": {"a": 2, "b": 1}}
    one, other = (msgspec.json.encode(body(kind, tools=("f",), **given)) for given in (params, turned))
    assert one == other


@pytest.mark.parametrize(("how", "asked", "want"), [
    ("always", True, True),
    ("always", False, True),
    ("as_asked", True, True),
    ("as_asked", False, False),
    ("never", True, False),
    ("never", False, False),
])  # fmt: skip
def test_a_stream_is_requested_as_the_profile_says(how: Any, asked: bool, want: bool) -> None:
    got, warned = build(replace(request(), stream=asked), "m", Profile(stream=how))
    usage = {"stream_options": {"include_usage": True}} if want else {}
    assert (got, warned) == ({"model": "m", "messages": [user("q")], "stream": want, **usage}, [])


def test_stream_options_are_sent_and_always_request_usage() -> None:
    given = {"continuous_usage_stats": True, "include_usage": False}
    assert body(stream_options=given)["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}


@pytest.mark.parametrize("profile", [Profile(stream="never"), Profile(stream_usage=False)])
def test_stream_options_are_for_nothing_where_none_are_sent(profile: Profile) -> None:
    def warnings_of(**given: Any) -> list[str]:
        got, warned = build(request(stream_options=given), "m", profile)
        assert "stream_options" not in got
        return warned

    assert warnings_of(include_usage=True) == warnings_of(continuous_usage_stats=False) == []
    [warning] = warnings_of(continuous_usage_stats=True)
    assert warning.startswith("generate_cfg.stream_options was not sent")


@pytest.mark.parametrize("name", ["logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids", "echo"])
def test_what_no_reply_has_a_place_for_is_sent_and_warned_of(name: str) -> None:
    assert options(extra_body={name: 3}) == {name: 3}
    [warning] = warnings(extra_body={name: 3})
    assert warning.startswith(f"generate_cfg.extra_body.{name} is sent, but")
    assert warnings(extra_body={name: None}) == warnings(extra_body={name: False}) == []


@pytest.mark.parametrize("name", ["n", "best_of"])
def test_more_than_one_reply_is_refused_under_every_name_of_the_parameter(name: str) -> None:
    assert wrong(extra_body={name: 2}) == [(f"generate_cfg.extra_body.{name}", "must be 1: a request has one reply")]
    assert options(extra_body={name: 1}) == {name: 1}


def test_a_message_to_go_on_with_bears_no_mark_where_the_server_wants_none() -> None:
    asked = replace(request(user("Hi"), {"role": "assistant", "content": "It is"}), continue_last=True)
    sent, _ = build(asked, "m", Profile(continuation="send"))
    assert sent["messages"][-1] == {"role": "assistant", "content": "It is"}
    assert "continue_final_message" not in sent


def test_a_field_that_the_server_does_not_know_is_refused() -> None:
    profile = Profile(extra_fields=("guided_json",))
    given = request(user("q"), extra_body={"guided_json": {}, "top_a": 1})
    with pytest.raises(InvalidInput) as error:
        build(given, "m", profile)
    assert [violation.path for violation in error.value.violations] == ["generate_cfg.extra_body.top_a"]


def test_options_of_a_search_are_sent_only_to_servers_that_search() -> None:
    given = request(user("q"), extra_body={"web_search_options": {}})
    assert build(given, "m", Profile(web_search_options=True))[0]["web_search_options"] == {}
    body, [warning] = build(given, "m", Profile())
    assert "web_search_options" not in body
    assert warning.startswith("generate_cfg.extra_body.web_search_options was not sent: ")


def test_an_effort_that_is_only_preferred_yields_to_the_callers_own() -> None:
    profile = Profile(thinking_switch="reasoning_effort")
    given = replace(request(user("q")), params={PREFERRED_EFFORT: "low"})
    assert build(given, "m", profile)[0]["reasoning_effort"] == "low"
    own = replace(given, params={**given.params, "reasoning_effort": "high"})
    assert build(own, "m", profile)[0]["reasoning_effort"] == "high"
    off = replace(given, params={**given.params, "enable_thinking": False})
    assert build(off, "m", profile)[0]["reasoning_effort"] == "none"


@each_case(
    ("body", "deterministic"),
    [
        ({}, False),
        ({"temperature": None}, False),
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": False}, False),
        ({"temperature": 0.1}, False),
        ({"seed": 0}, True),
        ({"temperature": 1, "seed": 7}, True),
    ],
)
def test_a_temperature_of_0_or_a_seed_makes_a_reply_the_same_each_time(body: Json, deterministic: bool) -> None:
    assert is_deterministic(body, Profile()) is deterministic


def test_the_servers_names_of_temperature_and_seed_count() -> None:
    profile = Profile(renamed={"temperature": "heat", "seed": "random_seed"})
    assert is_deterministic({"heat": 0}, profile)
    assert is_deterministic({"random_seed": 1}, profile)
    assert not is_deterministic({"temperature": 0, "seed": 1}, profile)


def test_what_a_client_calls_itself_is_sent_where_the_server_knows_the_field() -> None:
    named = {"prompt_cache_key": "session", "safety_identifier": "someone", "user": "u"}
    asked = replace(request(), caller_fields=named)
    sent = {
        kind: build(asked, "m", find_profile(kind, "chat_completions"))[0] for kind in ("openai", "moonshot", "vllm")
    }
    assert {name: sent["openai"].get(name) for name in named} == named
    assert [name for name in named if name in sent["moonshot"]] == ["prompt_cache_key", "safety_identifier"]
    assert not named.keys() & sent["vllm"].keys()
    own = replace(request(extra_body={"user": "own"}), caller_fields=named)
    assert build(own, "m", find_profile("openai", "chat_completions"))[0]["user"] == "own"


def test_tools_are_written_once_for_a_conversation() -> None:
    known = KnownConversation()
    first, second = (Tool("f", {"name": "f"}), Tool("g", {"name": "g"})), (Tool("f", {"name": "f"}),)
    for tools in (first, first, second, first):
        request = ChatRequest("m", (Message("user", (Text("hi"),)),), tools)
        plain, remembered = (build(one, "m", Profile())[0] for one in (request, replace(request, known=known)))
        assert msgspec.json.encode(remembered) == msgspec.json.encode(plain)
    assert isinstance(known.find_whole(_write_tool, first), msgspec.Raw)


def test_system_messages_alone_end_with_a_question_where_the_server_demands_one() -> None:
    system = Message("system", (Text("Say hello."),))
    for kind, roles in (("vllm", ["system", "user"]), ("openai", ["system", "system"])):
        sent, _ = build(ChatRequest("m", (system, system)), "up", find_profile(kind, ""))
        assert [message["role"] for message in sent["messages"]] == roles


def test_a_small_limit_is_raised_and_a_switch_that_the_server_lacks_is_left_out() -> None:
    profile = Profile(min_output_tokens=16, lacks=("enable_thinking",))
    asked = ChatRequest("m", (Message("user", (Text("x"),)),), params={"max_tokens": 5, "enable_thinking": False})
    sent, told = build(asked, "up", profile)
    assert sent["max_tokens"] == 16 and "enable_thinking" not in sent and len(told) == 2


@each_case("kind", ["vllm", "openai"])
def test_a_conversation_that_lost_its_user_begins_with_one_where_templates_want_one(kind: str) -> None:
    """ "No user query found in messages." of Qwen 3.5: a client that compacts drops what the user has said."""
    messages = (Message("system", (Text("s"),)), Message("assistant", (Text("so"),)))
    body, _ = build(ChatRequest("m", messages), "up", KINDS[kind])
    first = [{"role": "user", "content": "..."}] if kind == "vllm" else []
    assert body["messages"] == [
        {"role": "system", "content": "s"},
        *first,
        {"role": "assistant", "content": "so"},
    ]
