"""Parses calls with each parameter as plain text in a tag: the XML families."""

import ast
import json
from collections.abc import Callable, Generator, Mapping
from typing import Any

from msgspec import Struct

from app.chat.messages import Tool
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_scanner import loads, write_json
from app.steps.tool_parsers.parser import ParseState

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def types_of(tool: Tool | None, parameter: str) -> frozenset[str]:
    """Return the JSON types of the parameter, or an empty set if they are unknown."""
    parameters = tool.schema.get("parameters") if tool is not None else None
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return _types(properties.get(parameter)) if isinstance(properties, dict) else frozenset()


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset((declared,))
    if isinstance(declared, list):
        return frozenset(one for one in declared if isinstance(one, str))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        found = [_types(choice) for choice in choices]
        return frozenset().union(*found) if all(found) else frozenset()
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return frozenset(("string",))
    return frozenset()


def to_typed_json(text: str, types: frozenset[str]) -> str:
    """Return the value of the text as JSON, or the text itself as a string if its value has none of the types."""
    value, written = (None, "") if types == {"string"} else _read_literal(text.strip())
    fits = _has_type(value, types) if types else not isinstance(value, str)
    return written if written and fits else write_json(text)


def _has_type(value: Any, types: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return any(isinstance(value, _PYTHON_TYPES.get(name, ())) for name in types)


def _read_literal(text: str) -> tuple[Any, str]:
    """Return the JSON or Python value of the text, and this value as JSON, or (None, "") if it has none."""
    written_as_python = text[:1] in "[{(" or text in ("True", "False", "None")
    for read in (json.loads, ast.literal_eval, loads) if written_as_python else (json.loads,):
        try:
            value = read(text)
            return list(value) if isinstance(value, tuple) else value, write_json(value)
        except (NotACall, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return None, ""


_LIMIT = 400
"""The longest text that is read as a name of a function or parameter."""


class XmlSyntax(Struct, frozen=True):
    call: str
    """Opens a call; its name follows, up to `head_end`."""
    call_end: str
    parameter: str
    parameter_end: str
    head_end: str = ">"
    parameter_head_end: str = ">"
    stop: str = '"'
    """Ends a name inside its head."""
    breaks: bool = True
    """A line break after the opening and before the closing tag is not part of the value."""

    def name(self, head: str) -> str:
        """Return the name in the text between `call` (or `parameter`) and the end of the head.

        Raises:
            NotACall: there is no name.
        """
        name = head.split(self.stop)[0].strip()
        if not name or "<" in name or "\n" in name:
            raise NotACall
        return name


QWEN = XmlSyntax("<function=", "</function>", "<parameter=", "</parameter>")
INVOKE = XmlSyntax('<invoke name="', "</invoke>", '<parameter name="', "</parameter>")
DSML = XmlSyntax(
    '<｜DSML｜invoke name="',
    "</｜DSML｜invoke>",
    '<｜DSML｜parameter name="',
    "</｜DSML｜parameter>",
    breaks=False,
)
GLM = XmlSyntax(
    "",
    "</tool_call>",
    "<arg_key>",
    "</arg_value>",
    parameter_head_end="<arg_value>",
    stop="</arg_key>",
    breaks=False,
)


def read_calls(r: ParseState, syntax: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """Read the calls of one block and its closing marker."""
    yield from r.expect_tag(syntax.call)
    while True:
        yield from read_call(r, syntax, closers)
        tag = yield from r.accept_tag(syntax.call, *closers)
        if tag != syntax.call:
            r.pending_closers = () if tag else closers
            return


def read_call(r: ParseState, syntax: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """Read one call, after its opening tag."""
    head, _ = yield from r.read_head(syntax.head_end, limit=_LIMIT)
    call = r.open_call(syntax.name(head))
    yield from read_parameters(r, call, syntax, closers)
    r.complete_call(call)


def read_parameters(r: ParseState, call: OpenCall, syntax: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """Read all parameters and the tag that ends the call; a closer is not skipped."""
    ends = tuple(dict.fromkeys((syntax.call_end, *closers)))
    separator = "{"
    while True:
        tag = yield from _next_tag(r, call, (syntax.parameter, *ends))
        if tag != syntax.parameter:
            break
        yield from _parameter(r, call, syntax, ends, separator)
        separator = ", "
    call.put("{}" if separator == "{" else "}")
    if tag != syntax.call_end:
        r.pos -= len(tag)


def _next_tag(r: ParseState, call: OpenCall, tags: tuple[str, ...]) -> Generator[None, None, str]:
    """Skip one of the tags and return it. If it is certain that this is a call, text before the tag is skipped, too."""
    if not call.certain:
        return (yield from r.expect_tag(*tags))
    _, tag = yield from r.read_until(*tags)
    if not tag:
        raise TruncatedCall
    return tag


def _parameter(r: ParseState, call: OpenCall, syntax: XmlSyntax, ends: tuple[str, ...], separator: str) -> Steps:
    head, _ = yield from r.read_head(syntax.parameter_head_end, limit=_LIMIT)
    name = syntax.name(head)
    types = types_of(r.tools.get(call.name), name)
    flag = head.rpartition('string="')[2][:4] if 'string="' in head else ""
    tags = (syntax.parameter_end, syntax.parameter, *ends)
    key = f"{separator}{json.dumps(name, ensure_ascii=False)}: "
    if flag == "true" or (not flag and types == {"string"}):
        yield from _text(r, call, key, syntax.breaks, tags)
    else:
        pieces: list[str] = []
        is_text = not flag and (not types or "string" in types)
        yield from _value(r, pieces.append, tags, may_have_tag=is_text)
        known = types - {"string"} if flag else types
        call.put(key + to_typed_json(_trim("".join(pieces), syntax.breaks), known))


def _value(r: ParseState, put: Callable[[str], None], tags: tuple[str, ...], *, may_have_tag: bool) -> Steps:
    """Pass a value to `put` and skip its closing tag, the first of the tags.

    `may_have_tag`: a closing tag may be part of the value, as in a text about tags.
    """
    while True:
        tag = yield from r.stream_until(put, *tags)
        if tag == tags[0]:
            r.pos += len(tag)
            if not may_have_tag or (yield from r.is_before_tag(*tags[1:])):
                return
            put(tag)
            continue
        if may_have_tag and tag.startswith("</"):
            yield from _value_with_closers(r, put, tags)
        return


def _value_with_closers(r: ParseState, put: Callable[[str], None], tags: tuple[str, ...]) -> Steps:
    """Pass the rest of a value to `put` and skip its closing tag, if the tag that comes next, which closes the call, is
    part of the value: its own closing tag follows before anything else opens. If not, skip nothing."""
    openings = (tags[1], *(tag.replace("</", "<", 1).removesuffix(">") for tag in tags[2:]))
    start = r.look_ahead_from = r.position
    pieces: list[str] = []
    try:
        while (yield from r.stream_until(pieces.append, tags[0], *openings)) == tags[0]:
            r.pos += len(tags[0])
            if (yield from r.is_before_tag(*tags[1:])):
                put("".join(pieces))
                r.look_ahead_from = None
                return
            pieces.append(tags[0])
    except TruncatedCall:
        pass
    r.look_ahead_from = None
    r.rewind(start)


def _text(r: ParseState, call: OpenCall, key: str, breaks: bool, tags: tuple[str, ...]) -> Steps:
    """Read a text parameter and emit it while it streams."""
    call.put(key + '"')
    if breaks:
        yield from r.peek()
        if not (yield from r.accept("\r\n")):
            yield from r.accept("\n")
    tail = _JsonTextWriter(call.put, breaks)
    yield from _value(r, tail.put, tags, may_have_tag=True)
    tail.close()
    call.put('"')


class _JsonTextWriter:
    """Escapes text for JSON, and buffers a line break at the end, which is not part of the value before the tag."""

    def __init__(self, put: Callable[[str], None], breaks: bool) -> None:
        self._put = put
        self._breaks = breaks
        self._held = ""

    def put(self, text: str) -> None:
        text = self._held + text
        ready = text
        if self._breaks:
            ready = text.removesuffix("\r") if text.endswith("\r") else _trim_end(text)
        self._held = text[len(ready) :]
        self._put(json.dumps(ready, ensure_ascii=False)[1:-1])

    def close(self) -> None:
        if self._held == "\r":
            self._put("\\r")


def _trim_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _trim(text: str, breaks: bool) -> str:
    return _trim_end(text.removeprefix("\r").removeprefix("\n")) if breaks else text
