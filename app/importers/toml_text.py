"""Writes a tree of settings as TOML."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(tree: Mapping[str, Any]) -> str:
    """Write the values of the top level, and a table for each row of `upstreams`, `models` and the like. What is deeper
    stands in one line, unless it is long."""
    lines = [
        f"{write_key(key)} = {write_value(value)}" for key, value in tree.items() if not isinstance(value, Mapping)
    ]
    for key, value in tree.items():
        if isinstance(value, Mapping):
            lines += _write_table([key], value)
    return "\n".join(lines).lstrip("\n") + "\n"


def _write_table(path: Sequence[str], table: Mapping[str, Any]) -> Iterator[str]:
    is_group = len(path) == 1 and bool(table) and all(isinstance(value, Mapping) for value in table.values())
    if is_group:
        for key, row in table.items():
            yield from _write_table([*path, key], row)
        return
    yield ""
    yield f"[{'.'.join(map(write_key, path))}]"
    for key, value in table.items():
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value) and len(value) > 1:
            yield f"{write_key(key)} = ["
            yield from (f"  {write_value(item)}," for item in value)
            yield "]"
        else:
            yield f"{write_key(key)} = {write_value(value)}"


def write_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else write_value(key)


def write_value(value: Any) -> str:
    """Write a value in one line. Raises ValueError for one that TOML has not."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # TOML's escapes are those of JSON, but for DEL, which must be escaped. It has no lone surrogates.
            text = value.encode("utf-8", "replace").decode()
            return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case Mapping():
            inside = ", ".join(f"{write_key(key)} = {write_value(item)}" for key, item in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(map(write_value, value))}]"
        case _:
            raise ValueError(f"TOML has no value of the type {type(value).__name__}")
