"""Calls whose parameters stand each in a tag of its own, as plain text: the XML families."""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass

from app.steps.tool_parsers.calls import CallEmitter, NotACall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.typed_values import parse_typed, types_of

_LIMIT = 400
"""Longer names, of functions or parameters, are none."""


@dataclass(frozen=True, slots=True)
class XmlSyntax:
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
        """Raises Unreadable for a head without a name."""
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


def read_calls(r: ParseState, shape: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """The calls of one block, and the marker that closes it."""
    yield from r.skip_blanks()
    if not (yield from r.accept(shape.call)):
        raise NotACall
    while True:
        yield from read_call(r, shape, closers)
        tag = yield from r.accept_tag(shape.call, *closers)
        if tag != shape.call:
            r.pending_closers = () if tag else closers
            return


def read_call(r: ParseState, shape: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """One call, behind its opening tag."""
    head, _ = yield from r.read_until(shape.head_end, limit=_LIMIT)
    call = r.open_call(shape.name(head))
    yield from read_parameters(r, call, shape, closers)
    call.finish()


def read_parameters(r: ParseState, call: CallEmitter, shape: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """All parameters, and the tag that ends the call; a closer is left."""
    ends = tuple(dict.fromkeys((shape.call_end, *closers)))
    separator = "{"
    while True:
        between, tag = yield from r.read_until(shape.parameter, *ends)
        if between.strip() and not call.certain:
            raise NotACall
        if tag != shape.parameter:
            break
        yield from _parameter(r, call, shape, ends, separator)
        separator = ", "
    call.put("{}" if separator == "{" else "}")
    if tag != shape.call_end:
        r.pos -= len(tag)


def _parameter(r: ParseState, call: CallEmitter, shape: XmlSyntax, ends: tuple[str, ...], separator: str) -> Steps:
    head, _ = yield from r.read_until(shape.parameter_head_end, limit=_LIMIT)
    name = shape.name(head)
    types = types_of(r.tools.get(call.name), name)
    flag = head.rpartition('string="')[2][:4] if 'string="' in head else ""
    tags = (shape.parameter_end, shape.parameter, *ends)
    key = f"{separator}{json.dumps(name, ensure_ascii=False)}: "
    if flag == "true" or (not flag and types == {"string"}):
        tag = yield from _text(r, call, key, shape.breaks, tags)
    else:
        value, tag = yield from r.read_until(*tags)
        r.pos -= len(tag)
        known = types - {"string"} if flag else types
        call.put(key + json.dumps(parse_typed(_trim(value, shape.breaks), known), ensure_ascii=False))
    if tag == shape.parameter_end:
        r.pos += len(tag)


def _text(
    r: ParseState, call: CallEmitter, key: str, breaks: bool, tags: tuple[str, ...]
) -> Generator[None, None, str]:
    """A parameter that is text, told while it comes."""
    call.put(key + '"')
    if breaks:
        yield from r.peek()
        if not (yield from r.accept("\r\n")):
            yield from r.accept("\n")
    tail = _JsonTextWriter(call.put, breaks)
    tag = yield from r.stream_until(tail.put, *tags)
    tail.close()
    call.put('"')
    return tag


class _JsonTextWriter:
    """Escapes text for JSON and holds the line break back that may stand before the closing tag."""

    def __init__(self, put: Callable[[str], None], breaks: bool) -> None:
        self._put = put
        self._breaks = breaks
        self._held = ""

    def put(self, text: str) -> None:
        text = self._held + text
        kept = text
        if self._breaks:
            kept = text.removesuffix("\r") if text.endswith("\r") else _trim_end(text)
        self._held = text[len(kept) :]
        self._put(json.dumps(kept, ensure_ascii=False)[1:-1])

    def close(self) -> None:
        if self._held == "\r":
            self._put("\\r")


def _trim_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _trim(text: str, breaks: bool) -> str:
    return _trim_end(text.removeprefix("\r").removeprefix("\n")) if breaks else text
