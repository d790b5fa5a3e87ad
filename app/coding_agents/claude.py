"""Claude Code: variables only. Each is in https://code.claude.com/docs/en/env-vars and was seen with 2.1.332."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.coding_agents.agent import ANY_KEY, Agent, Connection, SettingsFile, Start, find_folder, has_option

_MODEL_VARIABLES = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Without them it asks for models of Anthropic beside the chosen one: for titles, summaries and subagents."""

_ELSEWHERE = ("ANTHROPIC_*", "CLAUDE_CODE_USE_*")
"""Another address, key or model; the clouds of others. ANTHROPIC_API_KEY would be asked about at the start."""


def _make_variables(connection: Connection) -> dict[str, str]:
    """Return all but the key. `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC` is none of them: it also stops the look at the
    gateway's models."""
    model = connection.model
    variables = {"ANTHROPIC_BASE_URL": connection.url, **dict.fromkeys(_MODEL_VARIABLES, model.name)}
    if model.window is not None:  # for an unknown model it assumes 1,000,000 tokens
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(model.window)
    if model.reply_tokens is not None:
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(model.reply_tokens)
    return {**variables, "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1"}


def _make_start(
    connection: Connection, key: str, arguments: Sequence[str], _folder: Path, _environ: Mapping[str, str]
) -> Start:
    model = () if has_option(arguments, "--model") else ("--model", connection.model.name)
    variables = {**_make_variables(connection), "ANTHROPIC_AUTH_TOKEN": key}
    return Start((*model, *arguments), variables, _ELSEWHERE)


def _make_settings(connection: Connection, key_variable: str | None, environ: Mapping[str, str]) -> SettingsFile:
    """The file may be read by others, so it has the name of the variable with the key, not the key."""
    folder = find_folder(environ, "CLAUDE_CONFIG_DIR", ".claude")
    values: dict[tuple[str, ...], Any] = {("env", name): value for name, value in _make_variables(connection).items()}
    values[("model",)] = connection.model.name
    if key_variable is None:
        values["env", "ANTHROPIC_AUTH_TOKEN"] = ANY_KEY
    else:
        values[("apiKeyHelper",)] = f'printf %s "${key_variable}"'
    return SettingsFile(folder / "settings.json", "json", values)


CLAUDE = Agent(
    "Claude Code",
    "claude",
    "@anthropic-ai/claude-code",
    _make_start,
    _make_settings,
    ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "CLAUDE_CODE_USE_*"),
)
