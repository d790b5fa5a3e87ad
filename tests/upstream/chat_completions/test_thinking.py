"""How a caller's switch and budget for thinking are said to each kind of server."""

from typing import Any

import pytest
from app.params import PREFERRED_EFFORT
from app.profiles import KINDS, Profile
from app.profiles.thinking import is_thinking
from app.upstream.chat_completions.request import build
from app.upstream.chat_completions.thinking import choose_effort

from tests.each_case import each_case
from tests.upstream.sample_histories import Json, options, request, warnings

TEMPLATE_ON = {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}
TEMPLATE_OFF = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
VLLM_BUDGET = {"thinking_token_budget": 100}
SGLANG_BUDGET = {"custom_params": {"thinking_budget": 100}}
LLAMACPP_BUDGET = {"thinking_budget_tokens": 100, "reasoning_budget_tokens": 100}
GOOGLE_BUDGET = {"extra_body": {"google": {"thinking_config": {"thinking_budget": 100}}}}
TOP = ({"enable_thinking": True}, {"enable_thinking": False}, {"thinking_budget": 100})
TYPE = ({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}, None)
ADAPTIVE = ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}}, None)
EFFORT = ({"reasoning_effort": "medium"}, {"reasoning_effort": "none"}, None)
OBJECT = ({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}, {"reasoning": {"max_tokens": 100}})
NO_SWITCH = (None, None, None)
CHAT_KINDS = set(KINDS) - {"anthropic", "anthropic_compatible"}  # these have another API
THINKING: dict[str, tuple[Json | None, Json | None, Json | None]] = {
    "openai_compatible": TOP,
    "vllm": (TEMPLATE_ON, TEMPLATE_OFF, VLLM_BUDGET),
    "sglang": (TEMPLATE_ON, TEMPLATE_OFF, SGLANG_BUDGET),
    "llamacpp": (TEMPLATE_ON, TEMPLATE_OFF, LLAMACPP_BUDGET),
    "llamacpp_python": NO_SWITCH,
    "transformers": (TEMPLATE_ON, TEMPLATE_OFF, None),
    "ollama": ({}, {"reasoning_effort": "none"}, None),  # its models that think do so by default
    "lmstudio": NO_SWITCH,
    "dashscope": TOP,
    "deepseek": TYPE,
    "moonshot": TYPE,
    "zhipu": TYPE,
    "minimax": ADAPTIVE,
    "siliconflow": TOP,
    "openrouter": OBJECT,
    "groq": NO_SWITCH,
    "mistral": NO_SWITCH,
    "xai": NO_SWITCH,
    "gemini": (*EFFORT[:2], GOOGLE_BUDGET),
    "vertex": (*EFFORT[:2], GOOGLE_BUDGET),
    "openai": NO_SWITCH,
}


def test_every_kind_has_its_row() -> None:
    assert set(THINKING) == CHAT_KINDS


@each_case("kind", sorted(CHAT_KINDS))
@each_case(
    ("place", "name", "value"),
    [(0, "enable_thinking", True), (1, "enable_thinking", False), (2, "thinking_budget", 100)],
)
def test_thinking_is_switched_as_the_server_wants_or_the_caller_is_warned(
    kind: str, place: int, name: str, value: Any
) -> None:
    want = THINKING[kind][place]
    assert options(kind, **{name: value}) == (want or {})
    warned = warnings(kind, **{name: value})
    assert [warning.split(" was ")[0] for warning in warned] == ([] if want is not None else [f"generate_cfg.{name}"])


def test_switch_and_budget_share_one_object() -> None:
    both: Json = {"enable_thinking": True, "thinking_budget": 9}
    template = build(request(**both), "m", KINDS["vllm"].model_copy(update={"thinking_budget": "chat_template_kwargs"}))
    assert template[0]["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True, "thinking_budget": 9}
    assert options("openrouter", **both) == {"reasoning": {"enabled": True, "max_tokens": 9}}


def test_a_budget_is_not_sent_where_thinking_is_off_or_it_is_nothing() -> None:
    assert options(enable_thinking=False, thinking_budget=100) == {"enable_thinking": False}
    assert options(thinking_budget=0) == {}


@pytest.mark.parametrize(("kind", "most"), [("dashscope", 38912), ("siliconflow", 32768)])
def test_a_budget_beyond_the_servers_most_is_lowered_with_a_warning(kind: str, most: int) -> None:
    assert options(kind, thinking_budget=most) == {"thinking_budget": most}
    assert options(kind, thinking_budget=most + 1) == {"thinking_budget": most}
    assert warnings(kind, thinking_budget=most) == []
    assert str(most) in warnings(kind, thinking_budget=most + 1)[0]


def test_an_effort_that_the_caller_names_wins_over_the_switch() -> None:
    assert options("gemini", enable_thinking=True, reasoning_effort="high") == {"reasoning_effort": "high"}


def test_gemini_gets_either_a_budget_or_an_effort() -> None:
    config = {"google": {"thinking_config": {"thinking_budget": 9}}}
    assert options("gemini", enable_thinking=True, thinking_budget=9) == {"extra_body": config}
    preferred: Json = {PREFERRED_EFFORT: "high"}
    assert options("gemini", thinking_budget=9, **preferred) == {"extra_body": config}
    assert options("gemini", reasoning_effort="low", thinking_budget=9) == {"reasoning_effort": "low"}
    [warning] = warnings("gemini", reasoning_effort="low", thinking_budget=9)
    assert warning.startswith("generate_cfg.thinking_budget was not sent")


@pytest.mark.parametrize("extra", [{"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}])
def test_openrouter_gets_either_a_budget_or_an_effort(extra: Json) -> None:
    assert options("openrouter", reasoning_effort="low", thinking_budget=9) == {"reasoning_effort": "low"}
    assert options("openrouter", thinking_budget=9, extra_body=extra) == extra
    [warning] = warnings("openrouter", thinking_budget=9, extra_body=extra)
    assert warning.startswith("generate_cfg.thinking_budget was not sent")


@each_case(
    ("params", "sent", "warned"),
    [
        ({"enable_thinking": True, "reasoning_effort": "high"}, {"reasoning_effort": "high"}, []),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}, []),
        ({"enable_thinking": True}, {"thinking": {"type": "enabled"}}, []),
        (
            {"enable_thinking": False, "reasoning_effort": "high"},
            {"thinking": {"type": "disabled"}},
            ["generate_cfg.reasoning_effort"],
        ),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, []),
        ({"reasoning_effort": "low", "extra_body": {"thinking": {"type": "enabled"}}}, {"reasoning_effort": "low"}, []),
        (
            {"reasoning_effort": "low", "extra_body": {"thinking": {"type": "enabled", "keep": "all"}}},
            {"reasoning_effort": "low"},
            ["generate_cfg.extra_body.thinking"],
        ),
        (
            {"reasoning_effort": "low", "extra_body": {"thinking": {"type": "disabled"}}},
            {"thinking": {"type": "disabled"}},
            ["generate_cfg.reasoning_effort"],
        ),
    ],
)
def test_kimi_gets_either_an_effort_or_a_switch(params: Json, sent: Json, warned: list[str]) -> None:
    assert options("moonshot", **params) == sent
    assert [text.split(" was ")[0] for text in warnings("moonshot", **params)] == warned


@each_case(
    ("kind", "sent"),
    [
        ("deepseek", {"thinking": {"type": "disabled"}}),
        ("zhipu", {"thinking": {"type": "disabled"}}),
        ("vllm", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        ("transformers", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        ("openrouter", {"reasoning": {"enabled": False}}),
        ("gemini", {"reasoning_effort": "none"}),
        ("ollama", {"reasoning_effort": "none"}),
        ("openai", {"reasoning_effort": "none"}),
        ("openai_compatible", {"reasoning_effort": "none"}),
    ],
)
def test_the_effort_none_switches_thinking_off_in_the_servers_own_way(kind: str, sent: Json) -> None:
    assert options(kind, reasoning_effort="none") == sent
    assert warnings(kind, reasoning_effort="none") == []


USUAL = ("low", "medium", "high")


@each_case(
    ("wanted", "efforts", "sent"),
    [
        ("high", USUAL, "high"),
        ("max", USUAL, "high"),
        ("xhigh", USUAL, "high"),
        ("minimal", USUAL, "low"),
        ("medium", ("low", "high", "max"), "high"),
        ("none", USUAL, None),
        ("none", ("none", "default"), "none"),
        ("low", ("none",), None),
        ("low", (), None),
        ("max", ("none", "default"), "default"),
        ("ultra", USUAL, None),
        ("ultra", {"ultra": "max", "low": "low"}, "max"),
        ("medium", {"high": "default"}, "default"),
        ("none", {"high": "default"}, None),
    ],
)
def test_an_effort_is_sent_as_the_nearest_that_the_model_takes(wanted: str, efforts: Any, sent: str | None) -> None:
    assert choose_effort(wanted, efforts) == sent


@each_case(
    ("efforts", "own", "preferred"),
    [
        (None, "max", "high"),  # a client of Anthropic sends efforts that only Anthropic's models know
        (USUAL, "high", "high"),
        (("none", "default"), "default", "default"),
        (("none",), None, None),
        ((), None, None),
        ({"max": "high"}, "high", "high"),
    ],
)
def test_the_callers_effort_is_warned_of_and_that_of_its_client_only_if_another_is_sent(
    efforts: Any, own: str | None, preferred: str | None
) -> None:
    profile = Profile(thinking_switch="reasoning_effort", efforts=efforts)
    for name, want in (("reasoning_effort", own), (PREFERRED_EFFORT, preferred)):
        params: Json = {name: "max"}
        got, warned = build(request(**params), "m", profile)
        assert got.get("reasoning_effort") == want
        changed = want not in (None, "max")
        missing = want is None and name == "reasoning_effort"
        assert [text.split(" was ")[0] for text in warned] == ([f"generate_cfg.{name}"] if changed or missing else [])


@each_case(
    ("fields", "sent"),
    [
        ({"thinking_switch": "none"}, None),
        ({"thinking_switch": "none", "efforts": USUAL}, "high"),
        ({"thinking_switch": "chat_template_kwargs", "efforts": ("none",)}, None),
    ],
)
def test_an_effort_of_every_request_is_sent_where_the_profile_names_efforts(fields: Json, sent: str | None) -> None:
    params: Json = {PREFERRED_EFFORT: "high"}
    assert build(request(**params), "m", Profile(**fields))[0].get("reasoning_effort") == sent
    off = request(enable_thinking=False, **params)
    assert "reasoning_effort" not in build(off, "m", Profile(**fields))[0]


NAMED = {"type": "function", "function": {"name": "f"}}


@each_case(
    ("kind", "params", "forced"),
    [
        ("deepseek", {}, False),
        ("deepseek", {"enable_thinking": True}, False),
        ("deepseek", {"enable_thinking": False}, True),
        ("deepseek", {"extra_body": {"thinking": {"type": "disabled"}}}, True),
        ("dashscope", {}, True),
        ("dashscope", {"enable_thinking": True}, False),
        ("dashscope", {"extra_body": {"enable_thinking": True}}, False),
        ("moonshot", {}, False),
        ("moonshot", {"enable_thinking": False}, True),
        ("vllm", {"enable_thinking": True}, True),
    ],
)
def test_a_call_is_not_forced_where_the_server_refuses_that_while_it_thinks(
    kind: str, params: Json, forced: bool
) -> None:
    for name in ("function_choice", "tool_choice"):
        got, warned = build(request(tools=("f", "g"), **{name: "f", **params}), "m", KINDS[kind])
        assert got.get("tool_choice") == (NAMED if forced else None)
        names = [tool["function"]["name"] for tool in got["tools"]]
        assert names == (["f", "g"] if forced else ["f"])  # the demanded function is the only one to choose
        assert [text.split(" was ")[0] for text in warned] == ([] if forced else [f"generate_cfg.{name}"])


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_that_demands_nothing_is_sent_while_the_model_thinks(choice: str) -> None:
    got, warned = build(request(tools=("f",), tool_choice=choice), "m", KINDS["deepseek"])
    assert (got["tool_choice"], warned) == (choice, [])


@each_case(
    ("kind", "off"),
    [
        ("deepseek", {"thinking": {"type": "disabled"}}),
        ("dashscope", {"enable_thinking": False}),
        ("vllm", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False, "keep": 1}}),
        ("openrouter", {"reasoning": {"enabled": False}}),
    ],
)
def test_thinking_is_switched_off_for_a_forced_call_if_the_profile_says_so(kind: str, off: Json) -> None:
    profile = KINDS[kind].model_copy(update={"forced_choice_while_thinking": "thinking_off"})
    extra = {"chat_template_kwargs": {"keep": 1}} if kind == "vllm" else {}
    params: Json = {"enable_thinking": True, "thinking_budget": 9, "reasoning_effort": "high", "extra_body": extra}
    got, warned = build(request(tools=("f", "g"), tool_choice="required", **params), "m", profile)
    fields = ("thinking", "enable_thinking", "reasoning", "reasoning_effort", "thinking_budget", "chat_template_kwargs")
    assert {field: got[field] for field in fields if field in got} == off
    assert (got["tool_choice"], len(got["tools"])) == ("required", 2)
    assert warned[-1].startswith("thinking was switched off for generate_cfg.tool_choice")


def test_a_model_whose_thinking_cannot_be_switched_off_chooses_itself() -> None:
    profile = Profile(thinking_switch="none", thinks_by_default=True, forced_choice_while_thinking="thinking_off")
    got, [warning] = build(request(tools=("f",), tool_choice="required"), "m", profile)
    assert "tool_choice" not in got
    assert warning.startswith("generate_cfg.tool_choice was not sent")


@each_case(
    ("kind", "params", "off"),
    [
        ("vllm", {"enable_thinking": True}, True),
        ("vllm", {"enable_thinking": False}, False),
        ("vllm", {}, False),
        ("deepseek", {}, True),
        ("openai", {"reasoning_effort": "high"}, False),
    ],
)
@pytest.mark.parametrize("type_", ["json_object", "json_schema"])
def test_thinking_is_switched_off_for_a_response_format_if_the_profile_says_so(
    kind: str, params: Json, off: bool, type_: str
) -> None:
    profile = KINDS[kind].model_copy(update={"formats_while_thinking": "thinking_off"})
    got, warned = build(request(response_format={"type": type_}, **params), "m", profile)
    assert got["response_format"] == {"type": type_}
    assert is_thinking(got, profile) is (kind == "openai")
    told = [text for text in warned if text.startswith("thinking was switched off for generate_cfg.response_format")]
    assert bool(told) is off
