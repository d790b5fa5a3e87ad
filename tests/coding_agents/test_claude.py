"""Claude Code's variables, arguments and settings."""

from tests.coding_agents.started_agents import UNKNOWN, URL, settings, start
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
