"""The `thinking` of a body, its effort, and the limit of tokens that it needs."""

from typing import Any

from app.chat.messages import CHAT_PATHS
from app.profiles import find_profile
from app.upstream.messages.thinking import choose_thinking

from tests.each_case import each_case

PROFILE = find_profile("anthropic", "messages")


def enabled(budget: int, **fields: Any) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget, **fields}


LLAMACPP = find_profile("llamacpp", "messages")
ON, OFF = ({"enable_thinking": switch, "thinking": switch} for switch in (True, False))
BUDGET, NONE = {"thinking_switch": "budget"}, {"thinking_switch": "none"}


@each_case(
    ("params", "profile", "most", "field", "effort", "max_tokens", "warned"),
    [
        ({}, {}, 10, None, None, 10, 0),
        ({"enable_thinking": True}, {}, None, {"type": "adaptive"}, None, 8192, 0),
        ({"enable_thinking": False, "reasoning_effort": "high"}, {}, 10, {"type": "disabled"}, None, 10, 0),
        ({"reasoning_effort": "none"}, {}, 10, {"type": "disabled"}, None, 10, 0),
        ({"reasoning_effort": "none", "enable_thinking": True}, {}, 10, {"type": "adaptive"}, None, 10, 0),
        ({"reasoning_effort": "high"}, {"efforts": ("low", "high")}, 10, {"type": "adaptive"}, "high", 10, 0),
        ({"reasoning_effort": "high"}, {"efforts": ("low",)}, 10, {"type": "adaptive"}, "low", 10, 1),
        ({"reasoning_effort": "high"}, {"efforts": ()}, 10, {"type": "adaptive"}, None, 10, 1),
        ({"reasoning_effort": "minimal"}, {}, 10, {"type": "adaptive"}, "low", 10, 0),
        ({"thinking_budget": 5000}, {}, None, enabled(5000), None, 13192, 0),
        ({"thinking_budget": 5}, {}, None, enabled(1024), None, 9216, 0),
        ({"thinking_budget": 5000}, {"max_output_tokens": 6000}, None, enabled(5000), None, 6000, 0),
        ({"thinking_budget": 5000}, {"max_output_tokens": 4000}, None, enabled(3999), None, 4000, 1),
        ({"thinking_budget": 5000}, {}, 1024, None, None, 1024, 1),
        ({"thinking_budget": 5000}, {"thinking_binding": "drop_block"}, 9000)
        + (enabled(5000, block_binding={"prefix_mismatch_behavior": "drop_block"}), None, 9000, 0),
        ({}, BUDGET, 10, None, None, 10, 0),
        ({"reasoning_effort": "low"}, BUDGET, 10_000, enabled(2000), None, 10_000, 0),
        ({"enable_thinking": True}, BUDGET, 10_000, enabled(8000), None, 10_000, 0),
        ({"reasoning_effort": "odd"}, BUDGET, 100_000, enabled(32_000), None, 100_000, 0),
        ({"enable_thinking": True}, BUDGET, 500, None, None, 500, 1),
        ({"enable_thinking": True, "thinking_budget": 9}, NONE, 10, None, None, 10, 2),
        ({"enable_thinking": False}, NONE, 10, None, None, 10, 0),
    ],
)
def test_thinking_is_what_the_model_takes(
    params: Any, profile: Any, most: int | None, field: Any, effort: str | None, max_tokens: int, warned: int
) -> None:
    thinking = choose_thinking(params, PROFILE.model_copy(update=profile), most, CHAT_PATHS)
    assert (thinking.field, thinking.effort, thinking.max_tokens) == (field, effort, max_tokens)
    assert len(thinking.warnings) == warned
    assert thinking.thinks is (field is not None and field["type"] != "disabled")


@each_case(
    ("params", "budget", "variables", "warned"),
    [
        ({}, None, None, 0),
        ({"enable_thinking": False, "thinking_budget": 5}, None, OFF, 0),
        ({"enable_thinking": True}, None, ON, 0),
        ({"reasoning_effort": "none"}, None, OFF, 0),
        ({"reasoning_effort": "low"}, None, {"reasoning_effort": "low"}, 0),
        ({"preferred_effort": "low"}, None, None, 0),
        ({"thinking_budget": 5}, 5, None, 0),
        ({"enable_thinking": True, "thinking_budget": 5}, 5, ON, 0),
    ],
)
def test_thinking_is_switched_by_variables_of_the_template(
    params: Any, budget: int | None, variables: Any, warned: int
) -> None:
    thinking = choose_thinking(params, LLAMACPP, 3, CHAT_PATHS)
    assert thinking.field == (None if budget is None else enabled(budget))
    assert (thinking.variables, thinking.effort, thinking.max_tokens, len(thinking.warnings)) == (
        *(variables, None, 3, warned),
    )
