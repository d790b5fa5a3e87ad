"""Read settings from `parley.toml` and the environment into one tree of values.

The file is the one that `PARLEY_CONFIG` names, else `./parley.toml` if it exists. `PARLEY_A__B=value` sets a.b and
overrides the file; `${NAME}` in a string of the file is replaced by the environment variable `NAME`. `PARLEY_API_KEYS`
holds API keys of callers: `alice:sk-...,bob:sha256:<hash>`. In place of each variable there may be one called
`NAME_FILE`, the path of a file with the value, as container platforms mount secrets.
"""

import hashlib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.validation.nearest import find_correct_spelling, find_nearest
from app.validation.violations import json_path

_SHORTHANDS = {
    "PARLEY_UPSTREAM_URL": "base_url",
    "PARLEY_UPSTREAM_API_KEY": "api_key",
    "PARLEY_UPSTREAM_KIND": "kind",
}
"""These set up one upstream called `default`, to which every model name is passed through."""
_API_KEYS = "PARLEY_API_KEYS"
_OTHERS = frozenset({_API_KEYS, "PARLEY_CONFIG", "PARLEY_URL", "PARLEY_API_KEY"})
"""Variables that are not settings of the same name: the keys of callers, the path of the file, and two of the terminal
client."""
MIN_KEY_LENGTH = 16
"""The shortest key that PARLEY_API_KEYS and `server.admin_key` accept, in characters."""
MAX_VALUE_BYTES = 1024 * 1024
"""The largest file of a variable's value."""
_SETTINGS_OF_FILES = ("__ca_file", "__jwks_file")
"""Ends of variables that are settings themselves, which hold a path."""
_SERVICE_LINK = re.compile(r"PARLEY_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)")
"""The variables that Kubernetes sets in every container of a namespace with a service called parley."""


@dataclass(slots=True)
class Sources:
    tree: dict[str, Any]
    mistakes: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """The name of the variable that set a value, by the path of the value."""


def read_sources(environ: Mapping[str, str], path: Path | None, sections: Mapping[str, Collection[str]]) -> Sources:
    """Read file and environment, and collect mistakes. `sections` holds the top-level names of the settings, each with
    the names of the settings in it."""
    sources = Sources({})
    environ = _with_files(environ, sources.mistakes)
    tree = _read_file(environ, path, sources.mistakes)
    sources.tree = _interpolate(tree, environ, [], sources.mistakes)
    for variable in sorted(environ):
        if variable.startswith("PARLEY_") and variable not in _OTHERS and variable not in _SHORTHANDS:
            _overlay(variable, environ[variable], sources, sections)
    if environ.get("PARLEY_UPSTREAM_URL"):
        _apply_shorthands(environ, sources)
    if environ.get(_API_KEYS):
        _apply_api_keys(environ[_API_KEYS], sources)
    return sources


def config_file(environ: Mapping[str, str], path: Path | None = None) -> Path:
    """Return `path`, else the file that PARLEY_CONFIG names, else `./parley.toml`, which need not exist."""
    return path or Path(environ.get("PARLEY_CONFIG") or "parley.toml")


def read_config_bytes(file: Path) -> bytes | None:
    """Return the content of a configuration file, to see whether it has changed; None if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def _with_files(environ: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    """Return the environment in which `PARLEY_…_FILE` is replaced by the variable whose value the file holds."""
    read = dict(environ)
    for variable in environ:
        name = variable.removesuffix("_FILE")
        is_setting = name.endswith("_") or variable.lower().endswith(_SETTINGS_OF_FILES)
        if name == variable or not variable.startswith("PARLEY_") or is_setting:
            continue
        del read[variable]
        if environ.get(name):
            mistakes.append(f"{variable}: {name} is set too; remove one of them")
        elif environ[variable]:
            read[name] = _read_value(variable, environ, mistakes)
    return read


def _read_value(variable: str, environ: Mapping[str, str], mistakes: list[str]) -> str:
    """Return the content of the file that the variable names, without the line break at its end."""
    file = Path(environ[variable])
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_VALUE_BYTES + 1)
        if len(data) > MAX_VALUE_BYTES:
            raise ValueError(f"it is larger than {MAX_VALUE_BYTES} bytes")
        return data.decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or ("it is not UTF-8" if isinstance(error, UnicodeError) else error)
        mistakes.append(f"{variable}: the file {file} cannot be read ({reason})")
        return ""


def _read_file(environ: Mapping[str, str], path: Path | None, mistakes: list[str]) -> dict[str, Any]:
    file = config_file(environ, path)
    if not (path or environ.get("PARLEY_CONFIG")) and not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        mistakes.append(f"{file}: cannot be read ({error.strerror})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        mistakes.append(f"{file}: is not valid TOML ({error})")
    return {}


def _interpolate(value: Any, environ: Mapping[str, str], path: list[str | int], mistakes: list[str]) -> Any:
    """Replace `${NAME}` in all strings; a name that is not in the environment is a mistake."""
    if isinstance(value, dict):
        return {key: _interpolate(item, environ, [*path, key], mistakes) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolate(item, environ, [*path, index], mistakes) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def read(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environ and f"{name}_FILE" in environ:
            return _read_value(f"{name}_FILE", environ, mistakes)
        if name not in environ:
            mistakes.append(f"{json_path(path)}: the environment variable {name} is not set, nor is {name}_FILE")
        return environ.get(name, match.group())

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", read, value)


def _overlay(variable: str, value: str, sources: Sources, sections: Mapping[str, Collection[str]]) -> None:
    """Set one value from a variable. Names of upstreams and models match in any case and punctuation."""
    *steps, last = variable.removeprefix("PARLEY_").lower().split("__")
    if (steps or [last])[0] not in sections:
        is_link = _SERVICE_LINK.fullmatch(variable) and (variable != "PARLEY_PORT" or "://" in value)
        if value and not is_link:
            meant = _suggest(steps, last, sections) or find_correct_spelling(variable, sorted({*_SHORTHANDS, *_OTHERS}))
            suggestion = f"; did you mean `{meant}`?" if meant else ""
            sources.mistakes.append(f"{variable}: there is no setting with this name{suggestion}")
        return
    node: Any = sources.tree
    path: list[str] = []
    for step in steps:
        path.append(_find_key(node, step))
        node = node.setdefault(path[-1], {})
        if not isinstance(node, dict):
            sources.mistakes.append(f"{variable}: {json_path(path)} is not a section")
            return
    path.append(_find_key(node, last))
    node[path[-1]] = value
    sources.variables[json_path(path)] = variable


def _suggest(steps: list[str], last: str, sections: Mapping[str, Collection[str]]) -> str | None:
    """Return the variable that `PARLEY_PORT`, which lacks its section, or `PARLEY_SEVER__PORT` may mean."""
    if steps:
        section = find_nearest(steps[0], sections)
        meant = [section, *steps[1:], last] if section else []
    else:
        owners = [section for section, names in sections.items() if last in names]
        meant = [owners[0], last] if len(owners) == 1 or "server" in owners[:1] else []
    return f"PARLEY_{'__'.join(meant).upper()}" if meant else None


def _find_key(node: dict[str, Any], step: str) -> str:
    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "_", name.lower())

    return step if step in node else next((key for key in node if plain(key) == step), step)


def _apply_shorthands(environ: Mapping[str, str], sources: Sources) -> None:
    for variable, name in _SHORTHANDS.items():
        if environ.get(variable):
            _overlay(f"PARLEY_UPSTREAMS__DEFAULT__{name.upper()}", environ[variable], sources, {"upstreams": ()})
            sources.variables[f"upstreams.default.{name}"] = variable
    sources.tree.setdefault("passthrough", "default")


def _apply_api_keys(text: str, sources: Sources) -> None:
    """Set `keys.NAME.sha256` for each `NAME:KEY` or `NAME:sha256:HASH`. Of a key, only the hash is kept."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    for number, entry in enumerate(entries, 1):
        name, _, key = entry.partition(":")
        name, key = name.strip(), key.strip()
        if not name or not key:
            sources.mistakes.append(
                f"{_API_KEYS}: entry {number} must be NAME:KEY or NAME:sha256:HASH, with commas between the entries"
            )
            continue
        hashed = key.removeprefix("sha256:")
        if hashed == key and len(key) < MIN_KEY_LENGTH:
            sources.mistakes.append(
                f"{_API_KEYS}: the key of {name!r} is too short to be safe: use at least {MIN_KEY_LENGTH} characters "
                "(parley keys new NAME makes one)"
            )
            continue
        sha256 = hashlib.sha256(key.encode()).hexdigest() if hashed == key else hashed
        rows = sources.tree.setdefault("keys", {})
        found = _find_key(rows, name) if isinstance(rows, dict) else name
        row = rows.setdefault(found, {}) if isinstance(rows, dict) else None
        if not isinstance(row, dict):
            sources.mistakes.append(f"{_API_KEYS}: {json_path(['keys', found])} is not a section")
            continue
        path = json_path(["keys", found, "sha256"])
        if sources.variables.get(path) == _API_KEYS:
            sources.mistakes.append(
                f"{_API_KEYS}: entry {number} is a second key of {found!r}, and a name has only one: give each key "
                "a name of its own"
            )
            continue
        row["sha256"] = sha256
        sources.variables[path] = _API_KEYS
