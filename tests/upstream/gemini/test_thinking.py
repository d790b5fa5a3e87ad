"""The `thinkingConfig` of a body of the Gemini API."""

from tests.each_case import each_case
from tests.upstream.gemini.requests import Json, send

OFF = {"enable_thinking": False}
BUDGET = {"thinking_switch": "gemini_budget"}


@each_case(
    ("params", "change", "config", "warned"),
    [
        ({}, {}, {"includeThoughts": True}, 0),
        ({"enable_thinking": True}, {}, {"includeThoughts": True}, 0),
        ({"reasoning_effort": "high"}, {}, {"includeThoughts": True, "thinkingLevel": "HIGH"}, 0),
        ({"reasoning_effort": "xhigh"}, {}, {"includeThoughts": True, "thinkingLevel": "HIGH"}, 1),
        ({"reasoning_effort": "odd"}, {}, {"includeThoughts": True}, 1),
        ({"preferred_effort": "max"}, {}, {"includeThoughts": True, "thinkingLevel": "HIGH"}, 0),
        ({"preferred_effort": "odd"}, {}, {"includeThoughts": True}, 0),
        ({"reasoning_effort": "none"}, {}, {"thinkingLevel": "MINIMAL"}, 1),
        (OFF, {"efforts": ("low", "high")}, {"thinkingLevel": "LOW"}, 1),
        (OFF, {"efforts": ()}, None, 1),
        ({"thinking_budget": 0}, {"efforts": None}, {"thinkingLevel": "MINIMAL"}, 1),
        ({"thinking_budget": 2048}, {}, {"includeThoughts": True, "thinkingLevel": "LOW"}, 1),
        ({"thinking_budget": 2049}, {}, {"includeThoughts": True, "thinkingLevel": "MEDIUM"}, 1),
        ({"thinking_budget": 9000}, {}, {"includeThoughts": True, "thinkingLevel": "HIGH"}, 1),
        ({"thinking_budget": 9000}, {"efforts": ()}, {"includeThoughts": True}, 1),
        (
            {"thinking_budget": 9, "reasoning_effort": "low"},
            {"efforts": {"low": "LOW"}},
            {"includeThoughts": True, "thinkingLevel": "LOW"},
            1,
        ),
        (OFF, BUDGET, {"thinkingBudget": 0}, 0),
        ({}, BUDGET, {"includeThoughts": True}, 0),
        ({"reasoning_effort": "medium"}, BUDGET, {"includeThoughts": True, "thinkingBudget": 8192}, 0),
        ({"reasoning_effort": "odd"}, BUDGET, {"includeThoughts": True}, 1),
        (
            {"thinking_budget": 7, "reasoning_effort": "low"},
            BUDGET,
            {"includeThoughts": True, "thinkingBudget": 7},
            1,
        ),
        (
            {"thinking_budget": 7},
            {**BUDGET, "max_thinking_budget": 5},
            {"includeThoughts": True, "thinkingBudget": 5},
            1,
        ),
        (
            {"reasoning_effort": "high"},
            {**BUDGET, "max_thinking_budget": 5},
            {"includeThoughts": True, "thinkingBudget": 5},
            0,
        ),
        ({"enable_thinking": True, "reasoning_effort": "none"}, {"thinking_switch": "none"}, None, 1),
        (OFF, {"thinking_switch": "none"}, None, 0),
    ],
)
def test_thinking_has_a_level_or_a_budget(params: Json, change: Json, config: Json | None, warned: int) -> None:
    body, warnings = send(params=params, change=change)
    assert body.get("generationConfig", {}).get("thinkingConfig") == config
    assert len(warnings) == warned, warnings
