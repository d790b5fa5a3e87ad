"""The lists of models that coding agents read."""

from typing import Any

import pytest
from app.formats.agent_models import (
    INSTRUCTIONS,
    MAX_ENTRIES,
    ListedModel,
    choose_claude_id,
    is_claude_code,
    make_etag,
    write_codex_models,
)

from tests.each_case import each_case

# Of codex-rs 0.130.0 and 0.171.0: an entry without one of these empties the whole list.
NEEDED = {
    *("slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility", "supported_in_api", "priority"),
    *("base_instructions", "support_verbosity", "truncation_policy", "experimental_supported_tools"),
    *("supports_reasoning_summaries", "supports_parallel_tool_calls"),
}


def listed(name: str = "m", window: int | None = None, most: int | None = None, efforts: Any = ()) -> ListedModel:
    return ListedModel(name, name, "", window, most, efforts, takes_images=False, parallel_calls=True)


def entry(model: ListedModel) -> dict[str, Any]:
    (written,) = write_codex_models([model], None)
    return written


def test_an_entry_has_every_field_that_a_version_of_codex_needs() -> None:
    assert entry(listed()).keys() >= NEEDED


def test_the_instructions_are_never_empty_and_have_at_most_4_kilobytes() -> None:
    assert entry(listed())["base_instructions"] == INSTRUCTIONS
    assert len(INSTRUCTIONS.encode()) <= 4096


def test_the_operators_instructions_replace_those_of_every_model() -> None:
    entries = write_codex_models([listed("a"), listed("b")], "Work.")
    assert [one["base_instructions"] for one in entries] == ["Work.", "Work."]
    assert [one["priority"] for one in entries] == [0, 1]


@pytest.mark.parametrize(
    ("window", "most", "limit"),
    [(40_000, None, 31_808), (32_768, None, 24_576), (32_768, 1000, 31_768), (200_000, 64_000, 150_000)],
)
def test_codex_compacts_while_the_longest_reply_fits(window: int, most: int | None, limit: int) -> None:
    found = entry(listed(window=window, most=most))
    assert (found["context_window"], found["auto_compact_token_limit"]) == (window, limit)


def test_without_a_window_there_is_no_limit() -> None:
    assert not entry(listed(most=100)).keys() & {"context_window", "auto_compact_token_limit"}


@each_case(
    ("efforts", "default"),
    [(("low", "medium"), "medium"), (("high", "low"), "high"), (("own",), "own")],
)
def test_the_default_effort_is_one_that_the_model_takes(efforts: tuple[str, ...], default: str) -> None:
    found = entry(listed(efforts=efforts))
    assert found["default_reasoning_level"] == default
    assert [level["effort"] for level in found["supported_reasoning_levels"]] == list(efforts)
    assert all(level["description"] for level in found["supported_reasoning_levels"])


def test_without_efforts_there_is_no_default() -> None:
    found = entry(listed())
    assert found["supported_reasoning_levels"] == []
    assert "default_reasoning_level" not in found


def test_images_are_the_only_media_of_an_entry() -> None:
    seeing = ListedModel("m", "m", "", None, None, (), takes_images=True, parallel_calls=False)
    assert entry(seeing)["input_modalities"] == ["text", "image"]
    assert entry(seeing)["supports_parallel_tool_calls"] is False


def test_a_long_list_is_cut() -> None:
    assert len(write_codex_models([listed(str(at)) for at in range(MAX_ENTRIES + 1)], None)) == MAX_ENTRIES


def test_an_etag_changes_with_every_field_and_with_the_instructions() -> None:
    lists = [
        write_codex_models([], None),
        write_codex_models([listed()], None),
        write_codex_models([listed()], "Work."),
        write_codex_models([listed(window=1)], None),
        write_codex_models([listed(), listed("n")], None),
    ]
    assert len({make_etag(one) for one in lists}) == len(lists)
    assert make_etag(lists[1]) == make_etag(write_codex_models([listed()], None))


@each_case(
    ("agent", "expected"),
    [
        (b"claude-code/2.1.332", True),
        (b"claude-cli/2.1.332 (external, cli)", True),
        (b"OpenAI/Python 3.57.0", False),
        (b"my claude-cli/1", False),
        (None, False),
    ],
)
def test_claude_code_is_known_by_the_beginning_of_its_user_agent(agent: bytes | None, expected: bool) -> None:
    assert is_claude_code(agent) is expected


@each_case(
    ("name", "expected"),
    [
        ("qwen3", "claude-parley-qwen3"),
        ("my-claude", "claude-parley-my-claude"),
        ("claude-local", "claude-local"),
        ("Anthropic/x", "Anthropic/x"),
        ("taken", "taken"),
    ],
)
def test_an_id_leads_back_to_one_model(name: str, expected: str) -> None:
    assert choose_claude_id(name, {"claude-parley-taken"}) == expected
