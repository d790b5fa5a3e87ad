"""Parses calls with each parameter as plain text in a tag: the XML families."""

import ast
import json
import re
from collections.abc import Callable, Generator, Mapping
from typing import Any

from msgspec import Struct

from app.chat.messages import Tool
from app.chat.template_tokens import AROUND_ARGUMENTS, CALL_CLOSERS, TURN_ENDS
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_calls import read_arguments
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
    return find_types(_get_properties(tool).get(parameter))


def _get_properties(tool: Tool | None) -> Mapping[str, Any]:
    parameters = tool.schema.get("parameters") if tool is not None else None
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}


def find_types(schema: Any) -> frozenset[str]:
    """Return the JSON types of a schema, or an empty set if they are unknown."""
    if not isinstance(schema, dict):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset((declared,))
    if isinstance(declared, list):
        return frozenset(one for one in declared if isinstance(one, str))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        found = [find_types(choice) for choice in choices]
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


_BEFORE_OBJECT = "=,:( \t\r\n"
"""What models write between a name and arguments that are one object, where the head should end."""
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
    break_pairs: bool = False
    """The template writes no such breaks, so one before the closing tag is part of a text if none is after the
    opening."""
    other_ends: tuple[str, ...] = ()
    """Spellings of `parameter_end` that models write instead."""
    name_end: str = ""
    """What may stand between a name without `call` and the first parameter."""
    type_opening: str = ""
    """What opens the type of a value, which a model may write behind the name of the parameter."""
    object_opening: str = ""
    """What opens arguments that are one object instead of parameters; an object may stand there without it, too."""

    @property
    def opening(self) -> str:
        return self.call

    def is_next(self, r: ParseState) -> BoolSteps:
        if not self.call:
            return r.text[r.pos] not in "{[<"
        return (yield from r.is_at(self.call))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        """Read one call."""
        tag = ""
        if self.call:
            r.pos += len(self.call)
            head, tag = yield from r.read_head(self.head_end, "{", limit=_LIMIT)
            if tag == "{":  # `<function=f={"a": 1}</function>`: tashfeenahmed/freellmapi#291
                r.pos -= 1
                head = head.rstrip(_BEFORE_OBJECT)
            elif head.endswith("|"):  # of a token behind the name: `f<|channel|>commentary">`
                yield from r.read_head(self.head_end, limit=_LIMIT)
        else:
            head, tag = yield from r.read_head(self.parameter, self.call_end, "{", limit=_LIMIT)
            r.pos -= len(tag)
            head = head.split(self.name_end)[0] if self.name_end else head
        call = r.open_call(self.name(head))
        yield from read_parameters(r, call, self, closers)
        r.complete_call(call)
        if self.call and tag == "{":
            yield from r.accept(")")
            yield from r.accept(self.head_end)

    def name(self, head: str) -> str:
        """Return the name in the text between `call` (or `parameter`) and the end of the head. A special token ends it.

        Raises:
            NotACall: there is no name.
        """
        name = head.split(self.stop)[0].split("<|")[0].strip()
        if not name or "<" in name or "\n" in name:
            raise NotACall
        return name


def read_parameters(r: ParseState, call: OpenCall, syntax: XmlSyntax, closers: tuple[str, ...]) -> Steps:
    """Read all parameters, or one object, and the tag that ends the call; a closer is not skipped."""
    ends = tuple(dict.fromkeys((syntax.call_end, *closers)))
    yield from r.skip_blanks()
    is_object = bool(syntax.object_opening) and (yield from r.accept(syntax.object_opening))
    if is_object or (yield from r.is_at("{")):
        yield from read_arguments(r, call, ends)
        return
    separator = "{"
    while True:
        tag = yield from _next_tag(r, call, (syntax.parameter, *ends), (syntax.parameter_end, *syntax.other_ends))
        if tag != syntax.parameter:
            break
        yield from _parameter(r, call, syntax, ends, separator)
        separator = ", "
    call.put("{}" if separator == "{" else "}")
    if tag != syntax.call_end:
        r.pos -= len(tag)


def _next_tag(
    r: ParseState, call: OpenCall, tags: tuple[str, ...], surplus: tuple[str, ...]
) -> Generator[None, None, str]:
    """Skip one of the tags and return it. Surplus closing tags before it are skipped, and any text if it is certain
    that this is a call. A reply that ends here has ended the call: "" is returned."""
    if call.certain:
        start = r.look_ahead_from = r.position
        skipped, tag = yield from r.read_until(*tags)
        r.look_ahead_from = None
        if not tag and r.cut:
            raise TruncatedCall
        if not tag and not AROUND_ARGUMENTS.fullmatch(skipped):
            r.rewind(start)
        return tag
    while True:
        try:
            tag = yield from r.expect_tag(*tags, *surplus, *CALL_CLOSERS)
        except TruncatedCall:
            if r.cut or r.text[r.pos :].strip():
                raise
            return ""
        if tag in tags:
            return tag


_TYPE = re.compile(r'\b(?:string="(true|false)|type="(\w+))"?')
"""DeepSeek's and Kimi K3's note whether a parameter is text."""


_WORD = re.compile(r"\w+")


def _find_type(head: str) -> str:
    """Return `true` if the head of a parameter says that it is text, `false` if it says that it is not, else ""."""
    found = _TYPE.search(head)
    if found is None:
        return ""
    return found.group(1) or ("true" if found.group(2) == "string" else "false")


def _choose_types(r: ParseState, call: OpenCall, name: str, head: str, type_opening: str) -> frozenset[str]:
    """Return the types of the parameter: those of its schema, and of these the one that the model has written."""
    types = types_of(r.tools.get(call.name), name)
    _, _, after = head.partition(type_opening) if type_opening else ("", "", "")
    written = _WORD.match(after)
    if written is None:
        return types
    one = "string" if written.group() == "any" else written.group()
    return frozenset((one,)) if one in types or (not types and one in _PYTHON_TYPES) else types


def _parameter(r: ParseState, call: OpenCall, syntax: XmlSyntax, ends: tuple[str, ...], separator: str) -> Steps:
    head, _ = yield from r.read_head(syntax.parameter_head_end, limit=_LIMIT)
    name = syntax.name(head)
    types = _choose_types(r, call, name, head, syntax.type_opening)
    flag = _find_type(head)
    own = (syntax.parameter_end, *syntax.other_ends)
    tags = _Tags(own, (syntax.parameter, *ends), syntax, frozenset(_get_properties(r.tools.get(call.name))))
    key = f"{separator}{json.dumps(name, ensure_ascii=False)}: "
    if flag == "true" or (not flag and types == {"string"}):
        yield from _text(r, call, key, syntax, tags)
    else:
        pieces: list[str] = []
        is_text = not flag and (not types or "string" in types)
        yield from _value(r, pieces.append, tags, may_have_tag=is_text)
        known = types - {"string"} if flag else types
        call.put(key + to_typed_json(_trim("".join(pieces), syntax), known))


class _Tags(Struct, frozen=True):
    own: tuple[str, ...]
    """What closes the parameter."""
    others: tuple[str, ...]
    """What opens the next parameter, and what closes the call."""
    syntax: XmlSyntax
    known: frozenset[str]
    """The parameters of the function; empty if they are unknown."""

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.own, *self.others)


_TAGS_AT_END = re.compile(r"(?:<[/|｜][^<>\s]*>?\s*)+\Z")
_CLOSERS_AT_END = re.compile(rf"{AROUND_ARGUMENTS.pattern}\Z")
_LONGEST_TAIL = 200


class _ValueTail:
    """Holds tags at the end of a value until more of it comes: if it ends there, another family's have closed
    it."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._held = ""

    def put(self, text: str) -> None:
        text, self._held = self._held + text, ""
        found = _TAGS_AT_END.search(text, max(len(text) - _LONGEST_TAIL, 0)) if "<" in text else None
        if found is not None:
            text, self._held = text[: found.start()], found.group()
        self._put(text)

    def flush(self) -> None:
        if self._held:
            self._put(self._held)

    def end(self, rest: str) -> bool:
        """End the value before the closing tags that are held, with the rest of the reply behind them. False: there
        are none."""
        text = self._held + rest
        found = _CLOSERS_AT_END.search(text)
        assert found is not None
        if not self._held or not found.group().strip() or found.start() > len(self._held):
            return False
        self._put(text[: found.start()])
        return True


def _value(r: ParseState, put: Callable[[str], None], tags: _Tags, *, may_have_tag: bool) -> Steps:
    """Pass a value to `put` and skip its closing tag, or those of other families at the end of the reply.

    `may_have_tag`: a closing tag may be part of the value, as in a text about tags.
    """
    tail = _ValueTail(put)
    try:
        yield from _read_value(r, tail.put, tags, may_have_tag=may_have_tag)
    except TruncatedCall:
        if r.cut or not tail.end(r.text[r.pos :]):
            tail.flush()
            raise
        r.take_rest()
        return
    tail.flush()


def _read_value(r: ParseState, put: Callable[[str], None], tags: _Tags, *, may_have_tag: bool) -> Steps:
    while True:
        tag = yield from r.stream_until(put, *tags.all)
        if tag in tags.own:
            r.pos += len(tag)
            if not may_have_tag or (yield from r.is_before_tag(*tags.all, *CALL_CLOSERS, *TURN_ENDS)):
                return
            put(tag)
            continue
        if may_have_tag and tag == tags.others[0] and (yield from _is_within(r, tags)):
            r.pos += len(tag)
            put(tag)
            continue
        if may_have_tag and tag.startswith("</"):
            yield from _value_with_closers(r, put, tags)
        return


def _is_within(r: ParseState, tags: _Tags) -> BoolSteps:
    """Whether the opening tag that comes next is a part of the value: of no parameter of the function, and its closing
    tag has more of the value behind it (areal-project/AReaL#1458)."""
    start = r.look_ahead_from = r.position
    is_within = False
    try:
        r.pos += len(tags.others[0])
        head, _ = yield from r.read_head(tags.syntax.parameter_head_end, limit=_LIMIT)
        is_other = bool(tags.known) and tags.syntax.name(head) not in tags.known
        if is_other and (tag := (yield from r.stream_until(_drop, *tags.all))) in tags.own:
            r.pos += len(tag)
            is_within = not (yield from r.is_before_tag(*tags.all, *CALL_CLOSERS, *TURN_ENDS))
    except NotACall:
        pass
    r.look_ahead_from = None
    r.rewind(start)
    return is_within


def _drop(text: str) -> None:
    pass


def _value_with_closers(r: ParseState, put: Callable[[str], None], tags: _Tags) -> Steps:
    """Pass the rest of a value to `put` and skip its closing tag, if the tag that comes next, which closes the call, is
    part of the value: its own closing tag follows before anything else opens. If not, skip nothing."""
    openings = (tags.others[0], *(tag.replace("</", "<", 1).removesuffix(">") for tag in tags.others[1:]))
    start = r.look_ahead_from = r.position
    pieces: list[str] = []
    try:
        while (tag := (yield from r.stream_until(pieces.append, *tags.own, *openings))) in tags.own:
            r.pos += len(tag)
            if (yield from r.is_before_tag(*tags.all, *CALL_CLOSERS, *TURN_ENDS)):
                put("".join(pieces))
                r.look_ahead_from = None
                return
            pieces.append(tag)
    except TruncatedCall:
        pass
    r.look_ahead_from = None
    r.rewind(start)


def _text(r: ParseState, call: OpenCall, key: str, syntax: XmlSyntax, tags: _Tags) -> Steps:
    """Read a text parameter and emit it while it streams."""
    call.put(key + '"')
    has_break = False
    if syntax.breaks:
        yield from r.peek()
        has_break = (yield from r.accept("\r\n")) or (yield from r.accept("\n"))
    tail = _JsonTextWriter(call.put, syntax.breaks and (has_break or not syntax.break_pairs))
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


def _trim(text: str, syntax: XmlSyntax) -> str:
    if not syntax.breaks or (syntax.break_pairs and not text.startswith(("\r\n", "\n"))):
        return text
    return _trim_end(text.removeprefix("\r").removeprefix("\n"))
