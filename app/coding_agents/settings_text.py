"""Change some values in a text of JSON or TOML, and leave all others as they are.

No library here writes TOML, so the lines of a TOML text are changed, and the result is read again: if it does not say
what it should, nothing is changed.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

Keys: TypeAlias = tuple[str, ...]
Syntax: TypeAlias = Literal["json", "toml"]


class _Absent(Enum):
    ABSENT = 0


ABSENT: Final = _Absent.ABSENT
"""The value of a key that is not there; as a new value, it removes the key."""


class UnchangeableText(Exception):
    """The text cannot be read, or cannot be changed safely."""


def parse_text(text: str, syntax: Syntax) -> dict[str, Any]:
    """Raises UnchangeableText."""
    try:
        tree = tomllib.loads(text) if syntax == "toml" else json.loads(text or "{}", object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError) as error:
        raise UnchangeableText(f"it is not valid {syntax.upper()}: {error}") from None
    if not isinstance(tree, dict):
        raise UnchangeableText("it is not an object")
    return tree


def find_value(tree: Mapping[str, Any], keys: Keys) -> Any:
    """Return the value at these keys, or ABSENT."""
    for key in keys:
        if not isinstance(tree, Mapping) or key not in tree:
            return ABSENT
        tree = tree[key]
    return tree


def change_text(text: str, syntax: Syntax, values: Mapping[Keys, Any]) -> str:
    """Return the text with these values. Raises UnchangeableText."""
    before = parse_text(text, syntax)
    after = before
    for keys, value in values.items():
        after = _change_tree(after, keys, value)
    if json_text(after) == json_text(before):
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    if syntax == "json":
        return (json.dumps(after, indent=2, ensure_ascii=False) + "\n").replace("\n", newline)
    changed = _change_toml(text, values, newline)
    try:
        same = json_text(parse_text(changed, "toml")) == json_text(after)
    except UnchangeableText:
        same = False
    if not same:
        raise UnchangeableText("its own values for these keys are written in a form that this program does not change")
    return changed


def json_text(value: Any) -> str:
    """Return a text that two values share only if they are the same: 1, 1.0 and true are not."""
    return json.dumps(value, sort_keys=True, default=repr)


def _refuse_twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        raise ValueError("a key stands in an object twice")
    return tree


def _change_tree(tree: Mapping[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """Return the tree with the value. A table that is empty without it is left out."""
    first, rest = keys[0], keys[1:]
    if rest:
        below = tree.get(first, {})
        if not isinstance(below, Mapping):
            raise UnchangeableText(f"{first!r} is not an object")
        value = _change_tree(below, rest, value) or ABSENT
    if value is ABSENT:
        return {key: own for key, own in tree.items() if key != first}
    return {**tree, first: value}


_HEADER = re.compile(r"\s*\[")


def _change_toml(text: str, values: Mapping[Keys, Any], newline: str) -> str:
    """Return the text without the lines of these keys, and with new ones: texts and numbers behind the last line before
    the first table, tables at the end."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    end = next((index for index, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    head, tables = lines[:end], lines[end:]
    for keys in values:
        if len(keys) == 1:
            name = re.compile(rf"\s*(?:{re.escape(keys[0])}|\"{re.escape(keys[0])}\")\s*=")
            head = [line for line in head if not name.match(line)]
        tables = _remove_table(tables, ".".join(keys))
    given = {keys: value for keys, value in values.items() if value is not ABSENT}
    single = [f"{keys[0]} = {_to_toml(value)}{newline}" for keys, value in given.items() if len(keys) == 1]
    while single and head and not head[-1].strip():
        head.pop()
    new_tables = [
        f"{line}{newline}" for keys, value in given.items() if len(keys) > 1 for line in _write_table(keys, value)
    ]
    while tables and not tables[-1].strip():
        tables.pop()
    spaced = [
        *head,
        *single,
        *([newline] if tables and (head or single) and (head or single)[-1].strip() else []),
        *tables,
    ]
    return "".join([*spaced, *([newline] if spaced and new_tables else []), *new_tables])


def _remove_table(lines: Sequence[str], name: str) -> list[str]:
    """Return the lines without the table of this name and those below it."""
    own = re.compile(rf"\s*\[+\s*{re.escape(name)}\s*[.\]]")
    kept, inside = list[str](), False
    for line in lines:
        if _HEADER.match(line):
            inside = own.match(line) is not None
        if not inside:
            kept.append(line)
    return kept


def _write_table(keys: Keys, value: Mapping[str, Any]) -> list[str]:
    return [f"[{'.'.join(keys)}]", *(f"{name} = {_to_toml(own)}" for name, own in value.items())]


def _to_toml(value: Any) -> str:
    match value:
        case str() | bool() | int() | float():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(map(_to_toml, value))}]"
        case dict():
            return "{ " + ", ".join(f"{json.dumps(key)} = {_to_toml(own)}" for key, own in value.items()) + " }"
    raise UnchangeableText(f"it has a value of a kind that this program does not write: {value}")
