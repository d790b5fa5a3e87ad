"""pi: the file `models.json` of its folder. For one start it gets a temporary folder with the rest of the user's own.

`PI_CODING_AGENT_DIR` names the folder, and `apiKey` may be the name of a variable behind `$`:
https://github.com/earendil-works/pi/blob/main/packages/coding-agent/docs/models.md
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
    has_option,
)

_PROVIDER = "parley"
_FILE = "models.json"


def _describe_model(model: ServedModel) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.name, "input": ["text", "image"] if model.takes_images else ["text"]}
    if model.window is not None:
        entry["contextWindow"] = model.window
    if model.reply_tokens is not None:
        entry["maxTokens"] = model.reply_tokens
    return entry


def _make_provider(connection: Connection, key: str) -> dict[str, Any]:
    models = {one.name: one for one in (connection.model, *connection.models)}
    return {
        "baseUrl": connection.v1,
        "api": "openai-completions",
        "apiKey": key,
        "models": [_describe_model(one) for one in models.values()],
    }


def _make_start(
    connection: Connection, key: str, arguments: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Start:
    options = () if has_option(arguments, "--model") else ("--provider", _PROVIDER, "--model", connection.model.name)
    models = {"providers": {_PROVIDER: _make_provider(connection, f"${KEY_VARIABLE}")}}
    return Start(
        (*options, *arguments),
        {"PI_CODING_AGENT_DIR": str(folder), KEY_VARIABLE: key},
        files={_FILE: json.dumps(models)},
        linked=find_folder(environ, "PI_CODING_AGENT_DIR", ".pi", "agent"),
    )


def _make_settings(connection: Connection, key_variable: str | None, environ: Mapping[str, str]) -> SettingsFile:
    folder = find_folder(environ, "PI_CODING_AGENT_DIR", ".pi", "agent")
    provider = _make_provider(connection, ANY_KEY if key_variable is None else f"${key_variable}")
    return SettingsFile(folder / _FILE, "json", {("providers", _PROVIDER): provider})


PI = Agent("pi", "pi", "@earendil-works/pi-coding-agent", _make_start, _make_settings)
