"""Claude Code: variables, and a file for `--settings` where its own settings would win over them.

Each variable is in https://code.claude.com/docs/en/env-vars and was seen with 2.1.332. That `env` of a file of settings
wins is what jundot/omlx pull request 3151 reports.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from app.coding_agents.agent import ANY_KEY, Agent, Connection, SettingsFile, Start, find_folder, has_option, matches
from app.coding_agents.settings_text import UnchangeableText, parse_text

_MODEL_VARIABLES = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Without them it asks for models of Anthropic beside the chosen one: for titles, summaries and subagents."""

_ELSEWHERE = ("ANTHROPIC_*", "CLAUDE_CODE_USE_*")
"""Another address, key or model; the clouds of others. ANTHROPIC_API_KEY would be asked about at the start."""


_PINNED = "settings.json"


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


def _list_winning_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the user's file and those of the project, the `env` of which wins over the environment (2.1.197)."""
    project = Path(".claude")
    own = find_folder(environ, "CLAUDE_CONFIG_DIR", ".claude")
    return own / "settings.json", project / "settings.json", project / "settings.local.json"


def _pin_start(start: Start, texts: Sequence[str], folder: Path) -> Start:
    """Return the start with a file for `--settings`, which wins over the others, if one of them leads elsewhere."""
    wrong = {name for text in texts for name in _find_own_variables(text) if matches(name, _ELSEWHERE)}
    changed = wrong | {name for text in texts for name in _find_own_variables(text) if name in start.variables}
    helper = any("apiKeyHelper" in _read_settings(text) for text in texts)
    if not (changed or helper) or has_option(start.arguments, "--settings"):
        return start
    settings: dict[str, Any] = {"env": {**dict.fromkeys(sorted(wrong), ""), **start.variables}}
    if helper:
        settings["apiKeyHelper"] = 'printf %s "$ANTHROPIC_AUTH_TOKEN"'
    files = {**start.files, _PINNED: json.dumps(settings)}
    return structs.replace(start, arguments=("--settings", str(folder / _PINNED), *start.arguments), files=files)


def _find_own_variables(text: str) -> Mapping[str, Any]:
    variables = _read_settings(text).get("env")
    return variables if isinstance(variables, dict) else {}


def _read_settings(text: str) -> Mapping[str, Any]:
    """Return what a file of settings says; nothing if it cannot be read, which the agent says itself."""
    try:
        return parse_text(text, "json")
    except UnchangeableText:
        return {}


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
    _list_winning_files,
    _pin_start,
)
