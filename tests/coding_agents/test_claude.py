"""Claude Code's variables, arguments and settings."""

import json
from typing import Any

from app.coding_agents.agent import Start
from app.coding_agents.agents import AGENTS

from tests.coding_agents.started_agents import FOLDER, HOME, UNKNOWN, URL, settings, start
from tests.each_case import each_case


def test_claude_code_gets_variables_and_its_model() -> None:
    started = start("claude", "-p", "hi")
    assert started.arguments == ("--model", "qwen3", "-p", "hi")
    assert started.variables == {
        "ANTHROPIC_BASE_URL": URL,
        "ANTHROPIC_AUTH_TOKEN": "k",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "qwen3",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "qwen3",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "qwen3",
        "CLAUDE_CODE_SUBAGENT_MODEL": "qwen3",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "32768",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4096",
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }


@each_case("given", [("--model", "mine"), ("--model=mine",)])
def test_a_model_among_the_arguments_is_not_given_twice(given: tuple[str, ...]) -> None:
    assert start("claude", *given).arguments == given


def test_an_unknown_window_is_left_out() -> None:
    assert not any("TOKENS" in name for name in start("claude", model=UNKNOWN).variables)


def test_the_file_names_the_variable_of_the_key() -> None:
    without, with_variable = settings("claude"), settings("claude", "MY_KEY")
    assert without["path"] == "/home/ann/.claude/settings.json"
    assert (without["env.ANTHROPIC_AUTH_TOKEN"], "apiKeyHelper" in without) == ("any", False)
    assert with_variable["apiKeyHelper"] == 'printf %s "$MY_KEY"'
    assert "env.ANTHROPIC_AUTH_TOKEN" not in with_variable


def pin(*texts: str, arguments: tuple[str, ...] = ()) -> tuple[Start, dict[str, Any]]:
    """The start beside these files of settings, and what its own file of settings has."""
    pin_start = AGENTS["claude"].pin_start
    assert pin_start is not None
    pinned = pin_start(start("claude", *arguments), texts, FOLDER)
    return pinned, json.loads(pinned.files.get("settings.json", "{}"))


@each_case(
    "text",
    ["", "{}", "no JSON", "[]", '{"env": {"A": "1"}}', '{"env": 3}', '{"model": "opus"}'],
)
def test_settings_that_lead_nowhere_else_stay_alone(text: str) -> None:
    assert pin(text)[0] == start("claude")


def test_variables_of_its_own_settings_are_overruled() -> None:
    pinned, settings = pin(
        '{"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}', '{"env": {"CLAUDE_CODE_USE_VERTEX": "1"}}'
    )
    assert pinned.arguments == ("--settings", "/tmp/folder/settings.json", "--model", "qwen3")
    assert settings == {"env": {"CLAUDE_CODE_USE_VERTEX": "", **start("claude").variables}}


def test_a_key_helper_of_its_own_settings_is_overruled() -> None:
    assert pin('{"apiKeyHelper": "mine"}')[1]["apiKeyHelper"] == 'printf %s "$ANTHROPIC_AUTH_TOKEN"'


def test_settings_among_the_arguments_are_the_users_own() -> None:
    pinned, _ = pin('{"apiKeyHelper": "mine"}', arguments=("--settings", "x"))
    assert pinned.arguments == ("--model", "qwen3", "--settings", "x")


def test_the_settings_of_the_user_and_of_the_project_win() -> None:
    list_files = AGENTS["claude"].list_winning_files
    assert list_files is not None
    assert [str(file) for file in list_files(HOME)] == [
        "/home/ann/.claude/settings.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    ]
