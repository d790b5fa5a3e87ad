"""The default profiles of known kinds of servers."""

import pytest
from app.profiles import KINDS, Profile


@pytest.mark.parametrize("kind", ["mistral", "minimax", "vllm", "sglang", "llamacpp"])
def test_servers_whose_templates_want_one_leading_system_message_get_it(kind: str) -> None:
    assert KINDS[kind].system == "merged"


def test_only_the_kinds_that_know_opaque_fields_of_calls_get_them() -> None:
    assert [kind for kind, profile in KINDS.items() if profile.replay_extra_content] == ["openai_compatible", "gemini"]


def test_an_unknown_server_has_the_defaults_and_every_other_kind_differs_from_them() -> None:
    assert [kind for kind, profile in KINDS.items() if profile == Profile()] == ["openai_compatible"]
