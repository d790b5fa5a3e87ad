"""Qwen Code: variables, and a file of system settings, which wins over the user's own.

https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.coding_agents.agent import (
    ANY_KEY,
    Agent,
    Connection,
    ServedModel,
    SettingsFile,
    Start,
    find_folder,
    has_option,
)

_FILE = "settings.json"
_ELSEWHERE = ("OPENAI_*", "QWEN_DEFAULT_AUTH_TYPE", "QWEN_MODEL")


def _make_window(connection: Connection) -> dict[tuple[str, ...], Any]:
    model = connection.model
    if model.window is None:
        return {}
    return {("model", "generationConfig", "contextWindowSize"): model.window}


def _describe_model(model: ServedModel, url: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.name, "name": model.name, "baseUrl": url, "envKey": "OPENAI_API_KEY"}
    if model.window is not None:
        entry["generationConfig"] = {"contextWindowSize": model.window}
    return entry


def _nest(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for keys, value in values.items():
        table = tree
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    return tree


def _make_start(
    connection: Connection, key: str, arguments: Sequence[str], folder: Path, _environ: Mapping[str, str]
) -> Start:
    """The user's own settings win over the variables: a provider that serves a model of the same name gets it, and
    `security.auth` the rest. The file of the system wins over both (seen with 0.15.10)."""
    model = connection.model.name
    options = () if has_option(arguments, "--auth-type") else ("--auth-type", "openai")
    if not has_option(arguments, "--model", "-m"):
        options = (*options, "--model", model)
    models = {one.name: one for one in (connection.model, *connection.models)}
    values: dict[tuple[str, ...], Any] = {
        ("security", "auth", "selectedType"): "openai",
        ("security", "auth", "baseUrl"): connection.v1,
        ("security", "auth", "apiKey"): "$OPENAI_API_KEY",
        ("modelProviders", "openai"): [_describe_model(one, connection.v1) for one in models.values()],
        **_make_window(connection),
    }
    variables = {
        "OPENAI_BASE_URL": connection.v1,
        "OPENAI_API_KEY": key,
        "OPENAI_MODEL": model,
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(folder / _FILE),
    }
    return Start((*options, *arguments), variables, _ELSEWHERE, {_FILE: json.dumps(_nest(values))})


def _make_settings(connection: Connection, key_variable: str | None, environ: Mapping[str, str]) -> SettingsFile:
    folder = find_folder(environ, "QWEN_HOME", ".qwen")
    key = ANY_KEY if key_variable is None else f"${key_variable}"
    values = {
        ("security", "auth", "selectedType"): "openai",
        ("security", "auth", "baseUrl"): connection.v1,
        ("security", "auth", "apiKey"): key,
        ("model", "name"): connection.model.name,
        **_make_window(connection),
    }
    return SettingsFile(folder / _FILE, "json", values)


QWEN = Agent("Qwen Code", "qwen", "@qwen-code/qwen-code", _make_start, _make_settings, ("OPENAI_*", "QWEN_MODEL"))
