"""Imports for tests: the settings that a configuration becomes are valid."""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from app.commands.import_config import find_mistakes
from app.importers.ccr import import_ccr
from app.importers.draft import Draft
from app.importers.litellm import import_litellm
from app.importers.toml_text import write_toml


def _import(text: str, read: Callable[[Mapping[str, Any]], Draft]) -> tuple[dict[str, Any], list[str]]:
    draft = read(yaml.safe_load(text))
    written = write_toml(draft.to_tree())
    assert tomllib.loads(written) == draft.to_tree()
    assert not draft.upstreams or find_mistakes(written, draft) == []
    return draft.to_tree(), draft.notes


def litellm(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the settings and what was not taken."""
    return _import(text, import_litellm)


def ccr(text: str) -> tuple[dict[str, Any], list[str]]:
    return _import(text, import_ccr)


def one(params: str, info: str = "{}", rest: str = "") -> tuple[dict[str, Any], list[str]]:
    """Import a file with one model."""
    return litellm(f"model_list: [{{model_name: m, litellm_params: {{{params}}}, model_info: {info}}}]\n{rest}")
