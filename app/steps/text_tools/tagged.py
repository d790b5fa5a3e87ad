"""Calls whose parameters stand each in a tag of its own, as plain text: the XML families."""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass

from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Told, Unreadable
from app.steps.text_tools.typed import typed, types_of

_LIMIT = 400
"""Longer names, of functions or parameters, are none."""


@dataclass(frozen=True, slots=True)
class Shape:
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
            raise Unreadable
        return name


QWEN = Shape("<function=", "</function>", "<parameter=", "</parameter>")
INVOKE = Shape('<invoke name="', "</invoke>", '<parameter name="', "</parameter>")
DSML = Shape(
    '<｜DSML｜invoke name="',
    "</｜DSML｜invoke>",
    '<｜DSML｜parameter name="',
    "</｜DSML｜parameter>",
    breaks=False,
)
GLM = Shape(
    "",
    "</tool_call>",
    "<arg_key>",
    "</arg_value>",
    parameter_head_end="<arg_value>",
    stop="</arg_key>",
    breaks=False,
)


def calls(r: Reading, shape: Shape, closers: tuple[str, ...]) -> Steps:
    """The calls of one block, and the marker that closes it."""
    yield from r.blanks()
    if not (yield from r.takes(shape.call)):
        raise Unreadable
    while True:
        yield from invocation(r, shape, closers)
        tag = yield from r.swallow(shape.call, *closers)
        if tag != shape.call:
            r.owed = () if tag else closers
            return


def invocation(r: Reading, shape: Shape, closers: tuple[str, ...]) -> Steps:
    """One call, behind its opening tag."""
    head, _ = yield from r.until(shape.head_end, limit=_LIMIT)
    call = r.open(shape.name(head))
    yield from parameters(r, call, shape, closers)
    call.finish()


def parameters(r: Reading, call: Told, shape: Shape, closers: tuple[str, ...]) -> Steps:
    """All parameters, and the tag that ends the call; a closer is left."""
    ends = tuple(dict.fromkeys((shape.call_end, *closers)))
    separator = "{"
    while True:
        between, tag = yield from r.until(shape.parameter, *ends)
        if between.strip() and not call.certain:
            raise Unreadable
        if tag != shape.parameter:
            break
        yield from _parameter(r, call, shape, ends, separator)
        separator = ", "
    call.put("{}" if separator == "{" else "}")
    if tag != shape.call_end:
        r.pos -= len(tag)


def _parameter(r: Reading, call: Told, shape: Shape, ends: tuple[str, ...], separator: str) -> Steps:
    head, _ = yield from r.until(shape.parameter_head_end, limit=_LIMIT)
    name = shape.name(head)
    types = types_of(r.tools.get(call.name), name)
    flag = head.rpartition('string="')[2][:4] if 'string="' in head else ""
    tags = (shape.parameter_end, shape.parameter, *ends)
    key = f"{separator}{json.dumps(name, ensure_ascii=False)}: "
    if flag == "true" or (not flag and types == {"string"}):
        tag = yield from _text(r, call, key, shape.breaks, tags)
    else:
        value, tag = yield from r.until(*tags)
        r.pos -= len(tag)
        known = types - {"string"} if flag else types
        call.put(key + json.dumps(typed(_trimmed(value, shape.breaks), known), ensure_ascii=False))
    if tag == shape.parameter_end:
        r.pos += len(tag)


def _text(r: Reading, call: Told, key: str, breaks: bool, tags: tuple[str, ...]) -> Generator[None, None, str]:
    """A parameter that is text, told while it comes."""
    call.put(key + '"')
    if breaks:
        yield from r.peek()
        if not (yield from r.takes("\r\n")):
            yield from r.takes("\n")
    tail = _Tail(call.put, breaks)
    tag = yield from r.passing(tail.put, *tags)
    tail.close()
    call.put('"')
    return tag


class _Tail:
    """Escapes text for JSON and holds the line break back that may stand before the closing tag."""

    def __init__(self, put: Callable[[str], None], breaks: bool) -> None:
        self._put = put
        self._breaks = breaks
        self._held = ""

    def put(self, text: str) -> None:
        text = self._held + text
        kept = text
        if self._breaks:
            kept = text.removesuffix("\r") if text.endswith("\r") else _trimmed_end(text)
        self._held = text[len(kept) :]
        self._put(json.dumps(kept, ensure_ascii=False)[1:-1])

    def close(self) -> None:
        if self._held == "\r":
            self._put("\\r")


def _trimmed_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _trimmed(text: str, breaks: bool) -> str:
    return _trimmed_end(text.removeprefix("\r").removeprefix("\n")) if breaks else text
