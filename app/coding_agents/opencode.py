"""OpenCode: its configuration as JSON in a variable, which is merged into the user's own.

The variable wins over all files but those of an administrator: https://opencode.ai/docs/config/#precedence-order.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.coding_agents.agent import (
    ANY_KEY,
    KEY_VARIABLE,
    Agent,
    Connection,
    ServedModel,
    SettingsFile,
    Start,
    find_folder,
)

_PROVIDER = "parley"


def _describe_model(model: ServedModel) -> dict[str, Any]:
    """Return the entry of a model. Without `limit` OpenCode does not compact; it needs both numbers."""
    entry: dict[str, Any] = {}
    if model.window is not None and model.reply_tokens is not None:
        entry["limit"] = {"context": model.window, "output": model.reply_tokens}
    if model.takes_images:
        entry |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    return entry


def _make_values(connection: Connection, key: str) -> dict[str, Any]:
    model = f"{_PROVIDER}/{connection.model.name}"
    models = {one.name: _describe_model(one) for one in (connection.model, *connection.models)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Parley",
        "options": {"baseURL": connection.v1, "apiKey": key},
        "models": models,
    }
    return {"model": model, "small_model": model, "provider": {_PROVIDER: provider}}


def _make_start(
    connection: Connection, key: str, arguments: Sequence[str], _folder: Path, _environ: Mapping[str, str]
) -> Start:
    values = _make_values(connection, f"{{env:{KEY_VARIABLE}}}")
    return Start(tuple(arguments), {"OPENCODE_CONFIG_CONTENT": json.dumps(values), KEY_VARIABLE: key})


def _make_settings(connection: Connection, key_variable: str | None, environ: Mapping[str, str]) -> SettingsFile:
    folder = find_folder(environ, "XDG_CONFIG_HOME", ".config") / "opencode"
    values = _make_values(connection, ANY_KEY if key_variable is None else f"{{env:{key_variable}}}")
    provider = values.pop("provider")
    keys: dict[tuple[str, ...], Any] = {(name,): value for name, value in values.items()}
    return SettingsFile(folder / "opencode.json", "json", {**keys, ("provider", _PROVIDER): provider[_PROVIDER]})


OPENCODE = Agent("OpenCode", "opencode", "opencode-ai", _make_start, _make_settings, ("OPENCODE_CONFIG_CONTENT",))
