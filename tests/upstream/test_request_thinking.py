"""How a caller's switch and budget for thinking are said to each kind of server."""

from typing import Any

import pytest
from app.profiles import KINDS
from app.upstream.request import build

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
EFFORT = ({"reasoning_effort": "medium"}, {"reasoning_effort": "none"}, None)
OBJECT = ({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}, {"reasoning": {"max_tokens": 100}})
NO_SWITCH = (None, None, None)
THINKING: dict[str, tuple[Json | None, Json | None, Json | None]] = {
    "openai_compatible": TOP,
    "vllm": (TEMPLATE_ON, TEMPLATE_OFF, VLLM_BUDGET),
    "sglang": (TEMPLATE_ON, TEMPLATE_OFF, SGLANG_BUDGET),
    "llamacpp": (TEMPLATE_ON, TEMPLATE_OFF, LLAMACPP_BUDGET),
    "llamacpp_python": NO_SWITCH,
    "transformers": NO_SWITCH,
    "ollama": EFFORT,
    "lmstudio": NO_SWITCH,
    "dashscope": TOP,
    "deepseek": TYPE,
    "moonshot": TYPE,
    "zhipu": TYPE,
    "minimax": NO_SWITCH,
    "siliconflow": TOP,
    "openrouter": OBJECT,
    "groq": EFFORT,
    "mistral": NO_SWITCH,
    "xai": NO_SWITCH,
    "gemini": (*EFFORT[:2], GOOGLE_BUDGET),
    "openai": NO_SWITCH,
}


def test_every_kind_has_its_row() -> None:
    assert set(THINKING) == set(KINDS)


@each_case("kind", KINDS)
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
    assert [warning.split(" was ")[0] for warning in warned] == ([] if want else [f"generate_cfg.{name}"])


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
    assert options("ollama", enable_thinking=True, reasoning_effort="high") == {"reasoning_effort": "high"}


def test_gemini_gets_either_a_budget_or_an_effort() -> None:
    config = {"google": {"thinking_config": {"thinking_budget": 9}}}
    assert options("gemini", enable_thinking=True, thinking_budget=9) == {"extra_body": config}
    assert options("gemini", reasoning_effort="low", thinking_budget=9) == {"reasoning_effort": "low"}
    [warning] = warnings("gemini", reasoning_effort="low", thinking_budget=9)
    assert warning.startswith("generate_cfg.thinking_budget was not sent")
