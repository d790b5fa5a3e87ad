"""Parses MiniMax-M3's calls: each tag begins with a namespace token, and a parameter is a tag of its own name.

`]<]minimax[>[<invoke name="f">]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>`; objects are nested
tags, lists are `<item>` (sglang/srt/function_call/minimax_m3.py).
"""

import re
from typing import Any

from msgspec import Struct

from app.chat.messages import Tool
from app.chat.template_tokens import M3_NAMESPACE
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_scanner import loads, write_json
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.xml_calls import find_types, to_typed_json

_LIMIT = 400
_END = f"{M3_NAMESPACE}</invoke>"
_OTHER_ENDS = (f"{M3_NAMESPACE}</tool_call>", f"{M3_NAMESPACE}<invoke name=")
_TAG = re.compile(rf"{re.escape(M3_NAMESPACE)}\s*<(/?)([^<>\s]+)>")
_MAX_NESTING = 100


_EMPTY = {"array": "[]", "object": "{}"}


class NamespacedCall(Struct, frozen=True):
    opening: str = f'{M3_NAMESPACE}<invoke name="'

    def is_next(self, r: ParseState) -> BoolSteps:
        return (yield from r.is_at(self.opening))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        r.pos += len(self.opening)
        head, _ = yield from r.read_head('">', limit=_LIMIT)
        call = r.open_call(head.strip())
        text, end = yield from r.read_until(_END, *_OTHER_ENDS)
        if end != _END:
            if not end:
                r.pos -= len(text)
                raise NotACall
            r.pos -= len(end)
        call.put(write_json(_Tags(text, r.tools.get(call.name)).read()))
        r.complete_call(call)


class _Tags:
    """Reads the tags of one call."""

    def __init__(self, text: str, tool: Tool | None) -> None:
        self._text = text
        self._pos = 0
        schema = tool.schema.get("parameters") if tool is not None else None
        self._schema = schema if isinstance(schema, dict) else {}

    def read(self) -> dict[str, Any]:
        value = self._read_children("", self._schema, 0)
        return value if isinstance(value, dict) else {}

    def _read_children(self, parent: str, schema: Any, depth: int) -> Any:
        """Read the tags inside a tag, and its closing tag; return an object, a list or its text."""
        if depth > _MAX_NESTING:
            raise NotACall
        start = self._pos
        names: list[str] = []
        values: list[Any] = []
        while (tag := _TAG.search(self._text, self._pos)) is not None:
            self._pos = tag.end()
            if tag.group(1):
                if tag.group(2) == parent:
                    break
                continue  # a surplus closing tag
            names.append(tag.group(2))
            values.append(self._read_children(names[-1], _child(schema, names[-1]), depth + 1))
        else:
            self._pos = len(self._text)
        if not names and parent:
            return _to_value(self._text[start : tag.start() if tag else len(self._text)], schema)
        if names and set(names) == {"item"} and find_types(schema) != {"object"}:
            return values
        return _merge(names, values)


def _merge(names: list[str], values: list[Any]) -> dict[str, Any]:
    """Return an object; a name that comes more than once has a list."""
    merged: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if names.count(name) > 1:
            merged.setdefault(name, []).append(value)
        else:
            merged[name] = value
    return merged


def _child(schema: Any, name: str) -> Any:
    if not isinstance(schema, dict):
        return None
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    return schema.get("items") if name == "item" else None


def _to_value(text: str, schema: Any) -> Any:
    types = find_types(schema)
    if text.startswith("\n"):
        text = text[1:].removesuffix("\n")
    empty = _EMPTY.get(next(iter(types))) if not text.strip() and len(types) == 1 else None
    return loads(empty or to_typed_json(text, types))
