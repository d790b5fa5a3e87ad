"""Load the settings: the tree of `sources` becomes one frozen `Settings`, or a list of mistakes."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from app.config.default_files import with_default_files
from app.config.mistakes import check_key_commands, check_tool_variables, find_conflicts
from app.config.prices import read_prices
from app.config.references import find_dangling
from app.config.settings import Settings, SettingsError
from app.config.sources import Sources, config_file, read_sources
from app.config.tables.prices import ModelPrice
from app.upstream.http.options import find_proxy, parse_proxy
from app.validation.violations import json_path, to_violations

DEMO_TOOLS = {
    "example": {
        "command": sys.executable,
        "args": ["-m", "app.demo.tools"],
        "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
        "startup_timeout_sec": 30,
    }
}
"""The server of tools beside the demo model, for a gateway without a configuration."""


def load(environ: Mapping[str, str] | None = None, path: Path | None = None) -> Settings:
    """Load the settings of this process. Raises SettingsError with every mistake."""
    environ = os.environ if environ is None else environ
    sources = read_sources(environ, path, _list_sections())
    tree, mistakes = _find_jwks_files(sources, config_file(environ, path)), sources.mistakes
    if not tree.get("upstreams") and not tree.get("models"):
        tree = {"mcp_servers": DEMO_TOOLS, **tree, "demo": True}
    try:
        # Not strict: all values from the environment are text.
        settings = Settings.model_validate(tree, strict=False)
        settings = _with_prices(settings, mistakes)
    except ValidationError as error:
        settings = Settings()
        mistakes += (
            f"{_with_variable(item.path, sources.variables)}: {item.message}"
            for item in to_violations(error, tree, schema=Settings, hints=_find_dotted_names(tree))
        )
    mistakes += [*find_dangling(tree), *find_conflicts(settings), *check_tool_variables(settings, environ)]
    mistakes += check_key_commands(settings, environ)
    if mistakes:
        raise SettingsError(mistakes)
    return with_proxies(with_default_files(settings, environ, config_file(environ, path)), environ)


def _list_sections() -> dict[str, tuple[str, ...]]:
    """Return the top-level names of the settings, each with the names of the settings in it: `[server]` has `port`."""
    return {name: tuple(getattr(type(value), "model_fields", ())) for name, value in Settings()}


def _find_jwks_files(sources: Sources, config: Path) -> dict[str, Any]:
    """Return the tree in which the files of issuers' keys that the configuration file names are relative to its folder.
    One that a variable names is relative to the working folder."""
    issuers = sources.tree.get("jwt")
    if not isinstance(issuers, dict):
        return sources.tree
    found = dict(issuers)
    for name, row in issuers.items():
        file = row.get("jwks_file") if isinstance(row, dict) else None
        if isinstance(file, str) and file and json_path(["jwt", name, "jwks_file"]) not in sources.variables:
            found[name] = {**row, "jwks_file": str(config.parent / file)}
    return {**sources.tree, "jwt": found}


def _find_dotted_names(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return a text for each key that is probably the rest of a name: `[models.qwen2.5]` is a table of a table."""
    hints = {}
    for section, rows in tree.items():
        for name, row in rows.items() if isinstance(rows, Mapping) else ():
            for key, value in row.items() if isinstance(row, Mapping) else ():
                if isinstance(value, Mapping) and key[:1].isdigit():
                    text = f'; a name with a dot is written in quotes: [{section}."{name}.{key}"]'
                    hints[json_path([section, name, key])] = text
    return hints


def _with_variable(path: str, variables: Mapping[str, str]) -> str:
    return f"{path} ({variables[path]})" if path in variables else path


def with_proxies(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Return the settings in which each upstream, guard, issuer of JWTs and receiver of alerts without a proxy has the
    one that the environment names. Raises SettingsError if that is not a proxy's URL."""
    mistakes = list[str]()

    def find(path: str, url: str) -> SecretStr | None:
        proxy = find_proxy(environ, url)
        if proxy is None:
            return None
        try:
            parse_proxy(proxy)
        except ValueError as error:
            mistakes.append(f"{path}.proxy: the proxy of the environment {error}")
        return SecretStr(proxy)

    upstreams = {
        name: row
        if row.proxy or row.base_url.startswith("unix:")
        else row.model_copy(update={"proxy": find(json_path(["upstreams", name]), row.base_url)})
        for name, row in settings.upstreams.items()
    }
    issuers = {
        name: row
        if row.proxy or row.jwks_file
        else row.model_copy(update={"proxy": find(json_path(["jwt", name]), row.jwks_url or row.issuer)})
        for name, row in settings.jwt.items()
    }
    guards = {
        name: row
        if row.proxy or row.url is None
        else row.model_copy(update={"proxy": find(json_path(["guards", name]), row.url)})
        for name, row in settings.guards.items()
    }
    receivers = {
        name: row
        if row.proxy
        else row.model_copy(update={"proxy": find(json_path(["alerts", name]), row.url.get_secret_value())})
        for name, row in settings.alerts.items()
    }
    if mistakes:
        raise SettingsError(mistakes)
    return settings.model_copy(update={"upstreams": upstreams, "jwt": issuers, "guards": guards, "alerts": receivers})


def _with_prices(settings: Settings, mistakes: list[str]) -> Settings:
    """Return the settings in which each model without a price has that of the file, if it is there by the name that the
    model's server knows, or by its own."""
    if settings.prices.file is None:
        return settings
    try:
        known = read_prices(Path(settings.prices.file))
    except ValueError as error:
        mistakes.append(f"prices.file: {error}")
        return settings
    models = dict(settings.models)
    for name, row in models.items():
        price = known.get(row.name or name) or known.get(name)
        if row.price is None and price is not None:
            models[name] = row.model_copy(update={"price": ModelPrice.from_price(price)})
    return settings.model_copy(update={"models": models})
