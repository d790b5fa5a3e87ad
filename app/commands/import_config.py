"""`parley import`: write parley.toml from the configuration of another gateway, and list what was not taken."""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.commands.command_line import UsageError
from app.config.load import load
from app.config.settings import SettingsError
from app.importers.ccr import import_ccr
from app.importers.draft import Draft
from app.importers.litellm import import_litellm
from app.importers.toml_text import write_toml
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.json_scanner import loads
from app.terminal.screen import replace_control_characters

_IMPORTS: dict[str, Callable[[Mapping[str, Any]], Draft]] = {"litellm": import_litellm, "ccr": import_ccr}
_MAX_BYTES = 4 * 1024 * 1024
_PLACEHOLDER = "placeholder-of-a-variable"


def run(arguments: argparse.Namespace) -> int:
    config = _read(arguments.file)
    draft = _IMPORTS[arguments.program](config)
    if not draft.upstreams:
        for program, read in _IMPORTS.items():
            if read(config).upstreams:
                raise UsageError(f"{arguments.file} is of another program: parley import {program} {arguments.file}")
        raise UsageError(
            *map(replace_control_characters, draft.list_notes()), f"{arguments.file}: no model of it was taken"
        )
    text = write_toml(draft.to_tree())
    mistakes = find_mistakes(text, draft)
    _write(arguments.to, _write_head(arguments, draft) + text, replaces=arguments.force)
    notes = draft.list_notes()
    for note in notes:
        print(f"not taken: {replace_control_characters(note)}")
    for mistake in mistakes:
        print(f"parley: correct {arguments.to}: {replace_control_characters(mistake)}", file=sys.stderr)
    variables = draft.list_variables()
    if variables:
        print(f"it needs the variables {', '.join(variables)}")
    models = len(draft.models) + bool(draft.others.get("passthrough"))
    counts = [(models, "model"), (len(draft.upstreams), "upstream"), (len(notes), "thing")]
    taken, servers, left = (f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    print(f"{arguments.to}: {taken} at {servers}, {left} not taken")
    return 1 if mistakes else 0


def find_mistakes(text: str, draft: Draft) -> list[str]:
    """Return what is wrong with the settings, whatever its variables are."""
    environ = {name: _PLACEHOLDER for name in draft.list_variables()}
    for setting, name in re.findall(r'^(base_url|url|proxy) = "\$\{(\w+)\}', text, re.MULTILINE):
        environ[name] = "http://127.0.0.1" if setting != "url" or _is_of_tools(name, draft) else "redis://127.0.0.1"
    environ |= dict.fromkeys(re.findall(r':\$\{(\w+)\}(?=[/"])', text), "1")  # a port
    keys = draft.others.get("keys", {})
    missing = ",".join(f"{name}:{_PLACEHOLDER}" for name, row in keys.items() if "sha256" not in row)
    if missing:
        environ["PARLEY_API_KEYS"] = missing
    return check_text(text, environ)


def _is_of_tools(variable: str, draft: Draft) -> bool:
    """Return whether a variable is the address of a server of tools; else it is that of the cache."""
    servers = draft.others.get("mcp_servers", {}).values()
    return any(str(row.get("url", "")).startswith(f"${{{variable}}}") for row in servers)


def check_text(text: str, environ: Mapping[str, str]) -> list[str]:
    """Return the mistakes in the text of a configuration file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "parley.toml"
        file.write_text(text, "utf-8")
        try:
            load(environ, file)
        except SettingsError as error:
            return error.mistakes
    return []


def _read(file: Path) -> Mapping[str, Any]:
    """Read a file of YAML or JSON, of which the first is a superset. Raises UsageError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{file} is larger than {_MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
        if not text.strip():
            raise UsageError(f"{file} is empty")
        value = _parse_json(text) if file.suffix.startswith(".json") else _parse_yaml(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: {str(error).splitlines()[0] if str(error) else 'is nested too deeply'}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{file}: must hold an object, not {type(value).__name__}")
    return value


def _parse_json(text: str) -> Any:
    """Return the value of JSON, which may have comments and commas at ends, as claude-code-router reads it (JSON5)."""
    try:
        return json.loads(text)
    except ValueError:
        try:
            return loads(text)
        except NotACall:
            pass
        raise


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(
            "YAML needs the package pyyaml, which is not installed: run this in a checkout, or convert the file to JSON"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _write_head(arguments: argparse.Namespace, draft: Draft) -> str:
    lines = [f"Written by `parley import {arguments.program} {arguments.file.name}`."]
    if draft.notes:
        lines += ["Not taken:", *(f"- {note}" for note in draft.list_notes())]
    return "".join(f"# {replace_control_characters(line)}\n" for line in lines) + "\n"


def _write(file: Path, text: str, *, replaces: bool) -> None:
    """Write a file that only its owner reads: keys may stand in it. Raises UsageError."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replaces else os.O_EXCL)
    try:
        with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8", errors="replace") as opened:
            os.fchmod(opened.fileno(), 0o600)
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists: use --to FILE for another one, or --force to replace it") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror})") from None
