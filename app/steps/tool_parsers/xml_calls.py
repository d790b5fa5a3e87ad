"""Parses calls with each parameter as plain text in a tag: the XML families."""

import json
from collections.abc import Callable, Generator

from msgspec import Struct

from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.typed_values import to_typed_json, types_of

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
