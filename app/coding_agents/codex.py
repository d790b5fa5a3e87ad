"""Codex: its settings as `-c` arguments, so that its own file, and its prompt, stay as they are.

The keys are those of https://developers.openai.com/codex/config-reference and were seen with 0.171.0.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from app.coding_agents.agent import KEY_VARIABLE, Agent, Connection, SettingsFile, Start, find_folder

_PROVIDER = "parley"
_MODELS_FILE = "parley-models.json"
_PROMPT_WARNING = (
    "with this catalogue, Codex uses the gateway's instructions for these models in place of its own prompt "
    "(agents.codex_instructions of the gateway)"
)


def _make_values(connection: Connection) -> dict[str, Any]:
    """Return the settings that are numbers or texts. Codex alone compacts at 90 % of the window, which leaves no room
    for a reply in a small one."""
    model = connection.model
    values: dict[str, Any] = {"model": model.name, "model_provider": _PROVIDER}
    if model.window is not None:
        values |= {"model_context_window": model.window, "model_auto_compact_token_limit": model.compact_at}
    if model.searches:  # else Codex says that pages may not be read live, and nothing is searched
        values["web_search"] = "live"
    return values


def _make_provider(connection: Connection, key_variable: str | None) -> dict[str, Any]:
    provider: dict[str, Any] = {"name": "Parley", "base_url": connection.v1, "wire_api": "responses"}
    if key_variable is not None:
        provider["env_key"] = key_variable
    if connection.websockets:
        provider["supports_websockets"] = True
    return provider


def _make_start(
    connection: Connection, key: str, arguments: Sequence[str], _folder: Path, _environ: Mapping[str, str]
) -> Start:
    provider = _make_provider(connection, KEY_VARIABLE)
    settings = {
        **_make_values(connection),
        **{f"model_providers.{_PROVIDER}.{name}": value for name, value in provider.items()},
    }
    # A JSON text, number or boolean is one of TOML, too.
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    return Start((*options, *arguments), {KEY_VARIABLE: key})


def _make_settings(connection: Connection, key_variable: str | None, environ: Mapping[str, str]) -> SettingsFile:
    folder = find_folder(environ, "CODEX_HOME", ".codex")
    values: dict[tuple[str, ...], Any] = {(name,): value for name, value in _make_values(connection).items()}
    values["model_providers", _PROVIDER] = _make_provider(connection, key_variable)
    return SettingsFile(folder / "config.toml", "toml", values)


def _add_models(connection: Connection, settings: SettingsFile) -> SettingsFile:
    """Return the settings with a catalogue of the gateway's models. Codex reads it with any way of authentication; it
    asks for the gateway's own list only if the provider has a command for the key."""
    file = settings.path.parent / _MODELS_FILE
    values = {**settings.values, ("model_catalog_json",): str(file)}
    text = json.dumps({"models": [*connection.codex_models]}, indent=1, ensure_ascii=False) + "\n"
    return replace(settings, values=values, beside={file: text}, warnings=(_PROMPT_WARNING,))


CODEX = Agent("Codex", "codex", "@openai/codex", _make_start, _make_settings, add_models=_add_models)
