"""Whether a model thinks: the body says it, or its profile."""

from typing import Any

from app.profiles import Profile
from app.profiles.thinking import is_thinking

from tests.each_case import each_case

Json = dict[str, Any]


@each_case(
    ("body", "thinks"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled"}}, True),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "high"}, False),
        ({"thinking": {"type": "adaptive"}}, True),
        ({"thinking": {"keep": "all"}}, None),
        ({"enable_thinking": False}, False),
        ({"chat_template_kwargs": {"thinking": False}}, False),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"max_tokens": 9}}, True),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "low"}, True),
    ],
)
def test_the_body_says_whether_the_model_thinks_else_the_profile_does(body: Json, thinks: bool | None) -> None:
    for default in (True, False):
        profile = Profile(thinks_by_default=default)
        assert is_thinking(body, profile) is (default if thinks is None else thinks)
