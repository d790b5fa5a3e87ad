"""The coding agents in front of a gateway with two models, one of which is not known well."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.coding_agents.agent import Connection, ServedModel, Start
from app.coding_agents.agents import AGENTS

URL = "http://127.0.0.1:8000"
SMALL = ServedModel("qwen3", 32768, 4096, takes_images=True)
UNKNOWN = ServedModel("other")
HOME = {"HOME": "/home/ann"}
FOLDER = Path("/tmp/folder")


def start(agent: str, *arguments: str, model: ServedModel = SMALL, environ: Mapping[str, str] = HOME) -> Start:
    return AGENTS[agent].make_start(Connection(URL, model, (SMALL, UNKNOWN)), "k", arguments, FOLDER, environ)


def settings(agent: str, key_variable: str | None = None, model: ServedModel = SMALL) -> dict[str, Any]:
    made = AGENTS[agent].make_settings(Connection(URL, model, (model,)), key_variable, HOME)
    return {"path": str(made.path), **{".".join(keys): value for keys, value in made.values.items()}}


def find_key(agent: str, table: str, key: str, variable: str | None) -> Any:
    """What the provider in the file of settings has as the key."""
    found = settings(agent, variable)[table].get(key)
    return found["apiKey"] if isinstance(found, dict) else found
